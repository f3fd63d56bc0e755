package group

import (
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// A local rank whose place another process takes at once was lost all the same: the new
// one is served when a view has been without it.
func TestRankIsReplaced(t *testing.T) {
	c := newCluster(t, coord.Job{Name: "j", Plan: "p", Mode: coord.Async, N: 1000, Epochs: 1, Voters: 3, Ahead: 8}, 3, 2, 10)
	c.until("formed", 5*time.Second, c.agree(3))
	n := c.nodes[1]
	n.Ranks(c.now, []int{0})
	n.Ranks(c.now, []int{0, 1})
	if got := n.State().Ranks; !slices.Equal(got, []int{0}) {
		t.Fatalf("ranks %v are served", got)
	}
	ranks := func(world int) func() bool {
		return func() bool { return n.State().View.World() == world }
	}
	c.until("a view without the rank", 3*time.Second, ranks(5))
	c.until("a view with the new one", 3*time.Second, ranks(6))
	if got := n.State().Ranks; !slices.Equal(got, []int{0, 1}) {
		t.Errorf("ranks %v are served", got)
	}
}

// What was sent to an agent does not reach the one that has come to its address.
func TestMessageForAnother(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 11)
	c.until("formed", 5*time.Second, c.agree(3))
	before := c.nodes[1].State()
	b := &coord.Brief{Known: coord.Stamp{View: 9, Index: 99}, View: &coord.View{Number: 9}}
	m := coord.Message{From: coord.Source{ID: identity(1), Address: address(0)}, To: identity(77), Body: b}
	c.nodes[1].Receive(c.now, coord.AppendMessage(nil, &m))
	if s := c.nodes[1].State(); s.Known != before.Known || s.Ending != "" {
		t.Errorf("it was taken: %+v", s)
	}
	// A hint of a newer view says whom to ask; nothing of it holds yet.
	m.To, b.Hint = identity(2), true
	b.View.Members, b.View.Voters = before.View.Members, before.View.Voters
	c.nodes[1].Receive(c.now, coord.AppendMessage(nil, &m))
	if s := c.nodes[1].State(); s.Known != before.Known || s.View.Number != before.View.Number {
		t.Errorf("the hint was taken for a brief: %+v", s)
	}
}
