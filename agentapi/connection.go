package agentapi

import (
	"bufio"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/nd"
)

// queued is the number of answers that wait for a client to read them. A client
// has a few plans in flight; one that does not read is dropped.
const queued = 64

// client is the server's side of one connection.
type client struct {
	conn  net.Conn
	hello Hello
	round int
	seat  *Seat  // the reader's
	seats uint64 // how many there were
	out   chan *message
	ended chan struct{} // closed by the reader: what is queued is the last
	once  sync.Once
}

// hangUp ends the connection. It may be called more than once, by anyone.
func (c *client) hangUp() {
	c.once.Do(func() {
		_ = c.conn.Close() // nothing is lost that the peer could still read
	})
}

// reply queues an answer, and never blocks.
func (c *client) reply(m *message) {
	select {
	case c.out <- m:
	default:
		c.hangUp()
	}
}

// accept starts the two goroutines of each client until the listener is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !s.pause() {
				return
			}
			continue // too many open files, say: a client less will come
		}
		c := &client{conn: conn, out: make(chan *message, queued), ended: make(chan struct{})}
		if err := s.admit(c); err != nil {
			refuse(conn, err)
			continue
		}
		s.running.Go(func() { s.read(c) })
		s.running.Go(func() { c.write() })
	}
}

// pause waits a moment, and reports whether the server goes on.
func (s *Server) pause() bool {
	select {
	case <-s.closing:
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

func (s *Server) admit(c *client) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nd.Errorf(nd.ErrClosed, "the launcher is ending")
	}
	if len(s.mu.clients) >= s.options.MaxClients {
		return nd.Errorf(nd.ErrBudget, "the launcher has %d connections, no more are taken", len(s.mu.clients))
	}
	s.mu.clients[c] = true
	return nil
}

// refuse tells a connection that has no goroutine why it gets none. The text fits
// the empty socket's buffer, so the write does not wait.
func refuse(conn net.Conn, err error) {
	if text, failed := frame(&message{Type: typeError, Error: describe(err)}); failed == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(text)
	}
	_ = conn.Close()
}

// read takes a client's messages until it hangs up or breaks the protocol.
func (s *Server) read(c *client) {
	defer s.forget(c)
	r := bufio.NewReader(c.conn)
	// The hello must come at once; later messages may take as long as a trainer does.
	err := c.conn.SetReadDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		err = s.greet(c, r)
	}
	if err == nil {
		err = c.conn.SetReadDeadline(time.Time{})
	}
	for err == nil {
		var m message
		if m, err = readMessage(r, MaxMessage); err == nil {
			err = s.take(c, &m)
		}
	}
	if _, wrong := errors.AsType[*nd.Error](err); wrong { // what a peer should know; an end or a reset has none to tell
		c.reply(&message{Type: typeError, Error: describe(err)})
	}
	if c.seat != nil {
		s.options.Coordinator.Detach(c.seat, false)
	}
	close(c.ended)
}

// greet checks who the client is.
func (s *Server) greet(c *client, r *bufio.Reader) error {
	m, err := readMessage(r, maxHello)
	if err != nil {
		return err
	}
	if m.Type != typeHello {
		return nd.Errorf(nd.ErrUnsupported, "a %s before the hello", m.Type)
	}
	s.mu.Lock()
	round := s.mu.round
	s.mu.Unlock()
	c.hello, c.round = *m.Hello, round.Number
	h := c.hello
	switch {
	case s.options.RunID != "" && h.RunID != s.options.RunID:
		return nd.Errorf(nd.ErrConfig, "rank %d belongs to job %.80q, this is the launcher of %.80q", h.Rank, h.RunID, s.options.RunID)
	case h.Round >= 0 && h.Round != round.Number && !round.elastic(): // of a live job it is the view that the rank was started in
		return nd.Errorf(nd.ErrConfig, "rank %d belongs to round %d, the job is in round %d", h.Rank, h.Round, round.Number)
	case round.World > 0 && (h.World != round.World || h.Rank >= h.World):
		return nd.Errorf(nd.ErrConfig, "rank %d of %d, the job has %d ranks", h.Rank, h.World, round.World)
	}
	c.reply(&message{Type: typeHello, Protocol: Protocol, Version: Version, Offers: s.offers(round)})
	return nil
}

// offers is what there is, in alphabetical order. Where ranks come and go nobody knows whose
// plans to wait for: the coordinator sees to it that the job's loaders mean the same.
func (s *Server) offers(r Round) []string {
	var names []string
	if s.options.Coordinator != nil {
		names = append(names, OfferCoord)
	}
	if !r.elastic() {
		names = append(names, OfferPlanCheck)
	}
	return append(names, OfferStats)
}

// elastic reports whether the round has begun and its ranks come and go.
func (r Round) elastic() bool { return r.Number >= 0 && r.World == 0 }

// take acts on one message after the hello.
func (s *Server) take(c *client, m *message) error {
	switch m.Type {
	case typeStats:
		s.keep(c, m.Stats)
	case typePlan:
		if m.Plan.Rank != c.hello.Rank {
			return nd.Errorf(nd.ErrConfig, "rank %d sent the plan of rank %d", c.hello.Rank, m.Plan.Rank)
		}
		s.plan(c, m.ID, *m.Plan)
	case typeAttach, typeDetach, typeProgress, typeCommit, typeRedo:
		return s.coordinate(c, m)
	default:
		return nd.Errorf(nd.ErrUnsupported, "an unexpected %s", m.Type)
	}
	return nil
}

func (s *Server) keep(c *client, stats Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.round == s.mu.round.Number {
		h := c.hello
		s.mu.stats[h.Rank] = RankStats{Rank: h.Rank, LocalRank: h.LocalRank, PID: h.PID, Time: time.Now(), Stats: stats}
	}
}

// forget drops what a client that hung up waits for.
func (s *Server) forget(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.clients, c)
	s.mu.waiting = slices.DeleteFunc(s.mu.waiting, func(w waiter) bool { return w.client == c })
}

// write sends a client's answers until the reader has ended and none is left.
func (c *client) write() {
	defer c.hangUp()
	for {
		select {
		case m := <-c.out:
			if !c.writeOne(m) {
				return
			}
		case <-c.ended:
			for len(c.out) > 0 && c.writeOne(<-c.out) {
				continue
			}
			return
		}
	}
}

func (c *client) writeOne(m *message) bool {
	if m.seat != nil {
		m.seat.take(m)
	}
	text, err := frame(m)
	if err == nil {
		err = c.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	}
	if err == nil {
		_, err = c.conn.Write(text)
	}
	return err == nil
}
