package loader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// Loader gives one rank its batches, in order. It owns its pipeline. Its methods
// may be called from any goroutine; Next, SetEpoch, Load, Redo and Enter take turns, the
// others never wait for them, and Close wakes them.
type Loader struct {
	id     rank.Identity // read under mu, or by who holds the token; who does has mu too to write it
	source sampler.Source
	config pipeline.Config // without BatchSize, which follows from the stream
	blank  bool            // bad samples become padding, since a batch keeps its shape
	fence  Fence
	data   bool   // the report has a data digest
	name   string // of the comparison of plans
	note   string // what is done without

	turn  chan struct{} // holds a token while Next, SetEpoch, Load, Redo or Enter is at work
	ahead ahead         // belongs to who holds the token
	tally tally         // the same, for writing
	agent *agent        // nil without one
	async *async        // nil without Lanes

	mu struct {
		sync.Mutex
		pipe    *pipeline.Pipeline
		closed  bool
		at      sampler.Resume // the step to return next
		reports reports
		total   totals
	}
}

// New opens the pipeline for this rank. The source and the config must be the
// same on all ranks. What cannot work fails here: nd.ErrConfig, nd.ErrShape where
// source and fields do not fit, or what pipeline.Open refuses.
func New(ctx context.Context, id rank.Identity, source sampler.Source, cfg Config) (*Loader, error) {
	if err := id.Validate(); err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "identity: %w", err)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.checkSource(source); err != nil {
		return nil, err
	}
	stream, err := cfg.stream(source, id)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		id: id, source: source, config: cfg.Pipeline, fence: cfg.Fence,
		data: cfg.DataDigest, name: cmp.Or(cfg.Name, "loader"),
		turn: make(chan struct{}, 1), ahead: ahead{source: source, id: id},
	}
	if cfg.Tail == sampler.TailMask && cfg.Pipeline.OnError == pipeline.Skip {
		l.blank, l.config.OnError = true, pipeline.Fill
	}
	shareNode(&l.config, id.LocalWorld)
	rows, err := mostRows(stream, cfg.world(id))
	if err != nil {
		return nil, err
	}
	pipe, err := l.open(ctx, rows)
	if err != nil {
		return nil, err
	}
	l.mu.pipe = pipe
	l.moveTo(sampler.Resume{Stream: stream})
	if cfg.Lanes != nil {
		l.async = newAsync(&cfg, int64(rows), newAgain(&stream, source))
	}
	if l.agent, l.note, err = attach(ctx, l, &cfg); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return l, nil
}

// open opens a pipeline whose slots hold so many rows.
func (l *Loader) open(ctx context.Context, rows int) (*pipeline.Pipeline, error) {
	c := l.config
	c.BatchSize = rows
	return pipeline.Open(ctx, c)
}

// Next waits for this rank's part of the next batch. It is io.EOF once after the
// last batch of an epoch; the call after that begins the next epoch. Where the
// batch has bad samples under pipeline.Raise it is a *pipeline.BatchError, and
// the call after it goes on with the next batch. When ctx ends nothing is lost:
// the batch comes with the next call. The caller must Release the batch.
func (l *Loader) Next(ctx context.Context) (*pipeline.Batch, error) {
	pipe, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer l.end()
	if l.async != nil {
		return l.nextOfLane(ctx, pipe)
	}
	at := l.place()
	if l.ahead.unsure {
		if err := pipe.Discard(ctx); err != nil {
			return nil, err
		}
		l.ahead.restart(at)
	}
	if at.Step >= at.Stream.Steps() {
		l.moveOn(sampler.Resume{Stream: at.Stream, Epoch: at.Epoch + 1})
		return nil, io.EOF
	}
	if l.ahead.at(at.Epoch, at.Step) {
		// Nothing is under way, so there is room, or will be.
		if _, err := l.ahead.push(ctx, pipe); err != nil {
			return nil, err
		}
	}
	if err := l.ahead.fill(pipe); err != nil {
		return nil, err
	}
	// The pipeline has work while the ranks look at each other's plans.
	if err := l.admit(ctx, at); err != nil {
		return nil, err
	}
	batch, err := l.take(ctx, pipe, at)
	if err == nil {
		// Work for the time in which the trainer computes. Trouble shows at the next
		// call.
		_ = l.ahead.fill(pipe)
	}
	return batch, err
}

// admit asks whether a step may be returned: once the ranks' plans, and each time
// the fence.
func (l *Loader) admit(ctx context.Context, at sampler.Resume) error {
	if err := l.agent.check(ctx, l); err != nil {
		return err
	}
	if l.fence == nil {
		return nil
	}
	return l.fence.Lease(ctx, at.Epoch, at.Step)
}

// take waits for the batch of a step and counts it as returned.
func (l *Loader) take(ctx context.Context, pipe *pipeline.Pipeline, at sampler.Resume) (*pipeline.Batch, error) {
	if err := l.ahead.refused; err != nil && l.ahead.at(at.Epoch, at.Step) {
		l.ahead.pass()
		_ = l.advance(at, nil) // only a batch's bytes can fail
		return nil, err
	}
	batch, err := pipe.Next(ctx)
	var bad *pipeline.BatchError
	switch {
	case errors.As(err, &bad):
		_ = l.advance(at, nil) // only a batch's bytes can fail
		return nil, err
	case err != nil:
		return nil, err
	}
	if l.blank {
		blank(batch)
	}
	if err := l.advance(at, batch); err != nil { // of a GPU that is lost
		return nil, errors.Join(err, batch.Release(nil))
	}
	return batch, nil
}

