package group

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/coord"
)

const (
	// followFor is how long a voter sends briefs to who has asked, in beats.
	followFor = 40
	// followEvery is how often an agent asks, in beats.
	followEvery = 10
	// SearchEvery is how often it asks before it knows of the job, in beats.
	SearchEvery = 5
	// deafAfter is how long an agent waits for a brief before it asks another voter, in
	// beats. One that gossip suspects is not waited for.
	deafAfter = 25
	// reportEvery is how often an agent says how far its ranks are, though there is
	// nothing new, in beats.
	reportEvery = 10
	// reportParts is how many times an agent reports progress within what is leased.
	reportParts = 8
)

// follow asks a voter for briefs. An agent that is not in the job asks to be admitted.
func (n *Node) follow() {
	if n.informed() {
		return
	}
	late := n.now-n.following.heard >= deafAfter*n.cfg.Beat || n.gossip[n.following.voter].State == Dead
	behind := n.seen.View > n.known.Known.View && n.now-n.following.asked >= 2*n.cfg.Beat
	every := followEvery * n.cfg.Beat
	if n.view == nil {
		every, late = SearchEvery*n.cfg.Beat, true // the next contact may know more
	}
	if n.now-n.following.asked < every && !behind || n.now == n.following.asked {
		return
	}
	if late || behind { // whom it asked may know no more than this agent
		n.following.turn++
	}
	n.following.asked = n.now
	n.ask(n.choose(), !behind)
	n.ask(n.meet(), false)
}

// ask asks an agent for briefs, and to be admitted.
func (n *Node) ask(to coord.Source, steady bool) {
	if !n.member() {
		j := &coord.Join{Admission: n.cfg.Self}
		j.Ranks = n.here()
		n.send(to, j)
	}
	n.put(to, &coord.Follow{Known: n.known.Known, Seq: n.commit.decided}, steady)
}

// informed reports whether this agent has the log itself. A voter that hears of no leader may
// have been taken out of the group, and asks like all others.
func (n *Node) informed() bool {
	v := n.voter
	if v == nil || !v.machine.Formed() || !n.member() || n.seen.View > n.known.Known.View {
		return false
	}
	if v.leads {
		return n.supported()
	}
	return n.now-v.led < deafAfter*n.cfg.Beat && v.alone <= n.now
}

// choose picks whom to ask: of the voters one by the agent's own ID, so that they share
// the work, the next one when that one is silent; before there is a view, the contacts.
func (n *Node) choose() coord.Source {
	view := n.latest()
	if view == nil || len(view.Voters) == 0 {
		if len(n.cfg.Contacts) == 0 {
			return coord.Source{}
		}
		return coord.Source{Address: n.cfg.Contacts[n.following.turn%len(n.cfg.Contacts)]}
	}
	voters := slices.DeleteFunc(slices.Clone(view.Voters), func(id coord.ID) bool { return id == n.cfg.Self.ID })
	others := len(voters)
	if others == 0 || n.following.turn > 2*others { // they may all be gone: anyone may know the new ones
		for i := range view.Members {
			if m := &view.Members[i]; m.ID != n.cfg.Self.ID {
				voters = append(voters, m.ID)
			}
		}
	}
	if len(voters) == 0 {
		return coord.Source{}
	}
	at := int(n.cfg.Self.ID[15]) + n.following.turn
	if c := n.cfg.Contacts; n.following.turn > 3*len(view.Members) && at%2 == 1 && len(c) > 0 { // so may all members
		return coord.Source{Address: c[at/2%len(c)]}
	}
	id := voters[at%len(voters)]
	n.following.voter = id
	return n.where(id)
}

// latest is the newest view that this agent has heard of; nil: there is none.
func (n *Node) latest() *coord.View {
	if n.hint != nil {
		return n.hint
	}
	return n.view
}

// meet picks whom to ask as well where those whom choose names do not know more, for they may all
// have ended: one after the other, by ID, of the agents that gossip has found and that view does not
// name. The agent that formed the job has no contacts, and those of others may be gone.
func (n *Node) meet() (to coord.Source) {
	f, view := &n.following, n.latest()
	asked := len(n.cfg.Contacts)
	if view != nil {
		asked = len(view.Voters)
	}
	if f.turn <= 2*asked {
		return to
	}
	later := func(id coord.ID) bool { return slices.Compare(id[:], f.met[:]) > 0 }
	for id, o := range n.gossip {
		if o.State == Dead || o.address == "" || view != nil && view.Index(id) >= 0 {
			continue
		}
		before := slices.Compare(id[:], to.ID[:]) < 0
		if to.Address == "" || later(id) && !later(to.ID) || later(id) == later(to.ID) && before {
			to = coord.Source{ID: id, Address: o.address}
		}
	}
	f.met = to.ID
	return to
}

