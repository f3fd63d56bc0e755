package rendezvous

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The simulator runs one machine and many members over links with delays, deaths,
// silence, late nodes and signals, in one goroutine and by one seed, and watches the
// promises of Group. A run that breaks one prints its seed and its history.

// sim is one job.
type sim struct {
	t       *testing.T
	rnd     *rand.Rand
	seed    uint64
	now     time.Duration
	queue   happenings
	serial  int
	machine *machine
	faults  bool
	nodes   []*simNode // by memberID - 1
	over    bool
	rounds  map[int]*agreed // as they were announced
	history []string
	spawned int
}

// simNode is one launcher and its link. A link is cut at both ends at once, or for
// good without a word: then both ends notice the silence.
type simNode struct {
	id         memberID
	local      bool
	rank       int // asked
	member     *member
	alive      bool // the process
	linked     bool // the coordinator has not hung up and the node has not
	mute       bool // messages vanish, both ways
	arrives    [2]time.Duration
	events     map[int]int // by round
	last       Round
	working    bool
	ended      error
	finishTime time.Duration
}

type happening struct {
	at     time.Duration
	serial int // order of equal times
	do     func()
}

type happenings []happening

func (q happenings) Len() int { return len(q) }
func (q happenings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].serial, q[j].serial)) < 0
}
func (q happenings) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *happenings) Push(x any)   { *q = append(*q, x.(happening)) }
func (q *happenings) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (s *sim) after(d time.Duration, do func()) {
	s.serial++
	heap.Push(&s.queue, happening{s.now + d, s.serial, do})
}

// upTo is a random time.
func (s *sim) upTo(d time.Duration) time.Duration { return time.Duration(s.rnd.Int64N(int64(d))) }

func (s *sim) note(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf("%9.3f ", s.now.Seconds())+fmt.Sprintf(format, args...))
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), strings.Join(s.history, "\n"))
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), rounds: map[int]*agreed{}}
	job := joining{RunID: "job", NodeRank: -1, MaxRestarts: s.rnd.IntN(4)}
	job.Max = 1 + s.rnd.IntN(6)
	job.Min = 1 + s.rnd.IntN(job.Max)
	job.Static = s.rnd.IntN(3) == 0
	if job.Static {
		job.Min = job.Max
	}
	s.faults = s.rnd.IntN(4) > 0
	s.machine = newMachine(testRules(job))
	s.note("job %+v faults %v", job, s.faults)
	asked := s.rnd.IntN(2) == 0
	for i := range job.Max {
		rank := -1
		if job.Static || asked {
			rank = i
		}
		s.spawn(rank, i == 0)
	}
	if !job.Static && s.faults {
		for range s.rnd.IntN(4) { // spares, and late ones
			s.spawn(-1, false)
		}
	}
	s.tick()
	return s
}

// spawn starts a launcher some time from now.
func (s *sim) spawn(rank int, local bool) {
	if s.spawned++; s.spawned > 40 {
		return
	}
	delay := s.upTo(40 * time.Second)
	if local {
		delay = 0
	} else if s.faults && s.rnd.IntN(4) == 0 {
		delay = s.upTo(20 * time.Minute)
	}
	s.after(delay, func() { s.join(rank, local) })
}

func (s *sim) join(rank int, local bool) {
	if s.over {
		return
	}
	j := s.machine.rules.job
	j.NodeRank, j.Port = rank, 1
	j.Node = Node{Host: fmt.Sprint("host", s.rnd.IntN(8)), PID: s.spawned, LocalWorld: 1}
	n := &simNode{local: local, rank: rank, alive: true, linked: true, events: map[int]int{}}
	n.id = s.machine.last + 1
	n.member = &member{id: n.id, host: "h", endpoint: "h:1"}
	s.nodes = append(s.nodes, n)
	s.note("node %d joins, rank %d", n.id, rank)
	s.act(s.machine.step(s.now, input{message: &message{Type: typeJoin, Join: &j}, local: local}))
	if !n.linked {
		return
	}
	s.beat(n)
	s.callNext(n)
	if s.faults && s.rnd.IntN(3) == 0 && (!local || s.rnd.IntN(4) == 0) {
		s.after(s.upTo(30*time.Minute), func() { s.harm(n) })
	}
}

// harm lets something bad happen to a node.
func (s *sim) harm(n *simNode) {
	if !n.alive || s.over {
		return
	}
	kind := s.rnd.IntN(5)
	if n.local && kind < 3 {
		s.crash()
		return
	}
	switch kind {
	case 0, 1:
		s.note("node %d dies", n.id)
		s.die(n)
	case 2:
		s.note("node %d is cut off", n.id)
		n.mute = true
		s.after(15*time.Second, func() {
			if n.alive {
				n.linked = false
				n.member.lost("no sign of life")
				s.flush(n)
			}
		})
	case 3:
		s.note("node %d gets a signal", n.id)
		n.member.report(Outcome{Kind: Signalled, Signal: 15})
		s.flush(n)
	case 4:
		s.note("node %d leaves", n.id)
		n.member.out.messages = append(n.member.out.messages, &message{Type: typeOutcome, Outcome: &Outcome{Kind: Left}})
		s.flush(n)
		s.die(n)
	}
	if n.local || s.machine.rules.job.Static {
		return
	}
	s.spawn(n.rank, false) // the scheduler starts another
}

