package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// A clock that jumps ahead, the leader's, a voter's and a follower's, costs no member its place:
// all that it waited for is late by that clock alone. No view is made, and the job gets on.
func TestJumpsCostNothing(t *testing.T) {
	for _, mode := range []coord.Mode{coord.Lockstep, coord.Async} {
		for seed := range uint64(4) {
			sc := many(9, 1, mode, Default, "")
			sc.Seed, sc.Pace = seed, 50*time.Millisecond
			sc.Job.N, sc.Job.Steps, sc.Job.Epochs = 4000, 400, 1
			sc.Actions = nil
			for i, who := range []Target{"leader", "voter", "follower", "leader"} {
				sc.Actions = append(sc.Actions, Action{At: time.Duration(5+4*i) * time.Second, Kind: Jump, Who: who, By: time.Minute})
			}
			sc.Duration = 2 * time.Minute
			var trace strings.Builder
			r := Run(sc, Watch{Trace: &trace})
			for _, v := range r.Violations {
				t.Errorf("%v, seed %d: %v", mode, seed, v)
			}
			jumps := strings.Count(trace.String(), "the clock jumps by 1m0s")
			if r.Views != 1 || !r.Over || jumps != len(sc.Actions) {
				t.Errorf("%v, seed %d: %d jumps, %d views, over %v", mode, seed, jumps, r.Views, r.Over)
			}
		}
	}
}
