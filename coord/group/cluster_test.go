package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/headrace/headrace/coord"
)

// cluster is some nodes and the network between them, in one thread.
type cluster struct {
	t     testing.TB
	r     *rand.Rand
	now   time.Duration
	job   coord.Job
	nodes []*machine
	queue []delivery
	loss  float64
	cut   func(from, to int) bool
}

// machine is a node on its host: it can be dead.
type machine struct {
	*Node
	place  int
	dead   bool
	died   time.Duration
	events []Event
}

type delivery struct {
	at       time.Duration
	from, to int
	data     []byte
}

func (m *machine) status() any {
	if m.voter == nil {
		return nil
	}
	return fmt.Sprint(m.voter.node.BasicStatus(), m.voter.config, m.now-m.voter.heard)
}

func address(i int) string { return fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255) }

func identity(i int) coord.ID {
	return coord.ID{0: byte(i >> 8), 1: byte(i), 7: 1, 8: byte(i >> 8), 15: byte(i)}
}

func newCluster(t testing.TB, job coord.Job, nodes, ranks int, seed uint64) *cluster {
	c := &cluster{t: t, r: rand.New(rand.NewPCG(seed, 7)), job: job}
	var members []coord.Member
	for i := range nodes {
		members = append(members, c.member(i, ranks))
	}
	for i := range nodes {
		c.add(i, ranks, members)
	}
	return c
}

func (c *cluster) member(i, ranks int) coord.Member {
	var locals []int
	for k := range ranks {
		locals = append(locals, k)
	}
	return coord.Member{ID: identity(i + 1), Name: fmt.Sprint(i), Rack: fmt.Sprint(i / 8), Address: address(i), Ranks: locals}
}

// add starts a node: the first one forms the job of members, the others come to it.
func (c *cluster) add(i, ranks int, members []coord.Member) *machine {
	if i == 0 {
		return c.start(i, ranks, members)
	}
	return c.start(i, ranks, nil, address(0), address(1))
}

