package loader

import (
	"context"
	"encoding/json"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// stateFormat is the version of State. A reader refuses what it does not know.
const stateFormat = 1

// State is a place in the sequence of batches. It is the same on every rank that
// has returned the same number of batches, and fits any number of ranks.
type State struct {
	Format      int    `json:"format"`
	Fingerprint string `json:"fingerprint"`
	Seed        uint64 `json:"seed"`
	Epoch       int64  `json:"epoch"`
	// NextPosition is the first position of the epoch that was not returned.
	NextPosition int64 `json:"next_position"`
	Global       int64 `json:"global"`
}

// ParseState reads a state as encoding/json writes it.
func ParseState(doc []byte) (State, error) {
	var s State
	if err := json.Unmarshal(doc, &s); err != nil {
		return State{}, nd.Errorf(nd.ErrConfig, "state: %w", err)
	}
	return s, nil
}

// State is the loader's place after the batches that Next has returned so far.
func (l *Loader) State() State {
	stream, epoch, step := l.position()
	next := stream.N
	if step < stream.Steps() {
		next = step * stream.Global
	}
	return State{
		Format: stateFormat, Fingerprint: stream.Fingerprint, Seed: stream.Seed,
		Epoch: epoch, NextPosition: next, Global: stream.Global,
	}
}

// Load goes to the place of a state: Next returns the batches that would have
// come after it. Seed and global batch are then those of the state, not of the
// config. A state of another source is refused, and nothing changes.
//
// Where a rank's slice of the state's global batch is larger than the batches
// that the pipeline was opened for, the pipeline is opened again. If that fails
// the loader is closed.
func (l *Loader) Load(ctx context.Context, s State) error {
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	stream, _, _ := l.position()
	step, err := s.apply(&stream)
	if err != nil {
		return err
	}
	slice, err := largestSlice(s.Global, l.id.World)
	if err != nil {
		return err
	}
	if slice <= pipe.Config().BatchSize {
		return l.reset(ctx, pipe, stream, s.Epoch, step)
	}
	return l.reopen(ctx, stream, s.Epoch, step)
}

// apply checks a state against a stream, puts its numbers in and gives the step
// that comes next.
func (s *State) apply(stream *sampler.Stream) (step int64, err error) {
	refuse := func(format string, args ...any) (int64, error) {
		return 0, nd.Errorf(nd.ErrConfig, "state: "+format, args...)
	}
	switch {
	case s.Format != stateFormat:
		return refuse("format %d, this version reads %d", s.Format, stateFormat)
	case s.Fingerprint != stream.Fingerprint:
		return refuse("it belongs to a source of fingerprint %s, this one has %s: crops, their parameters or the arrays' metadata differ", s.Fingerprint, stream.Fingerprint)
	case s.Epoch < 0:
		return refuse("epoch %d, must be at least 0", s.Epoch)
	case s.Global < 1:
		return refuse("global %d, must be at least 1", s.Global)
	case s.NextPosition < 0 || s.NextPosition > stream.N:
		return refuse("next_position %d, must be in 0 to %d", s.NextPosition, stream.N)
	case s.NextPosition%s.Global != 0 && s.NextPosition != stream.N:
		return refuse("next_position %d is not the start of a batch of %d", s.NextPosition, s.Global)
	}
	stream.Seed, stream.Global = s.Seed, s.Global
	if s.NextPosition == stream.N {
		return stream.Steps(), nil
	}
	return s.NextPosition / s.Global, nil
}

// reopen replaces the pipeline. The old one is closed first, so that there is
// never more memory in use than the config says.
func (l *Loader) reopen(ctx context.Context, stream sampler.Stream, epoch, step int64) error {
	l.mu.Lock()
	old := l.mu.pipe
	l.mu.Unlock()
	if err := old.Close(); err != nil {
		return err
	}
	pipe, err := l.open(ctx, stream.Global)
	l.mu.Lock()
	switch {
	case err != nil:
		l.mu.closed = true
	case l.mu.closed:
		err = nd.Errorf(nd.ErrClosed, "the loader is closed")
	default:
		l.mu.pipe = pipe
	}
	l.mu.Unlock()
	if err != nil {
		if pipe != nil {
			_ = pipe.Close() // the error that is reported came first
		}
		return err
	}
	l.moveTo(stream, epoch, step)
	return nil
}
