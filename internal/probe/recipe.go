package probe

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/zarr"
)

// Method is how chunks are encoded, as far as decoding them costs something. Its value
// is the name that rates and reports use.
type Method string

// The methods. What is none of the others is Other.
const (
	None       Method = "none"
	Zstd       Method = "zstd"
	LZ4        Method = "lz4"
	Gzip       Method = "gzip"
	Zlib       Method = "zlib"
	BloscZstd  Method = "blosc-zstd"
	BloscLZ4   Method = "blosc-lz4" // lz4 and lz4hc
	BloscLZ    Method = "blosc-blosclz"
	BloscZlib  Method = "blosc-zlib"
	BloscOther Method = "blosc"   // snappy
	Shuffle    Method = "shuffle" // alone
	Other      Method = "other"
)

// Kernel is the family of kernels that decodes the method on a GPU; the rates of a
// family are kept together. "" is none.
func (m Method) Kernel() string {
	switch m {
	case Zstd, BloscZstd:
		return "zstd"
	case LZ4, BloscLZ4:
		return "lz4"
	case BloscLZ:
		return "blosclz"
	case Gzip, Zlib, BloscZlib:
		return "deflate"
	}
	return ""
}

// stage is a codec of a chain, with its name and configuration.
type stage struct {
	codec.Codec
	config json.RawMessage
}

// recipe is how the leaf chunks of an array are decoded: first stages that work on
// bytes, which another compressor could stand for, then the rest, which belongs to
// the values.
type recipe struct {
	bytes []stage // in the order of decoding
	rest  []codec.Codec
	size  int // decoded bytes of a chunk
}

func newRecipe(a *zarr.Array) (*recipe, error) {
	leaf := a.Leaf()
	r := &recipe{size: int(a.ChunkBytes())}
	stored := slices.Concat(leaf.Filters, leaf.Bytes) // in the order of encoding
	swapAt := -1                                      // before the filters are decoded
	if a.Format == 3 && leaf.Big && len(leaf.Filters) > 0 {
		swapAt = len(leaf.Filters) - 1
	}
	whole := true // no stage that belongs to the values so far
	for i, c := range slices.Backward(stored) {
		if i == swapAt {
			r.rest, whole = append(r.rest, codec.Swap(a.DType.Word())), false
		}
		made, err := codec.New(c.Name, c.Config)
		if err != nil {
			return nil, err
		}
		if whole = whole && onBytes(c.Name); whole {
			r.bytes = append(r.bytes, stage{made, c.Config})
		} else {
			r.rest = append(r.rest, made)
		}
	}
	return r, nil
}

// onBytes reports whether a codec gives back the bytes it was given, whatever they
// mean.
func onBytes(name string) bool {
	switch name {
	case "zstd", "blosc", "lz4", "gzip", "zlib", "crc32c", "shuffle":
		return true
	}
	return false
}

// chain decodes whole chunks.
func (r *recipe) chain() (*codec.Chain, error) {
	return codec.NewChain(append(codecs(r.bytes), r.rest...), r.size)
}

func codecs(stages []stage) []codec.Codec {
	list := make([]codec.Codec, len(stages))
	for i, s := range stages {
		list[i] = s.Codec
	}
	return list
}

// coding is what stages on bytes are to the host and to a GPU.
type coding struct {
	method Method
	gpu    decode.Coding
	device bool // a GPU has kernels for all of it
}

// codingOf looks at stages in the order of decoding: a checksum, a compressor, a
// shuffle, each of which may be absent.
func codingOf(stages []stage) coding {
	list := make([]decode.Stage, len(stages))
	for i, s := range stages {
		list[i] = decode.Stage{Name: s.Name(), Config: s.config}
	}
	c := coding{gpu: decode.CodingOf(list), method: None}
	c.device = c.gpu.Method != kernels.Host
	if c.gpu.Summed {
		stages = stages[1:]
	}
	if len(stages) > 0 && stages[0].Name() != "shuffle" {
		c.method, stages = methodOf(stages[0]), stages[1:]
	}
	if len(stages) > 0 && stages[0].Name() == "shuffle" {
		stages = stages[1:]
		if c.method == None {
			c.method = Shuffle
		}
	}
	if len(stages) > 0 {
		return coding{method: Other}
	}
	return c
}

// body is the stored bytes without the checksum behind them.
func (c *coding) body(stored []byte) []byte {
	if c.gpu.Summed {
		return stored[:max(0, len(stored)-decode.SumBytes)]
	}
	return stored
}

func methodOf(s stage) Method {
	switch s.Name() {
	case "zstd":
		return Zstd
	case "lz4":
		return LZ4
	case "gzip":
		return Gzip
	case "zlib":
		return Zlib
	case "blosc":
		var set struct{ Cname string }
		_ = json.Unmarshal(s.config, &set) // the codec has read it already
		switch set.Cname {
		case "zstd":
			return BloscZstd
		case "lz4", "lz4hc", "":
			return BloscLZ4
		case "blosclz":
			return BloscLZ
		case "zlib":
			return BloscZlib
		}
		return BloscOther
	}
	return Other
}

// describe names the chain in the order of encoding, as the metadata do.
func describe(a *zarr.Array) []string {
	names := []string{}
	add := func(codecs []zarr.Codec) {
		for _, c := range codecs {
			names = append(names, strings.TrimSpace(c.Name+" "+settingsOf(c.Config)))
		}
	}
	leaf := a.Leaf()
	add(leaf.Filters)
	add(leaf.Bytes)
	for i := len(a.Levels) - 2; i >= 0; i-- {
		names = append(names, "sharding_indexed")
		add(a.Levels[i].Bytes)
	}
	return names
}

// settingsOf picks what of a codec's configuration changes speed or size.
func settingsOf(config json.RawMessage) string {
	var set map[string]json.RawMessage
	if json.Unmarshal(config, &set) != nil {
		return ""
	}
	var parts []string
	for _, name := range []string{"cname", "level", "clevel", "shuffle", "elementsize", "checksum"} {
		if value := set[name]; len(value) > 0 {
			parts = append(parts, name+"="+strings.Trim(string(value), `"`))
		}
	}
	return strings.Join(parts, " ")
}

// checkSize refuses chunks that would take more memory than a look is worth.
func checkSize(a *zarr.Array) error {
	if n := a.ChunkBytes(); n > maxChunk {
		return nd.Errorf(nd.ErrBudget, "chunks of %v %s are %d bytes decoded: probe holds whole ones, at most of %d", a.ChunkShape(), a.DType.Name, n, int64(maxChunk))
	}
	return nil
}
