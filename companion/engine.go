package companion

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/nd"
)

// helloTime is how long a client may take to say hello.
const helloTime = 10 * time.Second

// Config describes an engine. Fields at zero take the default named beside them.
type Config struct {
	// Socket is the path at which it listens.
	Socket string
	// Device is "cpu", which is the default, or a GPU by any name of it: "cuda:N",
	// "GPU-<uuid>", "MIG-<uuid>".
	Device string
	// Driver is the path of libcuda; "" is the system's.
	Driver string
	// Clients is the number of clients at one time. Default 64.
	Clients int
	// Pipelines is the number of pipelines, loaders and reads of all clients. Default
	// 256.
	Pipelines int
	// Grace is how long an engine that was asked to stop waits for requests under way.
	// Default 2 s.
	Grace time.Duration
	// Join takes loaders into jobs whose ranks come and go; nil leaves that out.
	Join session.Join
	// Release is the version of the program, told to clients.
	Release string
}

const (
	defaultGrace     = 2 * time.Second
	defaultClients   = 64
	defaultPipelines = 256
	// maxObjects bounds the handles of one client, maxRequests its requests under
	// way.
	maxObjects  = 16384
	maxRequests = 1024
)

// Engine serves clients at a socket.
type Engine struct {
	cfg       Config
	socket    *socket
	pipelines *session.Quota
	slots     chan struct{} // a token for each client
	clients   sync.WaitGroup
}

// Listen makes the socket; Serve serves it.
func Listen(cfg Config) (*Engine, error) {
	if cfg.Device == "" {
		cfg.Device = "cpu"
	}
	var err error
	if cfg.Device, err = session.FindDevice(cfg.Driver, cfg.Device); err != nil {
		return nil, err
	}
	if cfg.Clients == 0 {
		cfg.Clients = defaultClients
	}
	if cfg.Pipelines == 0 {
		cfg.Pipelines = defaultPipelines
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Clients < 0 || cfg.Pipelines < 0 {
		return nil, nd.Errorf(nd.ErrConfig, "Clients is %d and Pipelines %d: at least 1", cfg.Clients, cfg.Pipelines)
	}
	s, err := listen(cfg.Socket)
	if err != nil {
		return nil, err
	}
	return &Engine{
		cfg: cfg, socket: s, pipelines: session.NewQuota(cfg.Pipelines), slots: make(chan struct{}, cfg.Clients),
	}, nil
}

// Config is the configuration with every default filled in.
func (e *Engine) Config() Config { return e.cfg }

// Serve serves clients until ctx ends: then it removes the socket, lets requests
// under way end within Config.Grace, and closes what clients have left. An error is one of
// the socket.
func (e *Engine) Serve(ctx context.Context) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = e.socket.Close() // Accept returns
		close(closed)
	})
	for {
		conn, err := e.socket.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			<-closed // Accept may have returned for a client, before
			return e.wait()
		case short(err):
			pause(ctx, shortPause) // the next client waits, those that are served go on
			continue
		case err != nil:
			stop()
			return errors.Join(nd.Errorf(nd.ErrIO, "socket: %w", err), e.socket.Close())
		}
		e.clients.Go(func() { e.receive(ctx, conn) })
	}
}

// wait waits for the clients, but not for storage that hangs.
func (e *Engine) wait() error {
	ended := make(chan struct{})
	go func() {
		e.clients.Wait()
		close(ended)
	}()
	late := time.NewTimer(3 * e.cfg.Grace)
	defer late.Stop()
	select {
	case <-ended:
		return nil
	case <-late.C:
		return nd.Errorf(nd.ErrIO, "%d clients have requests that do not end: their storage hangs", len(e.slots))
	}
}

// receive serves one client, or says why not.
func (e *Engine) receive(ctx context.Context, conn *net.UnixConn) {
	silent := context.AfterFunc(ctx, func() { _ = conn.Close() }) // who has not said who it is holds nobody up
	c, err := e.greet(conn)
	silent()
	if err != nil {
		_ = e.answer(conn, Welcome{Error: refusal(err)}) // the client may be gone
		_ = conn.Close()
		return
	}
	defer func() { <-e.slots }()
	c.run(ctx)
}

// greet takes a place among the clients, reads the client's greeting and answers
// it. Without an error the place is the caller's.
func (e *Engine) greet(conn *net.UnixConn) (*client, error) {
	pid, err := checkPeer(conn, os.Geteuid())
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(helloTime)); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "greeting: %w", err)
	}
	select {
	case e.slots <- struct{}{}:
	default:
		return nil, nd.Errorf(nd.ErrBudget, "%d clients are connected, this engine takes no more: start it with a larger --max-clients", e.cfg.Clients)
	}
	c, err := e.meet(conn, pid)
	if err != nil {
		<-e.slots
	}
	return c, err
}

func (e *Engine) meet(conn *net.UnixConn, pid int) (*client, error) {
	in := &withDescriptors{conn: conn}
	var hello Hello
	err := readGreeting(in, &hello)
	if err == nil {
		err = hello.check(len(in.fds), e.kinds())
	}
	if err != nil {
		for _, fd := range in.fds {
			_ = closeDescriptor(fd)
		}
		return nil, err
	}
	releases, err := pipeEnd(in.fds[0])
	if err != nil {
		return nil, err
	}
	if err := e.answer(conn, Welcome{Release: e.cfg.Release, Device: e.cfg.Device, PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, releases.Close())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "greeting: %w", err), releases.Close())
	}
	return e.newClient(conn, pid, &hello, releases), nil
}

func (e *Engine) answer(conn *net.UnixConn, w Welcome) error {
	text, err := appendGreeting(nil, Version, w)
	if err != nil {
		return err
	}
	if _, err := conn.Write(text); err != nil {
		return nd.Errorf(nd.ErrIO, "greeting: %w", err)
	}
	return nil
}

// kinds are the kinds of memory that the engine hands out. Reads of single crops lie on
// the host on every device.
func (e *Engine) kinds() []string {
	if e.cfg.Device == "cpu" {
		return []string{memfd}
	}
	return []string{memfd, cudaIPC}
}

func (h *Hello) check(fds int, kinds []string) error {
	if fds != 1 {
		return nd.Errorf(nd.ErrBug, "the greeting comes with %d descriptors, not with a release pipe", fds)
	}
	for _, kind := range kinds {
		if !slices.Contains(h.Memory, kind) {
			return nd.Errorf(nd.ErrUnsupported, "the engine hands out %s memory, the client (headrace %s) takes %q: install the same headrace on both sides", kind, h.Release, h.Memory)
		}
	}
	return nil
}

// shortPause is how long the next client waits where the engine has no descriptor for it:
// nothing tells when there is one again.
const shortPause = 50 * time.Millisecond

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}
