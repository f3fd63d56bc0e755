package benchmark

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// PhaseWrite is the phase that Report counts in bytes; the others are in batches.
const PhaseWrite = "write data"

// Run writes the data that is missing, then measures.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*Result, error) {
	cfg, err := o.config(s)
	if err != nil {
		return nil, err
	}
	if err := o.write(ctx, s); err != nil {
		return nil, err
	}
	r := &run{scenario: s, options: &o, batches: s.Sampling.NBatches, warmup: s.Sampling.NWarmupBatches}
	if o.Batches > 0 {
		r.batches = o.Batches
	}
	if o.Warmup != 0 {
		r.warmup = max(o.Warmup, 0)
	}
	if r.arrays, err = openArrays(ctx, cfg.Arrays, s.Sampling.SampleShape); err != nil {
		return nil, err
	}
	defer r.arrays.close()
	cfg.Arrays = r.arrays.refs()
	result, err := r.measure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := r.bare(ctx, result); err != nil {
		return nil, err
	}
	if o.Check {
		result.Check, err = r.check(ctx, cfg)
	}
	return result, err
}

// write makes the data set where arrays are missing. Arrays that are there are
// taken as they are, whoever wrote them.
func (o *Options) write(ctx context.Context, s *scenario.Scenario) error {
	if len(s.Dataset.URIs) > 0 {
		return nil
	}
	arrays, err := dataset.FromScenario(&s.Dataset)
	if err != nil {
		return err
	}
	root := s.Dataset.StoreRoot
	if o.Root != "" {
		root = o.Root
	}
	var missing []dataset.Array
	for i := range arrays {
		if !arrays[i].Exists(root) {
			missing = append(missing, arrays[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return dataset.Write(ctx, root, missing, func(done, total int64) { o.say(PhaseWrite, done, total) })
}

// run is one benchmark.
type run struct {
	scenario *scenario.Scenario
	options  *Options
	arrays   arrays
	warmup   int
	batches  int
}

// samples draws the samples of the warm-up and of the timed batches.
func (r *run) samples() (warmup, timed []sampler.Sample) {
	draws := scenario.NewDraws(r.scenario.Sampling.Seed)
	shapes := r.arrays.shapes()
	per := r.scenario.Sampling.SamplesPerBatch
	list := make([]sampler.Sample, (r.warmup+r.batches)*per)
	crops := make([]sampler.Crop, len(list))
	for i := range list {
		crops[i].Array, crops[i].Box = draws.Crop(shapes, r.scenario.Sampling.SampleShape)
		list[i] = sampler.Sample{ID: int64(i), Crops: crops[i : i+1 : i+1]}
	}
	return list[:r.warmup*per], list[r.warmup*per:]
}

// measure opens a pipeline and times it.
func (r *run) measure(ctx context.Context, cfg pipeline.Config) (result *Result, err error) {
	warmup, timed := r.samples()
	resetPeak()
	began := time.Now()
	p, err := pipeline.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	opened := time.Since(began)
	w, err := r.stream(ctx, p, "warm up", warmup, nil)
	if err != nil {
		return nil, err
	}
	stats, allocs := p.Stats(), allocations()
	t, err := r.stream(ctx, p, "measure", timed, nil)
	if err != nil {
		return nil, err
	}
	first := w.first
	if r.warmup == 0 {
		first = t.first
	}
	result = r.result(p, since(p.Stats(), stats), t)
	result.OpenMS, result.FirstBatchMS = ms(opened), ms(opened+first)
	result.AllocsPerSample = float64(allocations()-allocs) / float64(len(timed))
	result.RSSBytes = residentPeak()
	return result, nil
}

// timing is how long a stream of batches took.
type timing struct {
	first, wall time.Duration
	bytes       int64
}

// stream pushes the samples and takes all batches; look sees each before its
// release.
func (r *run) stream(ctx context.Context, p *pipeline.Pipeline, phase string, samples []sampler.Sample, look func(*pipeline.Batch) error) (t timing, err error) {
	if len(samples) == 0 {
		return t, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	began := time.Now()
	pushed := make(chan struct{})
	go push(ctx, cancel, p, samples, pushed)
	defer func() { cancel(err); <-pushed }()
	hold := time.Duration(r.scenario.Consumer.HoldMS * float64(time.Millisecond))
	n := len(samples) / r.scenario.Sampling.SamplesPerBatch
	for i := range n {
		b, err := p.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
				err = cause
			}
			return t, err
		}
		if i == 0 {
			t.first = time.Since(began)
		}
		t.bytes += b.Bytes(0)
		if look != nil {
			err = look(b)
		}
		if hold > 0 {
			pause(ctx, hold)
		}
		if err := errors.Join(err, b.Release(nil)); err != nil {
			return t, err
		}
		r.options.say(phase, int64(i+1), int64(n))
	}
	t.wall = time.Since(began)
	return t, nil
}

func push(ctx context.Context, cancel context.CancelCauseFunc, p *pipeline.Pipeline, samples []sampler.Sample, done chan<- struct{}) {
	defer close(done)
	if err := p.Push(ctx, samples...); err != nil {
		cancel(err)
	}
}

// pause is the trainer's work on a batch.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// useful is the bytes of source data that a sample needs at least.
func (r *run) useful(samples []sampler.Sample) (n int64) {
	per, _ := nd.Product(r.scenario.Sampling.SampleShape)
	for _, s := range samples {
		n += per * int64(r.arrays[s.Crops[0].Array].meta.DType.Size())
	}
	return n
}