// SetEpoch makes an epoch the current one, from its first batch on; batches of
// another epoch that are under way are dropped. For the epoch that is current
// already it changes nothing, so that a trainer which calls it before every
// epoch can resume within one.
func (l *Loader) SetEpoch(ctx context.Context, epoch int64) error {
	if err := checkEpoch(epoch); err != nil {
		return err
	}
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	at := l.place()
	if epoch == at.Epoch {
		return nil
	}
	if err := l.notAsync("SetEpoch"); err != nil {
		return err
	}
	return l.reset(ctx, pipe, sampler.Resume{Stream: at.Stream, Epoch: epoch})
}

// checkEpoch leaves room for the epochs after it: they are counted on for ever.
func checkEpoch(epoch int64) error {
	const most = 1 << 62
	if epoch < 0 || epoch > most {
		return nd.Errorf(nd.ErrConfig, "epoch %d: must be in 0 to 2^62", epoch)
	}
	return nil
}

// Len is the number of batches of an epoch, the same on all ranks. With Lanes it is an
// estimate: this rank's share of all.
func (l *Loader) Len() int64 {
	steps := l.Stream().Steps()
	if world := int64(l.Identity().World); l.async != nil {
		return (steps + world - 1) / world
	}
	return steps
}

// Epoch is the current epoch: that of the batch which Next returns next.
func (l *Loader) Epoch() int64 { return l.place().Epoch }

// Stream is the sequence of global batches that the loader takes its part of.
func (l *Loader) Stream() sampler.Stream { return l.place().Stream }

// Weight is what a data parallel trainer multiplies the mean loss of a batch's samples
// by: see sampler.Stream.Weight. Padding is no sample. With Lanes there are no global
// batches: it is 1.
func (l *Loader) Weight(b *pipeline.Batch) float64 {
	if l.async != nil {
		return 1
	}
	return l.Stream().Weight(b.Meta().Step, samplesOf(b), l.Identity().World)
}

// Note says in one line what the loader does without although it was asked for, such
// as an agent that is not there; "" is nothing.
func (l *Loader) Note() string { return l.note }

// Checks reports whether the agent compares the ranks' plans. Where it does not, the
// ranks may do so by themselves: see Plan.
func (l *Loader) Checks() bool { return l.agent != nil && l.agent.compares }

// Identity is who the loader is in its job: since New, or since the last Enter.
func (l *Loader) Identity() rank.Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Fingerprint is that of the source.
func (l *Loader) Fingerprint() string { return l.source.Fingerprint() }

// Stats is a snapshot of the pipeline's counters. They begin anew where Load has
// to open the pipeline again.
func (l *Loader) Stats() pipeline.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.pipe.Stats()
}

// Close stops the pipeline. Calls that wait return nd.ErrClosed; batches that are
// held stay valid until their Release. Closing again does nothing.
func (l *Loader) Close() error {
	l.mu.Lock()
	l.mu.closed = true
	pipe := l.mu.pipe
	l.mu.Unlock()
	return errors.Join(pipe.Close(), l.agent.close())
}

// begin takes the turn; end gives it back.
func (l *Loader) begin(ctx context.Context) (*pipeline.Pipeline, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		l.end()
		return nil, nd.Errorf(nd.ErrClosed, "the loader is closed")
	}
	return l.mu.pipe, nil
}

func (l *Loader) end() { <-l.turn }

// place is where the loader is: the step to return next.
func (l *Loader) place() sampler.Resume {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.at
}

// advance counts the batch of a step as returned; nil is one that failed.
func (l *Loader) advance(at sampler.Resume, b *pipeline.Batch) error {
	report, err := l.tally.count(at, b)
	l.mu.Lock()
	l.mu.at.Step, l.mu.at.Skip = at.Step+1, 0
	l.mu.reports.put(report)
	if b != nil {
		l.mu.total.add(b)
	}
	l.mu.Unlock()
	if l.fence != nil {
		l.fence.Delivered(at.Epoch, at.Step)
	}
	return err
}

// reset drops what is under way and goes to a step. If ctx ends first the loader
// stays where it is, and the next call drops what is under way.
func (l *Loader) reset(ctx context.Context, pipe *pipeline.Pipeline, to sampler.Resume) error {
	l.ahead.unsure = true
	if err := pipe.Discard(ctx); err != nil {
		return err
	}
	l.moveTo(to)
	return nil
}

// moveTo makes a step the next to return. Nothing may be under way.
func (l *Loader) moveTo(to sampler.Resume) {
	l.ahead.restart(to)
	l.moveOn(to)
}

// moveOn makes a step the next to return, for which what is under way is right.
func (l *Loader) moveOn(to sampler.Resume) {
	l.tally.begin(to, l)
	l.mu.Lock()
	l.mu.at = to
	l.mu.reports.put(l.tally.report)
	l.mu.Unlock()
}
