package rendezvous

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	shakeTimeout = 10 * time.Second
	probeTimeout = 30 * time.Second // a few DNS retries
	// maxShakes bounds the peers that have not proved their key; others wait in the
	// kernel's queue.
	maxShakes = 256
	// maxRefusals bounds the reasons that are told of, each once: what a stranger sends
	// must not fill a log.
	maxRefusals = 16
)

// coordinator runs the machine: it owns the listener and a link to every node, its
// own included. start begins its goroutines (accept, loop, and two for each node),
// close ends them.
type coordinator struct {
	config   *Config
	key      []byte
	listener net.Listener
	began    time.Time
	shakes   chan struct{}
	arrivals chan arrival
	quit     chan struct{} // closed by close: do not wait for the peers any more
	done     chan struct{} // closed when loop has ended
	running  sync.WaitGroup

	machine *machine           // loop's own
	links   map[memberID]*link // loop's own
	over    bool               // loop's own

	mu struct {
		sync.Mutex
		conns   map[net.Conn]bool // all that are open
		ended   bool
		refused map[string]bool // reasons that were told
	}
}

// arrival is an input of the machine, and the link that it came by.
type arrival struct {
	link *link
	id   *memberID // of the link; 0 before it joined. Loop's own
	in   input
}

func newCoordinator(config *Config, listener net.Listener) *coordinator {
	c := &coordinator{
		config: config, key: config.key(), listener: listener, began: time.Now(),
		shakes: make(chan struct{}, maxShakes), arrivals: make(chan arrival), quit: make(chan struct{}), done: make(chan struct{}),
		links: map[memberID]*link{},
	}
	c.mu.conns, c.mu.refused = map[net.Conn]bool{}, map[string]bool{}
	job := config.joining(0)
	c.machine = newMachine(rules{
		job: job, join: config.JoinTimeout, lastCall: config.LastCall, exit: config.ExitTimeout,
		lostAfter: config.lostAfter(), probe: probeTimeout,
	})
	return c
}

// start begins the goroutines, with the coordinator's own node at the far end of a
// pipe.
func (c *coordinator) start() net.Conn {
	near, far := net.Pipe()
	c.adopt(far)
	c.running.Go(c.loop)
	c.running.Go(c.accept)
	c.running.Go(func() { c.serve(far, true) })
	return near
}

// close ends the coordinator. It waits, for a while, until the nodes have heard
// that the job is over.
func (c *coordinator) close() error {
	timer := time.NewTimer(c.config.CloseTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	close(c.quit)
	err := c.listener.Close()
	c.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept lets peers prove their key, until the listener is closed.
func (c *coordinator) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, say
			select {
			case <-c.done:
				return
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		c.shakes <- struct{}{}
		if !c.adopt(conn) {
			_ = conn.Close() // nothing was said
			<-c.shakes
			continue
		}
		c.running.Go(func() {
			err := shake(conn, c.key, true, shakeTimeout)
			<-c.shakes
			if err != nil {
				if errors.Is(err, errNotOurs) {
					c.refused(conn, errorText(err))
				}
				c.release(conn) // the peer has been told what it can do about it
				return
			}
			c.serve(conn, false)
		})
	}
}

// refused tells this node's user of a peer that may not join: the job waits, perhaps
// for just that one. It does not wait for who reads it.
func (c *coordinator) refused(conn net.Conn, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.refused[why] || len(c.mu.refused) == maxRefusals {
		return
	}
	c.mu.refused[why] = true
	from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c.running.Go(func() { c.config.Notice("a node at " + from + " was refused: " + why) })
}

// adopt notes a connection, so that the end of the loop can cut it.
func (c *coordinator) adopt(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended {
		return false
	}
	c.mu.conns[conn] = true
	return true
}

func (c *coordinator) release(conn net.Conn) {
	_ = conn.Close() // may be closed already
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.conns, conn)
}

// serve reads a node's messages until its end.
func (c *coordinator) serve(conn net.Conn, local bool) {
	defer c.release(conn)
	l := newLink(conn, c.config)
	c.running.Go(l.write)
	defer l.hangUp()
	sees, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // "" for a pipe
	r := bufio.NewReader(conn)
	id := new(memberID)
	limit := maxJoin
	// Whoever has proved its key joins at once. Later the machine counts the silence.
	if err := conn.SetReadDeadline(time.Now().Add(shakeTimeout)); err != nil {
		return
	}
	for {
		m, err := readMessage(r, limit)
		if err != nil {
			c.arrive(arrival{l, id, input{lost: why(err, l.timeout)}})
			return
		}
		if (limit == maxJoin) != (m.Type == typeJoin) && m.Type != typeBeat {
			c.arrive(arrival{l, id, input{lost: "it broke the protocol"}})
			return
		}
		if m.Type == typeJoin {
			limit, err = maxMessage, conn.SetReadDeadline(time.Time{})
		}
		if err != nil || !c.arrive(arrival{l, id, input{message: m, sees: sees, local: local}}) {
			return
		}
	}
}

func (c *coordinator) arrive(a arrival) bool {
	select {
	case c.arrivals <- a:
		return true
	case <-c.done:
		return false
	}
}

// loop runs the machine until the job is over and all nodes have hung up.
func (c *coordinator) loop() {
	defer c.finish()
	timer := time.NewTimer(c.config.beat())
	defer timer.Stop()
	for !c.over || len(c.links) > 0 {
		select {
		case a := <-c.arrivals:
			c.take(a)
		case <-timer.C:
			c.act(c.machine.step(time.Since(c.began), input{}))
		case <-c.quit:
			return
		}
		timer.Reset(c.untilTick())
	}
}

func (c *coordinator) finish() {
	close(c.done)
	_ = c.listener.Close() // close reports it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ended = true
	for conn := range c.mu.conns {
		_ = conn.Close() // the reader notices
	}
}

// untilTick is the time to the machine's next tick: at least one a beat, by which
// silence is noticed.
func (c *coordinator) untilTick() time.Duration {
	wait := c.config.beat()
	now := time.Since(c.began)
	if at, ok := c.machine.wake(); ok {
		wait = min(wait, at-now)
	}
	// Ticks for silence keep their own pace, however many messages come.
	return max(0, min(wait, c.machine.ticked+c.config.beat()-now))
}

func (c *coordinator) take(a arrival) {
	a.in.from = *a.id
	joins := a.in.message != nil && a.in.message.Type == typeJoin
	if a.in.lost != "" {
		delete(c.links, *a.id)
	}
	if *a.id == 0 && !joins {
		return
	}
	now := time.Since(c.began)
	if joins {
		*a.id = c.machine.last + 1
		c.links[*a.id] = a.link
	}
	c.act(c.machine.step(now, a.in))
}

// act does what the machine wants.
func (c *coordinator) act(effects []effect) {
	for _, e := range effects {
		switch e.kind {
		case send:
			text, err := frame(e.message)
			for _, id := range e.to {
				l := c.links[id]
				if l == nil || err != nil {
					continue
				}
				l.send(text)
				if e.message.Type == typeRefused {
					c.refused(l.conn, e.message.Reason)
				}
			}
		case drop, cut:
			if l := c.links[e.to[0]]; l != nil && e.kind == drop {
				l.hangUp()
			} else if l != nil {
				l.cut()
			}
		case closeListener:
			_ = c.listener.Close() // close reports it
		case finish:
			c.over = true
			_ = c.listener.Close()
			for _, l := range c.links {
				l.hangUp()
			}
		}
	}
}
