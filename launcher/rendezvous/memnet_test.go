package rendezvous

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// memnet is a network in memory, in which synctest sees the time pass: hosts h0, h1
// … with the addresses 10.0.0.1, 10.0.0.2 ….
type memnet struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by host:port
	ports     int
	mute      map[int]bool         // hosts whose packets vanish
	unready   map[string]int       // lookups of a name that fail first; -1: all
	closed    func(to string) bool // packets that a firewall drops: connection refused
}

func newMemnet() *memnet {
	return &memnet{listeners: map[string]*memListener{}, ports: 40000, mute: map[int]bool{}, unready: map[string]int{}}
}

// host is the network as one host sees it.
func (m *memnet) host(n int) *network {
	return &network{
		dial:   func(ctx context.Context, address string) (net.Conn, error) { return m.dial(ctx, n, address) },
		listen: func(_ string, port int) (net.Listener, error) { return m.listen(n, port) },
		hold:   m.hold,
		mine: func(_ context.Context, host string) (bool, error) {
			if err := m.resolve(host); err != nil {
				return false, err
			}
			return host == fmt.Sprint("h", n), nil
		},
	}
}

func (m *memnet) hold(port int) (*Port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if port <= 0 {
		m.ports++
		port = m.ports
	}
	return &Port{Number: port, fd: -1}, nil
}

func (m *memnet) resolve(host string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.unready[host]; n != 0 {
		m.unready[host] = max(-1, n-1)
		return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return nil
}

func (m *memnet) listen(n, port int) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
	for _, name := range []string{fmt.Sprintf("h%d:%d", n, port), fmt.Sprintf("10.0.0.%d:%d", n+1, port)} {
		if old := m.listeners[name]; old != nil && !old.isClosed() {
			return nil, syscall.EADDRINUSE
		}
		m.listeners[name] = l
	}
	return l, nil
}

func (m *memnet) dial(ctx context.Context, n int, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	if err := m.resolve(host); err != nil {
		return nil, err
	}
	m.mu.Lock()
	l := m.listeners[address]
	blocked := m.closed != nil && m.closed(address)
	m.mu.Unlock()
	if l == nil || blocked {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	select {
	case l.conns <- &memConn{far, m, n}:
		return &memConn{near, m, n}, nil
	case <-l.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type memListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) isClosed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *memListener) Addr() net.Addr { return &net.TCPAddr{} }

// memConn is one end of a connection of host n to another.
type memConn struct {
	net.Conn
	net *memnet
	n   int
}

func (c *memConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	mute := c.net.mute[c.n]
	c.net.mu.Unlock()
	if mute {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close of a host that is cut off tells nobody.
func (c *memConn) Close() error {
	c.net.mu.Lock()
	mute := c.net.mute[c.n]
	c.net.mu.Unlock()
	if mute {
		return c.SetDeadline(past)
	}
	return c.Conn.Close()
}

func (c *memConn) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", "10.0.0."+strconv.Itoa(c.n+1)+":1")
	return addr
}

// node is the configuration of a node on host n; the endpoint is on h0.
func (m *memnet) node(t *testing.T, low, high, n int) Config {
	c := elastic(29400, low, high, n)
	c.Endpoint, c.network, c.JoinTimeout, c.LastCall = "h0:29400", m.host(n), 0, 0
	c.Key = []byte("key")
	c.Notice = func(text string) { t.Logf("node %d: %s", n, text) }
	return c
}
