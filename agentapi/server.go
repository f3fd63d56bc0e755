package agentapi

import (
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/nd"
)

// The kinds of documents that servers exchange.
const (
	planDocument    = "plan"
	verdictDocument = "verdict"
)

// Options say what a server does. The zero value serves a job of one node.
type Options struct {
	RunID       string        // clients of another job are refused; "": any
	PlanTimeout time.Duration // for all ranks' plans; 0: 60 s
	MaxClients  int           // connections at a time; 0: 4096
	// Relay sends a document to the server of another node of the round, to = -1 to
	// all others. nil: there is no other node. It may block for a moment.
	Relay func(to int, kind string, doc []byte) error
}

func (o *Options) fill() {
	if o.PlanTimeout <= 0 {
		o.PlanTimeout = time.Minute
	}
	if o.MaxClients <= 0 {
		o.MaxClients = 4096 // two loaders a rank and more, on the largest host there is
	}
}

// Round is the round whose ranks a server serves.
type Round struct {
	Number int
	World  int // ranks of the job
	Node   int // group rank of the server's node; 0 compares the plans
}

// Server is the launcher's or agent's end for the ranks of its node. It starts two
// goroutines for each client and two of its own; Close ends them all.
type Server struct {
	listener net.Listener
	options  Options
	running  sync.WaitGroup
	closing  chan struct{}
	wake     chan struct{} // a deadline was added
	mu       struct {
		sync.Mutex
		closed  bool
		round   Round
		clients map[*client]bool
		stats   map[int]RankStats
		checks  *checks
		waiting []waiter
		early   []roundPlan // of a round that is still to begin here

		earlyBytes int // about what they take
	}
}

// roundPlan is the document by which a plan goes to node 0.
type roundPlan struct {
	Round int  `json:"round"`
	Plan  Plan `json:"plan"`
}

// waiter is a plan of one of this node's ranks that has no verdict yet.
type waiter struct {
	client   *client
	id       uint64
	check    string
	deadline time.Time
}

// Serve answers the clients of a listener, and owns it.
func Serve(l net.Listener, options Options) *Server {
	options.fill()
	s := &Server{listener: l, options: options, closing: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.mu.clients, s.mu.stats = map[*client]bool{}, map[int]RankStats{}
	s.mu.round = Round{Number: -1}
	s.mu.checks = newChecks(0)
	s.running.Go(s.accept)
	s.running.Go(s.expire)
	return s
}

// Begin tells the server of a new round, before its ranks are started: what the
// former round's ranks left is forgotten, and who of them still waits is told.
func (s *Server) Begin(r Round) {
	s.mu.Lock()
	left, early := s.mu.waiting, s.mu.early
	s.mu.round, s.mu.checks, s.mu.waiting, s.mu.early, s.mu.earlyBytes = r, newChecks(r.World), nil, nil, 0
	clear(s.mu.stats)
	s.mu.Unlock()
	for _, p := range early {
		s.collect(p.Round, p.Plan)
	}
	for _, w := range left {
		w.client.reply(&message{Type: typeChecked, ID: w.id, Error: describe(nd.Errorf(nd.ErrClosed, "the round ended while the plan waited"))})
	}
}

// Close hangs up on all clients and returns when no goroutine is left.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.mu.closed
	s.mu.closed = true
	if first {
		close(s.closing)
	}
	for c := range s.mu.clients {
		c.hangUp()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.running.Wait()
	if !first || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// RankStats are the newest stats of one rank.
type RankStats struct {
	Rank, LocalRank, PID int
	Time                 time.Time // when they came
	Stats                Stats
}

// Stats lists the newest stats of this node's ranks in the current round, by rank.
// The maps are not changed any more.
func (s *Server) Stats() []RankStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]RankStats, 0, len(s.mu.stats))
	for _, r := range s.mu.stats {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b RankStats) int { return a.Rank - b.Rank })
	return list
}

// Receive takes a document that the server of another node sent by its Relay, in
// the given round, which may not have begun here. Kinds that are not the server's are
// left to others: false.
func (s *Server) Receive(round, from int, kind string, doc []byte) (bool, error) {
	switch kind {
	case planDocument:
		var p roundPlan
		if err := json.Unmarshal(doc, &p); err != nil {
			return true, nd.Errorf(nd.ErrCorrupt, "plan of node %d: %w", from, err)
		}
		if err := p.Plan.Validate(); err != nil {
			return true, err
		}
		if p.Round == round { // else the round ended on its way
			s.collect(round, p.Plan)
		}
		return true, nil
	case verdictDocument:
		var v verdict
		if err := json.Unmarshal(doc, &v); err != nil {
			return true, nd.Errorf(nd.ErrCorrupt, "verdict of node %d: %w", from, err)
		}
		if from == 0 && v.Round == round {
			s.settle(round, v)
		}
		return true, nil
	}
	return false, nil
}

