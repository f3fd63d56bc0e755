package fence

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/agentapi"
)

// A rank that enters and has not been told of a loss is told so, for each halt once: it has looked before
// the loss, and may be the only one that can say where to go on. Who knows of the halt waits for a
// redo, and so does who has been in no view: it has nothing to go on from.
func TestEnterTellsOfALoss(t *testing.T) {
	state := agentapi.JobState{View: 1, Rank: 1, World: 3, Horizon: 100, Reach: 100, Turn: 1}
	d, f, seat := sit(t, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 100}, state)
	ctx := within(t)
	newest := func(what string, s agentapi.JobState) {
		t.Helper()
		seat.State(s)
		until(ctx, t, f, what, func() bool {
			p, halted := f.Newest()
			return p.View == s.View && p.Turn == s.Turn && halted == s.Halted
		})
	}
	f.Delivered(0, 9)
	state.View, state.World, state.Halted, state.Turn = 2, 2, true, 2
	newest("a loss", state)
	var view *ViewError
	if _, err := f.Enter(ctx); !errors.As(err, &view) || !view.Halted || view.View != 2 {
		t.Fatalf("entered at a halt: %v", err)
	}
	entered := make(chan error, 1)
	enter := func() { _, err := f.Enter(ctx); entered <- err }
	go enter()
	state.View, state.World, state.Turn = 3, 3, 3
	newest("a rank that comes during the halt", state)
	state.Halted, state.Redo, state.By, state.Turn = false, 1, 7, 4
	newest("the redo of another rank", state)
	if err := receive(ctx, t, entered); err != nil {
		t.Errorf("behind the redo: %v", err)
	}

	// Its own redo is agreed, and the next rank is lost before it enters.
	state.View, state.World, state.Halted, state.Turn = 4, 2, true, 5
	newest("the next loss", state)
	redone := make(chan error, 1)
	go func() { redone <- f.Redo(ctx, 0, 4) }()
	asked := receive(ctx, t, d.redo)
	state.Halted, state.Redo, state.By, state.Turn = false, 2, asked.By, 6
	newest("its own redo", state)
	if err := receive(ctx, t, redone); err != nil {
		t.Fatal(err)
	}
	state.View, state.Rank, state.World, state.Halted, state.Turn = 5, 0, 1, true, 7
	newest("a loss behind it", state)
	if _, err := f.Enter(ctx); !errors.As(err, &view) || !view.Halted || view.View != 5 {
		t.Errorf("entered at the next halt: %v", err)
	}
	// Told by a step, it is not told again.
	state.Halted, state.Redo, state.By, state.Turn = false, 3, 9, 8
	newest("a redo", state)
	if _, err := f.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	state.View, state.Halted, state.Turn = 6, true, 9
	newest("a loss", state)
	if err := f.Lease(ctx, 0, 9); !errors.As(err, &view) || !view.Halted {
		t.Fatalf("a step: %v", err)
	}
	go enter()
	state.Halted, state.Redo, state.By, state.Turn = false, 4, 11, 10
	newest("a redo", state)
	if err := receive(ctx, t, entered); err != nil {
		t.Errorf("it was told of the halt: %v", err)
	}
}

// A rank that comes while the job is halted waits for a redo.
func TestNewcomerWaitsForTheRedo(t *testing.T) {
	f := &Fence{steps: 100}
	f.mu.changed, f.mu.news = make(chan struct{}), make(chan struct{})
	f.take(&agentapi.JobState{View: 2, Rank: 1, World: 2, Halted: true}, nil)
	if _, changed, err := f.enter(); changed == nil || err != nil {
		t.Errorf("entered, %v", err)
	}
	f.take(&agentapi.JobState{View: 2, Rank: 1, World: 2, Redo: 1, Turn: 1}, nil)
	if _, changed, err := f.enter(); changed != nil || err != nil {
		t.Errorf("waits, %v", err)
	}
}