func (c *cluster) start(i, ranks int, form []coord.Member, contacts ...string) *machine {
	cfg := Default()
	cfg.Job = c.job
	cfg.Self = coord.Admission{Member: c.member(i, ranks), Version: coord.Version, Job: c.job.Name, Plan: c.job.Plan}
	cfg.Form, cfg.Contacts = form, contacts
	n, err := New(cfg, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	m := &machine{Node: n, place: i}
	c.nodes = append(c.nodes, m)
	return m
}

func (c *cluster) kill(i int) { c.nodes[i].dead, c.nodes[i].died = true, c.now }

// step passes 10 ms: messages arrive, then each node ticks if it is its turn.
func (c *cluster) step() {
	c.now += 10 * time.Millisecond
	due := c.queue
	c.queue = nil
	for _, d := range due {
		switch {
		case d.at > c.now:
			c.queue = append(c.queue, d)
		case !c.nodes[d.to].dead:
			c.nodes[d.to].Receive(c.now, d.data)
			c.collect(c.nodes[d.to])
		}
	}
	for _, n := range c.nodes {
		if !n.dead && (c.now/(10*time.Millisecond)+time.Duration(n.place))%10 == 0 {
			c.gossip(n)
			n.Tick(c.now)
			c.collect(n)
		}
	}
}

// gossip finds the dead within two seconds.
func (c *cluster) gossip(n *machine) {
	for _, o := range c.nodes {
		if o.dead && c.now-o.died > 2*time.Second {
			n.Observe(c.now, coord.Source{ID: identity(o.place + 1)}, Dead)
		}
	}
}

func (c *cluster) collect(n *machine) {
	for _, s := range n.Outbox() {
		to := slices.IndexFunc(c.nodes, func(o *machine) bool { return address(o.place) == s.To.Address })
		if to < 0 || c.r.Float64() < c.loss || c.cut != nil && c.cut(n.place, to) {
			continue
		}
		c.queue = append(c.queue, delivery{c.now + time.Duration(1+c.r.IntN(5))*time.Millisecond, n.place, to, s.Message})
	}
	n.events = append(n.events, n.Events()...)
}

// until steps until something holds, at most so long.
func (c *cluster) until(what string, most time.Duration, holds func() bool) time.Duration {
	c.t.Helper()
	begin := c.now
	for !holds() {
		if c.now-begin > most {
			for _, n := range c.nodes {
				s := n.State()
				if v := s.View; v != nil {
					c.t.Logf("node %d dead=%v view %d of %d leads=%v votes=%v leader %.6s ending %q at %v horizon %d raft %v", n.place, n.dead, v.Number, len(v.Members), s.Leads, s.Votes, s.Leader, s.Ending, s.Known, s.Horizon, n.status())
				}
			}
			c.t.Fatalf("%s: not after %v", what, most)
		}
		c.step()
	}
	return c.now - begin
}

// agree reports whether all nodes that live know a view with so many members.
func (c *cluster) agree(members int) func() bool {
	return func() bool {
		for _, n := range c.nodes {
			if v := n.State().View; !n.dead && (v == nil || len(v.Members) != members) {
				return false
			}
		}
		return true
	}
}

// voters is how many decide, and are in no change of the voters.
func (c *cluster) voters() (n int) {
	for _, m := range c.nodes {
		if !m.dead && m.voter != nil && len(m.voter.config.GetVotersOutgoing()) == 0 && m.voter.has(m.cfg.Self.ID.Raft()) {
			n++
		}
	}
	return n
}

func lockstep() coord.Job {
	return coord.Job{Name: "j", Plan: "p", N: 1 << 20, Steps: 1000, Epochs: 3, Voters: 7, Lease: 8}
}

// A job forms, its voters take over from the first one, and it outlives any of them,
// the leader first.
func TestLossOfLeaders(t *testing.T) {
	c := newCluster(t, lockstep(), 12, 8, 1)
	c.until("formed", 5*time.Second, c.agree(12))
	c.until("seven voters", 5*time.Second, func() bool { return c.voters() == 7 })
	for left := 11; left > 4; left-- {
		leader := slices.IndexFunc(c.nodes, func(n *machine) bool { return !n.dead && n.State().Leads })
		if leader < 0 {
			t.Fatal("nobody leads")
		}
		c.kill(leader)
		took := c.until("the view without the leader", 12*time.Second, c.agree(left))
		t.Logf("%d members after %v", left, took)
		c.until("voters are replaced", 5*time.Second, func() bool { return c.voters() == min(7, left-1+left%2) })
	}
}

// A node that comes is admitted; one that means another job hears why not.
func TestJoin(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 2)
	c.until("formed", 5*time.Second, c.agree(3))
	c.add(3, 2, nil)
	c.until("admitted", 5*time.Second, c.agree(4))
	c.job.Plan = "q"
	other := c.add(4, 1, nil)
	c.until("refused", 5*time.Second, func() bool { return other.State().Ending != "" })
	t.Log(other.State().Ending)
}

// A minority decides nothing, and when the network is whole again it finds that it was
// evicted.
func TestPartition(t *testing.T) {
	c := newCluster(t, lockstep(), 5, 1, 3)
	c.until("formed", 5*time.Second, c.agree(5))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 5 })
	small := func(i int) bool { return i < 2 } // the leader among them
	c.cut = func(a, b int) bool { return small(a) != small(b) }
	for _, n := range c.nodes {
		for o := range c.nodes {
			if small(n.place) != small(o) {
				n.Observe(c.now, coord.Source{ID: identity(o + 1)}, Dead)
			}
		}
	}
	c.until("the majority goes on", 15*time.Second, func() bool {
		for _, n := range c.nodes[2:] {
			if len(n.State().View.Members) != 3 {
				return false
			}
		}
		return true
	})
	for _, n := range c.nodes[:2] {
		if n.State().View.Number != 0 {
			t.Errorf("node %d of the minority has view %d", n.place, n.State().View.Number)
		}
	}
	c.cut = nil
	c.until("the minority knows", 10*time.Second, func() bool {
		return c.nodes[0].State().Ending != "" && c.nodes[1].State().Ending != ""
	})
}

