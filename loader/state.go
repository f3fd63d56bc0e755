package loader

import (
	"context"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// State is the loader's place after the batches that Next has returned so far.
func (l *Loader) State() sampler.State {
	at := l.place()
	s := at.Stream.State(at.Epoch, at.Step)
	if at.Skip > 0 {
		s.NextPosition += at.Skip
	}
	return s
}

// Load goes to the place of a state: Next returns the batches that would have
// come after it. Seed and global batch are then those of the state, not of the
// config. A state of another order is refused, with every difference by name, and
// nothing changes; acceptDrift goes on regardless. The report begins anew.
//
// Where a rank's rows of the state's global batch are more than the batches that
// the pipeline was opened for, the pipeline is opened again. If that fails the
// loader is closed.
func (l *Loader) Load(ctx context.Context, s sampler.State, acceptDrift bool) error {
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.notAsync("Load"); err != nil {
		return err
	}
	to, err := s.Check(l.Stream(), acceptDrift)
	if err == nil {
		err = checkEpoch(to.Epoch)
	}
	if err != nil {
		return err
	}
	rows, err := mostRows(to.Stream, l.id.World)
	if err != nil {
		return err
	}
	if rows <= pipe.Config().BatchSize {
		err = l.reset(ctx, pipe, to)
	} else {
		err = l.reopen(ctx, rows)
		if err == nil {
			l.moveTo(to)
		}
	}
	if err == nil {
		l.agent.recheck()
	}
	return err
}

// Redo goes back to a step of the current epoch that was returned already, or stays
// at the one that comes next: Next returns its batch, and those after it, again.
// What was counted of them is taken back from the report. The last 256 steps can be
// redone, as far as this loader returned them; a state goes further back.
func (l *Loader) Redo(ctx context.Context, step int64) error {
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.notAsync("Redo"); err != nil {
		return err
	}
	at := l.place()
	if step == at.Step {
		return nil
	}
	was, err := l.tally.before(at, step)
	if err != nil {
		return err
	}
	l.ahead.unsure = true
	if err := pipe.Discard(ctx); err != nil {
		return err
	}
	l.goBack(was)
	return nil
}

// goBack makes a step that was returned the next to return. Nothing may be under way.
func (l *Loader) goBack(was moment) {
	l.tally.takeBack(was)
	l.ahead.restart(was.at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.at = was.at
	l.mu.reports.put(was.report)
}

// Restart goes back to the first batch of the current epoch, and its report begins
// anew.
func (l *Loader) Restart(ctx context.Context) error {
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.notAsync("Restart"); err != nil {
		return err
	}
	at := l.place()
	return l.reset(ctx, pipe, sampler.Resume{Stream: at.Stream, Epoch: at.Epoch})
}

// reopen replaces the pipeline by one with more rows. The old one is closed first, so
// that there is never more memory in use than the config says; if the new one cannot be
// opened the loader is closed. Nothing is under way then.
func (l *Loader) reopen(ctx context.Context, rows int) error {
	l.mu.Lock()
	old := l.mu.pipe
	l.mu.Unlock()
	if err := old.Close(); err != nil {
		return err
	}
	pipe, err := l.open(ctx, rows)
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
	if err != nil && pipe != nil {
		_ = pipe.Close() // the error that is reported came first
	}
	return err
}
