package rendezvous

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/nd"
)

// group is a node of a job of several: the shell of a member.
type group struct {
	config  *Config
	host    string // of the endpoint
	address string // the endpoint
	key     []byte

	coordinator *coordinator // on one node of the job
	port        *Port        // held for the master, nil if it can't be here
	door        *Port        // the endpoint's, where an elastic job's coordinator listens
	link        *link
	events      chan Event
	documents   chan Document
	changed     chan struct{} // Next should look again
	closing     context.Context
	close       context.CancelFunc
	running     sync.WaitGroup

	mu struct {
		sync.Mutex
		member   *member
		round    *Round       // that Next has not taken
		listener net.Listener // of a probe
		closed   bool
	}
}

// Join finds the other nodes of a job and joins them. It returns once the
// coordinator has let this node in, or with the hop that failed once
// Config.JoinTimeout has passed. ctx only bounds Join.
func Join(ctx context.Context, config Config) (Group, error) {
	config.fill()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	g := &group{
		config: &config, address: config.Endpoint, key: config.key(),
		events: make(chan Event, 1), documents: make(chan Document, QueuedDocuments), changed: make(chan struct{}, 1),
	}
	g.host, _, _ = splitEndpoint(config.Endpoint) // Validate has checked it
	g.closing, g.close = context.WithCancel(context.Background())
	if len(config.Key) == 0 && !loopback(g.host) && config.NodeRank <= 0 {
		config.Notice("HEADRACE_KEY_FILE is not set: whoever reaches " + g.address + " and knows the run id can join this job")
	}
	conn, err := g.connect(ctx)
	if err != nil {
		return nil, errors.Join(err, g.abandon())
	}
	g.link = newLink(conn.Conn, &config)
	g.mu.member = &member{id: conn.id, host: g.host, runID: config.RunID, endpoint: g.address}
	g.running.Go(g.link.write)
	g.running.Go(func() { g.read(conn) })
	return g, nil
}

// abandon ends what connect left.
func (g *group) abandon() error {
	g.close()
	var err error
	if g.coordinator != nil {
		close(g.coordinator.quit)
		err = g.coordinator.listener.Close()
		g.coordinator.running.Wait()
		if errors.Is(err, net.ErrClosed) {
			err = nil
		}
	}
	return errors.Join(err, g.port.Close(), g.door.Close())
}

// joined is a connection by which the node has joined, and what has been read of it.
type joined struct {
	net.Conn
	*bufio.Reader
	id memberID
}

// connect becomes the coordinator or finds it, until the join deadline.
func (g *group) connect(ctx context.Context) (*joined, error) {
	ctx, cancel := context.WithTimeout(ctx, g.config.JoinTimeout)
	defer cancel()
	if err := g.holdPort(); err != nil {
		return nil, err
	}
	undecided := !g.config.Static && (g.config.Host == nil || *g.config.Host)
	said, taken := "", ""
	refused := time.Time{} // since when another node has had our rank
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var conn *joined
		var err error
		if g.config.Static && g.config.NodeRank == 0 || undecided && g.isHost(ctx) {
			conn, err = g.hostJob()
			if err == nil || !errors.Is(err, errInUse) || g.config.Static {
				return conn, err
			}
			undecided = false // another node of this machine was faster, or another job
			taken = "; " + errorText(err)
		}
		if conn, err = g.dialJob(ctx); err == nil {
			return conn, nil
		}
		if !g.worthRetrying(err, &refused) {
			return nil, err
		}
		if text := errorText(err); text != said && ctx.Err() == nil {
			said = text
			g.config.Notice("waiting for the rendezvous: " + text)
		}
		if !sleep(ctx, pause) {
			return nil, nd.Errorf(nd.ErrIO, "rendezvous: %s (tried for %v)", cmp.Or(said, errorText(err))+taken, g.config.JoinTimeout)
		}
	}
}

// worthRetrying reports whether what failed may work later: everything but a peer of
// another job and a refusal. A rank that another node has is asked for until that
// node, should it be dead, must have been noticed to be; since is when this began.
func (g *group) worthRetrying(err error, since *time.Time) bool {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return !errors.Is(err, errNotOurs)
	}
	if since.IsZero() {
		*since = time.Now()
	}
	return refused.retry && time.Since(*since) <= g.config.lostAfter()+2*g.config.Heartbeat
}

// sleep waits, and reports whether there is time left.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// holdPort holds the port that the master will have, should this node be rank 0.
func (g *group) holdPort() error {
	number := AnyPort
	if g.config.Static {
		if g.config.NodeRank != 0 {
			return nil
		}
		_, number, _ = splitEndpoint(g.address)
	}
	var err error
	g.port, err = g.config.network.hold(number)
	return err
}

