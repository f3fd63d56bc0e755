package agentapi

import (
	"math"
	"sync"

	"github.com/headrace/headrace/nd"
)

// Coordinator takes the ranks of this node into a job whose ranks come and go. Its
// methods are called by the goroutine that reads a rank's connection, one call at a time
// for each seat. They may wait for a moment, in which nothing more is read of that rank.
type Coordinator interface {
	// Attach takes a rank. What it is told comes by the seat, until Detach.
	Attach(s *Seat, a Attach) error
	// Progress is how far a lockstep rank is.
	Progress(s *Seat, p Progress)
	// Commit is what an async rank has done. Each part is answered by Seat.Decided.
	Commit(s *Seat, parts []Part) error
	// Redo asks that all ranks go on from a step.
	Redo(s *Seat, r Redo) error
	// Detach is the end of the seat: the rank said so (left), or its connection ended.
	Detach(s *Seat, left bool)
}

// Attach is a rank that wants to be in the job, and what it means by the job.
type Attach struct {
	Plan   string `json:"plan"`   // sampler.Stream.PlanSummary
	Mode   string `json:"mode"`   // lockstep or async
	N      int64  `json:"n"`      // samples of an epoch
	Steps  int64  `json:"steps"`  // of an epoch
	Epochs int64  `json:"epochs"` // 0: as many as are asked for
	Ahead  int64  `json:"ahead"`  // async: positions delivered and not committed, at most
	Epoch  int64  `json:"epoch"`  // where the rank's state is, for a job that is formed now
	Step   int64  `json:"step"`
}

// Closed is an epoch that is complete.
type Closed struct {
	Epoch  int64  `json:"epoch"`
	Count  int64  `json:"count"`  // positions
	Digest string `json:"digest"` // sampler.Digest of them, async
}

// Span is positions from Start up to and without Stop.
type Span struct {
	Start int64 `json:"start"`
	Stop  int64 `json:"stop"`
}

// Progress is how far a lockstep rank is in the view that it has entered, after so many
// redos: steps below Done are done, below Used delivered.
type Progress struct {
	View uint64 `json:"view"`
	Redo uint64 `json:"redo"`
	Done int64  `json:"done"`
	Used int64  `json:"used"`
	// Ends, right before the rank leaves: the last step that it delivered was the last of an epoch.
	Ends bool `json:"ends,omitempty"`
}

// Part is positions that an async rank has done, and their digest.
type Part struct {
	Epoch  int64  `json:"epoch"`
	Span   Span   `json:"span"`
	Digest string `json:"digest"` // sampler.Digest
}

// Decided is what became of a part.
type Decided struct {
	Epoch     int64  `json:"epoch"`
	Span      Span   `json:"span"`
	Effective bool   `json:"effective"`
	Unknown   bool   `json:"unknown,omitempty"` // it may be effective: the agent was evicted before it heard
	Reason    string `json:"reason,omitempty"`
}

// Redo names the step from which all ranks of a view go on. Redo is how often the job was
// set to a step before, as far as the rank has seen. By is drawn for each, so that the rank
// knows whether its own is the one that holds.
type Redo struct {
	View uint64 `json:"view"`
	Redo uint64 `json:"redo"`
	Step int64  `json:"step"`
	By   uint64 `json:"by"`
}

// MaxParts bounds the parts of a commit.
const MaxParts = 1024

// Seat is an attached rank, as a Coordinator sees it.
type Seat struct {
	Hello Hello

	number uint64 // of the connection's attaches
	client *client
	mu     struct {
		sync.Mutex
		state   *JobState // not yet sent
		decided []Decided
		queued  bool
	}
}

// State tells the rank the newest state. A rank that reads slowly gets the newest one
// alone.
func (s *Seat) State(state JobState) { s.tell(func() { s.mu.state = &state }) }

// Decided tells the rank what became of parts.
func (s *Seat) Decided(list []Decided) {
	s.tell(func() { s.mu.decided = append(s.mu.decided, list...) })
}

// Fail ends the connection, with the reason.
func (s *Seat) Fail(err error) {
	s.client.reply(&message{Type: typeError, Error: describe(err)})
}

