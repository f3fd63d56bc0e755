package sim

import (
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// many is a job of many nodes, of which one is lost in the middle.
func many(nodes, ranks int, mode coord.Mode, profile Profile, who Target) Scenario {
	sc := Scenario{Seed: 7, Profile: profile, Rack: 16, Pace: 2 * time.Second, Duration: 40 * time.Second}
	sc.Job = coord.Job{Name: "job", Plan: "plan", Mode: mode, N: 1 << 20, Steps: 1 << 20, Voters: 7, Lease: 64, Ahead: 1 << 10, Reserve: 64}
	sc.Network = Network{Latency: 200 * time.Microsecond, Jitter: 600 * time.Microsecond}
	for range nodes {
		sc.Ranks = append(sc.Ranks, ranks)
	}
	sc.Actions = []Action{{At: 10 * time.Second, Kind: Kill, Who: who}}
	return sc
}

func TestScale(t *testing.T) {
	for _, mode := range []coord.Mode{coord.Async, coord.Lockstep} {
		for _, who := range []Target{"follower", "leader"} {
			begin := time.Now()
			sc := many(2048, 8, mode, Default, who)
			if mode == coord.Async {
				sc.Pace = 0
			}
			r := Run(sc, Watch{})
			t.Logf("%v %v: recovery %v, change %v, %v, messages %d caused %d, %d events, %v wall, bytes %d", mode, who, r.Recovery, r.Change, r.Violations, r.Messages, r.Caused, r.Events, time.Since(begin), r.Bytes)
		}
	}
}
