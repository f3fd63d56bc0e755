package fence

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// A redo answers the halt that its rank has seen. Where another rank's was first, it is void, also
// if it comes when the job goes on already: it is not asked for, and the rank enters. Behind that the
// rank may want one of its own.
func TestRedoOfAnotherRankHolds(t *testing.T) {
	state := agentapi.JobState{View: 1, Rank: 1, World: 3, Horizon: 100, Reach: 100, Turn: 1}
	d, f, seat := sit(t, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 100}, state)
	ctx := within(t)
	f.Delivered(0, 9)
	state.View, state.World, state.Halted, state.Turn = 2, 2, true, 2
	seat.State(state)
	until(ctx, t, f, "the halt", func() bool { _, halted := f.Newest(); return halted })
	redone := make(chan error, 1)
	go func() { redone <- f.Redo(ctx, 0, 4) }()
	asked := receive(ctx, t, d.redo)
	state.Halted, state.Redo, state.By, state.Cut, state.Turn = false, 1, asked.By^1, 3, 3
	seat.State(state)
	var view *ViewError
	if err := receive(ctx, t, redone); !errors.As(err, &view) || !view.Back || view.Halted || view.Step != 3 || view.Turn != 3 ||
		!strings.Contains(err.Error(), "the job went back to step 3 of epoch 0 in view 2") {
		t.Errorf("the later of two: %v", err)
	}

	// The next halt is answered by another rank before this one has seen it.
	if _, err := f.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	state.Redo, state.By, state.Cut, state.Turn = 2, 5, 1, 5
	seat.State(state)
	until(ctx, t, f, "the redo", func() bool { p, _ := f.Newest(); return p.Turn == 5 })
	if err := f.Redo(ctx, 0, 2); !errors.As(err, &view) || !view.Back || view.Step != 1 {
		t.Errorf("one that comes late: %v", err)
	}
	if len(d.redo) != 0 {
		t.Error("it was asked for")
	}

	// A view that only a witness has changed is not told; a redo goes on in it.
	if _, err := f.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	go func() { redone <- f.Redo(ctx, 0, 0) }()
	asked = receive(ctx, t, d.redo)
	state.View = 3
	seat.State(state)
	again := receive(ctx, t, d.redo)
	if again != (agentapi.Redo{View: 3, Redo: 2, By: asked.By}) {
		t.Errorf("asked for %+v, then %+v", asked, again)
	}
	if err := f.Lease(ctx, 0, 1); err != nil {
		t.Errorf("a step after a witness came: %v", err)
	}
	state.Redo, state.By, state.Cut, state.Turn = 3, asked.By, 0, 6
	seat.State(state)
	if err := receive(ctx, t, redone); err != nil {
		t.Error(err)
	}
}

// A step that cannot be gone on from is refused with what can, and nothing is asked for: it would
// leave steps out, or be counted into another epoch.
func TestRedoOfWhatCannotBe(t *testing.T) {
	state := agentapi.JobState{View: 1, World: 2, Horizon: 64, Reach: 64, Done: 3, Cut: 0}
	d, f, _ := sit(t, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 10}, state)
	ctx := within(t)
	refuse := func(epoch, step int64, why string) {
		t.Helper()
		if err := f.Redo(ctx, epoch, step); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), why) {
			t.Errorf("step %d of epoch %d: %v", step, epoch, err)
		}
	}
	refuse(0, -1, "count from 0")
	refuse(-1, 0, "count from 0")
	refuse(0, 11, "an epoch has 10")
	refuse(0, math.MaxInt64, "an epoch has 10")
	refuse(1<<62, 0, "no job comes to there")
	refuse(math.MaxInt64, 10, "no job comes to there")
	refuse(6, 5, "beyond all that was leased, which ends at step 4 of epoch 6")
	f.Delivered(0, 4)
	refuse(0, 6, "beyond what this rank was given, which ends at step 5 of epoch 0")
	refuse(3, 0, "steps would be left out")
	if len(d.redo) != 0 {
		t.Error("it was asked for")
	}
	go func() { _ = f.Redo(ctx, 0, 5) }()
	if r := receive(ctx, t, d.redo); r.Step != 5 {
		t.Errorf("asked for %+v", r)
	}
}
