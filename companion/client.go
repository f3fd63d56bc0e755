package companion

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// client is one connection after the greetings, with its session.
type client struct {
	conn     *net.UnixConn
	pid      int
	releases *os.File
	memory   *slots
	session  *session.Session

	sending sync.Mutex // one frame after the other
	working sync.WaitGroup
	mu      struct {
		sync.Mutex
		cancel  map[uint64]context.CancelFunc // of requests under way
		running int                           // requests whose reply is not sent
		bytes   int                           // of their payloads
	}
	grace time.Duration
}

func (e *Engine) newClient(conn *net.UnixConn, pid int, hello *Hello, releases *os.File) *client {
	c := &client{conn: conn, pid: pid, releases: releases, memory: newSlots(), grace: e.cfg.Grace}
	c.mu.cancel = map[uint64]context.CancelFunc{}
	c.session = session.New(session.Options{
		Memory: func() pipeline.Memory { return c.memory },
		Device: e.cfg.Device, Driver: e.cfg.Driver, Cores: session.Cores(hello.Env),
		Pipelines: e.pipelines, Objects: maxObjects, Join: e.cfg.Join,
	})
	return c
}

// run serves the client until it is gone or ctx ends, and leaves nothing of it.
func (c *client) run(ctx context.Context) {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // no more requests
	})
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() {
		c.session.TakeBack(words{c.releases, c.memory})
		c.memory.end() // no process has the other end: nobody writes any more
	})
	watching.Go(func() { c.forget(requests) })
	alive, err := process(c.pid)
	if err == nil { // else the end of the connection has to do
		watching.Go(func() {
			waitFor(alive)
			c.memory.end()
			_ = c.conn.CloseRead()
		})
	}
	c.read(requests)
	if ctx.Err() != nil {
		c.drain(cancel)
	}
	cancel()
	_ = c.conn.Close() // wakes who writes; a client that lives closes its memory
	late := time.AfterFunc(c.grace, c.memory.end)
	c.working.Wait()
	c.session.End()
	late.Stop()
	_ = c.releases.Close()
	if alive != nil {
		_ = alive.Close()
	}
	watching.Wait()
}

// forget tells the client of memory that is gone, when no reply does.
func (c *client) forget(ctx context.Context) {
	for {
		select {
		case <-c.memory.freed:
			c.sending.Lock()
			err := c.writeGone()
			c.sending.Unlock()
			if err != nil {
				return // the reading side notices
			}
		case <-ctx.Done():
			return
		}
	}
}

// drain waits until the requests under way are answered. After the grace they are
// cancelled, and wait for no memory that the client has open; one that does not read its
// replies gets no more of them.
func (c *client) drain(cancel func()) {
	late := time.AfterFunc(c.grace, func() {
		cancel()
		c.memory.end()
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.grace / 2))
	})
	defer late.Stop()
	c.working.Wait()
}

// read takes requests until there are no more.
func (c *client) read(ctx context.Context) {
	in := bufio.NewReaderSize(c.conn, smallPayload)
	for {
		f, err := readFrame(in)
		if err == nil {
			var r request
			if r, err = parseRequest(f); err == nil {
				err = c.begin(ctx, r)
			}
		}
		if err != nil {
			if e, ok := errors.AsType[*nd.Error](err); ok { // of the protocol
				_ = c.conn.SetWriteDeadline(time.Now().Add(c.grace)) // it may not read
				_ = c.sendError(0, e)
			}
			return
		}
	}
}

