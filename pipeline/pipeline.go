package pipeline

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// Pipeline is the engine: samples go in by Push or PushBatch, batches come out of
// Next in the same order. All methods may be called from any goroutine, though
// one that pushes and one that takes is the usual arrangement. It owns its
// goroutines and memory until Close.
type Pipeline struct {
	cfg      Config
	limits   limits
	capacity capacity
	files    *store.Descriptors            // open files of all arrays
	arrays   atomic.Pointer[[]*boundArray] // replaced by AddArray, under adding
	adding   sync.Mutex
	fields   []*fieldLayout
	counts   counters

	ctx     context.Context // of reads: ends with Close
	cancel  context.CancelFunc
	inbox   *inbox
	out     *outlet
	slots   *slots
	slabs   []byte // the ring that the readers fill
	tasks   *queue[task]
	backend backend
	sched   *scheduler
	running sync.WaitGroup
	closing sync.Once
	closed  error
}

// pairing is whether and how elements of an array become those of a field.
type pairing struct {
	conv *conversion
	err  error
}

// Open opens the arrays, takes all memory and starts the goroutines. A config
// that cannot work fails here: nd.ErrConfig before any I/O, nd.ErrBudget with the
// numbers and the field to change, or what the arrays are refused for.
func Open(ctx context.Context, cfg Config) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	p, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.start()
	return p, nil
}

// open takes everything that a pipeline needs but goroutines.
func open(ctx context.Context, cfg Config) (*Pipeline, error) {
	p := &Pipeline{cfg: cfg, files: store.NewDescriptors(0)}
	for _, step := range []func() error{
		func() error { return p.openArrays(ctx) },
		func() (err error) { p.backend, err = newBackend(p); return err },
		p.layOut,
		func() error { return p.backend.divide() },
		func() error { return p.backend.take() },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, p.free())
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.inbox = newInbox(p.cfg.room())
	p.out = newOutlet()
	p.tasks = newQueue[task]()
	s := &scheduler{p: p, table: newTable(p.cfg.Reuse, p.limits.decoded, &p.counts), slabs: newArena(int64(len(p.slabs)))}
	s.locator = newLocator(p.limits.index, &p.counts, s.request)
	s.mappings, s.compressed = p.backend.mappings(s.requestMapping), newCompressed(p.limits.compressed, &p.counts)
	p.sched = s
	return p, nil
}

// start starts every goroutine of the pipeline; scheduler.stop ends them.
func (p *Pipeline) start() {
	for range p.cfg.Readers {
		p.running.Go(p.readTasks)
	}
	p.backend.start()
	p.running.Go(p.sched.run)
}

// Arrays are the metadata of the arrays: those of Config.Arrays, then those that
// were added.
func (p *Pipeline) Arrays() []*zarr.Array {
	bound := *p.arrays.Load()
	list := make([]*zarr.Array, len(bound))
	for i, a := range bound {
		list[i] = a.meta
	}
	return list
}

// Config is the configuration with every default filled in.
func (p *Pipeline) Config() Config { return p.cfg }

// Stats is a snapshot of the counters.
func (p *Pipeline) Stats() Stats { return p.counts.snapshot() }

// Push adds samples, grouped into batches of Config.BatchSize; it blocks while
// the look-ahead is full. The samples belong to the pipeline from then on. A
// sample of the wrong form is nd.ErrShape, and no sample of the call is taken;
// what only its data shows rides on the sample. When ctx ends, the samples before
// the one that waited are in.
func (p *Pipeline) Push(ctx context.Context, samples ...sampler.Sample) error {
	for i := range samples {
		if err := p.checkSample(&samples[i]); err != nil {
			return err
		}
	}
	for i := range samples {
		if err := p.inbox.enter(ctx, 1); err != nil {
			return err
		}
		b := p.inbox.open
		if b == nil {
			b = p.inbox.openBatch(Meta{Step: p.inbox.step})
			p.inbox.step++
			p.inbox.open = b
		}
		p.inbox.addSample(b, &sampleState{sample: samples[i]})
		full := b.pushed == p.cfg.BatchSize
		if full {
			p.inbox.closeBatch(b)
		}
		p.inbox.mu.Unlock()
		if full || i == len(samples)-1 {
			p.inbox.ring()
		}
	}
	return nil
}

// PushBatch adds exactly one batch of 0 to Config.BatchSize samples. A batch that
// Push has begun is ended short before it. Where the look-ahead has room it takes
// the batch even if ctx has ended, so an ended ctx asks without waiting.
func (p *Pipeline) PushBatch(ctx context.Context, meta Meta, samples []sampler.Sample) error {
	if len(samples) > p.cfg.BatchSize {
		return nd.Errorf(nd.ErrShape, "a batch of %d samples is larger than BatchSize %d", len(samples), p.cfg.BatchSize)
	}
	for i := range samples {
		if err := p.checkSample(&samples[i]); err != nil {
			return err
		}
	}
	if err := p.inbox.enter(ctx, max(1, len(samples))); err != nil {
		return err
	}
	defer p.inbox.ring()
	defer p.inbox.mu.Unlock()
	p.inbox.endOpen()
	b := p.inbox.openBatch(meta)
	for i := range samples {
		p.inbox.addSample(b, &sampleState{sample: samples[i]})
	}
	if len(samples) == 0 {
		p.inbox.room--
		b.room = 1
	}
	p.inbox.closeBatch(b)
	return nil
}

