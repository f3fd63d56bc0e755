package group

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/internal/plural"
)

// Liveness is what gossip holds of an agent. It tells of no suspicions, and none is needed
// for a lease to end: see the package's documentation.
type Liveness uint8

// What gossip may hold.
const (
	Alive Liveness = iota
	Dead
)

type observed struct {
	State   Liveness
	since   time.Duration
	address string // where gossip finds it; empty: not known
}

// Observe takes what gossip says of an agent, and where that is: one that is in no view that this
// agent knows may be in the newest.
func (n *Node) Observe(now time.Duration, agent coord.Source, state Liveness) {
	n.now = now
	o, known := n.gossip[agent.ID]
	if !known || o.State != state {
		o.State, o.since = state, now
	}
	if agent.Address != "" {
		o.address = agent.Address
	}
	n.gossip[agent.ID] = o
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

// Leave begins to leave the job: the others are told until they have taken this agent out. It
// is to be ticked on until Left, for a few seconds at most.
func (n *Node) Leave(now time.Duration) {
	n.now = now
	n.leaving.begun, n.leaving.to = true, coord.ID{}
	n.sayLeave()
	n.ready()
}

// sayLeave tells the leader that this agent goes: each leader at once, and again and again.
func (n *Node) sayLeave() {
	l := &n.leaving
	if !l.begun || !n.member() {
		return
	}
	to := n.toLeader().ID
	if to == l.to && n.now-l.said < again*n.cfg.Beat {
		return
	}
	l.said, l.to = n.now, to
	n.Gone(n.now, n.cfg.Self.ID, "it left")
}

// Left reports that an agent that leaves is not waited for: the others decide without it, or it
// can do nothing more for that. Those that do not vote are not needed at all. One that is out of
// the view and hears of no voter was taken out of the group without that it was told: who leads
// would speak, and who wants to would ask it.
func (n *Node) Left() bool {
	switch {
	case n.ending != "":
		return !n.Lingers() || !n.voter.leads && n.now-n.voter.asked >= deafAfter*n.cfg.Beat
	case n.view == nil, n.known.Over, n.Deaf(), len(n.view.Members) == 1:
		return true
	}
	return n.voter == nil && !n.isVoter(n.cfg.Self.ID)
}

// Ranks says which local ranks there are, in order. The end of each is told, even where
// another process takes its place at once: that one is served when a view has been without it.
func (n *Node) Ranks(now time.Duration, ranks []int) {
	n.now = now
	for _, local := range n.ranks {
		if !slices.Contains(ranks, local) && !slices.Contains(n.ended, local) && n.view != nil && n.view.Rank(n.cfg.Self.ID, local) >= 0 {
			n.ended = append(n.ended, local)
		}
	}
	n.ranks = ranks
	n.reported = now - n.cfg.Beat // at once
}

// Done says before Ranks that a local rank that is not there any more has left in order, behind the
// last step of an epoch of a lockstep job.
func (n *Node) Done(local int) {
	if n.view != nil && n.view.Rank(n.cfg.Self.ID, local) >= 0 && !slices.Contains(n.left, local) {
		n.left = append(n.left, local)
		slices.Sort(n.left)
	}
}

// here are the local ranks that the job is told of.
func (n *Node) here() []int {
	if len(n.ended) == 0 {
		return n.ranks
	}
	return slices.DeleteFunc(slices.Clone(n.ranks), func(local int) bool { return slices.Contains(n.ended, local) })
}

// Redo asks for one. It holds for the view and the number of Redos that the caller knows: the state
// has a higher one when it is done, with By where it was this one, or another view where it is void.
func (n *Node) Redo(now time.Duration, r coord.Redo) {
	n.now = now
	n.redo.Redo, n.redo.sent = &r, now-again*n.cfg.Beat
	n.askRedo()
	n.ready()
}

// askRedo asks for a redo until it is done or void.
func (n *Node) askRedo() {
	r := n.redo.Redo
	if r == nil || n.now-n.redo.sent < again*n.cfg.Beat {
		return
	}
	if n.view == nil || n.view.Number != r.View || n.known.Redos != r.Redos {
		n.redo.Redo = nil
		return
	}
	n.redo.sent = n.now
	if n.voter == nil || !n.propose(r) {
		n.send(n.toLeader(), &coord.Ask{Entry: r})
	}
}

// State is what an agent knows of the job. Its parts are not changed afterwards.
type State struct {
	View     *coord.View // nil before there is one
	Previous *coord.View // holds for steps below View.Cut, lockstep; nil: none is left
	coord.Brief
	Leads  bool
	Votes  bool
	Ranks  []int  // local ranks that are in the view, and have been since it began
	Ending string // why this agent has no part any more
}

// State is the newest.
func (n *Node) State() State {
	s := State{View: n.view, Previous: n.previous, Brief: n.known, Leads: n.voter != nil && n.voter.leads, Votes: n.voter != nil, Ending: n.ending}
	if n.member() {
		s.Ranks = n.serves()
	}
	return s
}

// Waiting is all of why nothing new can be decided now; empty: it can, as far as is known.
func (n *Node) Waiting() string {
	var why []string
	switch {
	case n.ending != "":
		return ""
	case n.view == nil:
		return "no agent of the job has answered yet"
	case n.Deaf():
		why = append(why, fmt.Sprintf("a majority of the %s does not answer: nothing new is decided without it", plural.Of(len(n.view.Voters), "voter")))
	}
	switch {
	case n.known.Over:
		return ""
	case !n.known.Open:
		are := " are"
		if n.view.World() == 1 {
			are = " is"
		}
		why = append(why, plural.Of(n.view.World(), "rank")+are+" there, and more are expected")
	case n.known.Halted:
		why = append(why, "a rank was lost: the trainer must say from which step to go on")
	}
	return strings.Join(why, "; and ")
}

// Deaf reports that this agent hears of no majority of the voters.
func (n *Node) Deaf() bool {
	if n.ending != "" || n.view == nil {
		return false
	}
	return n.voter != nil && n.voter.leads && !n.supported() || !n.informed() && n.now-n.following.heard >= deafAfter*n.cfg.Beat
}

// Liveness is what gossip holds of an agent; one that it has never named is Alive.
func (n *Node) Liveness(id coord.ID) Liveness { return n.gossip[id].State }

// Report is the last report of a member, and how long ago it came; ok where this agent
// leads and has one.
func (n *Node) Report(id coord.ID) (r coord.Report, age time.Duration, ok bool) {
	last := n.lead.reports[id]
	if last == nil {
		return r, 0, false
	}
	return *last, n.now - n.lead.heard[id], true
}

// serves are the ranks of State.
func (n *Node) serves() []int {
	in := n.view.Members[n.view.Index(n.cfg.Self.ID)].Ranks
	if len(n.ended) == 0 {
		return in
	}
	return slices.DeleteFunc(slices.Clone(in), func(local int) bool { return slices.Contains(n.ended, local) })
}

// At is the view in which a lockstep job's step is delivered: the newest from its cut on.
func (s *State) At(step int64) *coord.View {
	if s.View == nil || step >= s.View.Cut {
		return s.View
	}
	return s.Previous
}

// Machine is a voter's replica, nil where the agent is none. The caller changes nothing.
func (n *Node) Machine() *coord.Machine {
	if n.voter == nil {
		return nil
	}
	return &n.voter.machine
}

// Replica is how a voter's log stands.
type Replica struct {
	Applied, Last uint64   // last entry that is applied, and that is kept
	Voters        []uint64 // who decide, by their numbers
	Outgoing      []uint64 // who did until the present change of voters is done
}

// Replica is that of this agent, ok where it is a voter or was one.
func (n *Node) Replica() (r Replica, ok bool) {
	v := n.voter
	if v == nil {
		v = n.past
	}
	if v == nil {
		return r, false
	}
	last, _ := v.storage.LastIndex() // memory has it
	return Replica{v.applied, last, v.config.GetVoters(), v.config.GetVotersOutgoing()}, true
}

// Term is that of an entry of the log, ok where this agent keeps it; an entry that is
// older than all it keeps has the term 0.
func (n *Node) Term(index uint64) (term uint64, ok bool) {
	v := n.voter
	if v == nil {
		v = n.past
	}
	if v == nil {
		return 0, false
	}
	switch term, err := v.storage.Term(index); {
	case errors.Is(err, raft.ErrCompacted):
		return 0, true
	default:
		return term, err == nil
	}
}

// Held is how much an agent keeps in memory.
type Held struct {
	Others, Followers, Gossip, Joins, Reports, Gone int
	Waiting, Entries, Events, Messages              int
	Log, Snapshot, Outbox                           int // in bytes: of entries, of the state that newcomers get, of messages
}

// Held counts what this agent keeps.
func (n *Node) Held() Held {
	h := Held{
		Others: len(n.others), Followers: len(n.followers), Gossip: len(n.gossip),
		Joins: len(n.lead.order), Reports: len(n.lead.reports), Gone: len(n.lead.gone),
		Waiting: len(n.commit.waiting), Events: len(n.events), Messages: len(n.out),
	}
	for i := range n.out {
		h.Outbox += len(n.out[i].Message)
	}
	if n.voter != nil {
		n.voter.held(&h)
	}
	return h
}

func (v *voter) held(h *Held) {
	last, _ := v.storage.LastIndex() // memory has it, and all that is asked for here
	first, _ := v.storage.FirstIndex()
	h.Entries = int(last - first + 1)
	list, _ := v.storage.Entries(first, last+1, math.MaxUint64)
	for _, e := range list {
		h.Log += len(e.GetData())
	}
	s, _ := v.storage.Snapshot()
	h.Snapshot = len(s.GetData())
}
