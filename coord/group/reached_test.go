package group

import (
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// A rank that comes in the place of a lost one while the others have not said yet that they have begun
// the redo is let in: what they say counts without it. Once it is in the view they must wait for it.
func TestRankComesBehindARedo(t *testing.T) {
	c := newCluster(t, lockstep(), 2, 3, 16)
	c.until("formed", 5*time.Second, c.agree(2))
	n := c.nodes[1]
	n.Ranks(c.now, []int{0, 2})
	c.until("the halt", 5*time.Second, func() bool { return n.State().Halted && n.State().View.World() == 5 })
	s := n.State()
	n.Redo(c.now, coord.Redo{View: s.View.Number, Redos: s.Redos, Step: 7, By: 1})
	c.until("the redo", 5*time.Second, func() bool { return c.nodes[0].State().By == 1 && n.State().By == 1 })
	n.Ranks(c.now, []int{0, 1, 2})

	s = n.State()
	old := s.View.Number
	have := Reached{View: old, Redos: s.Redos, Done: 9, Used: 10}
	rank := func(local int, r Reached) Reached { r.Local = local; return r }
	c.nodes[0].Progress(c.now, []Reached{rank(0, have), rank(1, have), rank(2, have)})
	n.Progress(c.now, []Reached{rank(0, have), {Local: 1}, rank(2, have)})
	c.until("a view with the rank that comes", 5*time.Second, func() bool { return n.State().View.World() == 6 })
	now := have
	now.View, now.Done = n.State().View.Number, 20
	n.Progress(c.now, []Reached{rank(0, now), {Local: 1}, rank(2, now)})
	if step, redos := n.Reached(); step != 9 || redos != have.Redos {
		t.Errorf("step %d after %d redos is told, and a rank of the view has not entered it", step, redos)
	}
	if r, ok := n.together([]Reached{rank(0, now), rank(1, have), rank(2, now)}); !ok || r.View != old || r.Done != 9 || r.Used != 10 {
		t.Errorf("together they are at %+v, %v", r, ok)
	}
}

// An agent whose ranks are in no view, or which has none there, tells nothing of them.
func TestNothingIsReachedOutsideTheView(t *testing.T) {
	c := newCluster(t, lockstep(), 2, 1, 17)
	c.until("formed", 5*time.Second, c.agree(2))
	at := []Reached{{Local: 1, View: 9, Redos: 9, Done: 9, Used: 9}}
	if r, ok := c.nodes[1].together(at); ok {
		t.Errorf("a local rank that the view does not have: %+v", r)
	}
	if r, ok := c.add(5, 1, nil).together(at); ok {
		t.Errorf("an agent that is in no view: %+v", r)
	}
}