// Finish ends the stream: a batch that is not full becomes a short one, and after
// it Next returns io.EOF once. The pipeline can be pushed to again.
func (p *Pipeline) Finish() {
	p.inbox.mu.Lock()
	defer p.inbox.ring()
	defer p.inbox.mu.Unlock()
	if p.inbox.ended {
		return
	}
	p.inbox.endOpen()
	b := p.inbox.openBatch(Meta{})
	b.eof, b.closed = true, true
}

// Discard drops every sample that was not delivered, finished or not, and keeps
// the caches. Batches that are held stay valid.
func (p *Pipeline) Discard(ctx context.Context) error {
	done := make(chan struct{})
	if err := p.inbox.discard(done); err != nil {
		return err
	}
	p.inbox.ring()
	select {
	case <-done:
		return nil
	case <-p.ctx.Done():
		return p.inbox.reason()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next waits for the next batch. Its error is io.EOF after Finish, a *BatchError
// in place of a batch with bad samples under Raise (the call after it goes on
// with the next batch), ctx.Err(), nd.ErrClosed after Close, or what ended the
// pipeline.
func (p *Pipeline) Next(ctx context.Context) (*Batch, error) {
	q, err := p.out.take(ctx, &p.counts.nextWait)
	if err != nil {
		return nil, err
	}
	if q.room > 0 {
		p.inbox.giveRoom(q.room)
	}
	return q.batch, q.err
}

// Close stops the pipeline, waits for its goroutines and frees its memory, save
// for batches that are still held: theirs goes with their last Release. Blocked
// calls return nd.ErrClosed. Closing again does nothing.
func (p *Pipeline) Close() error {
	p.closing.Do(func() {
		p.inbox.end(nil)
		p.cancel()
		p.running.Wait()
		p.adding.Lock()
		defer p.adding.Unlock()
		p.closed = p.free()
	})
	return p.closed
}

// free gives back what Open took, as far as it came.
func (p *Pipeline) free() error {
	var errs []error
	if p.backend != nil {
		errs = append(errs, p.backend.free())
	}
	if list := p.arrays.Load(); list != nil {
		for _, a := range *list {
			if a.owned {
				errs = append(errs, a.store.Close())
			}
		}
	}
	return errors.Join(append(errs, p.files.Close())...)
}

// shut is called by the scheduler when it ends.
func (p *Pipeline) shut() {
	p.inbox.end(nil)
	p.cancel()
	for _, q := range p.out.end(p.inbox.reason()) {
		if q.batch != nil {
			q.batch.Release(nil) //nolint:errcheck // nobody else has seen the batch
		}
	}
}

// releaseSlot is the end of a batch.
func (p *Pipeline) releaseSlot(b *Batch) {
	if b.slot != nil {
		p.slots.give(b.slot)
		p.inbox.ring()
	}
}

// recoverBug keeps a bug of ours from taking the process down: it ends the
// pipeline, and every call from then on returns it.
func (p *Pipeline) recoverBug() {
	if r := recover(); r != nil {
		p.inbox.end(nd.Errorf(nd.ErrBug, "%v\n%s", r, debug.Stack()))
	}
}

// broken reports whether the pipeline ended by an error of its own.
func (p *Pipeline) broken() bool {
	p.inbox.mu.Lock()
	defer p.inbox.mu.Unlock()
	return p.inbox.fatal != nil
}

func (p *Pipeline) tell(what func(*Listener)) {
	if p.cfg.Listener != nil {
		what(p.cfg.Listener)
	}
}

// checkSample looks at what can be known without I/O.
func (p *Pipeline) checkSample(s *sampler.Sample) error {
	if len(s.Crops) != len(p.fields) {
		return nd.Errorf(nd.ErrShape, "sample %d has %d crops for %d fields", s.ID, len(s.Crops), len(p.fields))
	}
	list := *p.arrays.Load()
	for f := range s.Crops {
		c := &s.Crops[f]
		if c.Array < 0 || c.Array >= len(list) {
			return nd.Errorf(nd.ErrShape, "sample %d, field %q: array %d of %d", s.ID, p.fields[f].name, c.Array, len(list))
		}
		a := list[c.Array]
		if err := p.checkCrop(a, f, c); err != nil {
			return nd.At(nd.Errorf(kindOf(err), "sample %d, field %q: %w", s.ID, p.fields[f].name, err), nd.Place{Array: a.ref.URI})
		}
	}
	return nil
}

// maxCoordinate keeps sums of coordinates and extents far from overflow.
const maxCoordinate = 1 << 62

func (p *Pipeline) checkCrop(a *boundArray, f int, c *sampler.Crop) error {
	want := p.fields[f].crop
	if n := len(a.meta.Shape); len(c.Box) != n || n != len(want) {
		return nd.Errorf(nd.ErrShape, "box %v has %d axes, the array %d, the field %d", c.Box, len(c.Box), n, len(want))
	}
	for i, s := range c.Box {
		if s.Start < -maxCoordinate || s.Stop > maxCoordinate || s.Len() != int64(want[i]) {
			return nd.Errorf(nd.ErrShape, "box %v does not have the field's shape %v", c.Box, want)
		}
	}
	if c.Flip>>len(c.Box) != 0 {
		return nd.Errorf(nd.ErrShape, "flip %#x names an axis beyond the %d of the box", c.Flip, len(c.Box))
	}
	return a.pairs[f].err
}

func kindOf(err error) error {
	if e, ok := errors.AsType[*nd.Error](err); ok {
		return e.Kind
	}
	return nd.ErrShape
}