// isHost reports whether this node should listen at the endpoint.
func (g *group) isHost(ctx context.Context) bool {
	if g.config.Host != nil {
		return *g.config.Host
	}
	mine, err := g.config.network.mine(ctx, g.host)
	return err == nil && mine
}

// hostJob starts the coordinator at the endpoint. In a static job its port is the
// master's, and is held already.
func (g *group) hostJob() (*joined, error) {
	_, number, _ := splitEndpoint(g.address)
	bind := ""
	if loopback(g.host) {
		bind = g.host
	}
	if !g.config.Static {
		// Without its hold we could take the port that another job keeps for its master.
		var err error
		if g.door, err = g.config.network.hold(number); err != nil {
			return nil, err
		}
	}
	l, err := g.config.network.listen(bind, number)
	if err != nil {
		err = errors.Join(err, g.door.Close())
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nd.Errorf(nd.ErrIO, "port %d is %w by %s: stop it, or name another port", number, errInUse, portOwner("/proc", number))
	}
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "rendezvous at %s: %w", g.address, err)
	}
	g.coordinator = newCoordinator(g.config, l)
	return g.enter(g.coordinator.start())
}

// dialJob reaches the coordinator and joins.
func (g *group) dialJob(ctx context.Context) (*joined, error) {
	conn, err := g.config.network.dial(ctx, g.address)
	if err == nil {
		if err = shake(conn, g.key, false, shakeTimeout); err == nil {
			var j *joined
			if j, err = g.enter(conn); err == nil {
				return j, nil
			}
		}
		_ = conn.Close() // it failed already
	}
	if _, refused := errors.AsType[*refusedError](err); refused {
		return nil, err
	}
	return nil, nd.Errorf(nd.ErrIO, "%s%w", explain(err, g.host, g.address), silent{err})
}

// silent carries a cause whose text has been told.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// refusedError is the coordinator's refusal.
type refusedError struct {
	text  string
	retry bool
}

func (r *refusedError) Error() string { return r.text }

// enter asks the coordinator to let this node in.
func (g *group) enter(conn net.Conn) (*joined, error) {
	// A coordinator that lets in thousands of nodes takes a moment for each.
	if err := conn.SetDeadline(time.Now().Add(max(shakeTimeout, g.config.lostAfter()))); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "join: %w", err)
	}
	number := 0
	if g.port != nil {
		number = g.port.Number
	}
	join := g.config.joining(number)
	if err := write(conn, &message{Type: typeJoin, Join: &join}); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	for {
		m, err := readMessage(r, maxMessage)
		switch {
		case err != nil:
			return nil, nd.Errorf(nd.ErrIO, "join: %w", err)
		case m.Type == typeRefused:
			return nil, nd.Errorf(nd.ErrConfig, "the rendezvous at %s refuses this node: %w", g.address, &refusedError{m.Reason, m.Retry})
		case m.Type == typeWelcome:
			return &joined{conn, r, m.ID}, conn.SetDeadline(time.Time{})
		}
	}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

var errInUse = errors.New("in use")

