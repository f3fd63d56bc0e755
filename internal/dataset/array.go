package dataset

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

// Array says everything about one array that Write makes.
type Array struct {
	// Path is relative to the root of the data set, with "/" between its parts.
	Path  string
	Shape []int64
	Chunk []int64
	// Shard is nil for an array without shards; format 2 has none.
	Shard  []int64
	DType  nd.DType
	Format int
	// Codecs are in the order of encoding: see metadata.go for the names.
	Codecs scenario.Chain
	// Level is that of codecs named without a configuration.
	Level   int
	Field   string
	Entropy float64
	Seed    uint64
	// Encoder is the zstd library: "libzstd", "klauspost" or "" for the build's.
	Encoder string
}

// FromScenario lists the arrays of a scenario's data set. Data types and codecs
// are cycled, array i has the scenario's seed plus i.
func FromScenario(d *scenario.Dataset) ([]Array, error) {
	if len(d.URIs) > 0 {
		return nil, nd.Errorf(nd.ErrConfig, "the scenario names existing arrays (dataset.uris): there is nothing to write")
	}
	paths := d.Paths()
	arrays := make([]Array, len(paths))
	for i, path := range paths {
		dtype, err := nd.ParseDType(d.DTypes[i%len(d.DTypes)])
		if err != nil {
			return nil, nd.Errorf(nd.ErrConfig, "dataset.dtypes: %w", err)
		}
		arrays[i] = Array{
			Path: path, Shape: d.ZarrShape, Chunk: d.ChunkShape, Shard: d.ShardShape,
			DType: dtype, Format: d.ZarrFormat, Codecs: d.Codecs[i%len(d.Codecs)], Level: d.CLevel,
			Field: d.Field, Entropy: d.Entropy, Seed: d.Seed + uint64(i), Encoder: d.Encoder,
		}
	}
	return arrays, nil
}

// Bytes is the decoded size of the array.
func (a *Array) Bytes() int64 {
	n, _ := nd.Product(a.Shape)
	return n * int64(a.DType.Size())
}

// object is the extent of a stored object: a shard, or a chunk without shards.
func (a *Array) object() []int64 {
	if a.Shard != nil {
		return a.Shard
	}
	return a.Chunk
}

func (a *Array) validate() error {
	bad := func(format string, args ...any) error {
		return nd.Errorf(nd.ErrConfig, "array %q: %w", a.Path, fmt.Errorf(format, args...))
	}
	if a.Path == "" || strings.Contains("/"+a.Path+"/", "/../") || strings.HasPrefix(a.Path, "/") {
		return bad("its path must lie below the root of the data set")
	}
	if len(a.Chunk) != len(a.Shape) || a.Shard != nil && len(a.Shard) != len(a.Shape) {
		return bad("shape %v, chunk %v and shard %v differ in rank", a.Shape, a.Chunk, a.Shard)
	}
	if a.Format == 2 && a.DType == nd.BF16 {
		return bad("zarr format 2 has no bfloat16")
	}
	if n, ok := nd.Product(a.Chunk); !ok || n == 0 || n*int64(a.DType.Size()) > 1<<31-1 {
		return bad("a chunk of %v %v does not fit 2 GiB", a.Chunk, a.DType)
	}
	return nil
}
