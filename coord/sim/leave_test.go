package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// Of a few nodes one after the other leaves, whoever of them votes or leads: those that stay go
// on, the last one alone, and the job comes to its end. No leave waits for its bound.
func TestLeaveOfFew(t *testing.T) {
	for _, nodes := range []int{2, 3, 4} {
		for _, mode := range []coord.Mode{coord.Async, coord.Lockstep} {
			for seed := range uint64(10) {
				sc := Scenario{Seed: seed, Profile: Profile(seed % 2), Rack: 1, Pace: 50 * time.Millisecond, Duration: 2 * time.Minute}
				sc.Job = coord.Job{Name: "job", Plan: "plan", Mode: mode, N: 4000, Steps: 400, Epochs: 1, Voters: 7, Lease: 8, Ahead: 16, Reserve: 8}
				sc.Network = Network{Latency: 200 * time.Microsecond, Jitter: 600 * time.Microsecond}
				stays := int(seed) % nodes
				for i := range nodes {
					sc.Ranks = append(sc.Ranks, 1)
					if i != stays {
						sc.Actions = append(sc.Actions, Action{At: time.Duration(3+2*len(sc.Actions)) * time.Second, Kind: Leave, Who: node(i)})
					}
				}
				var said strings.Builder
				r := Run(sc, Watch{Trace: &said})
				if strings.Contains(said.String(), "not agreed") {
					t.Errorf("%d nodes, %v, seed %d: one left without the others", nodes, mode, seed)
				}
				for _, v := range r.Violations {
					t.Errorf("%v, seed %d: %v", mode, seed, v)
				}
				if !r.Over || r.Stopped {
					t.Errorf("%d nodes, %v, seed %d: over %v, without a majority %v, at %v", nodes, mode, seed, r.Over, r.Stopped, r.Time)
				}
			}
		}
	}
}

// All but one leave at the same moment.
func TestLeaveAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		sc := many(5, 1, coord.Async, Profile(seed%2), "")
		sc.Seed, sc.Pace, sc.Duration, sc.Actions = seed, 20*time.Millisecond, 2*time.Minute, nil
		sc.Job.N, sc.Job.Epochs, sc.Job.Ahead, sc.Job.Reserve = 20000, 1, 32, 16
		for i := range 5 {
			if i != int(seed)%5 {
				sc.Actions = append(sc.Actions, Action{At: 4 * time.Second, Kind: Leave, Who: node(i)})
			}
		}
		var said strings.Builder
		r := Run(sc, Watch{Trace: &said})
		if strings.Contains(said.String(), "not agreed") {
			t.Errorf("seed %d: one left without the others", seed)
		}
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
		if !r.Over || r.Stopped {
			t.Errorf("seed %d: over %v, without a majority %v, at %v", seed, r.Over, r.Stopped, r.Time)
		}
	}
}