// plan takes the plan of one of this node's ranks.
func (s *Server) plan(c *client, id uint64, p Plan) {
	deadline := time.Now().Add(s.options.PlanTimeout)
	s.mu.Lock()
	round := s.mu.round
	if c.round != round.Number { // Begin came in between
		s.mu.Unlock()
		c.reply(&message{Type: typeChecked, ID: id, Error: describe(nd.Errorf(nd.ErrClosed, "the round ended before the plan came"))})
		return
	}
	if round.Node != 0 {
		// Node 0's verdict names the missing ranks; it gets the time to arrive.
		deadline = deadline.Add(s.options.PlanTimeout / 10)
	}
	s.mu.waiting = append(s.mu.waiting, waiter{c, id, p.Check, deadline})
	s.mu.Unlock()
	if round.Node == 0 {
		s.collect(round.Number, p)
	} else if err := s.relayPlan(roundPlan{round.Number, p}); err != nil {
		s.settle(round.Number, verdict{Check: p.Check, Error: describe(err)})
	}
	s.rouse()
}

// rouse has expire look at the deadlines again.
func (s *Server) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) relayPlan(p roundPlan) error {
	doc, err := json.Marshal(p)
	if err != nil {
		return nd.Errorf(nd.ErrBug, "plan: %w", err)
	}
	return s.relay(0, planDocument, doc)
}

func (s *Server) relay(to int, kind string, doc []byte) error {
	if s.options.Relay == nil {
		return nil
	}
	return s.options.Relay(to, kind, doc)
}

// collect adds a plan to node 0's checks. Another node's launcher may be ahead of this
// one: a plan of the next round waits for Begin.
func (s *Server) collect(round int, p Plan) {
	s.mu.Lock()
	if round > s.mu.round.Number {
		if s.mu.earlyBytes += size(&p); s.mu.earlyBytes <= maxPlanBytes {
			s.mu.early = append(s.mu.early, roundPlan{round, p})
		}
		s.mu.Unlock()
		return
	}
	if round != s.mu.round.Number || s.mu.round.Node != 0 {
		s.mu.Unlock()
		return
	}
	done, err := s.mu.checks.add(p, time.Now().Add(s.options.PlanTimeout))
	s.mu.Unlock()
	if done {
		s.announce(round, verdict{Check: p.Check, Error: describe(err)})
	}
	s.rouse()
}

// announce settles a check on all nodes.
func (s *Server) announce(round int, v verdict) {
	v.Round = round
	if doc, err := json.Marshal(v); err == nil {
		// A node that does not hear of it answers its ranks when their time is up.
		_ = s.relay(-1, verdictDocument, doc)
	}
	s.settle(round, v)
}

// settle answers this node's ranks that wait for a check.
func (s *Server) settle(round int, v verdict) {
	s.mu.Lock()
	if round != s.mu.round.Number {
		s.mu.Unlock()
		return
	}
	answered := s.takeLocked(func(w waiter) bool { return w.check == v.Check })
	s.mu.Unlock()
	for _, w := range answered {
		w.client.reply(&message{Type: typeChecked, ID: w.id, Error: v.Error})
	}
}

// takeLocked removes and returns the waiters that match.
func (s *Server) takeLocked(match func(waiter) bool) []waiter {
	var taken []waiter
	s.mu.waiting = slices.DeleteFunc(s.mu.waiting, func(w waiter) bool {
		if match(w) {
			taken = append(taken, w)
			return true
		}
		return false
	})
	return taken
}

// expire gives up on checks whose time is up, until Close.
func (s *Server) expire() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.wake:
		case <-timer.C:
			s.giveUp(time.Now())
		}
		timer.Reset(time.Until(s.nextDeadline()))
	}
}

func (s *Server) nextDeadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := time.Now().Add(time.Hour)
	for _, w := range s.mu.waiting {
		if w.deadline.Before(next) {
			next = w.deadline
		}
	}
	for _, k := range s.mu.checks.open {
		if k.deadline.Before(next) {
			next = k.deadline
		}
	}
	return next
}

func (s *Server) giveUp(now time.Time) {
	s.mu.Lock()
	round := s.mu.round
	over := s.mu.checks.expire(now)
	s.mu.Unlock()
	for _, v := range over {
		s.announce(round.Number, v)
	}
	s.mu.Lock()
	late := s.takeLocked(func(w waiter) bool { return !now.Before(w.deadline) })
	s.mu.Unlock()
	for _, w := range late {
		err := nd.Errorf(nd.ErrIO, "node 0 gave no verdict on the check %q in time", w.check)
		w.client.reply(&message{Type: typeChecked, ID: w.id, Error: describe(err)})
	}
}