// Leases follow what the ranks have done, and stop with it.
func TestLeases(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 2, 4)
	c.until("formed", 5*time.Second, c.agree(3))
	c.until("a thousand steps", 60*time.Second, func() bool {
		for _, n := range c.nodes {
			h := n.State().Horizon
			n.Progress(c.now, []Reached{{Done: min(h, 1200), Used: min(h, 1200)}})
		}
		return c.nodes[2].State().Horizon >= 1200
	})
	if e := c.nodes[1].State().Epoch; e != 1 {
		t.Errorf("epoch %d", e)
	}
	for range 500 {
		c.step()
	}
	if h := c.nodes[0].State().Horizon; h > 1200+16 {
		t.Errorf("the lease went on to %d", h)
	}
}

// A leader that leaves hands over: the others are without it as soon as without any other.
func TestLeaderLeaves(t *testing.T) {
	c := newCluster(t, lockstep(), 5, 1, 6)
	c.until("formed", 5*time.Second, c.agree(5))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 5 })
	leader := slices.IndexFunc(c.nodes, func(n *machine) bool { return n.State().Leads })
	begin := c.now
	c.until("the view without the leader", 4*time.Second, func() bool {
		if (c.now-begin)%time.Second == 0 {
			c.nodes[leader].Leave(c.now)
			c.collect(c.nodes[leader])
		}
		return c.nodes[(leader+1)%5].State().View.Index(identity(leader+1)) < 0
	})
}

// A voter that was taken out keeps its promises: it is the same one when it is asked again,
// or comes back.
func TestVoterKeepsItsPromises(t *testing.T) {
	c := newCluster(t, lockstep(), 4, 1, 7) // three of them vote
	c.until("formed", 5*time.Second, c.agree(4))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	c.add(4, 1, nil)
	n := c.nodes[0]
	for _, m := range c.nodes {
		if m.voter != nil && !m.voter.leads {
			n = m
		}
	}
	term, last := n.voter.node.BasicStatus().GetTerm(), n.voter.applied
	v := n.voter
	n.voter.config = &raftpb.ConfState{Voters: []uint64{1}}
	n.view = &coord.View{Number: n.view.Number, Members: n.view.Members, Voters: []coord.ID{identity(99)}}
	n.leave()
	if n.voter != nil || n.past != v {
		t.Fatal("it votes on")
	}
	n.vote()
	if got := n.voter; got != v || got.applied != last || got.node.BasicStatus().GetTerm() != term {
		t.Errorf("another voter: %+v", got)
	}
}

// A voter passes a report on that its author has sent, and no other: two voters that hold
// each other for the leader must not send it to and fro.
func TestReportIsPassedOnOnce(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 8)
	c.until("formed", 5*time.Second, c.agree(3))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	at := slices.IndexFunc(c.nodes, func(n *machine) bool { return n.voter != nil && !n.voter.leads })
	n, author := c.nodes[at], identity(3)
	if at == 2 {
		author = identity(2)
	}
	for from, want := range map[coord.ID]int{author: 1, identity(1): 0} {
		n.takeReport(from, &coord.Report{Author: author})
		if got := len(n.Outbox()); got != want {
			t.Errorf("of %v from %v: %d messages, want %d", author, from, got, want)
		}
	}
}

// A member that gossip holds for dead and that still reports has thrice the grace: it may
// be back before gossip says so. When it falls silent it is evicted.
func TestGraceOfWhoReports(t *testing.T) {
	c := newCluster(t, lockstep(), 5, 1, 9)
	c.until("formed", 5*time.Second, c.agree(5))
	leader := slices.IndexFunc(c.nodes, func(n *machine) bool { return n.State().Leads })
	doubted := (leader + 1) % 5
	c.nodes[leader].Observe(c.now, coord.Source{ID: identity(doubted + 1)}, Dead)
	for begin := c.now; c.now-begin < 12*time.Second; {
		c.step()
	}
	if !c.agree(5)() {
		t.Fatal("it is evicted though it reports")
	}
	c.kill(doubted)
	c.until("evicted", 6*time.Second, c.agree(4))
}
