package agent

import (
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
)

// Of two agents one is closed in an orderly way, whichever of them votes: the rank of the other
// goes on alone, to the end of the job.
func TestOneOfTwoLeaves(t *testing.T) {
	t.Parallel()
	for leaver, name := range []string{"the one that formed the job", "the one that came"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := patient(t)
			want := agentapi.Attach{Plan: "p", Mode: "async", N: 2000, Steps: 1, Epochs: 1, Ahead: 64}
			a := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 2 })
			b := startHost(t, "b", func(c *Config) { c.Contacts = []string{a.Address()} })
			hosts, workers := []*host{a, b}, make([]*worker, 2)
			var attaching sync.WaitGroup
			for i, h := range hosts {
				attaching.Go(func() {
					var err error
					if workers[i], err = h.attach(ctx, 0, want); err != nil {
						t.Error(err)
					}
				})
			}
			attaching.Wait()
			if t.Failed() {
				return
			}
			goes, stays := hosts[leaver], hosts[1-leaver]
			defer workers[1-leaver].die()
			l := &ledger{done: map[int64]int{}}
			for _, w := range workers {
				if err := w.work(ctx, l, 10); err != nil {
					t.Fatal(err)
				}
			}
			workers[leaver].die()
			within(t, leaveBound, "to leave", func() { _ = goes.Close() })
			within(t, 30*time.Second, "to do the rest alone", func() {
				if err := workers[1-leaver].work(ctx, l, 0); err != nil {
					t.Error(err)
				}
			})
			for p := range want.N {
				if l.done[p] == 0 {
					t.Fatalf("position %d was never finished", p)
				}
			}
			if s := stays.State(); !s.Over || len(s.View.Members) != 1 || !s.Leads {
				t.Errorf("at the end: over %v, leads %v, view %+v", s.Over, s.Leads, s.View)
			}
		})
	}
}
