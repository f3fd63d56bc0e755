package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// Node is one agent's part in a job. It belongs to one goroutine, which gives it the
// time with everything that happens; time never runs backwards.
type Node struct {
	cfg   Config
	now   time.Duration
	voter *voter // nil where it is none
	past  *voter // what it was: see leave
	lead  leader

	known    coord.Brief             // the newest state of the job
	view     *coord.View             // of that; nil before there is one
	previous *coord.View             // holds up to the cut of view; nil: no step before it is left
	hint     *coord.View             // a newer one, of one that is no voter; nil: there is none
	hintOf   uint64                  // who has formed the job of that
	seen     coord.Stamp             // the highest of this job anywhere; before there is one, of some job
	others   map[uint64]coord.Source // of the group that are in no view, or not yet
	ending   string                  // why this agent has no part any more
	leaving  struct {
		begun bool
		said  time.Duration
		to    coord.ID
	}

	following struct {
		voter coord.ID // who sends briefs
		asked time.Duration
		heard time.Duration
		turn  int
		met   coord.ID // the last one that it has asked since gossip names it
	}
	followers map[coord.ID]*follower // looked up and walked in the order of the view
	gossip    map[coord.ID]observed
	forgot    time.Duration // when it last forgot who is of no interest any more

	ranks      []int  // local ranks that are there
	ended      []int  // those that have ended, and are in the view still
	left       []int  // of these, those that were done: see coord.Report
	entered    uint64 // view that the ranks have entered, after so many redos
	redos      uint64
	done, used int64
	reported   time.Duration
	last       coord.Report // that was sent
	lastTo     coord.ID
	commit     commits
	redo       struct {
		*coord.Redo // nil: none is asked for
		sent        time.Duration
	}

	faults faults // of tests
	out    []Send
	events []Event
}

// follower is an agent that this voter sends briefs.
type follower struct {
	coord.Source
	known coord.Stamp
	seq   uint64
	until time.Duration
}

// Send is a message to one agent. Where ID is zero only the address is known.
type Send struct {
	To      coord.Source
	Message []byte
	// Steady is what the clock alone has said, with nothing new in it: heartbeats, who
	// follows whom, reports and briefs to show that one is there.
	Steady bool
}

// New makes a Node at a time.
func New(cfg Config, now time.Duration) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, now: now, others: map[uint64]coord.Source{}, followers: map[coord.ID]*follower{}, gossip: map[coord.ID]observed{}, ranks: cfg.Self.Ranks}
	n.following.heard = now
	n.lead.reset()
	if len(cfg.Form) > 0 {
		n.voter = n.start(founder(cfg.Self.ID.Raft()))
	}
	return n, nil
}

// Tick lets time pass. It is called every Beat, and may be called more often.
func (n *Node) Tick(now time.Duration) {
	n.now = now
	if n.ending != "" {
		if n.voter != nil && n.voter.leads {
			n.voter.call(n.voter.node.Tick)
			n.lead.vote(n, &n.voter.machine)
		}
		n.ready()
		return
	}
	n.sayLeave()
	if n.voter != nil {
		n.voter.tick(n)
		n.ready()
	}
	if n.now-n.forgot >= forgetEvery {
		n.forgetStrangers()
	}
	n.follow()
	n.report()
	n.commit.send(n)
	n.askRedo()
	n.ready()
}

// Receive takes a message of another agent. One that makes no sense is dropped and
// counted as an event, and so is one of another job.
func (n *Node) Receive(now time.Duration, data []byte) {
	n.now = now
	m, err := coord.ParseMessage(data)
	if err != nil {
		n.event(Event{Kind: Dropped, Reason: err.Error()})
		return
	}
	if m.From.ID == n.cfg.Self.ID || m.To != (coord.ID{}) && m.To != n.cfg.Self.ID {
		return
	}
	if !n.hear(m.From.ID, m.Stamp) {
		return
	}
	if raft, is := m.Body.(*coord.Raft); n.ending == "" {
		n.take(m)
	} else if is && n.voter != nil {
		n.receiveRaft(m.From, raft.Data)
	}
	n.ready()
}

// Lingers reports whether an agent that has ended is still asked for its voice: the others may
// need it to replace it. For that it is to be ticked on, for a few seconds at most.
func (n *Node) Lingers() bool { return n.ending != "" && n.voter != nil }

func (n *Node) take(m *coord.Message) {
	switch b := m.Body.(type) {
	case *coord.Raft:
		n.receiveRaft(m.From, b.Data)
	case *coord.Brief:
		n.takeBrief(m.From.ID, b)
	case *coord.Follow:
		n.takeFollow(m.From, b)
	case *coord.Join:
		n.takeJoin(b)
	case *coord.Ask:
		n.takeAsk(m.From.ID, b.Entry)
	case *coord.Report:
		n.takeReport(m.From.ID, b)
	case *coord.Gone:
		n.takeGone(b)
	}
}

// Stamp is the newest that this agent knows of the job that it is in, for gossip. It is in none
// before it is a member.
func (n *Node) Stamp() coord.Stamp {
	if !n.member() {
		return coord.Stamp{}
	}
	return n.known.Known
}

