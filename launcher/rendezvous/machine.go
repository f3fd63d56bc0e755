package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// machine is the coordinator of a job: it decides which nodes are in a round, what
// a node's outcome means for the others, and when the job is over. It is pure: what
// happens goes in by step, what is to be done comes out, time is given to it. One
// goroutine owns it.
//
//	gathering ──▶ probing ──▶ running ──▶ ended
//	    ▲            │           │
//	    └────────────┴───────────┘  a node is lost, a worker fails, a node comes
type machine struct {
	rules   rules
	phase   phase
	now     time.Duration // since the machine began
	ticked  time.Duration // of the last tick
	members []*seat       // by id
	standby int           // members that are ready
	last    memberID      // given out

	number   int     // of the round that runs, or ran last; -1: none
	restarts int     // charged to the budget
	proposed *agreed // of the round that is probed, or runs
	checked  string  // the members and the master that have been probed
	attempt  int     // probe, counted
	left     []vacancy

	gather struct {
		since   time.Duration
		minAt   time.Duration // when there were enough nodes; -1: there are not
		wait    bool          // give more nodes a last call
		charged bool          // the budget has paid for the restart
	}
	probing struct {
		since     time.Duration
		listening bool
		left      int // nodes that have not answered
	}
	exitAt   time.Duration // when the exit barrier falls; 0: no node has succeeded
	departed bool          // a node that succeeded is gone, and cannot be restarted
	out      []effect
}

// rules are the part of a Config that the machine follows.
type rules struct {
	job       joining // what every node must mean
	join      time.Duration
	lastCall  time.Duration
	exit      time.Duration
	lostAfter time.Duration
	probe     time.Duration
}

type phase int

const (
	gathering phase = iota
	probing
	running
	ended
)

// seat is one node, from its join until it is lost.
type seat struct {
	id        memberID
	join      joining
	sees      string // the address by which the coordinator sees the node
	local     bool   // the coordinator's own node
	heard     time.Duration
	ready     bool // no worker runs
	inRound   bool // takes part in the round that runs or ran last
	succeeded bool // in that round
	probed    bool
	rank      int // in the newest round that it was in; -1: none
}

// input is one thing that happens: a message, the loss of a node, or nothing but
// time (the zero value).
type input struct {
	from    memberID
	message *message
	lost    string // why the node is gone
	sees    string // with a join
	local   bool   // with a join
}

// effect is one thing to do, in order.
type effect struct {
	kind    effectKind
	to      []memberID
	message *message
}

type effectKind int

const (
	send          effectKind = iota // message to the nodes of to
	drop                            // hang up on a node, once it has what was sent
	cut                             // hang up on a node at once: it hears nothing
	closeListener                   // no more nodes can join
	finish                          // the job is over: hang up on everyone
)

func newMachine(r rules) *machine {
	m := &machine{rules: r, number: -1}
	m.gather.minAt, m.gather.wait = -1, true
	return m
}

// step takes what happened at a time, which never runs backwards.
func (m *machine) step(now time.Duration, in input) []effect {
	m.now, m.out = now, nil
	switch {
	case in.message != nil && in.message.Type == typeJoin:
		m.join(in)
	case in.message != nil:
		if s := m.find(in.from); s != nil {
			s.heard = now
			m.take(s, in.message)
		}
	case in.lost != "":
		if s := m.find(in.from); s != nil {
			m.lose(s, in.lost)
		}
	default:
		m.tick()
	}
	return m.out
}

func (m *machine) find(id memberID) *seat {
	i, ok := slices.BinarySearchFunc(m.members, id, func(s *seat, id memberID) int { return int(s.id - id) })
	if !ok {
		return nil
	}
	return m.members[i]
}

// take acts on a message of a node that has joined.
func (m *machine) take(s *seat, msg *message) {
	if m.phase == ended {
		return
	}
	switch msg.Type {
	case typeReady:
		m.ready(s)
	case typeOutcome:
		m.outcome(s, msg.Outcome)
	case typeListening:
		m.listening(s, msg)
	case typeProbed:
		m.probed(s, msg)
	case typeRelay:
		m.relay(s, msg.Relay)
	}
}

// ready takes a node whose workers have ended, or that has none yet. A node that
// comes while a round runs that has room for it restarts the others, free of
// charge: torchrun's rule. Once a node has succeeded it is too late for that.
func (m *machine) ready(s *seat) {
	if m.phase == running && s.inRound {
		return // it has an event still to come, and will ask again
	}
	if !s.ready {
		s.ready = true
		m.standby++
	}
	switch {
	case m.phase == gathering:
		m.tryClose()
	case m.phase == running && m.rules.job.Live:
		m.fillUp()
	case m.phase == running && m.room() && m.exitAt == 0:
		m.restart(Event{Reason: s.name() + " joined"}, false)
	}
}