// takeFollow answers who asks: a voter with briefs, any other with the newest view it
// knows, in which the voters stand.
func (n *Node) takeFollow(from coord.Source, f *coord.Follow) {
	if n.view == nil {
		return
	}
	if n.voter == nil || !n.voter.machine.Formed() {
		if n.known.Known.View > f.Known.View || f.Known.Index == 0 {
			n.send(from, &coord.Brief{Known: n.known.Known, View: n.view, Hint: true})
		}
		return
	}
	fl := n.followers[from.ID]
	if fl == nil {
		if len(n.followers) >= maxFollowers {
			return
		}
		fl = &follower{}
		n.followers[from.ID] = fl
	}
	fl.Source, fl.known, fl.seq = from, f.Known, f.Seq
	fl.until = n.now + followFor*n.cfg.Beat
	n.putBrief(fl, fl.known == n.voter.machine.Stamp())
}

// maxFollowers bounds whom one voter serves.
const maxFollowers = 1 << 16

// sendBrief tells a follower what is new.
func (n *Node) sendBrief(f *follower) { n.putBrief(f, false) }

func (n *Node) putBrief(f *follower, steady bool) {
	m := &n.voter.machine
	if !m.Formed() {
		return
	}
	b := m.Brief(f.ID, f.known)
	b.Leader = n.leader()
	f.known = b.Known
	n.put(f.Source, b, steady)
}

// brief takes over what the log's newest entry means to this agent itself.
func (n *Node) brief() {
	m := &n.voter.machine
	if !m.Formed() {
		return
	}
	b := m.Brief(n.cfg.Self.ID, n.known.Known)
	b.Leader = n.leader()
	n.takeBrief(n.cfg.Self.ID, b)
}

// spread tells followers what an entry has changed for them: all of them, or some.
func (n *Node) spread(all bool, some []coord.ID) {
	if !all {
		for _, id := range some {
			if f := n.followers[id]; f != nil && f.until >= n.now {
				n.sendBrief(f)
			}
		}
		return
	}
	for _, f := range n.inOrder() {
		if f.until >= n.now {
			n.sendBrief(f)
		}
	}
}

// inOrder lists the followers by ID: the order of messages must not depend on that of
// a map.
func (n *Node) inOrder() []*follower {
	list := make([]*follower, 0, len(n.followers))
	for _, f := range n.followers {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *follower) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return list
}

// takeBrief takes the newest state of the job, unless a newer one is known.
func (n *Node) takeBrief(from coord.ID, b *coord.Brief) {
	if v := n.voter; v != nil && !v.leads && b.Leader == (coord.ID{}) && from.Raft() == v.leader {
		v.alone = n.now + deafAfter*n.cfg.Beat
	}
	if !n.hear(from, b.Known) || n.known.Known.Newer(b.Known) {
		return
	}
	if b.Leader != (coord.ID{}) || !b.Hint && b.Known.Newer(n.known.Known) { // else it may be out of the group itself
		n.following.heard = n.now
	}
	if b.Refused != "" {
		n.event(Event{Kind: Refused, ID: from, Reason: b.Refused})
		n.known.Refused = b.Refused
		n.end(b.Refused)
		return
	}
	views, ok := n.newer(b)
	if !ok {
		return // it was for one who knows another view
	}
	if b.Hint {
		n.takeHint(b)
		return
	}
	before := n.view
	for _, v := range views {
		n.enter(v)
	}
	n.know(b)
	if before != nil && before.Index(n.cfg.Self.ID) >= 0 && !n.member() {
		n.endEvicted(n.view)
		return
	}
	n.commit.learn(n)
}

// newer lists the views of a brief that are newer than what is known, in order.
func (n *Node) newer(b *coord.Brief) (list []*coord.View, ok bool) {
	first := b.Known.View - uint64(len(b.Deltas)) // to which the deltas are added
	switch {
	case b.View != nil:
		if n.view == nil || b.View.Number > n.view.Number {
			list = []*coord.View{b.View}
		}
		return list, true
	case n.view == nil || n.view.Number < first || n.view.Number > b.Known.View:
		return nil, false
	}
	v := n.view
	for i := n.view.Number - first; i < uint64(len(b.Deltas)); i++ {
		v = v.After(&b.Deltas[i])
		list = append(list, v)
	}
	return list, true
}

