package group

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/coord"
)

const (
	// followFor is how long a voter sends briefs to who has asked, in beats.
	followFor = 20
	// followEvery is how often an agent asks, in beats.
	followEvery = 5
	// deafAfter is how long an agent waits for a brief before it asks another voter, in
	// beats.
	deafAfter = 15
)

// follow asks a voter for briefs. An agent that is not in the job asks to be admitted.
func (n *Node) follow() {
	if n.voter != nil && n.voter.machine.Formed() && n.member() {
		return // it has the log itself
	}
	late := n.now-n.following.heard >= deafAfter*n.cfg.Beat
	behind := n.seen.Newer(n.known.Known) && n.now-n.following.heard >= 2*n.cfg.Beat
	if n.now-n.following.asked < followEvery*n.cfg.Beat && !behind || n.now == n.following.asked {
		return
	}
	if late {
		n.following.turn++
	}
	n.following.asked = n.now
	to := n.choose()
	if !n.member() {
		n.send(to, &coord.Join{Admission: n.cfg.Self})
	}
	n.send(to, &coord.Follow{Known: n.known.Known, Seq: n.commit.decided})
}

// choose picks whom to ask: of the voters one by the agent's own ID, so that they share
// the work, the next one when that one is silent; before there is a view, the contacts.
func (n *Node) choose() coord.Source {
	if n.view == nil || len(n.view.Voters) == 0 {
		if len(n.cfg.Contacts) == 0 {
			return coord.Source{}
		}
		return coord.Source{Address: n.cfg.Contacts[n.following.turn%len(n.cfg.Contacts)]}
	}
	voters := slices.DeleteFunc(slices.Clone(n.view.Voters), func(id coord.ID) bool { return id == n.cfg.Self.ID })
	others := len(voters)
	if others == 0 || n.following.turn > 2*others { // they may all be gone: anyone may know the new ones
		for i := range n.view.Members {
			if m := &n.view.Members[i]; m.ID != n.cfg.Self.ID {
				voters = append(voters, m.ID)
			}
		}
	}
	if len(voters) == 0 {
		return coord.Source{}
	}
	id := voters[(int(n.cfg.Self.ID[15])+n.following.turn)%len(voters)]
	n.following.voter = id
	return n.where(id)
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
	n.sendBrief(fl, "")
}

// maxFollowers bounds whom one voter serves.
const maxFollowers = 1 << 16

// sendBrief tells a follower what is new.
func (n *Node) sendBrief(f *follower, refused string) {
	m := &n.voter.machine
	if !m.Formed() {
		return
	}
	b := m.Brief(f.ID, f.known)
	b.Refused = refused
	if p, ok := n.peers[n.voter.leader]; ok {
		b.Leader = p.ID
	}
	f.known = b.Known
	n.send(f.Source, b)
}

// brief takes over what the log's newest entry means to this agent itself.
func (n *Node) brief() {
	m := &n.voter.machine
	if !m.Formed() {
		return
	}
	b := m.Brief(n.cfg.Self.ID, n.known.Known)
	if p, ok := n.peers[n.voter.leader]; ok {
		b.Leader = p.ID
	}
	n.takeBrief(n.cfg.Self.ID, b)
}

// spread tells followers what an entry has changed for them: all of them, or some.
func (n *Node) spread(all bool, some []coord.ID) {
	if !all {
		for _, id := range some {
			if f := n.followers[id]; f != nil && f.until >= n.now {
				n.sendBrief(f, "")
			}
		}
		return
	}
	for _, f := range n.inOrder() {
		if f.until >= n.now {
			n.sendBrief(f, "")
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
	n.following.heard = n.now
	if n.known.Known.Newer(b.Known) {
		return
	}
	if b.Refused != "" {
		n.event(Event{Kind: Refused, ID: from, Reason: b.Refused})
		n.known.Refused = b.Refused
		n.end(b.Refused)
		return
	}
	if b.View == nil && (n.view == nil || n.view.Number != b.Known.View) {
		return // it was for one who knows the view
	}
	before := n.view
	if b.View != nil && (before == nil || b.View.Number > before.Number) {
		n.enter(b.View)
	}
	if !b.Hint {
		n.know(b)
	}
	if before != nil && before.Index(n.cfg.Self.ID) >= 0 && !n.member() {
		n.end(fmt.Sprintf("the others have evicted this agent: view %d is without it", n.view.Number))
		return
	}
	n.commit.learn(n)
}

// know takes over what a voter says.
func (n *Node) know(b *coord.Brief) {
	n.following.turn = 0
	n.known = *b
	n.known.View = nil
	if b.Known.Newer(n.seen) {
		n.seen = b.Known
	}
	if n.view.Cut != b.Cut { // a redo
		v := *n.view
		v.Cut = b.Cut
		n.view = &v
	}
}

// enter makes a view the newest.
func (n *Node) enter(v *coord.View) {
	n.previous = n.view
	n.view = v
	n.learn(v.Members)
	n.forget()
	n.event(Event{Kind: Viewed, View: v})
}

// end ends this agent's part: it must start again, as another member.
func (n *Node) end(why string) {
	n.ending = why
	n.event(Event{Kind: Ended, ID: n.cfg.Self.ID, Reason: why})
}

// report says how far the ranks are.
func (n *Node) report() {
	if !n.member() || n.now-n.reported < n.cfg.Beat {
		return
	}
	n.reported = n.now
	r := &coord.Report{Author: n.cfg.Self.ID, Ranks: n.ranks, Done: n.done, Used: n.used}
	if n.voter != nil {
		n.takeReport(r)
		return
	}
	n.send(n.toLeader(), r)
}
