package fence

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// Redo has all ranks go on from a step, and waits until that is agreed. It answers what this rank
// has seen of the job, by its last Enter or the last *ViewError: where the job went on from another
// rank's redo since, this one is void, and the error is a *ViewError. So of the ranks that are
// halted each may call it, and one of them succeeds: its step holds. The ranks, this one too, enter
// the view then; the others hear of it by their next step, or in Enter.
//
// A step that no rank can have come to is refused with nd.ErrConfig: beyond what this rank was
// given or all have done; for a rank that was given none, beyond all that was ever leased.
func (f *Fence) Redo(ctx context.Context, epoch, step int64) error {
	at, err := f.count(epoch, step)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if !f.mu.in { // a rank that was in no view yet answers what there is
		f.mu.seen = f.mu.state.Redo
	}
	f.mu.Unlock()
	by := rand.Uint64() | 1 // 0 is nobody's
	asked, due := uint64(0), true
	again := time.NewTicker(time.Second) // what was asked may have got lost
	defer again.Stop()
	for {
		s, changed, done, err := f.answered(by, at)
		if done || err != nil {
			return err
		}
		if s.Rank >= 0 && (due || s.View != asked) { // asked in another view it is void
			if err := f.job.Redo(agentapi.Redo{View: s.View, Redo: s.Redo, Step: at, By: by}); err != nil {
				return err
			}
			asked, due = s.View, false
		}
		select {
		case <-changed:
		case <-again.C:
			due = true
		case <-ctx.Done():
			return f.waited(ctx, "the redo is not agreed")
		}
	}
}

// answered is what became of a redo: done, or why it is not to be.
func (f *Fence) answered(by uint64, at int64) (s agentapi.JobState, changed <-chan struct{}, done bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, changed = f.mu.state, f.mu.changed
	switch {
	case s.Ending != "":
		err = ended(&s)
	case s.By == by:
		done = true
	case s.Over:
		err = ErrOver
	case s.Redo != f.mu.seen:
		err = f.elsewhere()
	case s.Rank >= 0:
		err = f.reaches(&s, at)
	}
	return s, changed, done, err
}

// elsewhere is the error of a rank that must enter the newest view, which it has seen by it.
// f.mu is held.
func (f *Fence) elsewhere() error {
	s := &f.mu.state
	f.mu.seen = max(f.mu.seen, s.Redo)
	if s.Halted {
		f.mu.halt = s.Redo + 1
	}
	return &ViewError{
		View: s.View, World: s.World, Halted: s.Halted, Turn: s.Turn,
		Back: f.mu.in && s.Redo != f.mu.entered.redo, Epoch: s.Cut / f.steps, Step: s.Cut % f.steps,
	}
}

// count is a step counted through the job.
func (f *Fence) count(epoch, step int64) (int64, error) {
	switch {
	case epoch < 0 || step < 0:
		return 0, nd.Errorf(nd.ErrConfig, "redo of step %d of epoch %d: both count from 0", step, epoch)
	case step > f.steps:
		return 0, nd.Errorf(nd.ErrConfig, "redo of step %d: an epoch has %d", step, f.steps)
	case epoch > (math.MaxInt64-step)/f.steps:
		return 0, nd.Errorf(nd.ErrConfig, "redo of step %d of epoch %d: no job comes to there", step, epoch)
	}
	return epoch*f.steps + step, nil
}

// reaches checks that a redo to a step leaves none out.
func (f *Fence) reaches(s *agentapi.JobState, at int64) error {
	most, what := max(f.most.Load(), s.Done), "what this rank was given"
	if f.most.Load() == 0 { // its state is another's: a checkpoint
		most, what = s.Reach, "all that was leased"
	}
	if at <= most {
		return nil
	}
	return nd.Errorf(nd.ErrConfig, "redo of step %d of epoch %d: it is beyond %s, which ends at step %d of epoch %d; steps would be left out",
		at%f.steps, at/f.steps, what, most%f.steps, most/f.steps)
}
