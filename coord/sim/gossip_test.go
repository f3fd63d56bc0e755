package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// measured is a row of testdata/gossip.txt: what coord/agent has measured with real
// memberlist, lowest and highest in seconds.
type measured struct {
	profile             Profile
	nodes               int
	first, spread, heal [2]float64
}

func readMeasured(t *testing.T) (list []measured) {
	t.Helper()
	text, err := os.ReadFile("testdata/gossip.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var runs int
		var m measured
		columns := strings.Split(line, "|")
		_, err := fmt.Sscan(columns[0], &name, &m.nodes, &runs)
		for i, to := range []*[2]float64{&m.first, &m.spread, &m.heal} {
			if err == nil {
				_, err = fmt.Sscan(columns[2+i], &to[0], &to[1])
			}
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if name == Fast.String() {
			m.profile = Fast
		}
		list = append(list, m)
	}
	return list
}

// alike is the factor by which the model may differ from what was measured.
const alike = 1.5

// The model's times are those of real memberlist, within a factor, for any number of nodes: a
// loss is held for certain not before, and not after; nor is a partition forgotten later.
func TestModelIsMeasured(t *testing.T) {
	list := readMeasured(t)
	if len(list) < 8 {
		t.Fatalf("%d rows", len(list))
	}
	for _, m := range list {
		d := m.profile.detection(m.nodes)
		t.Logf("%v, %d nodes: model %.2f to %.2f s, spread %.2f s; measured %v, %v", m.profile, m.nodes, d.dead.Seconds(), d.deadMost.Seconds(), d.spread.Seconds(), m.first, m.spread)
		for _, c := range []struct {
			what            string
			model, measured float64
		}{
			{"the first to know, at the soonest", d.dead.Seconds(), m.first[0]},
			{"the first to know, at the latest", d.deadMost.Seconds(), m.first[1]},
			{"the last to know, at the latest", (d.deadMost + d.spread).Seconds(), m.first[1] + m.spread[1]},
		} {
			if c.model > c.measured*alike || c.model < c.measured/alike {
				t.Errorf("%v, %d nodes: %s: the model has %.2f s, measured were %.2f s", m.profile, m.nodes, c.what, c.model, c.measured)
			}
		}
		if d.spread.Seconds() < m.spread[1] || d.rejoin.Seconds() < m.heal[1]/alike {
			t.Errorf("%v, %d nodes: the model is faster than real: spread %v, %v; heal %v, %v", m.profile, m.nodes, d.spread, m.spread, d.rejoin, m.heal)
		}
	}
}

// In a run of the simulator gossip takes these times: all survivors hold a lost node for dead
// as soon as real members do, nobody else is held so, and a partition is forgotten.
func TestGossipTimes(t *testing.T) {
	for _, m := range readMeasured(t) {
		if m.nodes != 24 {
			continue
		}
		for seed := range uint64(few(5, 1)) {
			sc := many(m.nodes, 1, coord.Async, m.profile, "3")
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
					case n == m.nodes-1 && last == 0:
						last = w.now - lost
					case n > 0 && first == 0:
						first = w.now - lost
					}
				}
				if w.now > heal && back == 0 && w.holding(-1, group.Dead) == 0 {
					back = w.now - heal
				}
			}
			if first.Seconds() < m.first[0]/alike || last.Seconds() > alike*(m.first[1]+m.spread[1]) || last == 0 || back == 0 || back.Seconds() > alike*m.heal[1] {
				t.Errorf("%v, seed %d: dead for the first after %v, for all after %v, all alive %v after the heal; measured %+v", m.profile, seed, first, last, back, m)
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
