package benchmark

import (
	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/internal/plainread"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/zarr"
)

// array is an array of the scenario, opened apart from the engine.
type array struct {
	ref    pipeline.ArrayRef
	meta   *zarr.Array
	reader func(keep int64) (*plainread.Reader, error)
	close  func() error
}

type arrays []array

func (a arrays) refs() []pipeline.ArrayRef {
	refs := make([]pipeline.ArrayRef, len(a))
	for i := range a {
		refs[i] = a[i].ref
	}
	return refs
}

func (a arrays) shapes() [][]int64 {
	shapes := make([][]int64, len(a))
	for i := range a {
		shapes[i] = a[i].meta.Shape
	}
	return shapes
}

func (a arrays) notes() (notes []string) {
	for i := range a {
		for _, n := range a[i].meta.Notes {
			notes = append(notes, a[i].ref.URI+": "+n)
		}
	}
	return notes
}

func (a arrays) close() {
	for i := range a {
		_ = a[i].close()
	}
}

func echo(c pipeline.Config, a arrays) Config {
	dtype := c.Fields[0].DType.String()
	if !c.Fields[0].DType.Valid() {
		dtype = a[0].meta.DType.String()
	}
	return Config{
		Device: string(c.Device), DType: dtype, Reuse: c.Reuse.String(), Batch: c.BatchSize, Lookahead: c.Lookahead,
		Slots: c.Slots, Readers: c.Readers, Workers: c.Workers, HostBytes: c.HostBytes, DecodedBytes: c.DecodedBytes,
		Arrays: len(a), Zstd: codec.ZstdLibrary,
	}
}
