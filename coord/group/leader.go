package group

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// leader is what the voter that leads knows and has under way. The others have it
// empty: a new leader learns all of it within a beat or two.
type leader struct {
	joins   map[coord.ID]*coord.Join // looked up, and walked by order
	order   []coord.ID               // of joins, as they came
	gone    map[coord.ID]string
	reports map[coord.ID]*coord.Report

	wanted  wish // the change that is due
	first   time.Duration
	latest  time.Duration
	waiting bool

	tried map[string]time.Duration // proposals under way, by what they are for
}

// wish is a change that is due, as far as it is compared.
type wish struct{ evict, admit, ranks int }

func (l *leader) reset() {
	*l = leader{joins: map[coord.ID]*coord.Join{}, gone: map[coord.ID]string{}, reports: map[coord.ID]*coord.Report{}, tried: map[string]time.Duration{}}
}

// maxJoins bounds who waits to be admitted: a storm of joiners comes in by parts.
const maxJoins = 4096

// again is how long a proposal may be under way before it is made again, in beats.
const again = 5

// may reports whether a proposal may be made now, and notes it.
func (l *leader) may(n *Node, what string) bool {
	if at, under := l.tried[what]; under && n.now-at < again*n.cfg.Beat {
		return false
	}
	l.tried[what] = n.now
	return true
}

// decide proposes what is due.
func (l *leader) decide(n *Node) {
	m := &n.voter.machine
	if !m.Formed() {
		if l.may(n, "form") {
			n.propose(&coord.Form{Job: n.cfg.Job, Members: n.cfg.Form, Start: n.cfg.Start})
		}
		return
	}
	l.change(n, m)
	l.vote(n, m)
	if m.Complete() && l.may(n, "close") {
		n.propose(&coord.Close{Epoch: m.Epoch()})
	}
	if m.Job().Mode == coord.Async {
		l.rebalance(n, m)
	} else {
		l.extend(n, m)
	}
}

// change proposes the next view once no more changes come.
func (l *leader) change(n *Node, m *coord.Machine) {
	c := l.due(n, m)
	w := wish{len(c.Evict), len(c.Admit), len(c.Ranks)}
	if w == (wish{}) {
		l.waiting = false
		return
	}
	if !l.waiting {
		l.waiting, l.first = true, n.now
	}
	if w != l.wanted {
		l.wanted, l.latest = w, n.now
	}
	if n.now-l.latest < n.cfg.Quiet && n.now-l.first < n.cfg.Patience {
		return
	}
	if l.may(n, "change") {
		n.propose(c)
	}
}

// due is what the next view would change.
func (l *leader) due(n *Node, m *coord.Machine) *coord.Change {
	v := m.View()
	c := &coord.Change{View: v.Number}
	for i := range v.Members {
		id := v.Members[i].ID
		if why, gone := n.lost(id); gone && id != n.cfg.Self.ID {
			c.Evict = append(c.Evict, id)
			c.Reason = why
			continue
		}
		if r := l.reports[id]; r != nil && !slices.Equal(r.Ranks, v.Members[i].Ranks) {
			c.Ranks = append(c.Ranks, coord.Ranks{ID: id, Ranks: r.Ranks})
		}
	}
	for _, id := range l.order {
		if v.Index(id) < 0 {
			c.Admit = append(c.Admit, l.joins[id].Admission)
		}
	}
	return c
}

// lost says why a member is to be evicted.
func (n *Node) lost(id coord.ID) (why string, gone bool) {
	if why, gone := n.lead.gone[id]; gone {
		return why, true
	}
	if o := n.gossip[id]; o.State == Dead && n.now-o.since >= n.cfg.Grace {
		return "gossip lost it", true
	}
	return "", false
}

// installed forgets what a new view has settled.
func (l *leader) installed(e *coord.Installed) {
	l.order = slices.DeleteFunc(l.order, func(id coord.ID) bool {
		in := e.View.Index(id) >= 0
		if in {
			delete(l.joins, id)
		}
		return in
	})
	for _, id := range e.Evicted {
		delete(l.gone, id)
		delete(l.reports, id)
	}
	clear(l.tried)
	l.waiting = false
}

// refuse tells a joiner.
func (l *leader) refuse(n *Node, e *coord.Refused) {
	j := l.joins[e.ID]
	if j == nil {
		return
	}
	delete(l.joins, e.ID)
	l.order = slices.DeleteFunc(l.order, func(id coord.ID) bool { return id == e.ID })
	b := n.voter.machine.Brief(e.ID, coord.Stamp{})
	b.Refused = e.Reason
	n.send(coord.Source{ID: j.ID, Address: j.Address}, b)
}

