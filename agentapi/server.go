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
	// Coordinator takes ranks into a job whose ranks come and go; nil: it is not offered.
	Coordinator Coordinator
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
	World  int // ranks of the job; 0: they come and go. Then rounds are not told apart, and no comparison of plans is offered
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