// crash ends the process with the coordinator in it: all links are cut.
func (s *sim) crash() {
	s.note("the coordinator dies")
	s.over = true
	for _, n := range s.nodes {
		if n.local {
			n.alive, n.working = false, false
		}
		s.after(s.flight(n, 0), func() {
			if n.alive {
				n.linked = false
				n.member.lost("its launcher ended")
				s.flush(n)
			}
		})
	}
}

// die ends a launcher; the kernel tells the coordinator.
func (s *sim) die(n *simNode) {
	n.alive, n.working = false, false
	s.after(s.flight(n, 1), func() {
		if n.linked && !n.mute {
			n.linked = false
			s.act(s.machine.step(s.now, input{from: n.id, lost: "its launcher ended"}))
		}
	})
}

// flight is the time that a message takes; those of one link and direction stay in
// order.
func (s *sim) flight(n *simNode, direction int) time.Duration {
	d := s.upTo(200 * time.Millisecond)
	at := max(n.arrives[direction], s.now+d)
	n.arrives[direction] = at
	return at - s.now
}

// beat sends signs of life.
func (s *sim) beat(n *simNode) {
	s.after(5*time.Second, func() {
		if n.alive && n.linked && !s.over {
			s.toCoordinator(n, &message{Type: typeBeat})
			s.beat(n)
		}
	})
}

func (s *sim) toCoordinator(n *simNode, m *message) {
	s.after(s.flight(n, 1), func() {
		if n.linked && !n.mute {
			s.act(s.machine.step(s.now, input{from: n.id, message: m}))
		}
	})
}

// tick gives the machine the time, as the coordinator does.
func (s *sim) tick() {
	if s.over {
		return
	}
	wait := 5 * time.Second
	if at, ok := s.machine.wake(); ok {
		wait = max(0, min(wait, at-s.now))
	}
	s.after(max(wait, time.Millisecond), func() {
		s.act(s.machine.step(s.now, input{}))
		s.tick()
	})
}

// act does what the machine wants.
func (s *sim) act(effects []effect) {
	ready := 0
	for _, m := range s.machine.members {
		if m.ready {
			ready++
		}
	}
	if ready != s.machine.standby {
		s.fail("%d nodes are ready, counted are %d", ready, s.machine.standby)
	}
	for _, e := range effects {
		switch e.kind {
		case send:
			if e.message.Type == typeRound {
				s.announce(e.message.Agreed)
			}
			for _, id := range e.to {
				n := s.nodes[id-1]
				s.after(s.flight(n, 0), func() { s.toNode(n, e.message) })
			}
		case drop, cut:
			s.nodes[e.to[0]-1].linked = false
		case finish:
			s.note("the job is over")
			s.over = true
		}
	}
}

// announce checks a round as it begins.
func (s *sim) announce(a *agreed) {
	s.note("round %d of %v, restarts %d", a.Number, a.Members, a.Restarts)
	job := &s.machine.rules.job
	if n := len(a.Members); n < job.Min || n > job.Max || n != len(a.Nodes) {
		s.fail("a round of %d nodes", n)
	}
	if a.Restarts > job.MaxRestarts {
		s.fail("%d restarts, the budget has %d", a.Restarts, job.MaxRestarts)
	}
	if before := s.rounds[a.Number-1]; s.rounds[a.Number] != nil || a.Number > 0 && (before == nil || before.Restarts > a.Restarts) {
		s.fail("round %d comes after %+v", a.Number, before)
	}
	s.rounds[a.Number] = a
	asked := map[int]memberID{}
	for rank, id := range a.Members {
		n := s.nodes[id-1]
		if slices.Index(a.Members, id) != rank {
			s.fail("node %d has two ranks", id)
		}
		if n.rank >= 0 && n.rank < len(a.Members) {
			if n.rank != rank {
				s.fail("node %d asked for rank %d and has %d", id, n.rank, rank)
			}
			asked[rank] = id
		}
	}
	s.checkSticky(a, asked)
	// No worker of an older round may run. A node that nobody hears is another matter.
	for _, n := range s.nodes {
		if n.working && n.linked && !n.mute {
			s.fail("round %d begins and node %d still works on round %d", a.Number, n.id, n.last.Number)
		}
	}
}

// checkSticky: a node of the round before keeps its rank, unless the new round has
// no such rank or somebody asked for it.
func (s *sim) checkSticky(a *agreed, asked map[int]memberID) {
	before := s.rounds[a.Number-1]
	if before == nil {
		return
	}
	for rank, id := range before.Members {
		now := slices.Index(a.Members, id)
		if n := s.nodes[id-1]; now >= 0 && rank < len(a.Members) && n.rank < 0 && now != rank && asked[rank] == 0 {
			s.fail("node %d had rank %d and now has %d", id, rank, now)
		}
	}
}

