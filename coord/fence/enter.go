package fence

import "context"

// Enter waits until the newest view can be entered, and enters it: not while the job is
// halted. The rank goes on at the step of its place. ErrOver is the end of a lockstep job.
// A *ViewError is a halt that this rank has not been told of: a rank was lost after it last looked, and
// perhaps no other one is left that could say by Redo where to go on.
func (f *Fence) Enter(ctx context.Context) (Place, error) {
	for {
		p, changed, err := f.enter()
		if err != nil || changed == nil {
			return p, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return p, f.waited(ctx, "the newest view cannot be entered yet")
		}
	}
}

func (f *Fence) enter() (Place, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.mu.state
	if s.Ending != "" {
		if why := f.client.Err(); why != nil && !f.mu.in { // its kind says whose fault it is
			return Place{}, nil, why
		}
		return Place{}, nil, ended(s)
	}
	if s.Over && f.mu.cursor == nil {
		return f.place(), nil, ErrOver
	}
	if s.Halted && f.mu.in && f.mu.halt <= s.Redo {
		return Place{}, nil, f.elsewhere()
	}
	if s.Rank < 0 || s.Halted {
		return Place{}, f.mu.changed, nil
	}
	if now := entryOf(s); !f.mu.in || f.mu.entered != now {
		// Where a view has the same ranks and there was no redo, the rank is beyond the cut.
		at := s.Cut
		if f.mu.in && now.redo == f.mu.entered.redo {
			at = max(at, f.done.Load())
		}
		f.mu.in, f.mu.entered, f.mu.seen = true, now, max(f.mu.seen, now.redo)
		f.done.Store(at)
		f.used.Store(at)
		f.allow()
	}
	return f.place(), nil, nil
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
	p := Place{View: s.View, Rank: s.Rank, World: s.World, Epoch: at / f.steps, Step: at % f.steps, Turn: s.Turn}
	if f.mu.cursor != nil {
		p.Epoch, p.Step, p.Turn = s.Epoch, 0, 0
	}
	return p
}
