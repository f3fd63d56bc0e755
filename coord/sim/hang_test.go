package sim

import (
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// Trainers that hang while their agents live hold an async job up for a while at the end of each
// epoch, and no longer: others get their lanes, from ranks that have hung too if need be, and each
// position counts once.
func TestRanksThatHang(t *testing.T) {
	for seed := range uint64(24) {
		nodes, hang := 4+int(seed%3), 1+int(seed%3)
		sc := Scenario{Seed: seed, Profile: Profile(seed % 2), Rack: 1, Pace: 50 * time.Millisecond, Duration: 20 * time.Minute}
		sc.Job = coord.Job{Name: "job", Plan: "plan", Mode: coord.Async, N: 3000, Epochs: 2, Voters: 7, Ahead: 32, Reserve: 16}
		sc.Network = Network{Latency: 200 * time.Microsecond, Jitter: 600 * time.Microsecond}
		for i := range nodes {
			sc.Ranks = append(sc.Ranks, 1+i%2)
			if i < hang {
				sc.Actions = append(sc.Actions, Action{At: time.Duration(2+i) * time.Second, Kind: Hang, Who: node((i + int(seed)) % nodes)})
			}
		}
		r := Run(sc, Watch{})
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
		if !r.Over {
			t.Errorf("seed %d, %d of %d nodes hang: %d of %d positions of the last epoch at %v", seed, hang, nodes, r.Covered, r.N, r.Time)
		}
		t.Logf("seed %d: %d of %d hang: over at %v", seed, hang, nodes, r.Time)
	}
}
