package rendezvous

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/headrace/headrace/nd"
)

// single is a job of one node: the same two machines, without a network or a
// goroutine between them.
type single struct {
	port      *Port
	events    chan Event
	documents chan Document
	mu        struct {
		sync.Mutex
		machine *machine
		member  *member
		round   *Round
	}
}

// Single is the group of a job of one node. Of the Config it reads RunID, Endpoint,
// Node and MaxRestarts. Endpoint is the master's address and port; the port may be
// DefaultPort or AnyPort. The port is held until Close.
func Single(config Config) (Group, error) {
	config.fill()
	host, number, err := splitEndpoint(config.Endpoint)
	if err != nil {
		return nil, err
	}
	port, err := config.network.hold(number)
	if err != nil {
		return nil, err
	}
	config.Static, config.Min, config.Max, config.NodeRank = true, 1, 1, 0
	if config.Node.Addr == "" {
		config.Node.Addr = host
	}
	s := &single{port: port, events: make(chan Event, 1), documents: make(chan Document, 16)}
	s.mu.machine = newMachine(rules{job: config.joining(port.Number)})
	endpoint := net.JoinHostPort(host, strconv.Itoa(port.Number))
	s.mu.member = &member{id: 1, host: host, runID: config.RunID, endpoint: endpoint}
	join := config.joining(port.Number)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The master is this host: there is nobody to reach it but its own workers.
	s.mu.machine.checked = (&agreed{Members: []memberID{1}, Port: port.Number}).place()
	s.runLocked(s.mu.machine.step(0, input{message: &message{Type: typeJoin, Join: &join}, local: true}))
	return s, nil
}

// joining is the node's request to join.
func (c *Config) joining(port int) joining {
	return joining{
		Node: c.Node, NodeRank: c.NodeRank, RunID: c.RunID, Static: c.Static,
		Min: c.Min, Max: c.Max, MaxRestarts: c.MaxRestarts, Port: port, Live: c.Live,
	}
}

// runLocked carries messages between the machines until none is left.
func (s *single) runLocked(effects []effect) {
	for {
		for _, e := range effects {
			if e.kind == send {
				s.mu.member.receive(e.message)
			}
		}
		effects = nil
		out := s.mu.member.take()
		if out.round != nil {
			s.mu.round = out.round
		}
		if out.event != nil {
			s.events <- *out.event // there is room: Next has taken the former one away
		}
		if out.document != nil {
			select {
			case s.documents <- *out.document:
			default:
			}
		}
		if len(out.messages) == 0 {
			return
		}
		for _, m := range out.messages {
			effects = append(effects, s.mu.machine.step(0, input{from: 1, message: m})...)
		}
	}
}

func (s *single) Next(ctx context.Context) (Round, error) {
	if err := ctx.Err(); err != nil {
		return Round{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.member.next(); err != nil {
		return Round{}, err
	}
	select {
	case <-s.events: // the caller did without it
	default:
	}
	s.mu.round = nil
	s.runLocked(nil)
	if s.mu.round == nil {
		return Round{}, nd.Errorf(nd.ErrBug, "a round of one node did not begin")
	}
	return *s.mu.round, nil
}

func (s *single) Report(_ context.Context, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.member.report(o)
	s.runLocked(nil)
	return nil
}

func (s *single) Events() <-chan Event     { return s.events }
func (s *single) Relayed() <-chan Document { return s.documents }

func (s *single) Relay(_ context.Context, to int, kind string, doc []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.member.relay(to, kind, doc); err != nil {
		return err
	}
	s.runLocked(nil)
	return nil
}

func (s *single) Close() error { return s.port.Close() }
