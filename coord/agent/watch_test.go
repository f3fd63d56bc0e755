package agent

import (
	"math"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

func members(ids ...byte) *coord.View {
	v := &coord.View{}
	for _, id := range ids {
		v.Members = append(v.Members, coord.Member{ID: coord.ID{id}, Ranks: []int{0}})
	}
	return v
}

// A change settles from gossip's first word of it to the view that has it. A node that
// comes back in time was no change.
func TestSettle(t *testing.T) {
	var settled []float64
	w := newWatch(func(s float64) { settled = append(settled, s) })
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	w.installs(at(1), members(1, 2, 3))
	w.sees(at(10), seen{id: coord.ID{2}, state: group.Dead})
	w.sees(at(11), seen{id: coord.ID{2}, state: group.Alive})
	w.sees(at(20), seen{id: coord.ID{3}, state: group.Dead})
	w.sees(at(21), seen{id: coord.ID{4}, state: group.Alive})
	w.installs(at(26), members(1, 2))
	w.installs(at(27), members(1, 2, 4))
	w.installs(at(30), members(1, 2, 4)) // its ranks have changed
	if len(settled) != 2 || settled[0] != 6 || settled[1] != 6 {
		t.Errorf("settled in %v", settled)
	}
	if w.views != 4 || w.evicted != 1 || w.admitted != 1 || len(w.signs) != 0 {
		t.Errorf("%+v", w)
	}
}

// Rates are those of the commits that count, and of the job's progress; both forget.
func TestRates(t *testing.T) {
	w := newWatch(func(float64) {})
	w.installs(0, members(1, 2))
	part := func(n int64) coord.Part { return coord.Part{Span: nd.Span{Start: 0, Stop: n}} }
	total := 1e6 // done before
	now := time.Duration(0)
	for range 60 {
		now += time.Second
		w.decides(now, &coord.Outcome{Author: coord.ID{1}, Parts: []coord.Part{part(100), part(1000)}, Verdicts: []coord.Verdict{coord.Effective, coord.VoidLane}})
		w.decides(now, &coord.Outcome{Author: coord.ID{1}, Parts: []coord.Part{part(100)}, Verdicts: []coord.Verdict{coord.Effective}, Again: true})
		w.sample(now, total)
		total += 100
	}
	rate, ok := w.rank(now, place{coord.ID{1}, 0}).rate(now)
	if !ok || math.Abs(rate-100) > 1 {
		t.Errorf("the rank: %v, %v", rate, ok)
	}
	if rate, ok := w.job.rate(now); !ok || math.Abs(rate-100) > 2 {
		t.Errorf("the job: %v, %v", rate, ok)
	}
	if w.effective != 60 || w.void != 60 || len(w.history) != 60 {
		t.Errorf("%d effective, %d void, %d samples", w.effective, w.void, len(w.history))
	}
	for range 60 {
		now += time.Second
		w.sample(now, total)
	}
	if rate, _ := w.job.rate(now); rate > .1 {
		t.Errorf("after a minute of nothing: %v", rate)
	}
	for range 2 * keptSamples {
		now += time.Second
		w.sample(now, total)
		w.remembers(Event{})
	}
	if rate, _ := w.job.rate(now); rate != 0 {
		t.Errorf("after minutes of nothing: %v", rate)
	}
	if len(w.history) != keptSamples || len(w.events) != keptEvents {
		t.Errorf("%d samples, %d events are kept", len(w.history), len(w.events))
	}
	w.installs(now, members(2))
	if len(w.ranks) != 0 {
		t.Errorf("ranks that are gone are kept: %v", w.ranks)
	}
}

// Positions of a lockstep epoch: whole steps, and never more than there are.
func TestPositions(t *testing.T) {
	for _, c := range []struct{ n, steps, done, want int64 }{
		{100, 10, 0, 0}, {100, 10, 3, 30}, {95, 10, 9, 90}, {95, 10, 10, 95}, {95, 10, 99, 95}, {95, 10, -5, 0}, {0, 0, 3, 0}, {1 << 62, 1 << 31, 1 << 30, 1 << 61},
	} {
		if got := positions(coord.Job{N: c.n, Steps: c.steps}, c.done); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// A rank that stands still is named, with its node where that is known: no view and no sign of gossip
// tells of it.
func TestStalledRankIsNamed(t *testing.T) {
	view := &coord.View{Number: 3, Members: []coord.Member{{ID: coord.ID{7: 1}, Name: "a", Ranks: []int{0}}, {ID: coord.ID{7: 2}, Name: "b", Ranks: []int{0, 1}}}}
	view.Seal()
	var said []Event
	a := &Agent{}
	a.config.Listener.Event = func(e Event) { said = append(said, e) }
	moved := func(r coord.Rebalance, n int64) {
		a.note(group.Event{Kind: group.Applied, Entry: &r, Effect: &coord.Rebalanced{From: r.From, To: r.To, Moved: n}})
	}
	moved(coord.Rebalance{View: 3, From: 2, All: true}, 5)
	a.watch.view = view
	moved(coord.Rebalance{View: 3, From: 2}, 9) // the tail of a lane is no news
	moved(coord.Rebalance{View: 3, From: 2, All: true}, 1)
	moved(coord.Rebalance{View: 2, From: 2, All: true}, 5) // of other ranks
	want := []string{
		"rank 2 commits nothing: rank 0, which has nothing left, gets its last 5 positions",
		"rank 2 on b commits nothing: rank 0, which has nothing left, gets its last 1 position",
		"rank 2 commits nothing: rank 0, which has nothing left, gets its last 5 positions",
	}
	for i, e := range said {
		if e.Kind != Stalled || i >= len(want) || e.Text != want[i] {
			t.Errorf("%s: %s", e.Kind, e.Text)
		}
	}
	if len(said) != len(want) {
		t.Errorf("%d events, want %d", len(said), len(want))
	}
}
