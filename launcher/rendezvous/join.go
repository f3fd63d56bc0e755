package rendezvous

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/headrace/headrace/nd"
)

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
		events: make(chan Event, 1), documents: make(chan Document), changed: make(chan struct{}, 1),
		received: newQueue[Document](QueuedDocuments, QueuedBytes),
	}
	g.host, _, _ = splitEndpoint(config.Endpoint) // Validate has checked it
	g.closing, g.close = context.WithCancel(context.Background())
	conn, err := g.connect(ctx)
	if err != nil {
		return nil, errors.Join(err, g.abandon())
	}
	g.link = newLink(conn.Conn, &config)
	g.mu.member = &member{id: conn.id, host: g.host, runID: config.RunID, endpoint: g.address}
	g.running.Go(g.link.write)
	g.running.Go(g.deliver)
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
			if err == nil {
				g.tellHosting(said != "")
			}
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

// tellHosting says that this node begins the job, where that may be a surprise: after a wait, and
// in a live job, which may have outlived the node that began it.
func (g *group) tellHosting(waited bool) {
	if !g.config.Live && !waited || g.config.Static {
		return
	}
	text := "nobody is at " + g.address + ": this node begins the job"
	if g.config.Live {
		text += "; one that runs already, and has lost the node that began it, is joined by --live-contact"
	}
	g.config.Notice(text)
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
		return nil, nd.Errorf(nd.ErrIO, "port %d is %w by %s: stop it, or name another port (--master-port, --rdzv-endpoint)", number, errInUse, portOwner("/proc", number))
	}
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "rendezvous at %s: %w", g.address, err)
	}
	if len(g.config.Key) == 0 && bind == "" {
		g.config.Notice("there is no --key-file (HEADRACE_KEY_FILE): whoever reaches " + g.address + " and knows the run id can join this job")
	}
	g.coordinator = newCoordinator(g.config, l)
	return g.enter(g.coordinator.start())
}

// dialJob reaches the coordinator and joins.
func (g *group) dialJob(ctx context.Context) (*joined, error) {
	conn, err := g.config.network.dial(ctx, g.address)
	if err == nil {
		var j *joined
		if j, err = g.meet(ctx, conn); err == nil {
			return j, nil
		}
		_ = conn.Close() // it failed already
	}
	if _, refused := errors.AsType[*refusedError](err); refused {
		return nil, err
	}
	return nil, nd.Errorf(nd.ErrIO, "%s%w", explain(err, g.host, g.address), silent{err})
}

// meet proves the key and joins, or ends with ctx.
func (g *group) meet(ctx context.Context, conn net.Conn) (*joined, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the reads and writes notice
	defer stop()
	if err := shake(conn, g.key, false, shakeTimeout); err != nil {
		return nil, err
	}
	j, err := g.enter(conn)
	if err == nil && !stop() {
		return nil, ctx.Err()
	}
	return j, err
}

// silent carries a cause whose text has been told.
type silent struct{ error }

func (silent) Error() string { return "" }

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
