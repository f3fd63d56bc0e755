package loader

import (
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
// may be called from any goroutine; Next, SetEpoch and Load take turns, State,
// Len and Stats never wait for them, and Close wakes them.
type Loader struct {
	id     rank.Identity
	source sampler.Source
	config pipeline.Config // without BatchSize, which follows from the stream

	turn  chan struct{} // holds a token while Next, SetEpoch or Load is at work
	ahead ahead         // belongs to who holds the token

	mu struct {
		sync.Mutex
		pipe   *pipeline.Pipeline
		closed bool
		stream sampler.Stream
		epoch  int64
		step   int64 // the next to return
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
	stream, err := cfg.stream(source, id.World)
	if err != nil {
		return nil, err
	}
	l := &Loader{id: id, source: source, config: cfg.Pipeline, turn: make(chan struct{}, 1)}
	l.ahead = ahead{source: source, id: id}
	shareNode(&l.config, id.LocalWorld)
	pipe, err := l.open(ctx, stream.Global)
	if err != nil {
		return nil, err
	}
	l.mu.pipe = pipe
	l.moveTo(stream, 0, 0)
	return l, nil
}

// open opens a pipeline whose slots hold this rank's largest slice of a global
// batch.
func (l *Loader) open(ctx context.Context, global int64) (*pipeline.Pipeline, error) {
	slice, err := largestSlice(global, l.id.World)
	if err != nil {
		return nil, err
	}
	c := l.config
	c.BatchSize = slice
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
	stream, epoch, step := l.position()
	if l.ahead.unsure {
		if err := l.reset(ctx, pipe, stream, epoch, step); err != nil {
			return nil, err
		}
	}
	if step >= stream.Steps() {
		l.setPosition(stream, epoch+1, 0)
		return nil, io.EOF
	}
	if l.ahead.at(epoch, step) {
		// Nothing is under way, so there is room, or will be.
		if _, err := l.ahead.push(ctx, pipe); err != nil {
			return nil, err
		}
	}
	if err := l.ahead.fill(pipe); err != nil {
		return nil, err
	}
	batch, err := l.take(ctx, pipe, epoch, step)
	if err == nil {
		// Work for the time in which the trainer computes. Trouble shows at the next
		// call.
		_ = l.ahead.fill(pipe)
	}
	return batch, err
}

// take waits for the batch of a step and counts it as returned.
func (l *Loader) take(ctx context.Context, pipe *pipeline.Pipeline, epoch, step int64) (*pipeline.Batch, error) {
	if err := l.ahead.refused; err != nil && l.ahead.at(epoch, step) {
		l.ahead.pass()
		l.advance()
		return nil, err
	}
	batch, err := pipe.Next(ctx)
	var bad *pipeline.BatchError
	if err == nil || errors.As(err, &bad) {
		l.advance()
	}
	return batch, err
}

// SetEpoch makes an epoch the current one, from its first batch on; batches of
// another epoch that are under way are dropped. For the epoch that is current
// already it changes nothing, so that a trainer which calls it before every
// epoch can resume within one.
func (l *Loader) SetEpoch(ctx context.Context, epoch int64) error {
	if epoch < 0 {
		return nd.Errorf(nd.ErrConfig, "epoch %d: must be at least 0", epoch)
	}
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	stream, current, _ := l.position()
	if epoch == current {
		return nil
	}
	return l.reset(ctx, pipe, stream, epoch, 0)
}

// Len is the number of batches of an epoch, the same on all ranks.
func (l *Loader) Len() int64 {
	stream, _, _ := l.position()
	return stream.Steps()
}

// Epoch is the current epoch: that of the batch which Next returns next.
func (l *Loader) Epoch() int64 {
	_, epoch, _ := l.position()
	return epoch
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
	return pipe.Close()
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

// position is where the loader is: the epoch and the step to return next.
func (l *Loader) position() (stream sampler.Stream, epoch, step int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.stream, l.mu.epoch, l.mu.step
}

// advance counts one more batch as returned.
func (l *Loader) advance() {
	l.mu.Lock()
	l.mu.step++
	l.mu.Unlock()
}

// reset drops what is under way and goes to a step. If ctx ends first the loader
// stays where it is, and the next call drops what is under way.
func (l *Loader) reset(ctx context.Context, pipe *pipeline.Pipeline, stream sampler.Stream, epoch, step int64) error {
	l.ahead.unsure = true
	if err := pipe.Discard(ctx); err != nil {
		return err
	}
	l.moveTo(stream, epoch, step)
	return nil
}

// moveTo makes step the next to return. Nothing may be under way.
func (l *Loader) moveTo(stream sampler.Stream, epoch, step int64) {
	l.setPosition(stream, epoch, step)
	l.ahead.restart(stream, epoch, step)
}

func (l *Loader) setPosition(stream sampler.Stream, epoch, step int64) {
	l.mu.Lock()
	l.mu.stream, l.mu.epoch, l.mu.step = stream, epoch, step
	l.mu.Unlock()
}
