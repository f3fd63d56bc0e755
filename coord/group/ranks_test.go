package group

import (
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
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

// What a rank had committed when it ended is decided for that rank alone: in the view that it
// was in, or it is void. The one that takes its place has the same local number.
func TestCommitsOfAReplacedRank(t *testing.T) {
	c := newCluster(t, coord.Job{Name: "j", Plan: "p", Mode: coord.Async, N: 1000, Epochs: 1, Voters: 3, Ahead: 64}, 3, 1, 12)
	c.until("formed", 5*time.Second, c.agree(3))
	n := c.nodes[1]
	n.events = nil
	lane := n.State().Lanes[0][0]
	part := func(from, to int64) []coord.Part {
		x := nd.Span{Start: lane.Start + from, Stop: lane.Start + to}
		return []coord.Part{{Span: x, Digest: digestOf(x)}}
	}
	c.cut = func(from, _ int) bool { return from == 1 }
	n.Commit(c.now, 1, part(0, 4))
	c.until("it is under way, and lost", time.Second, func() bool { return n.commit.under != nil })
	c.cut = nil
	n.commit.sent = time.Hour // it is not sent again for now
	n.Commit(c.now, 1, part(4, 8))
	n.Ranks(c.now, nil)
	n.Ranks(c.now, []int{0})
	c.until("a view without it", 5*time.Second, func() bool { return n.State().View.World() == 2 })
	c.until("a view with the next", 5*time.Second, func() bool { return len(n.State().Ranks) == 1 })
	n.commit.sent = 0
	lane = n.State().Lanes[0][0]
	n.Commit(c.now, 2, part(0, 4))
	c.until("all is decided", 5*time.Second, func() bool { return len(n.Undecided()) == 0 })
	for seat, want := range map[uint64]struct {
		verdict   coord.Verdict
		positions int64
	}{1: {coord.VoidView, 8}, 2: {coord.Effective, 4}} {
		var got int64
		for _, e := range n.events {
			if e.Kind != Decided || e.Seat != seat {
				continue
			}
			got += e.Part.Span.Len()
			if e.Verdict != want.verdict {
				t.Errorf("seat %d: %v is %v", seat, e.Part.Span, e.Verdict)
			}
		}
		if got != want.positions {
			t.Errorf("seat %d: %d positions are decided, want %d", seat, got, want.positions)
		}
	}
}