// vote replaces the voters of the group by those of the view, in one joint change.
func (l *leader) vote(n *Node, m *coord.Machine) {
	have := n.voter.config
	if len(have.GetVotersOutgoing()) > 0 {
		return // the last change is not done
	}
	var want []uint64
	for _, id := range m.View().Voters {
		want = append(want, id.Raft())
	}
	var changes []*raftpb.ConfChangeSingle
	add := func(kind raftpb.ConfChangeType, id uint64) {
		changes = append(changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: proto.Uint64(id)})
	}
	for _, id := range want {
		if !slices.Contains(have.GetVoters(), id) {
			add(raftpb.ConfChangeType_ConfChangeAddNode, id)
		}
	}
	for _, id := range have.GetVoters() {
		if !slices.Contains(want, id) {
			add(raftpb.ConfChangeType_ConfChangeRemoveNode, id)
		}
	}
	if len(changes) > 0 && l.may(n, "voters") {
		_ = n.voter.node.ProposeConfChange(&raftpb.ConfChangeV2{Changes: changes}) // made again if it is lost
	}
}

// rebalance gives idle ranks the tails of the slowest lanes.
func (l *leader) rebalance(n *Node, m *coord.Machine) {
	if m.Over() || !l.may(n, "rebalance") {
		return
	}
	var idle, busy []int
	for rank := range m.Lanes() {
		switch left := m.Left(rank); {
		case left == 0:
			idle = append(idle, rank)
		case left >= m.Job().Reserve+2:
			busy = append(busy, rank)
		}
	}
	slices.SortStableFunc(busy, func(a, b int) int { return int(m.Left(b) - m.Left(a)) })
	for i := range min(len(idle), len(busy)) {
		n.propose(&coord.Rebalance{View: m.View().Number, From: busy[i], To: idle[i]})
	}
}

// extend leases further steps once half of a lease is used. Nothing is leased while a
// member does not answer, or has lost a rank that the view still has.
func (l *leader) extend(n *Node, m *coord.Machine) {
	v, lease := m.View(), m.Job().Lease
	done := int64(-1)
	for i := range v.Members {
		if len(v.Members[i].Ranks) == 0 {
			continue
		}
		r := l.reports[v.Members[i].ID]
		if r == nil || n.gossip[v.Members[i].ID].State >= Suspect || !slices.Equal(r.Ranks, v.Members[i].Ranks) {
			return
		}
		if done < 0 || r.Done < done {
			done = r.Done
		}
	}
	now := m.Progress().Step
	end := done == (m.Epoch()+1)*m.Job().Steps // the epoch is done
	if done < 0 || done <= now || done-now < (lease+1)/2 && !end || !l.may(n, "extend") {
		return
	}
	n.propose(&coord.Extend{View: v.Number, Horizon: done + 2*lease, Done: done})
}

func (n *Node) takeJoin(j *coord.Join) {
	switch {
	case n.voter != nil && n.voter.leads:
		n.lead.join(n, j)
	case j.Hops < 3:
		j.Hops++
		n.send(n.toLeader(), j)
	}
}

func (l *leader) join(n *Node, j *coord.Join) {
	if n.voter.machine.Formed() && n.voter.machine.View().Index(j.ID) >= 0 {
		n.sendBrief(&follower{Source: coord.Source{ID: j.ID, Address: j.Address}}, "")
		return
	}
	if l.joins[j.ID] == nil {
		if len(l.joins) >= maxJoins {
			return // it asks again
		}
		l.order = append(l.order, j.ID)
	}
	l.joins[j.ID] = j
}

func (n *Node) takeReport(r *coord.Report) {
	switch {
	case n.voter == nil:
	case n.voter.leads:
		if n.voter.machine.Formed() && n.voter.machine.View().Index(r.Author) >= 0 {
			n.lead.reports[r.Author] = r
		}
	case r.Author != n.cfg.Self.ID || n.voter.leader != 0:
		n.send(n.toLeader(), r)
	}
}

func (n *Node) takeGone(g *coord.Gone) {
	if n.voter == nil {
		return
	}
	if n.voter.leads {
		if n.voter.machine.Formed() && n.voter.machine.View().Index(g.ID) >= 0 {
			n.lead.gone[g.ID] = g.Reason
		}
		return
	}
	n.send(n.toLeader(), g)
}

// takeAsk puts an agent's entry into the log. Followers of the group pass proposals on
// to the leader by themselves.
func (n *Node) takeAsk(from coord.ID, e coord.Entry) {
	switch e := e.(type) {
	case *coord.Commit:
		if e.Author == from {
			n.propose(e)
		}
	case *coord.Redo:
		n.propose(e)
	}
}

// toLeader is where the leader is, as far as this agent knows.
func (n *Node) toLeader() coord.Source {
	if n.voter != nil {
		m := n.peers[n.voter.leader]
		return coord.Source{ID: m.ID, Address: m.Address}
	}
	if n.known.Leader != (coord.ID{}) {
		return n.where(n.known.Leader)
	}
	return n.where(n.following.voter)
}
