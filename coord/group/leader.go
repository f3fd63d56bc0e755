package group

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/headrace/headrace/coord"
)

// leader is what the voter that leads knows and has under way. The others have it
// empty: a new leader learns all of it within a beat or two.
type leader struct {
	joins   map[coord.ID]*coord.Join // looked up, and walked by order
	order   []coord.ID               // of joins, as they came
	gone    map[coord.ID]string
	reports map[coord.ID]*coord.Report
	heard   map[coord.ID]time.Duration // when each has last reported
	unknown map[coord.ID]time.Duration // when this leader has first missed it in gossip

	wanted  wish // the change that is due
	first   time.Duration
	latest  time.Duration
	waiting bool

	tried map[string]time.Duration // proposals under way, by what they are for
	done  time.Duration            // when it was first seen that ranks have left since they are done; 0: none has
	lanes lanes
}

// wish is a change that is due, by how many it evicts and so on: another member in place of one
// is no news, and the quiet time goes on.
type wish struct{ evict, admit, ranks int }

func (l *leader) reset() {
	*l = leader{joins: map[coord.ID]*coord.Join{}, gone: map[coord.ID]string{}, reports: map[coord.ID]*coord.Report{}, heard: map[coord.ID]time.Duration{}, unknown: map[coord.ID]time.Duration{}, tried: map[string]time.Duration{}, lanes: lanes{}}
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

// decide proposes what is due. One that hears of no majority decides nothing, and tells the
// other voters why.
func (l *leader) decide(n *Node) {
	m := &n.voter.machine
	if !n.supported() {
		if l.may(n, "alone") {
			for _, number := range slices.Concat(n.voter.config.GetVoters(), n.voter.config.GetVotersOutgoing()) {
				if to, known := n.peer(number); known {
					n.sendBrief(&follower{Source: to, known: m.Stamp()})
				}
			}
		}
		return
	}
	if !m.Formed() {
		if l.may(n, "form") {
			n.propose(&coord.Form{Job: n.cfg.Job, Members: n.cfg.Form, Start: n.cfg.Start})
		}
		return
	}
	if l.leaves(n) && n.now-n.voter.since >= n.cfg.Quiet && l.may(n, "hand over") { // the others may be leaving too, and say so
		l.handOver(n, m)
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

// leaves reports whether this leader goes itself.
func (l *leader) leaves(n *Node) bool {
	_, leaves := l.gone[n.cfg.Self.ID]
	return leaves
}

// last reports whether no other voter is left to whom a leader that goes could hand over, as in
// a job of two, where one votes. Then it evicts itself, if another member is left: see settle.
func (l *leader) last(n *Node, v *coord.View) bool {
	stays := func(id coord.ID) bool {
		_, gone := n.lost(id)
		return id != n.cfg.Self.ID && !gone
	}
	return !slices.ContainsFunc(v.Voters, stays) && slices.ContainsFunc(v.Members, func(o coord.Member) bool { return stays(o.ID) })
}

// handOver has another voter lead: while there is one, an agent that goes does not evict itself.
func (l *leader) handOver(n *Node, m *coord.Machine) {
	var to uint64
	for _, id := range m.View().Voters {
		if _, lost := n.lost(id); !lost && n.voter.has(id.Raft()) && n.answers(id.Raft()) {
			to = id.Raft()
			break
		}
	}
	n.voter.transfer(n.cfg.Self.ID.Raft(), to)
}

// answers reports whether another voter has answered this one, which leads, of late.
func (n *Node) answers(number uint64) bool {
	at, ok := n.voter.answered[number]
	return ok && n.now-at < again*n.cfg.Beat
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
	last := l.leaves(n) && l.last(n, v)
	lingers := l.lingers(n, m)
	for i := range v.Members {
		id := v.Members[i].ID
		if r := l.reports[id]; lingers && r != nil && !slices.ContainsFunc(v.Members[i].Ranks, func(local int) bool {
			return !slices.Contains(r.Ranks, local) && !slices.Contains(r.Left, local)
		}) && len(r.Left) > 0 {
			continue
		}
		if why, gone := n.lost(id); gone && (id != n.cfg.Self.ID || last) {
			c.Evict = append(c.Evict, id)
			c.Reason = why
			l.left(c, id)
			continue
		}
		if r := l.reports[id]; r != nil && !slices.Equal(r.Ranks, v.Members[i].Ranks) {
			c.Ranks = append(c.Ranks, coord.Ranks{ID: id, Ranks: r.Ranks})
			l.left(c, id)
		}
	}
	for _, id := range l.order {
		if v.Index(id) < 0 {
			c.Admit = append(c.Admit, l.joins[id].Admission)
		}
	}
	l.postpone(c, m)
	return c
}

// lingers reports whether ranks that have left behind the last step of an epoch are not taken out
// yet: the others are likely to be about to do so, and the job is over then, where a view without some
// of them would halt it.
func (l *leader) lingers(n *Node, m *coord.Machine) bool {
	left, works := false, false
	v := m.View()
	for i := range v.Members {
		id := v.Members[i].ID
		r := l.reports[id]
		left = left || r != nil && len(r.Left) > 0
		for _, local := range v.Members[i].Ranks {
			works = works || (r == nil || !slices.Contains(r.Left, local)) && m.Works(id, local)
		}
	}
	switch {
	case !left:
		l.done = 0
	case l.done == 0:
		l.done = n.now
	}
	return left && works && n.now-l.done < n.cfg.Grace
}

// left notes the ranks of a member that have left since they were done.
func (l *leader) left(c *coord.Change, id coord.ID) {
	if r := l.reports[id]; r != nil && len(r.Left) > 0 {
		c.Left = append(c.Left, coord.Ranks{ID: id, Ranks: r.Left})
	}
}

// postpone takes out ranks that come, where they must wait.
func (l *leader) postpone(c *coord.Change, m *coord.Machine) {
	v := m.View()
	if m.Job().Mode == coord.Async || !m.Open() || m.Settled() || m.Halted() || m.Over() || v.World() == 0 {
		return
	}
	loses := func(id coord.ID, left []int) bool {
		return slices.ContainsFunc(v.Members[v.Index(id)].Ranks, func(local int) bool { return !slices.Contains(left, local) })
	}
	if slices.ContainsFunc(c.Evict, func(id coord.ID) bool { return loses(id, nil) }) ||
		slices.ContainsFunc(c.Ranks, func(r coord.Ranks) bool { return loses(r.ID, r.Ranks) }) {
		return
	}
	c.Ranks = nil
	c.Admit = slices.DeleteFunc(c.Admit, func(a coord.Admission) bool { return len(a.Ranks) > 0 })
}

// lost says why a member is to be evicted.
func (n *Node) lost(id coord.ID) (why string, gone bool) {
	if why, gone := n.lead.gone[id]; gone {
		return why, true
	}
	grace := n.cfg.Grace
	if at, heard := n.lead.heard[id]; heard && n.now-at < n.cfg.Grace {
		grace *= doubtful
	}
	switch o, known := n.gossip[id]; {
	case known && o.State == Dead && n.now-o.since >= grace:
		return "gossip lost it", true
	case !known && n.lead.missed(id, n.now) >= doubtful*n.cfg.Grace:
		return "gossip has never known it, and it is silent", true
	}
	return "", false
}

// missed is for how long nothing was heard of a member whom gossip does not know: one that was
// killed right after it was admitted is never known, so that gossip cannot lose it.
func (l *leader) missed(id coord.ID, now time.Duration) time.Duration {
	if _, noted := l.unknown[id]; !noted {
		l.unknown[id] = now
	}
	return now - max(l.unknown[id], l.heard[id])
}

// doubtful is how many times the grace one has that gossip holds for dead and that still
// reports. It may have come back, and gossip will say so; or it hears nobody.
const doubtful = 3

// installed forgets what a new view has settled.
func (l *leader) installed(e *coord.Installed, now time.Duration) {
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
		delete(l.heard, id)
		delete(l.unknown, id)
	}
	clear(l.tried)
	l.waiting = false
	l.lanes.dealt(e.View, now)
}

// refuse tells a joiner.
func (l *leader) refuse(n *Node, e *coord.Refused) {
	j := l.joins[e.ID]
	if j == nil {
		return
	}
	delete(l.joins, e.ID)
	l.order = slices.DeleteFunc(l.order, func(id coord.ID) bool { return id == e.ID })
	n.sendRefusal(j, e.Reason)
}

func (n *Node) sendRefusal(j *coord.Join, why string) {
	b := n.voter.machine.Brief(j.ID, coord.Stamp{})
	b.Refused = why
	n.send(coord.Source{ID: j.ID, Address: j.Address}, b)
}

// vote replaces the voters of the group by those of the view, in one joint change: see settle.
func (l *leader) vote(n *Node, m *coord.Machine) {
	have := n.voter.config
	if len(have.GetVotersOutgoing()) > 0 {
		l.settle(n, m)
		return
	}
	var want []uint64
	for _, id := range m.View().Voters {
		want = append(want, id.Raft())
	}
	var changes []*raftpb.ConfChangeSingle
	add := func(kind raftpb.ConfChangeType, id uint64) {
		changes = append(changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
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
		l.changeVoters(n, changes)
	}
}

// settle ends a change of the voters, during which both sets decide. A leader that is none of the
// new ones hands over first. So who leads when the change is done is one who stays, and tells the
// others until they know; one that goes would say it once, and if that was lost with it, those that
// are left would wait for the voices of the dead.
func (l *leader) settle(n *Node, m *coord.Machine) {
	switch stays := slices.Contains(n.voter.config.GetVoters(), n.cfg.Self.ID.Raft()); {
	case stays && l.may(n, "settle"):
		l.changeVoters(n, nil)
	case !stays && l.may(n, "hand over"):
		n.voter.transfer(n.cfg.Self.ID.Raft(), l.heir(n, m))
	}
}

// heir is one of the new voters that answers, 0 if there is none. One that was evicted while the
// voters changed comes last: it leads until those of the newest view are in its place.
func (l *leader) heir(n *Node, m *coord.Machine) (to uint64) {
	for _, number := range n.voter.config.GetVoters() {
		switch stays := slices.ContainsFunc(m.View().Voters, func(id coord.ID) bool { return id.Raft() == number }); {
		case !n.answers(number):
		case stays:
			return number
		case to == 0:
			to = number
		}
	}
	return to
}

// changeVoters begins a change of the voters, or ends the one that was begun, by no changes.
func (l *leader) changeVoters(n *Node, changes []*raftpb.ConfChangeSingle) {
	c := &raftpb.ConfChangeV2{Changes: changes}
	if len(changes) > 0 {
		c.Transition = raftpb.ConfChangeTransition_ConfChangeTransitionJointExplicit.Enum()
	}
	n.voter.call(func() { _ = n.voter.node.ProposeConfChange(c) }) // made again if it is lost
}

// extend leases further steps once half of a lease is used, and says that all have begun
// the view. Nothing is leased while a member does not answer, or has lost a rank that the
// view still has.
func (l *leader) extend(n *Node, m *coord.Machine) {
	if m.Halted() || m.Over() {
		return
	}
	v, lease := m.View(), m.Job().Lease
	done := int64(-1)
	for i := range v.Members {
		if len(v.Members[i].Ranks) == 0 {
			continue
		}
		r := l.reports[v.Members[i].ID]
		if r == nil || r.View != v.Number || r.Redos != m.Redos() || !hasAll(r.Ranks, v.Members[i].Ranks) || n.gossip[v.Members[i].ID].State == Dead {
			return
		}
		if done < 0 || r.Done < done {
			done = r.Done
		}
	}
	now := m.Progress().Step
	end := done >= (m.Epoch()+1)*m.Job().Steps // the epoch is done
	settles := !m.Settled() && done >= v.Cut
	if done < 0 || !settles && (done <= now || done-now < (lease+1)/2 && !end) || !l.may(n, "extend") {
		return
	}
	n.propose(&coord.Extend{View: v.Number, Redos: m.Redos(), Horizon: done + 2*lease, Done: done})
}

func hasAll(list, of []int) bool {
	return !slices.ContainsFunc(of, func(x int) bool { return !slices.Contains(list, x) })
}

func (n *Node) takeJoin(j *coord.Join) {
	switch {
	case n.voter != nil && n.voter.leads:
		n.lead.join(n, j)
	case j.Hops < coord.MaxHops:
		j.Hops++
		n.send(n.toLeader(), j)
	}
}

func (l *leader) join(n *Node, j *coord.Join) {
	if n.voter.machine.Formed() && n.voter.machine.View().Index(j.ID) >= 0 {
		if n.followers[j.ID] == nil { // else it has the view already, or it is under way
			n.sendBrief(&follower{Source: coord.Source{ID: j.ID, Address: j.Address}})
		}
		return
	}
	if n.voter.machine.Formed() {
		if why := n.voter.machine.Refuses(&j.Admission); why != "" {
			n.sendRefusal(j, why) // the log would say the same, later
			return
		}
	}
	if n.voter.has(j.ID.Raft()) {
		return // another one decides by this number, until it is replaced
	}
	if l.joins[j.ID] == nil {
		if len(l.joins) >= maxJoins || n.gossip[j.ID].State == Dead {
			return // it asks again, if it lives
		}
		l.order = append(l.order, j.ID)
	}
	l.joins[j.ID] = j
}

// takeReport notes a report, or passes on what its author has sent to a voter that does not
// lead: once, for two of them may hold each other for the leader.
func (n *Node) takeReport(from coord.ID, r *coord.Report) {
	switch {
	case n.voter == nil:
	case n.voter.leads:
		if n.voter.machine.Formed() && n.voter.machine.View().Index(r.Author) >= 0 {
			n.lead.reports[r.Author], n.lead.heard[r.Author] = r, n.now
		}
	case from == r.Author:
		n.put(n.toLeader(), r, true)
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
	if g.Hops < coord.MaxHops {
		g.Hops++
		n.send(n.toLeader(), g)
	}
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
		if leader, known := n.peer(n.voter.leader); known {
			return leader
		}
	}
	if n.known.Leader != (coord.ID{}) {
		return n.where(n.known.Leader)
	}
	return n.where(n.following.voter)
}
