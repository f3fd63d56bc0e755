package rendezvous

import (
	"context"
	"fmt"
	"sync"

	"github.com/headrace/headrace/nd"
)

// single is the group of a job of one node: the same rules, no network.
type single struct {
	config Config
	events chan Event
	mu     struct {
		sync.Mutex
		number, restarts int // of the next round
		open             bool
		over             *Event
	}
}

// Single is the group of a job of one node. Of the Config it reads RunID,
// Endpoint (the master's address and port), Node and MaxRestarts.
func Single(config Config) (Group, error) {
	return &single{config: config, events: make(chan Event, 1)}, nil
}

func (s *single) Next(ctx context.Context) (Round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Round{}, err
	}
	if s.mu.over != nil {
		return Round{}, &Stopped{*s.mu.over}
	}
	host, port, err := splitEndpoint(s.config.Endpoint)
	if err != nil {
		return Round{}, err
	}
	s.mu.open = true
	r := Round{
		Number: s.mu.number, Restarts: s.mu.restarts, Nodes: []Node{s.config.Node},
		MasterAddr: host, MasterPort: port, RunID: s.config.RunID,
	}
	s.mu.number++
	return r, nil
}

func (s *single) Report(_ context.Context, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.open && o.Kind != Signalled {
		return nil
	}
	event := Event{Kind: Stop, Round: o.Round, Cause: o.Cause, Signal: o.Signal}
	switch {
	case o.Kind == Succeeded:
		event.Kind = Done
	case o.Kind == Failed && s.mu.restarts < s.config.MaxRestarts:
		event.Kind = Restart
		event.Reason = fmt.Sprintf("restart %d of %d", s.mu.restarts+1, s.config.MaxRestarts)
		s.mu.restarts++
	}
	if event.Kind != Restart {
		s.mu.over = &event
	}
	if s.mu.open {
		s.mu.open = false
		s.events <- event
	}
	return nil
}

func (s *single) Events() <-chan Event     { return s.events }
func (s *single) Relayed() <-chan Document { return nil }
func (s *single) Close() error             { return nil }

func (s *single) Relay(_ context.Context, to int, _ string, _ []byte) error {
	if to != Everyone {
		return nd.Errorf(nd.ErrShape, "no node %d in a round of one node", to)
	}
	return nil
}
