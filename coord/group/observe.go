package group

import (
	"time"

	"github.com/headrace/headrace/coord"
)

// Liveness is what gossip holds of an agent.
type Liveness uint8

// From well to gone.
const (
	Alive Liveness = iota
	Suspect
	Dead
)

type observed struct {
	State Liveness
	since time.Duration
}

// Observe takes what gossip says of an agent.
func (n *Node) Observe(now time.Duration, id coord.ID, state Liveness) {
	n.now = now
	if n.gossip[id].State != state {
		n.gossip[id] = observed{state, now}
	}
}

// Gone takes what is known for certain: the agent is gone.
func (n *Node) Gone(now time.Duration, id coord.ID, reason string) {
	n.now = now
	g := &coord.Gone{ID: id, Reason: reason}
	if n.voter != nil {
		n.takeGone(g)
		return
	}
	n.send(n.toLeader(), g)
}

// Leave says that this agent goes.
func (n *Node) Leave(now time.Duration) { n.Gone(now, n.cfg.Self.ID, "it left") }

// Ranks says which local ranks there are.
func (n *Node) Ranks(now time.Duration, ranks []int) {
	n.now = now
	n.ranks = ranks
	n.reported = now - n.cfg.Beat // at once
}

// Progress says how far the ranks are: below done all, below used one.
func (n *Node) Progress(now time.Duration, done, used int64) {
	n.now = now
	n.done, n.used = done, used
}

// Redo asks for a redo, for a view. It may get lost; the state says when it is done.
func (n *Node) Redo(now time.Duration, view uint64, step int64) {
	n.now = now
	r := &coord.Redo{View: view, Step: step}
	if !n.propose(r) {
		n.send(n.toLeader(), &coord.Ask{Entry: r})
	}
	n.ready()
}

// State is what an agent knows of the job. Its parts are not changed afterwards.
type State struct {
	View     *coord.View // nil before there is one
	Previous *coord.View // holds for steps below View.Cut, lockstep
	coord.Brief
	Leads  bool
	Votes  bool
	Ending string // why this agent has no part any more
}

// State is the newest.
func (n *Node) State() State {
	return State{View: n.view, Previous: n.previous, Brief: n.known, Leads: n.voter != nil && n.voter.leads, Votes: n.voter != nil, Ending: n.ending}
}