// know takes over what a voter says.
func (n *Node) know(b *coord.Brief) {
	if b.Leader != (coord.ID{}) && n.seen.View <= b.Known.View {
		n.following.turn = 0 // whom it asked knows
	}
	if n.known.Redos != b.Redos {
		n.previous = nil
	}
	n.known = *b
	n.known.View, n.known.Deltas = nil, nil
	n.hint = nil
	if b.Known.Founder != n.seen.Founder || b.Known.Newer(n.seen) {
		n.seen = b.Known
	}
	if n.view.Cut != b.Cut { // a redo
		v := *n.view
		v.Cut = b.Cut
		n.view = &v
	}
}

// takeHint takes a view of one that is no voter: who is in it may know more. What it
// leases is not known.
func (n *Node) takeHint(b *coord.Brief) {
	if b.View == nil || n.view != nil && n.known.Known.View >= b.Known.View || n.hint != nil && n.hint.Number >= b.View.Number && n.hintOf == b.Known.Founder {
		return
	}
	n.hint, n.hintOf = n.share(b.View), b.Known.Founder
	if n.member() && b.View.Index(n.cfg.Self.ID) < 0 {
		n.endEvicted(b.View)
	}
}

func (n *Node) endEvicted(v *coord.View) {
	if n.leaving.begun {
		n.end(fmt.Sprintf("this agent has left: view %d is without it", v.Number))
		return
	}
	n.end(fmt.Sprintf("the others have evicted this agent: view %d is without it", v.Number))
}

// enter makes a view the newest. The one before it stays where the ranks have not come to
// the cut; a view of the same ranks, which has the same cut, changes nothing for them.
func (n *Node) enter(v *coord.View) {
	v = n.share(v)
	if n.view != nil && v.Cut != n.view.Cut {
		n.previous = n.view
	}
	before := n.view
	n.view = v
	n.noteEnded()
	n.forget(before)
	n.event(Event{Kind: Viewed, View: v})
}

// share makes a view ready to be looked into.
func (n *Node) share(v *coord.View) *coord.View {
	if n.cfg.Share != nil {
		return n.cfg.Share(v)
	}
	v.Seal()
	return v
}

// end ends this agent's part: it must start again, as another member.
func (n *Node) end(why string) {
	n.ending = why
	n.event(Event{Kind: Ended, ID: n.cfg.Self.ID, Reason: why})
}

// noteEnded brings the ranks that have ended to the view: those that it is without may
// come again, and those that it has and that are not there were lost while it was made.
func (n *Node) noteEnded() {
	for _, local := range n.ended {
		if n.view.Rank(n.cfg.Self.ID, local) < 0 {
			n.commit.leave(n, local)
		}
	}
	out := func(local int) bool { return n.view.Rank(n.cfg.Self.ID, local) < 0 }
	n.ended, n.left = slices.DeleteFunc(n.ended, out), slices.DeleteFunc(n.left, out)
	i := n.view.Index(n.cfg.Self.ID)
	if i < 0 {
		return
	}
	for _, local := range n.view.Members[i].Ranks {
		if !slices.Contains(n.ranks, local) && !slices.Contains(n.ended, local) {
			n.ended = append(n.ended, local)
		}
	}
}

// report says how far the ranks are.
func (n *Node) report() {
	if !n.member() || n.now-n.reported < n.cfg.Beat {
		return
	}
	r := &coord.Report{Author: n.cfg.Self.ID, View: n.entered, Redos: n.redos, Ranks: n.here(), Done: n.done, Used: n.used, Left: slices.Clone(n.left)}
	if n.voter != nil && n.voter.leads {
		n.reported = n.now
		n.takeReport(r.Author, r)
		return
	}
	to := n.toLeader()
	last := n.last
	news := r.View != last.View || r.Redos != last.Redos || !slices.Equal(r.Ranks, last.Ranks) || !slices.Equal(r.Left, last.Left)
	if !news && to.ID == n.lastTo && !n.moved(r.Done) && n.now-n.reported < reportEvery*n.cfg.Beat {
		return
	}
	n.reported, n.last, n.lastTo = n.now, *r, to.ID
	n.put(to, r, !news)
}

// moved reports whether the ranks have come far enough to say so: a good part of what is
// leased, or to its end.
func (n *Node) moved(done int64) bool {
	leased := n.known.Horizon - n.known.Step
	return done > n.last.Done && (done >= n.known.Horizon || done-n.last.Done >= max(1, leased/reportParts))
}