// read takes the coordinator's messages until the connection ends.
func (g *group) read(j *joined) {
	defer func() {
		g.link.cut()
		g.endProbe()
	}()
	for {
		err := j.SetReadDeadline(time.Now().Add(g.link.timeout))
		var m *message
		if err == nil {
			m, err = readMessage(j.Reader, maxMessage)
		}
		g.mu.Lock()
		if err != nil {
			g.mu.member.lost(why(err, g.link.timeout))
		} else {
			g.mu.member.receive(m)
		}
		g.flushLocked()
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// flushLocked does what the member wants.
func (g *group) flushLocked() {
	out := g.mu.member.take()
	for _, m := range out.messages {
		if text, err := frame(m); err == nil {
			g.link.send(text)
		}
	}
	if out.round != nil || out.ended {
		g.mu.round = out.round
		select {
		case g.changed <- struct{}{}:
		default:
		}
	}
	if out.event != nil {
		g.events <- *out.event // there is room: a round has one, and Next takes away what was left
	}
	if out.document != nil {
		select {
		case g.documents <- *out.document:
		default:
		}
	}
	if out.round != nil || out.event != nil || out.ended {
		g.endProbeLocked()
	}
	if out.probe != nil {
		g.probeLocked(out.probe)
	}
}

func (g *group) Next(ctx context.Context) (Round, error) {
	g.mu.Lock()
	if g.mu.round == nil {
		select {
		case <-g.events: // the caller did without it
		default:
		}
		if err := g.mu.member.next(); err != nil {
			g.mu.Unlock()
			return Round{}, err
		}
		g.flushLocked()
	}
	g.mu.Unlock()
	for {
		g.mu.Lock()
		r, err := g.mu.round, g.mu.member.over
		g.mu.round = nil
		g.mu.Unlock()
		if r != nil {
			return *r, nil
		}
		if err != nil {
			return Round{}, err
		}
		select {
		case <-ctx.Done():
			return Round{}, ctx.Err()
		case <-g.changed:
		}
	}
}

func (g *group) Report(_ context.Context, o Outcome) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.member.report(o)
	g.flushLocked()
	return nil
}

func (g *group) Events() <-chan Event     { return g.events }
func (g *group) Relayed() <-chan Document { return g.documents }

func (g *group) Relay(_ context.Context, to int, kind string, doc []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.mu.member.relay(to, kind, doc); err != nil {
		return err
	}
	g.flushLocked()
	return nil
}

// Close says goodbye, hears the others out, and ends what Join began.
func (g *group) Close() error {
	g.mu.Lock()
	if g.mu.closed {
		g.mu.Unlock()
		return nil
	}
	g.mu.closed = true
	if g.mu.member.over == nil {
		if text, err := frame(&message{Type: typeOutcome, Outcome: &Outcome{Round: g.mu.member.round.Number, Kind: Left}}); err == nil {
			g.link.send(text)
		}
		g.mu.member.over = nd.Errorf(nd.ErrClosed, "the group was closed")
	}
	g.mu.Unlock()
	select {
	case g.changed <- struct{}{}:
	default:
	}
	g.close()
	g.endProbe()
	g.link.hangUp()
	var err error
	if g.coordinator != nil {
		err = g.coordinator.close()
	} else {
		// The coordinator hangs up when it has read the last message.
		timer := time.AfterFunc(g.config.CloseTimeout, g.link.cut)
		defer timer.Stop()
	}
	g.running.Wait()
	return errors.Join(err, g.port.Close(), g.door.Close())
}

// probeLocked answers the coordinator's check of the master's address: dial it, or
// be dialled.
func (g *group) probeLocked(m *message) {
	if m.Type == typeListen {
		g.endProbeLocked()
		g.answer(typeListening, m.Attempt, g.listenLocked(m.Attempt))
		return
	}
	if g.mu.closed {
		return
	}
	host := m.Agreed.Addr
	if host == "" {
		host = g.host
	}
	address := net.JoinHostPort(host, strconv.Itoa(m.Agreed.Port))
	g.running.Go(func() {
		g.answer(typeProbed, m.Attempt, g.dialMaster(host, address, m.Attempt))
	})
}

func (g *group) answer(kind string, attempt int, err error) {
	m := &message{Type: kind, Attempt: attempt}
	if err != nil {
		m.Reason = errorText(err)
	}
	if text, err := frame(m); err == nil {
		g.link.send(text)
	}
}

// listenLocked lets the others dial the held port. It answers with a token, so that
// they know to have reached this node.
func (g *group) listenLocked(attempt int) error {
	if g.mu.closed || g.port == nil {
		return nd.Errorf(nd.ErrBug, "this node holds no port for the master")
	}
	l, err := g.config.network.listen("", g.port.Number)
	if err != nil {
		return nd.Errorf(nd.ErrIO, "%w", err)
	}
	g.mu.listener = l
	text, err := frame(&message{Type: typeProbed, Attempt: attempt, Reason: token(g.key, attempt)})
	if err != nil {
		return err
	}
	g.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// The text fits an empty socket's buffer.
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(text)
			_ = conn.Close()
		}
	})
	return nil
}

func (g *group) endProbe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endProbeLocked()
}

func (g *group) endProbeLocked() {
	if g.mu.listener != nil {
		_ = g.mu.listener.Close() // the port goes to rank 0 now
		g.mu.listener = nil
	}
}

// dialMaster tries the master's address as a worker would.
func (g *group) dialMaster(host, address string, attempt int) error {
	ctx, cancel := context.WithTimeout(g.closing, probeTimeout/2)
	defer cancel()
	var last error
	for {
		err := g.dialOnce(ctx, address, attempt)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the end of our patience explains nothing
			last = err
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return nd.Errorf(nd.ErrIO, "%s%w", explain(last, host, address), silent{last})
		}
	}
}

func (g *group) dialOnce(ctx context.Context, address string, attempt int) error {
	conn, err := g.config.network.dial(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	m, err := readMessage(conn, maxFirst)
	if err != nil {
		return fmt.Errorf("%w: what answers is not rank 0's node", errNotOurs)
	}
	if m.Reason != token(g.key, attempt) {
		return fmt.Errorf("%w: another node answers", errNotOurs)
	}
	return nil
}