// tell adds something, and queues one message, which takes with it what there is when it is
// written. Both are one step: a message that is written between them would leave the next one
// empty, which the rank takes for a broken connection.
func (s *Seat) tell(add func()) {
	s.mu.Lock()
	add()
	queued := s.mu.queued
	s.mu.queued = true
	s.mu.Unlock()
	if !queued {
		s.client.reply(&message{Type: typeState, Seat: s.number, seat: s})
	}
}

// take is what is to be sent.
func (s *Seat) take(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.State, m.Decided = s.mu.state, s.mu.decided
	s.mu.state, s.mu.decided, s.mu.queued = nil, nil, false
}

// coordinate acts on a message for the coordinator.
func (s *Server) coordinate(c *client, m *message) error {
	d := s.options.Coordinator
	if d == nil {
		return nd.Errorf(nd.ErrUnsupported, "an unexpected %s: nobody coordinates here", m.Type)
	}
	if m.Type == typeAttach {
		switch {
		case c.seat != nil:
			return nd.Errorf(nd.ErrConfig, "rank %d attaches twice", c.hello.Rank)
		case m.Seat != c.seats+1:
			return nd.Errorf(nd.ErrCorrupt, "attach %d of rank %d, after %d", m.Seat, c.hello.Rank, c.seats)
		}
		c.seats++
		c.seat = &Seat{Hello: c.hello, number: m.Seat, client: c}
		if err := d.Attach(c.seat, *m.Attach); err != nil {
			c.seat = nil
			return err
		}
		return nil
	}
	switch {
	case m.Seat == 0 || m.Seat > c.seats:
		return nd.Errorf(nd.ErrConfig, "a %s of rank %d, which is not attached", m.Type, c.hello.Rank)
	case c.seat == nil || m.Seat != c.seat.number:
		return nil // it was said before the rank detached
	}
	switch m.Type {
	case typeProgress:
		d.Progress(c.seat, *m.Progress)
	case typeCommit:
		return d.Commit(c.seat, m.Parts)
	case typeRedo:
		return d.Redo(c.seat, *m.Redo)
	case typeDetach:
		d.Detach(c.seat, true)
		c.seat = nil
	}
	return nil
}

// checkCoordination checks all that needs no context.
func checkCoordination(m *message) error {
	missing := func(what string) error { return nd.Errorf(nd.ErrCorrupt, "message: %s without %s", m.Type, what) }
	switch m.Type {
	case typeAttach:
		if m.Attach == nil {
			return missing("its fields")
		}
		return m.Attach.Validate()
	case typeProgress:
		if m.Progress == nil || m.Progress.Done < 0 || m.Progress.Used < 0 {
			return missing("steps")
		}
	case typeCommit:
		if len(m.Parts) == 0 || len(m.Parts) > MaxParts {
			return missing("one part, or with too many")
		}
		for _, p := range m.Parts {
			if p.Epoch < 0 || p.Span.Start < 0 || p.Span.Stop <= p.Span.Start {
				return nd.Errorf(nd.ErrCorrupt, "message: positions %d to %d of epoch %d", p.Span.Start, p.Span.Stop, p.Epoch)
			}
		}
	case typeRedo:
		if m.Redo == nil || m.Redo.Step < 0 {
			return missing("a step")
		}
	case typeState:
		if m.State == nil && m.Decided == nil {
			return missing("one")
		}
	}
	return nil
}

// Validate checks what needs no context.
func (a *Attach) Validate() error {
	if a.Mode != "lockstep" && a.Mode != "async" {
		return nd.Errorf(nd.ErrConfig, "attach: mode %.80q: lockstep or async", a.Mode)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"n", a.N}, {"steps", a.Steps}, {"epochs", a.Epochs}, {"ahead", a.Ahead}, {"epoch", a.Epoch}, {"step", a.Step}} {
		if n.value < 0 {
			return nd.Errorf(nd.ErrConfig, "attach: %s is %d, must be at least 0", n.name, n.value)
		}
	}
	if a.Steps > 0 && a.Epoch > (math.MaxInt64-a.Step)/a.Steps {
		return nd.Errorf(nd.ErrConfig, "attach: step %d of epoch %d, of %d steps each, is beyond 2^63 steps", a.Step, a.Epoch, a.Steps)
	}
	return nil
}
