package sim

import (
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// Gossip is as fast as what was measured with real memberlist: all survivors hold a lost
// node for dead within 7.5 s, in the fast profile 2.5 s, and not much earlier; nobody else;
// and a partition is forgotten within 30 s of its end.
func TestGossipTimes(t *testing.T) {
	for profile, most := range map[Profile]time.Duration{Default: 7500 * time.Millisecond, Fast: 2500 * time.Millisecond} {
		for seed := range uint64(5) {
			sc := many(24, 1, coord.Async, profile, "3")
			sc.Seed, sc.Pace = seed, 0
			const lost, cut, heal = 8 * time.Second, 60 * time.Second, 90 * time.Second
			sc.Actions = []Action{{At: lost, Kind: Kill, Who: "3"}, {At: cut, Kind: Partition, Set: []int{5, 6}, For: heal - cut}}
			sc.Duration = 40 * time.Second
			w := newWorld(sc, Watch{})
			var first, last, back time.Duration
			w.begin()
			for i := range sc.Actions {
				w.after(sc.Actions[i].At, func() { w.perform(&sc.Actions[i]) })
			}
			for len(w.queue.heap) > 0 && w.now < heal+sc.Duration {
				e := w.queue.pop()
				w.now = e.at
				e.do()
				if w.now > lost && w.now < cut {
					switch n := w.holding(3, group.Dead); {
					case n == 23 && last == 0:
						last = w.now - lost
					case n > 0 && first == 0:
						first = w.now - lost
					}
				}
				if w.now > heal && back == 0 && w.holding(-1, group.Dead) == 0 {
					back = w.now - heal
				}
			}
			if last == 0 || last > most || first < most/3 || back == 0 || back > 30*time.Second {
				t.Errorf("%v, seed %d: dead for the first after %v, for all after %v, all alive %v after the heal", profile, seed, first, last, back)
			}
		}
	}
}

// holding counts who holds a host, or any living one, for something.
func (w *World) holding(place int, state group.Liveness) (n int) {
	for at, op := range w.gossip.pairs {
		o, s := w.procs[at.observer], w.procs[at.subject]
		if op.state == state && !o.dead && (s.place == place || place < 0 && !s.dead) {
			n++
		}
	}
	return n
}
