package agent

import (
	"errors"
	"sync"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
)

// A rank that takes the place of a lost one between the redo and the first word of the others on it
// is let in, and leases go on: it has heard of no redo, is in no view, and is not waited for.
func TestSuccessorComesBehindARedo(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	h := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 3 })
	want := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1 << 20, Steps: 1 << 16}
	var workers [3]*worker
	var attaching sync.WaitGroup
	for local := range workers {
		attaching.Go(func() {
			w, err := h.attach(ctx, local, want)
			if err != nil {
				t.Error(err)
				return
			}
			workers[local] = w
			t.Cleanup(w.die)
		})
	}
	attaching.Wait()
	if t.Failed() {
		return
	}
	// All take the same steps, up to the first one that one of them is refused.
	together := func(from, to int64, list ...*worker) (at int64, err error) {
		for at = from; at < to; at++ {
			for _, w := range list {
				if err := w.fence.Lease(ctx, 0, at); err != nil {
					return at, err
				}
			}
			for _, w := range list {
				w.fence.Delivered(0, at)
			}
		}
		return at, nil
	}
	if at, err := together(0, 20, workers[:]...); err != nil {
		t.Fatalf("step %d: %v", at, err)
	}
	workers[1].die()
	left := []*worker{workers[0], workers[2]}
	var view *agentapi.ViewError
	for _, w := range left {
		eventually(t, ctx, "the halt", func() bool { return errors.As(w.fence.Lease(ctx, 0, 20), &view) && view.Halted })
	}
	if err := left[0].fence.Redo(ctx, 0, 18); err != nil {
		t.Fatal(err)
	}
	client, err := agentapi.Dial(ctx, h.socket, agentapi.Hello{RunID: "job", LocalRank: 1, World: 3, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fence.New(client, want, 1) // the agent has it when it returns, before the others say anything of the redo
	if err != nil {
		t.Fatal(err)
	}
	next := &worker{client, f}
	t.Cleanup(next.die)
	t.Cleanup(f.Close)

	for _, w := range left {
		if p, err := w.fence.Enter(ctx); err != nil || p.World != 2 || p.Step != 18 {
			t.Fatalf("entered %+v, %v", p, err)
		}
	}
	p, err := f.Enter(ctx)
	if err != nil || p.World != 3 || p.Rank != 1 || p.Step <= 18 {
		t.Fatalf("the rank that comes entered %+v, %v", p, err)
	}
	at, err := together(18, 1<<16, left...)
	if !errors.As(err, &view) || view.Halted || at != p.Step {
		t.Fatalf("step %d, where it comes at %d: %v", at, p.Step, err)
	}
	for _, w := range left {
		if err := w.fence.Lease(ctx, 0, at); !errors.As(err, &view) { // it may hear of the view later than the other one
			t.Fatalf("step %d: %v", at, err)
		}
		if now, err := w.fence.Enter(ctx); err != nil || now.World != 3 || now.Step != at {
			t.Fatalf("entered %+v, %v", now, err)
		}
	}
	if at, err := together(at, at+1000, left[0], next, left[1]); err != nil { // further than one lease
		t.Fatalf("step %d: %v", at, err)
	}
}
