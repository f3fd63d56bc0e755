package group

import (
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// twoJobs are two jobs of one name in one network: of nodes 0 to 2 and of nodes 3 to 5. The
// second one is some views further, and gossip carries the stamps of both to all.
func twoJobs(t *testing.T) *cluster {
	c := newCluster(t, lockstep(), 3, 1, 11)
	var members []coord.Member
	for i := 3; i < 7; i++ {
		members = append(members, c.member(i, 1))
	}
	c.start(3, 1, members)
	for i := 4; i < 7; i++ {
		c.start(i, 1, nil, address(3))
	}
	c.until("formed", 5*time.Second, func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *machine) bool { return n.State().View == nil })
	})
	c.kill(6)
	c.until("the second job has a later view", 10*time.Second, func() bool { return c.nodes[3].State().View.Number > 0 })
	return c
}

// hearAll is gossip that carries every stamp to everyone.
func (c *cluster) hearAll() {
	for _, n := range c.nodes {
		for _, o := range c.nodes {
			if !n.dead && !o.dead && n != o {
				n.Hear(c.now, o.Stamp())
			}
		}
	}
}

// What another job of the same name says has no effect: both get on, and its stamps and messages
// are counted. Before stamps had a founder, the later views of the one had all agents of the other
// take their own for old: they asked for newer ones all the time and proposed nothing.
func TestTwoJobsOfOneName(t *testing.T) {
	c := twoJobs(t)
	c.nodes[3].Redo(c.now, coord.Redo{View: c.nodes[3].State().View.Number, Redos: c.nodes[3].State().Redos})
	for _, n := range c.nodes {
		n.events = nil
	}
	c.until("a hundred steps of both", 60*time.Second, func() bool {
		c.hearAll()
		for _, n := range c.nodes[:6] {
			s := n.State()
			n.Progress(c.now, []Reached{{View: s.View.Number, Redos: s.Redos, Done: min(s.Horizon, 100), Used: min(s.Horizon, 100)}})
		}
		return c.nodes[1].State().Step >= 100 && c.nodes[4].State().Step >= 100
	})
	for i, n := range c.nodes[:6] {
		if got, want := n.Seen().Founder, identity(1+i/3*3).Raft(); got != want {
			t.Errorf("node %d holds %x for its founder, not %x", i, got, want)
		}
		if foreign := slices.ContainsFunc(n.events, func(e Event) bool { return e.Kind == Foreign }); !foreign {
			t.Errorf("node %d has counted nothing of the other job", i)
		}
		if members := len(n.State().View.Members); members != 3 {
			t.Errorf("node %d is in a view of %d", i, members)
		}
		if n.voter == nil || !n.informed() {
			t.Errorf("node %d votes and asks others", i)
		}
	}
}

// No message of another job is taken, whatever it says; nor is a brief of one that an agent
// without a job would send on.
func TestMessagesOfAnotherJob(t *testing.T) {
	c := twoJobs(t)
	from, to := c.nodes[3], c.nodes[0]
	before := to.State()
	for _, b := range []coord.Body{
		&coord.Brief{Known: from.Stamp(), View: from.view},
		&coord.Brief{Known: from.Stamp(), View: from.view, Hint: true},
		&coord.Brief{Known: from.Stamp(), Refused: "no"},
		&coord.Gone{ID: identity(2)},
		&coord.Follow{},
		&coord.Join{Admission: coord.Admission{Member: c.member(9, 1), Version: coord.Version, Job: c.job.Name, Plan: c.job.Plan}},
	} {
		to.events = nil
		for _, stamp := range []coord.Stamp{from.Stamp(), {}} {
			if _, brief := b.(*coord.Brief); !brief && stamp == (coord.Stamp{}) {
				continue // of an agent that has no job yet, as any may be
			}
			to.Receive(c.now, coord.AppendMessage(nil, &coord.Message{From: from.source(), Stamp: stamp, Body: b}))
			list := to.Events()
			if len(list) != 1 || list[0].Kind != Foreign || len(to.Outbox()) > 0 {
				t.Errorf("%T: %+v", b, list)
			}
		}
	}
	for range 300 {
		c.step()
	}
	if s := to.State(); s.Ending != "" || s.View != before.View {
		t.Errorf("%+v", s)
	}
}

// An agent that asks to be in a job that ends before it was admitted, and of which it knows the
// view, asks its contacts again and comes into the next job there.
func TestNextJobOfThatName(t *testing.T) {
	for _, hint := range []bool{false, true} {
		c := newCluster(t, lockstep(), 3, 1, 13)
		late := c.start(3, 1, nil, address(4))
		c.until("formed", 5*time.Second, func() bool { return c.nodes[2].State().View != nil })
		old := c.nodes[0]
		b := &coord.Brief{Known: old.Stamp(), View: old.view, Leader: identity(1), Hint: hint}
		late.Receive(c.now, coord.AppendMessage(nil, &coord.Message{From: old.source(), Stamp: old.Stamp(), Body: b}))
		for i := range 3 {
			c.kill(i)
		}
		for range 500 {
			c.step()
		}
		if late.view == nil && late.hint == nil || late.Stamp() != (coord.Stamp{}) {
			t.Fatal("it has not heard of the first job")
		}
		c.start(4, 1, []coord.Member{c.member(4, 1)})
		c.until("it is in the next one", 20*time.Second, func() bool {
			v := late.State().View
			return v != nil && v.Index(identity(4)) >= 0 && v.Index(identity(5)) >= 0
		})
	}
}

// An agent that has heard of another job, and is admitted to one, follows that.
func TestHeardOfAnotherJobBefore(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 12)
	c.until("formed", 5*time.Second, c.agree(3))
	n := c.add(3, 1, nil)
	n.Hear(c.now, coord.Stamp{Founder: 99, View: 7, Index: 700})
	if n.Seen().Index == 0 {
		t.Error("it has heard of a job")
	}
	c.until("admitted", 5*time.Second, c.agree(4))
	if got := n.Seen(); got.Founder != identity(1).Raft() || got.View != 1 {
		t.Errorf("the newest it has heard of is %v", got)
	}
}
