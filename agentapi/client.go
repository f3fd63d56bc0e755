package agentapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/nd"
)

// A server that is alive takes a message and answers a hello at once.
const answerTimeout = 10 * time.Second

// Client is a rank's connection to its node's launcher or agent. All methods may
// be called from several goroutines at a time. Its owner closes it.
type Client struct {
	conn   net.Conn
	offers []string
	done   chan struct{} // closed when the reader has ended
	write  sync.Mutex    // one frame at a time
	mu     struct {
		sync.Mutex
		id      uint64
		waiting map[uint64]chan error      // plans sent and not answered
		seat    uint64                     // number of the last attach
		job     func(*JobState, []Decided) // of that
		attach  Attach                     // what it was attached with
		err     error                      // why the connection ended
	}
}

// Dial connects a rank to the socket that HEADRACE_AGENT names.
func Dial(ctx context.Context, path string, hello Hello) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "agent at %s: %w", path, err)
	}
	c, err := greet(ctx, conn, hello)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// greet exchanges hellos and starts the client's one goroutine; Close ends it.
func greet(ctx context.Context, conn net.Conn, hello Hello) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	first, err := frame(&message{Type: typeHello, Protocol: Protocol, Version: Version, Hello: &hello})
	if err != nil {
		return nil, err
	}
	// A server that takes no more clients says so and hangs up before it reads: its
	// answer explains more than the failed write.
	_, unsent := conn.Write(first)
	r := bufio.NewReader(conn)
	answer, err := readMessage(r, maxHello)
	switch {
	case err != nil && unsent != nil && ctx.Err() == nil:
		return nil, nd.Errorf(nd.ErrIO, "agent: hello: %w", unsent)
	case ctx.Err() != nil:
		return nil, nd.Errorf(nd.ErrIO, "agent: no answer to the hello: %w", ctx.Err())
	case err == io.EOF: //nolint:errorlint // as readers return it
		return nil, nd.Errorf(nd.ErrIO, "agent: it hung up instead of answering the hello")
	case err != nil:
		return nil, err
	case answer.Type == typeError:
		return nil, answer.Error.err()
	case answer.Type != typeHello:
		return nil, nd.Errorf(nd.ErrBug, "agent: the answer to the hello is a %s", answer.Type)
	}
	if !stop() {
		return nil, nd.Errorf(nd.ErrIO, "agent: hello: %w", ctx.Err())
	}
	c := &Client{conn: conn, offers: answer.Offers, done: make(chan struct{})}
	c.mu.waiting = map[uint64]chan error{}
	go c.read(r)
	return c, nil
}

// Offers reports whether the other side does what name says (OfferStats, …).
func (c *Client) Offers(name string) bool { return slices.Contains(c.offers, name) }

// SendStats hands over the loader's newest numbers. It does not wait for an
// answer.
func (c *Client) SendStats(s Stats) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return c.send(&message{Type: typeStats, Stats: s})
}

// PlanCheck sends this rank's plan and waits until all ranks' plans have been
// compared. The error is the one of Compare, the same on every rank, or names the
// ranks that sent none.
func (c *Client) PlanCheck(ctx context.Context, p Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	verdict := make(chan error, 1)
	id, err := c.expect(verdict)
	if err != nil {
		return err
	}
	defer c.forget(id)
	if err := c.send(&message{Type: typePlan, ID: id, Plan: &p}); err != nil {
		return err
	}
	select {
	case err := <-verdict:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Err is why the connection ended, nil while it has not.
func (c *Client) Err() error { return c.failed() }

// Attach takes the rank into the job. The function gets each newest state and what became of
// parts, one call at a time, from the goroutine that reads; it must not wait. The end of
// the connection shows as a state with an Ending. The rank may attach again once it has
// detached: the attachment before gets nothing any more, and what it still says does
// not count.
func (c *Client) Attach(a Attach, job func(*JobState, []Decided)) (Attachment, error) {
	if err := a.Validate(); err != nil {
		return Attachment{}, err
	}
	c.mu.Lock()
	c.mu.seat++
	c.mu.job, c.mu.attach = job, a
	at := Attachment{c, c.mu.seat}
	c.mu.Unlock()
	return at, at.send(&message{Type: typeAttach, Attach: &a})
}

// Attachment is a rank's part in the job of its agent, until it detaches.
type Attachment struct {
	client *Client
	seat   uint64
}

func (a Attachment) send(m *message) error {
	m.Seat = a.seat
	return a.client.send(m)
}

// Progress says how far a lockstep rank is.
func (a Attachment) Progress(p Progress) error {
	return a.send(&message{Type: typeProgress, Progress: &p})
}

// Commit says what an async rank has done, at most MaxParts parts.
func (a Attachment) Commit(parts []Part) error {
	return a.send(&message{Type: typeCommit, Parts: parts})
}

// Redo asks that all ranks go on from a step.
func (a Attachment) Redo(r Redo) error { return a.send(&message{Type: typeRedo, Redo: &r}) }

// Detach leaves the job.
func (a Attachment) Detach() error { return a.send(&message{Type: typeDetach}) }

// Close ends the connection. Calls that wait return ErrClosed. It may be called
// more than once.
func (c *Client) Close() error {
	c.end(nd.Errorf(nd.ErrClosed, "agent: the connection was closed"))
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) expect(verdict chan error) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return 0, c.mu.err
	}
	c.mu.id++
	c.mu.waiting[c.mu.id] = verdict
	return c.mu.id, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.waiting, id)
}