// room reports whether a node stands by that the round could take.
func (m *machine) room() bool {
	return len(m.proposed.Members) < m.rules.job.Max && slices.ContainsFunc(m.members, func(s *seat) bool {
		return s.ready && !slices.Contains(m.proposed.Members, s.id)
	})
}

// tryClose begins a round if all that it needs are there: no worker of the round
// before is left, and there are enough nodes.
func (m *machine) tryClose() {
	job := &m.rules.job
	if m.standby < job.Min {
		m.gather.minAt = -1
		return
	}
	if slices.ContainsFunc(m.members, func(s *seat) bool { return s.inRound && !s.ready }) {
		return
	}
	if m.gather.minAt < 0 {
		m.gather.minAt = m.now
	}
	if m.standby >= job.Max || !m.gather.wait || m.now >= m.gather.minAt+m.rules.lastCall {
		m.propose()
	}
}

// propose fixes the nodes of a round and their ranks, and has the master's address
// checked unless it was for these nodes.
func (m *machine) propose() {
	seats := assign(m.choose(), m.left)
	a := &agreed{Number: m.number + 1, Restarts: m.restarts}
	for _, s := range seats {
		node := s.join.Node
		if node.Addr == "" {
			node.Addr = s.sees
		}
		a.Members, a.Nodes = append(a.Members, s.id), append(a.Nodes, node)
	}
	a.Addr, a.Port = m.master(seats[0]), seats[0].join.Port
	m.proposed = a
	if m.rules.job.Static && m.number < 0 {
		m.out = append(m.out, effect{kind: closeListener})
	}
	if m.checked == a.place() {
		m.begin()
		return
	}
	m.startProbe()
}

// master is the address of rank 0 for the others. A node that gave none is reached
// as the coordinator sees it; on the coordinator's own machine that is the endpoint,
// which every node has dialled, spelled as it did.
func (m *machine) master(s *seat) string {
	switch {
	case m.rules.job.Static:
		return ""
	case s.join.Node.Addr != "":
		return s.join.Node.Addr
	case s.local || loopback(s.sees):
		return ""
	}
	return s.sees
}

// place is what a probe is about.
func (a *agreed) place() string { return fmt.Sprint(a.Members, a.Addr, a.Port) }

// begin starts the round.
func (m *machine) begin() {
	m.phase, m.number, m.exitAt, m.departed = running, m.proposed.Number, 0, false
	m.checked = m.proposed.place()
	for _, s := range m.members {
		s.inRound = false
	}
	m.standby -= len(m.proposed.Members)
	for rank, id := range m.proposed.Members {
		s := m.find(id)
		s.inRound, s.ready, s.succeeded, s.rank = true, false, false, rank
	}
	m.send(m.proposed.Members, &message{Type: typeRound, Agreed: m.proposed})
}

// round lists the nodes of the round that are still there.
func (m *machine) round() []memberID {
	var ids []memberID
	for _, s := range m.members {
		if s.inRound {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// relay passes a document on, within the round.
func (m *machine) relay(s *seat, r *relayed) {
	if m.phase != running || !s.inRound || r.Round != m.number || r.To >= len(m.proposed.Members) {
		return
	}
	doc := *r
	doc.From = s.rank
	msg := &message{Type: typeRelay, Relay: &doc}
	if r.To >= 0 {
		m.send(m.proposed.Members[r.To:r.To+1], msg)
		return
	}
	m.send(slices.DeleteFunc(m.round(), func(id memberID) bool { return id == s.id }), msg)
}

// send leaves out the nodes that are gone.
func (m *machine) send(to []memberID, msg *message) {
	to = slices.DeleteFunc(slices.Clone(to), func(id memberID) bool { return m.find(id) == nil })
	if len(to) > 0 {
		m.out = append(m.out, effect{kind: send, to: to, message: msg})
	}
}

// name is how a node is called in messages for people.
func (s *seat) name() string {
	where := s.join.Node.Host
	if where == "" {
		where = s.sees
	}
	rank := s.rank
	if rank < 0 {
		rank = s.join.NodeRank
	}
	if rank < 0 {
		return fmt.Sprintf("node %s (pid %d)", where, s.join.Node.PID)
	}
	return fmt.Sprintf("node %d (%s, pid %d)", rank, where, s.join.Node.PID)
}

// text is a failure in one line.
func (f *Failure) text() string {
	switch {
	case f == nil:
		return "a worker failed"
	case f.Message != "":
		first, _, _ := strings.Cut(f.Message, "\n")
		return first
	case f.Signal != 0:
		return fmt.Sprintf("rank %d was killed by signal %d", f.Rank, f.Signal)
	}
	return fmt.Sprintf("rank %d exited with code %d", f.Rank, f.ExitCode)
}