// toNode delivers a message of the coordinator.
func (s *sim) toNode(n *simNode, m *message) {
	if !n.alive || !n.linked && m.Type != typeEvent && m.Type != typeRefused || n.mute {
		return
	}
	if m.Type == typeRefused {
		s.note("node %d is refused: %s", n.id, m.Reason)
		n.alive = false
		return
	}
	n.member.receive(m)
	s.flush(n)
}

// flush does what the member wants, and what a launcher does then.
func (s *sim) flush(n *simNode) {
	out := n.member.take()
	for _, m := range out.messages {
		s.toCoordinator(n, m)
	}
	if out.probe != nil {
		kind := typeListening
		if out.probe.Type == typeProbe {
			kind = typeProbed
		}
		s.toCoordinator(n, &message{Type: kind, Attempt: out.probe.Attempt})
	}
	if out.round != nil {
		s.begin(n, *out.round)
	}
	if out.event != nil {
		s.take(n, *out.event)
	}
	if out.ended {
		s.stopped(n)
	}
}

// begin starts a node's workers.
func (s *sim) begin(n *simNode, r Round) {
	a := s.rounds[r.Number]
	if a == nil || !reflect.DeepEqual(r.Nodes, a.Nodes) || r.Restarts != a.Restarts || a.Members[r.Rank] != n.id || r.MasterPort != 1 {
		s.fail("node %d got round %+v, announced was %+v", n.id, r, a)
	}
	n.last, n.working = r, true
	long := s.upTo(8 * time.Minute)
	s.after(long, func() {
		if !n.alive || !n.working || n.last.Number != r.Number {
			return
		}
		o := Outcome{Round: r.Number, Kind: Succeeded}
		if s.faults && s.rnd.IntN(6) == 0 {
			o.Kind, o.Cause = Failed, &Failure{Rank: r.Rank, ExitCode: 3}
		}
		s.note("node %d: %s", n.id, o.Kind)
		n.working = false
		n.member.report(o)
		s.flush(n)
	})
}

// take is a launcher's answer to an event.
func (s *sim) take(n *simNode, e Event) {
	s.note("node %d: event %s of round %d %s", n.id, e.Kind, e.Round, e.Reason)
	if n.events[e.Round]++; n.events[e.Round] > 1 || e.Round != n.last.Number {
		s.fail("node %d: event %+v", n.id, e)
	}
	if e.Kind == Done && n.working {
		s.fail("node %d is told that all succeeded while it works", n.id)
	}
	kill := time.Millisecond
	if n.working {
		kill = s.upTo(30 * time.Second) // workers that take their time
	}
	s.after(kill, func() {
		n.working = false
		if !n.alive {
			return
		}
		if e.Kind == Restart {
			s.callNext(n)
		} else {
			s.stopped(n)
		}
	})
}

func (s *sim) callNext(n *simNode) {
	if err := n.member.next(); err != nil {
		s.stopped(n)
		return
	}
	s.flush(n)
}

// stopped ends a launcher that knows that the job is over.
func (s *sim) stopped(n *simNode) {
	n.ended = n.member.over
	n.alive, n.working, n.finishTime = false, false, s.now
}

// run plays until nothing happens any more.
func (s *sim) run() {
	for len(s.queue) > 0 {
		h := heap.Pop(&s.queue).(happening)
		s.now = h.at
		if s.now > 24*time.Hour {
			s.fail("the job does not end")
		}
		h.do()
	}
	if !s.over {
		s.fail("nothing happens and the job is not over")
	}
	for _, n := range s.nodes {
		if n.alive {
			s.fail("node %d does not know that the job is over", n.id)
		}
		if n.ended != nil && n.last.Nodes != nil && n.events[n.last.Number] != 1 {
			s.fail("node %d: %d events for round %d", n.id, n.events[n.last.Number], n.last.Number)
		}
	}
	if s.faults {
		return
	}
	// Without a fault all succeed at the first try, at most with nodes that came late.
	for _, n := range s.nodes {
		if n.ended != ErrFinished { //nolint:errorlint // never wrapped
			s.fail("node %d ended with %v", n.id, n.ended)
		}
	}
}

func TestSimulation(t *testing.T) {
	runs := uint64(1000)
	if testing.Short() {
		runs = 200
	}
	restarts, rounds, signalled := 0, 0, 0
	for seed := range runs {
		s := newSim(t, seed)
		s.run()
		rounds += len(s.rounds)
		restarts += s.machine.restarts
		if strings.Contains(strings.Join(s.history, "\n"), "stopped by signal") {
			signalled++
		}
	}
	t.Logf("%d jobs, %d rounds, %d charged restarts, %d stopped by a signal", runs, rounds, restarts, signalled)
	if rounds < int(runs)*5/4 || restarts < int(runs)/10 || signalled < int(runs)/100 {
		t.Error("the simulation has become too tame")
	}
}