// begin starts a request on a goroutine of its own, or cancels one.
func (c *client) begin(ctx context.Context, r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancelOther, known := c.mu.cancel[r.id]
	if r.kind == kindCancel {
		if known {
			cancelOther()
		}
		return nil
	}
	if known {
		return nd.Errorf(nd.ErrBug, "request %d is under way already", r.id)
	}
	if c.mu.running >= maxRequests {
		return nd.Errorf(nd.ErrBudget, "%d requests are under way, the engine takes no more of one client", maxRequests)
	}
	if c.mu.bytes+r.size > MaxFrame {
		r = request{kind: r.kind, id: r.id, refused: nd.Errorf(nd.ErrBudget, "requests of %d bytes are under way and this one has %d, at most %d are taken: ask again later", c.mu.bytes, r.size, MaxFrame)}
	}
	ctx, cancel := context.WithCancel(ctx)
	c.mu.cancel[r.id] = cancel
	c.account(1, r.size)
	c.working.Go(func() {
		defer cancel()
		c.serve(ctx, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.account(-1, -r.size)
	})
	return nil
}

// account counts requests that begin or end. The caller holds mu.
func (c *client) account(requests, bytes int) {
	c.mu.running += requests
	c.mu.bytes += bytes
}

// serve answers a request. Its id is free before the answer can be seen.
func (c *client) serve(ctx context.Context, r request) {
	var reply frame
	st, err := c.session.Guard(func() (st session.Status, err error) {
		reply, st, err = c.perform(ctx, r)
		return st, err
	})
	c.mu.Lock()
	delete(c.mu.cancel, r.id)
	c.mu.Unlock()
	switch {
	case err != nil:
		err = c.sendError(r.id, err)
	case st == session.Again:
		err = c.send(frame{kind: kindAgain, id: r.id})
	case st == session.Ended:
		err = c.send(frame{kind: kindEnded, id: r.id})
	case reply.kind != 0:
		reply.id = r.id
		err = c.send(reply)
	}
	if err != nil {
		_ = c.conn.CloseRead() // nobody hears the replies: the client is gone
	}
}

// result is the payload of a result.
type result struct {
	Handle uint64          `json:"handle"`
	Value  json.RawMessage `json:"value"`
}

// perform does what a request asks for. A batch is sent on the way; other replies
// are returned.
func (c *client) perform(ctx context.Context, r request) (reply frame, st session.Status, err error) {
	if r.refused != nil {
		return frame{}, st, r.refused
	}
	var out result
	switch r.kind {
	case kindOpen:
		out.Handle, out.Value, err = c.session.Open(ctx, r.open)
	case kindAsk:
		out.Value, err = c.session.Ask(ctx, r.ask.Handle, r.ask.Method, r.ask.Argument)
	case kindClose:
		err = c.closeObject(r.handle)
	case kindPush:
		st, err = c.session.Push(r.handle, r.words, r.samples)
	case kindNext:
		wait := time.Duration(r.waitInMS) * time.Millisecond
		st, err = c.session.Next(ctx, r.handle, wait, func(d session.Delivery, token uint64) error {
			return c.sendBatch(r.id, d, token)
		})
		return frame{}, st, err
	}
	if err != nil || st != session.Done {
		return frame{}, st, err
	}
	text, err := json.Marshal(out)
	return frame{kind: kindResult, payload: text}, st, err
}

func (c *client) closeObject(handle uint64) error {
	closeIt, err := c.session.Detach(handle)
	if err != nil {
		return err
	}
	return closeIt()
}

func (c *client) sendError(id uint64, err error) error {
	text, bad := json.Marshal(refusal(err))
	if bad != nil {
		return bad
	}
	return c.send(frame{kind: kindError, id: id, payload: text})
}

// sendBatch sends a batch, and its memory where the client does not know it.
func (c *client) sendBatch(id uint64, d session.Delivery, token uint64) error {
	b, in, err := describe(d, token, c.memory)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	f, oob := frame{kind: kindBatch, id: id}, []byte(nil)
	if in != nil {
		var fd int
		if b.New, fd = c.memory.tell(in); fd >= 0 {
			f.fds, oob = 1, rights(fd)
			defer closeDescriptor(fd) //nolint:errcheck // the client has it, or is gone
		}
	}
	if f.payload, err = json.Marshal(b); err != nil {
		return nd.Errorf(nd.ErrBug, "batch: %w", err)
	}
	return c.write(f, oob)
}

func (c *client) send(f frame) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.write(f, nil)
}

// write sends a frame, after what the client may forget. The caller holds sending.
func (c *client) write(f frame, oob []byte) error {
	if len(f.payload) > MaxFrame {
		return nd.Errorf(nd.ErrBudget, "an answer of %d bytes, at most %d can be sent", len(f.payload), MaxFrame)
	}
	if err := c.writeGone(); err != nil {
		return err
	}
	text := f.bytes()
	n, _, err := c.conn.WriteMsgUnix(text, oob, nil)
	if err == nil && n < len(text) {
		_, err = c.conn.Write(text[n:])
	}
	if err != nil {
		return nd.Errorf(nd.ErrIO, "client: %w", err)
	}
	return nil
}

// writeGone sends the ids of memory that the client may forget, if there are any.
// The caller holds sending.
func (c *client) writeGone() error {
	gone := c.memory.takeGone()
	if len(gone) == 0 {
		return nil
	}
	f := frame{kind: kindForget}
	for _, id := range gone {
		f.payload = binary.LittleEndian.AppendUint64(f.payload, id)
	}
	if _, err := c.conn.Write(f.bytes()); err != nil {
		return nd.Errorf(nd.ErrIO, "client: %w", err)
	}
	return nil
}
