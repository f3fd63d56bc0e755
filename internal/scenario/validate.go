package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
)

// A run draws its samples before it begins, and a data set is listed as a whole:
// these bounds keep both to what a machine holds.
const (
	maxArrays  = 1_000_000
	maxSamples = 100_000_000
)

// violations collects everything that is wrong, so that one run of the program
// is enough to mend a file.
type violations []error

func (v *violations) check(ok bool, format string, args ...any) {
	if !ok {
		*v = append(*v, fmt.Errorf(format, args...))
	}
}

func (v violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return nd.Errorf(nd.ErrConfig, "scenario: %w", oneLine{errors.Join(v...)})
}

// oneLine keeps a joined error on the one line that an error message gets.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }

func (s *Scenario) validate() error {
	var v violations
	s.Dataset.validate(&v)
	s.Sampling.validate(&v)
	s.Pipeline.validate(&v)
	v.check(s.Consumer.HoldMS >= 0, "consumer.hold_ms is %g: it cannot be negative", s.Consumer.HoldMS)
	rank := len(s.Sampling.SampleShape)
	if len(s.Dataset.URIs) == 0 && len(v) == 0 {
		shape := s.Dataset.ZarrShape
		v.check(len(shape) == rank, "sampling.sample_shape has %d axes, dataset.zarr_shape %d", rank, len(shape))
		for i := range min(rank, len(shape)) {
			v.check(s.Sampling.SampleShape[i] <= shape[i], "sampling.sample_shape[%d] is %d: the arrays have %d", i, s.Sampling.SampleShape[i], shape[i])
		}
	}
	return v.err()
}

func (d *Dataset) validate(v *violations) {
	for i, name := range d.DTypes {
		_, err := nd.ParseDType(name)
		v.check(err == nil, "dataset.dtypes[%d]: %v", i, err)
	}
	v.check(d.Entropy == d.Entropy, "dataset.entropy is not a number")
	v.check(d.ZarrFormat == 2 || d.ZarrFormat == 3, "dataset.zarr_format is %d: 2 or 3", d.ZarrFormat)
	if len(d.URIs) > 0 {
		return
	}
	v.check(d.StoreRoot != "", "dataset.store_root is missing")
	v.check(d.NZarrs > 0 && d.NZarrs <= maxArrays, "dataset.n_zarrs is %d: 1 to %d", d.NZarrs, maxArrays)
	positive(v, "dataset.chunk_shape", d.ChunkShape, len(d.ZarrShape))
	for i, n := range d.ZarrShape {
		v.check(n >= 0, "dataset.zarr_shape[%d] is %d: it cannot be negative", i, n)
	}
	if d.ShardShape != nil {
		d.validateShards(v)
	}
	if d.NZarrs > 0 && d.NZarrs <= maxArrays && d.URIFmt != "" {
		name := d.path(0)
		v.check(!strings.Contains(name, "%!"), "dataset.uri_fmt %q is no pattern of one number, as z%%03u", d.URIFmt)
		v.check(d.NZarrs == 1 || name != d.path(1), "dataset.uri_fmt %q names one array for all numbers: put a %%03u in it", d.URIFmt)
	}
}

func (d *Dataset) validateShards(v *violations) {
	v.check(d.ZarrFormat == 3, "dataset.shard_shape: zarr format 2 has no shards, leave it out")
	positive(v, "dataset.shard_shape", d.ShardShape, len(d.ZarrShape))
	for i := range min(len(d.ShardShape), len(d.ChunkShape)) {
		chunk, shard := d.ChunkShape[i], d.ShardShape[i]
		v.check(chunk <= 0 || shard%chunk == 0, "dataset.shard_shape[%d] is %d: not a multiple of the chunk's %d", i, shard, chunk)
	}
}

func (s *Sampling) validate(v *violations) {
	positive(v, "sampling.sample_shape", s.SampleShape, len(s.SampleShape))
	v.check(s.SampleShape != nil, "sampling.sample_shape is missing")
	v.check(s.NBatches > 0, "sampling.n_batches is %d: at least 1", s.NBatches)
	v.check(s.NWarmupBatches >= 0, "sampling.n_warmup_batches is %d: it cannot be negative", s.NWarmupBatches)
	v.check(s.SamplesPerBatch > 0, "sampling.samples_per_batch is %d: at least 1", s.SamplesPerBatch)
	n, ok := nd.Product([]int64{max(0, int64(s.SamplesPerBatch)), max(0, int64(s.NBatches)+int64(s.NWarmupBatches))})
	v.check(ok && n <= maxSamples, "sampling asks for more than %d samples in all", maxSamples)
}

func (p *Pipeline) validate(v *violations) {
	if p.DType != "" {
		_, err := nd.ParseDType(p.DType)
		v.check(err == nil, "pipeline.dtype: %v", err)
	}
	v.check(p.LookaheadSamples >= 0, "pipeline.lookahead_samples is %d: it cannot be negative", p.LookaheadSamples)
	v.check(p.NIOThreads >= 0, "pipeline.n_io_threads is %d: it cannot be negative", p.NIOThreads)
}

func positive(v *violations, key string, extents []int64, rank int) {
	v.check(len(extents) == rank, "%s has %d axes, the array %d", key, len(extents), rank)
	for i, n := range extents {
		v.check(n > 0, "%s[%d] is %d: at least 1", key, i, n)
	}
}