func (c *Client) send(m *message) error {
	text, err := frame(m)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.failed(); err != nil {
		return err
	}
	err = c.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		_, err = c.conn.Write(text)
	}
	if err != nil { // a frame may have gone out in part: the next would be misread
		c.end(nd.Errorf(nd.ErrIO, "agent: %w", err))
	}
	return c.failed()
}

func (c *Client) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// read hands out answers until the connection ends.
func (c *Client) read(r io.Reader) {
	defer close(c.done)
	for {
		m, err := readMessage(r, MaxMessage)
		if err == nil && m.State != nil {
			err = c.check(m.Seat, m.State)
		}
		cause := c.blamed(err)
		switch {
		case cause != nil:
			err = cause
		case err == io.EOF: //nolint:errorlint // as readers return it
			err = nd.Errorf(nd.ErrIO, "agent: the launcher or agent is gone")
		case err == nil && m.Type == typeError:
			err = m.Error.err()
		case err == nil && m.Type == typeState:
			c.tell(m.Seat, m.State, m.Decided)
			continue
		case err == nil && m.Type != typeChecked:
			err = nd.Errorf(nd.ErrBug, "agent: an unexpected %s", m.Type)
		}
		if err != nil {
			c.end(nd.At(err, nd.Place{}))
			c.tell(0, &JobState{Rank: -1, Ending: c.failed().Error(), Cause: cause}, nil)
			return
		}
		c.answer(m.ID, m.Error.err())
	}
}

// check finds out whether a state can be one of the attachment that it is for.
func (c *Client) check(seat uint64, state *JobState) error {
	c.mu.Lock()
	a, late := c.mu.attach, seat != c.mu.seat
	c.mu.Unlock()
	if late {
		return nil
	}
	return state.check(&a)
}

// blamed is an error in what was read, with the agent that said it; nil for other errors.
func (c *Client) blamed(err error) error {
	if e, ok := errors.AsType[*nd.Error](err); ok && errors.Is(err, nd.ErrCorrupt) {
		return nd.Errorf(nd.ErrCorrupt, "the agent at %s says what cannot be: %s", c.conn.RemoteAddr(), e.Detail)
	}
	return nil
}

// tell hands on what there is about the job, for an attachment; 0: the one there is.
func (c *Client) tell(seat uint64, state *JobState, decided []Decided) {
	c.mu.Lock()
	job := c.mu.job
	late := seat != 0 && seat != c.mu.seat
	c.mu.Unlock()
	if job != nil && !late {
		job(state, decided)
	}
}

func (c *Client) answer(id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if verdict, ok := c.mu.waiting[id]; ok {
		verdict <- err // holds one, and there is one
		delete(c.mu.waiting, id)
	}
}

// end latches why the connection ended and wakes everyone who waits.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		c.mu.err = err
	}
	for id, verdict := range c.mu.waiting {
		verdict <- c.mu.err
		delete(c.mu.waiting, id)
	}
}
