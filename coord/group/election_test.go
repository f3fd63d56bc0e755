package group

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// While the voters change, the old ones stand as well, behind the new ones: only one of them may
// have what is decided.
func TestOldVotersStand(t *testing.T) {
	v := &voter{config: &raftpb.ConfState{Voters: []uint64{9, 3}, VotersOutgoing: []uint64{5, 3, 1}}}
	if got, want := v.stands(), []uint64{3, 9, 1, 5}; !slices.Equal(got, want) {
		t.Errorf("%v stand, want %v", got, want)
	}
}

// leadBy has a node lead.
func (c *cluster) leadBy(i int) {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.voter.leads {
			n.voter.transfer(n.cfg.Self.ID.Raft(), identity(i+1).Raft())
			n.ready()
			c.collect(n)
		}
	}
	c.until("it leads", time.Second, func() bool { return c.nodes[i].voter.leads })
}

// A leader that is none of the new voters hands over before the change of them is done: the one that
// is left leads without an election, and who was lost right after that was not needed.
func TestWhoStaysEndsAChangeOfVoters(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 12)
	c.until("formed", 5*time.Second, c.agree(3))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	c.leadBy(1)
	c.kill(2)
	c.until("the voters change", 15*time.Second, func() bool { return len(c.nodes[1].voter.config.GetVotersOutgoing()) > 0 })
	c.until("the one that is left leads", time.Second/2, func() bool { return c.nodes[0].voter.leads })
	c.until("the change is done", time.Second/2, func() bool { return len(c.nodes[0].voter.config.GetVotersOutgoing()) == 0 })
	c.kill(1) // its last word would have come now
	c.until("it goes on alone", 15*time.Second, c.agree(1))
}

// The leader is lost as it ends a change of the voters: one of the two that are left knows that they
// decide alone, and the other one has the longer log. It refuses its voice to the first, and would wait
// for those of the dead if it was not told.
func TestLastWordOfALeaderIsLost(t *testing.T) {
	c := newCluster(t, lockstep(), 5, 1, 12)
	c.until("formed", 5*time.Second, c.agree(5))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 5 })
	first, knows, longer := c.nodes[0], c.nodes[1], c.nodes[2]
	if !first.voter.leads {
		t.Fatal("another one leads")
	}
	c.kill(3)
	c.kill(4)
	c.until("the voters change", 15*time.Second, func() bool { return len(first.voter.config.GetVotersOutgoing()) > 0 })
	first.Tick(c.now) // the end of the change is under way
	c.collect(first)
	last, _ := first.Replica()
	c.cut = func(from, to int) bool { return from == 0 && to != longer.place }
	if !first.propose(&coord.Redo{View: 99}) {
		t.Fatal("not proposed")
	}
	first.ready()
	c.collect(first)
	c.cut = func(from, _ int) bool { return from == 0 }
	c.until("the change is done", time.Second, func() bool { return len(first.voter.config.GetVotersOutgoing()) == 0 })
	c.kill(0)
	beat := &raftpb.Message{Type: raftpb.MessageType_MsgHeartbeat.Enum(), Term: new(first.voter.node.BasicStatus().GetTerm()), Commit: &last.Last}
	knows.Receive(c.now, raftFrom(t, first, knows, beat))
	a, _ := knows.Replica()
	b, _ := longer.Replica()
	if len(a.Outgoing) > 0 || len(b.Outgoing) == 0 || a.Last >= b.Last {
		t.Fatalf("the first has %+v, the other %+v", a, b)
	}
	c.cut = nil
	c.until("one of them leads", 8*time.Second, func() bool { return knows.voter.leads || longer.voter.leads })
	c.until("they go on", 15*time.Second, c.agree(2))
}

// raftFrom is a message of the group from one node to another.
func raftFrom(t *testing.T, from, to *machine, m *raftpb.Message) []byte {
	t.Helper()
	m.From, m.To = new(from.cfg.Self.ID.Raft()), new(to.cfg.Self.ID.Raft())
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return coord.AppendMessage(nil, &coord.Message{From: from.source(), Body: &coord.Raft{Data: data}})
}

// Nobody is told of what he knows, or of what he cannot have; and no voter that has heard of a leader
// of late says anything, for it would take the candidate out of its election.
func TestWhoIsToldWhatIsDecided(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 13)
	c.until("formed", 5*time.Second, c.agree(3))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	n := c.nodes[slices.IndexFunc(c.nodes, func(n *machine) bool { return !n.voter.leads })]
	to := identity((n.place+1)%3 + 1).Raft()
	decided := n.voter.node.BasicStatus().GetCommit()
	for _, x := range []struct {
		what          string
		silent        time.Duration
		knows, has    uint64
		request, told bool
	}{
		{"who stands and does not know", 3 * time.Second, decided - 1, decided, true, true},
		{"who refuses a voice and does not know", 3 * time.Second, decided - 1, decided + 1, false, true},
		{"who refuses a voice and lacks it", 3 * time.Second, decided - 1, decided - 1, false, false},
		{"who knows", 3 * time.Second, decided, decided, true, false},
		{"who lacks it", 3 * time.Second, decided - 1, decided - 1, true, false},
		{"who stands as soon as the leader is gone", time.Second, decided - 1, decided, true, false},
	} {
		n.now = n.voter.led + x.silent
		m := &raftpb.Message{Type: raftpb.MessageType_MsgPreVoteResp.Enum(), From: &to, Term: new(uint64(9)), Commit: &x.knows, Index: &x.has}
		if x.request {
			m.Type = raftpb.MessageType_MsgPreVote.Enum()
		}
		n.tellDecided(m)
		if got := len(n.Outbox()); got > 1 || got == 1 != x.told {
			t.Errorf("%s is told %d times", x.what, got)
		}
	}
}

// A voter that was taken out while it heard nobody, and is asked for its voice by another such one,
// gives it and is none again: that is no word of a leader, and it does not stand itself. Else the two
// would ask each other for ever.
func TestVoiceOfWhoWasTakenOut(t *testing.T) {
	c := newCluster(t, lockstep(), 4, 1, 14) // three of them vote
	c.until("formed", 5*time.Second, c.agree(4))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	n := c.nodes[slices.IndexFunc(c.nodes, func(n *machine) bool { return n.voter != nil && !n.voter.leads })]
	n.view = &coord.View{Number: n.view.Number, Members: n.view.Members, Voters: []coord.ID{identity(99)}}
	n.known.Known.Index = n.voter.applied + 1
	n.now = n.voter.led + 3*time.Second
	n.leave()
	if n.voter != nil {
		t.Fatal("it votes on")
	}
	from := c.nodes[(n.place+1)%3]
	heard, at := n.following.heard, n.past.node.BasicStatus()
	n.Receive(n.now, raftFrom(t, from, n, &raftpb.Message{
		Type: raftpb.MessageType_MsgPreVote.Enum(), Term: new(at.GetTerm() + 1), LogTerm: new(at.GetTerm()), Index: new(uint64(1 << 20)), Commit: new(at.GetCommit()),
	}))
	if got := len(n.Outbox()); got != 1 {
		t.Errorf("it says %d things, want its voice", got)
	}
	if n.voter != nil || n.following.heard != heard || !n.Deaf() {
		t.Errorf("it votes: %v; it has heard of a leader %v later", n.voter != nil, n.following.heard-heard)
	}
}
