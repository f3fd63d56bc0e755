package fence

import (
	"context"
	"time"

	"github.com/headrace/headrace/agentapi"
)

// Enter waits until the newest view can be entered, and enters it: not while the job is
// halted. The rank goes on at the step of its place.
func (f *Fence) Enter(ctx context.Context) (Place, error) {
	for {
		p, changed, err := f.enter()
		if err != nil || changed == nil {
			return p, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

func (f *Fence) enter() (Place, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.mu.state
	if s.Ending != "" {
		return Place{}, nil, ended(s)
	}
	if s.Rank < 0 || s.Halted {
		return Place{}, f.mu.changed, nil
	}
	if now := (entry{s.View, s.Redo}); !f.mu.in || f.mu.entered != now {
		// Where a view has the same ranks and there was no redo, the rank is beyond the cut.
		at := s.Cut
		if f.mu.in && now.redo == f.mu.entered.redo {
			at = max(at, f.done.Load())
		}
		f.mu.in, f.mu.entered = true, now
		f.done.Store(at)
		f.used.Store(at)
		f.allow()
	}
	return f.place(), nil, nil
}

// Redo has all ranks go on from a step, and waits until that is agreed. One rank calls it;
// the others hear of it by their next step, or in Enter.
func (f *Fence) Redo(ctx context.Context, epoch, step int64) error {
	f.mu.Lock()
	before, view, changed := f.mu.state.Redo, f.mu.state.View, f.mu.changed
	f.mu.Unlock()
	again := time.NewTicker(time.Second) // what was asked may have got lost
	defer again.Stop()
	for {
		if err := f.job.Redo(agentapi.Redo{View: view, Redo: before, Step: epoch*f.steps + step}); err != nil {
			return err
		}
		for asked := true; asked; {
			select {
			case <-changed:
			case <-again.C:
				asked = false
			case <-ctx.Done():
				return ctx.Err()
			}
			f.mu.Lock()
			s := f.mu.state
			changed = f.mu.changed
			f.mu.Unlock()
			switch {
			case s.Ending != "":
				return ended(&s)
			case s.Redo != before:
				return nil
			case s.View != view:
				return &ViewError{View: s.View, World: s.World, Halted: s.Halted}
			}
		}
	}
}

// Place is the rank's place in the newest view; Rank is -1 where it has none.
func (f *Fence) Place() Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.place()
}

// Newest is Place, and whether the job is halted: a rank is lost, and a Redo must say where
// to go on before the view can be entered.
func (f *Fence) Newest() (p Place, halted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.place(), f.mu.state.Halted
}

// place is where the rank is. f.mu is held.
func (f *Fence) place() Place {
	s, at := &f.mu.state, f.done.Load()
	p := Place{View: s.View, Rank: s.Rank, World: s.World, Epoch: at / f.steps, Step: at % f.steps}
	if f.mu.cursor != nil {
		p.Epoch, p.Step = s.Epoch, 0
	}
	return p
}
