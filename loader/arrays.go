package loader

import (
	"context"

	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// Arrays reads what a source must know of the arrays of a pipeline: their shapes
// and what enters the fingerprint. The order is that of refs, so the result fits
// a pipeline.Config with the same Arrays.
func Arrays(ctx context.Context, refs ...pipeline.ArrayRef) ([]sampler.Array, error) {
	list := make([]sampler.Array, len(refs))
	for i, ref := range refs {
		a, err := pipeline.Metadata(ctx, ref)
		if err != nil {
			return nil, err
		}
		list[i] = sampler.Array{Index: i, Name: ref.URI, Shape: a.Shape, Shard: a.Levels[0].Chunk, Canonical: a.Canonical()}
	}
	return list, nil
}