// Seen is the newest that this agent has heard of, whether it knows it or not; its Index is 0
// before it has heard of the job.
func (n *Node) Seen() coord.Stamp { return n.seen }

// Hear takes a stamp that came by gossip.
func (n *Node) Hear(now time.Duration, s coord.Stamp) {
	n.now = now
	n.hear(coord.ID{}, s)
}

// hear takes a stamp, unless it is another job's: a job of this name and key may have run here
// before, and another one may run beside this one.
func (n *Node) hear(from coord.ID, s coord.Stamp) bool {
	if own := n.known.Known; s.Foreign(own) {
		if n.over() {
			n.known, n.view, n.previous, n.hint, n.seen = coord.Brief{}, nil, nil, nil, s
			return true
		}
		n.event(Event{Kind: Foreign, ID: from, Reason: fmt.Sprintf("of the job of this name that agent %016x has formed; this one was formed by %016x", s.Founder, own.Founder)})
		return false
	}
	if s.Newer(n.seen) {
		n.seen = s
	}
	return true
}

// over reports that the job that this agent has asked to be in is gone, as far as it can tell: it
// was not admitted, and nobody answers. Then another one of this name is as good.
func (n *Node) over() bool {
	return n.ending == "" && !n.member() && n.voter == nil && n.now-n.following.heard >= deafAfter*n.cfg.Beat
}

// Outbox gives the messages to be sent, once.
func (n *Node) Outbox() []Send {
	out := n.out
	n.out = nil
	return out
}

func (n *Node) send(to coord.Source, b coord.Body) { n.put(to, b, false) }

func (n *Node) put(to coord.Source, b coord.Body, steady bool) {
	if to.ID == n.cfg.Self.ID || to.Address == "" {
		return
	}
	m := coord.Message{From: n.source(), To: to.ID, Stamp: n.Stamp(), Body: b}
	n.out = append(n.out, Send{to, coord.AppendMessage(make([]byte, 0, usualMessage), &m), steady})
}

// usualMessage is the room for one of most messages, in bytes.
const usualMessage = 192

func (n *Node) source() coord.Source {
	return coord.Source{ID: n.cfg.Self.ID, Address: n.cfg.Self.Address}
}

// peer is how to reach the agent with a number of the group.
func (n *Node) peer(number uint64) (coord.Source, bool) {
	for _, v := range []*coord.View{n.view, n.hint} {
		if v != nil {
			if i := v.Numbered(number); i >= 0 {
				return coord.Source{ID: v.Members[i].ID, Address: v.Members[i].Address}, true
			}
		}
	}
	s, ok := n.others[number]
	return s, ok
}

// where is how to reach a member.
func (n *Node) where(id coord.ID) coord.Source {
	if s, ok := n.peer(id.Raft()); ok && s.ID == id {
		return s
	}
	return coord.Source{ID: id}
}

// rememberLost is how long an agent that was lost before it was admitted is remembered: what it
// has asked may come late.
const rememberLost = 90 * time.Second

// forgetEvery is how often an agent looks for those that are to be forgotten, where no new view has
// it do so.
const forgetEvery = 10 * time.Second

// forget forgets who is in no view and in no group any more. Of the view before, it keeps
// those that are still in the group.
func (n *Node) forget(before *coord.View) {
	if n.voter != nil && before != nil {
		for _, number := range slices.Concat(n.voter.config.GetVoters(), n.voter.config.GetVotersOutgoing()) {
			if i := before.Numbered(number); i >= 0 && n.view.Numbered(number) < 0 {
				n.others[number] = coord.Source{ID: before.Members[i].ID, Address: before.Members[i].Address}
			}
		}
	}
	for number := range n.others {
		if n.view.Numbered(number) >= 0 || n.voter == nil || !n.voter.has(number) {
			delete(n.others, number)
		}
	}
	n.forgetStrangers()
}

// forgetStrangers forgets who is in no view, and was lost some time ago or asks for nothing any
// more: agents that come and are refused make no view.
func (n *Node) forgetStrangers() {
	n.forgot = n.now
	members := 0
	if n.view != nil {
		members = len(n.view.Members)
	}
	stranger := func(id coord.ID) bool { return n.view == nil || n.view.Index(id) < 0 }
	full := len(n.gossip) > members+maxJoins
	for id, o := range n.gossip {
		if stranger(id) && (o.State == Dead && n.now-o.since > rememberLost || full) {
			delete(n.gossip, id)
		}
	}
	for id := range n.followers {
		if stranger(id) && n.followers[id].until < n.now {
			delete(n.followers, id)
		}
	}
}

// member reports whether this agent is in the newest view that it knows.
func (n *Node) member() bool { return n.view != nil && n.view.Index(n.cfg.Self.ID) >= 0 }

// isVoter reports whether an agent should decide.
func (n *Node) isVoter(id coord.ID) bool {
	return n.view != nil && slices.Contains(n.view.Voters, id)
}
