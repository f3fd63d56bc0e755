package agent

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headrace/headrace/nd"
)

// The first byte of a stream says what it is.
const (
	gossipStream  = 'G'
	messageStream = 'M'
	probeStream   = 'P' // and a packet of UDP: those of memberlist begin with the byte of its label
)

const (
	// firstByteTimeout bounds who connects and says nothing.
	firstByteTimeout = 5 * time.Second
	// maxUndecided bounds how many of them there are.
	maxUndecided = 1024
	// maxPacket is what fits UDP.
	maxPacket = 64 << 10
	// queuedPackets wait for memberlist; more are dropped, as a network would.
	queuedPackets = 1024
)

// port is the one port of an agent: UDP packets of gossip, TCP streams of gossip and of
// messages. It is memberlist's transport, and a listener of message streams. Its
// goroutines end with Close.
type port struct {
	tcp     *net.TCPListener
	udp     *net.UDPConn
	packets chan *memberlist.Packet
	gossip  chan net.Conn
	streams chan net.Conn
	closed  chan struct{}
	ending  context.Context // ends with closed
	end     context.CancelFunc
	once    sync.Once
	running sync.WaitGroup
	room    chan struct{}
	drops   *drops
	probed  prober
	gossips atomic.Bool // somebody takes streams of gossip
}

// prober answers who asks whether the agent can be reached. Its methods are called by
// goroutines of the port.
type prober interface {
	answerProbe(conn net.Conn)
	answerPing(packet []byte) []byte // nil: none
}

// openPort listens on TCP and UDP at one address; port 0 picks one that both have.
func openPort(address string, drops *drops, probed prober) (*port, error) {
	var last error
	for range 16 { // a port that TCP has may be taken in UDP
		tcp, err := net.Listen("tcp", address)
		if err != nil {
			return nil, nd.Errorf(nd.ErrIO, "agent: listen at %s: %w", address, err)
		}
		at := tcp.Addr().(*net.TCPAddr)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
		if err != nil {
			last = err
			_ = tcp.Close()
			continue
		}
		ending, end := context.WithCancel(context.Background())
		p := &port{
			ending: ending, end: end,
			tcp: tcp.(*net.TCPListener), udp: udp, packets: make(chan *memberlist.Packet, queuedPackets),
			gossip: make(chan net.Conn), streams: make(chan net.Conn), closed: make(chan struct{}), room: make(chan struct{}, maxUndecided), drops: drops, probed: probed,
		}
		p.running.Go(p.acceptStreams)
		p.running.Go(p.readPackets)
		return p, nil
	}
	return nil, nd.Errorf(nd.ErrIO, "agent: listen at %s, UDP: %w", address, last)
}

func (p *port) acceptStreams() {
	for {
		conn, err := p.tcp.Accept()
		if err != nil {
			select {
			case <-p.closed:
				return
			case <-time.After(100 * time.Millisecond): // too many open files, say
				continue
			}
		}
		select {
		case p.room <- struct{}{}:
			p.running.Go(func() {
				p.dispatch(conn)
				<-p.room
			})
		default:
			p.drops.add(dropStreams)
			_ = conn.Close()
		}
	}
}

// dispatch looks at the first byte of a stream.
func (p *port) dispatch(conn net.Conn) {
	stop := context.AfterFunc(p.ending, func() { _ = conn.Close() })
	defer stop() // whoever gets the stream closes it
	var first [1]byte
	err := conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	if err == nil {
		_, err = io.ReadFull(conn, first[:])
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	to := p.gossip
	switch {
	case err == nil && first[0] == probeStream:
		p.probed.answerProbe(conn)
		_ = conn.Close()
		return
	case err == nil && first[0] != gossipStream && first[0] != messageStream:
		p.drops.add(dropMalformed)
		_ = conn.Close()
		return
	case err != nil:
		_ = conn.Close()
		return
	case first[0] == messageStream:
		to = p.streams
	case !p.gossips.Load(): // before the first rank: who asks tries again
		_ = conn.Close()
		return
	}
	bound := time.NewTimer(firstByteTimeout) // gossip may end meanwhile
	defer bound.Stop()
	select {
	case to <- conn:
	case <-p.closed:
		_ = conn.Close()
	case <-bound.C:
		p.drops.add(dropStreams)
		_ = conn.Close()
	}
}

func (p *port) readPackets() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := p.udp.ReadFrom(buf)
		now := time.Now()
		if err != nil {
			select {
			case <-p.closed:
				return
			case <-time.After(time.Millisecond): // a refused packet shows as an error of the next read
				continue
			}
		}
		if n == 0 {
			continue
		}
		if buf[0] == probeStream {
			if back := p.probed.answerPing(buf[:n]); back != nil {
				_, _ = p.udp.WriteTo(back, from)
			}
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: now}
		select {
		case p.packets <- packet:
		default:
			p.drops.add(dropGossipQueue)
		}
	}
}

// Accept gives the next stream of messages.
func (p *port) Accept() (net.Conn, error) {
	select {
	case conn := <-p.streams:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Addr is where the port listens.
func (p *port) Addr() net.Addr { return p.tcp.Addr() }

// Close ends all, and returns when no goroutine is left.
func (p *port) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.end()
		_ = p.tcp.Close()
		_ = p.udp.Close()
	})
	p.running.Wait()
	return nil
}

// transport is the port as memberlist sees it. Its Shutdown leaves the port open: an
// agent that begins again gossips over the same one.
type transport struct {
	*port
	at endpoint
}

func (t transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.at.ip, t.at.port, nil
}

func (t transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteTo(b, to)
	return time.Now(), err
}

func (t transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t transport) StreamCh() <-chan net.Conn           { return t.gossip }

func (t transport) Shutdown() error {
	t.gossips.Store(false)
	return nil
}

func (t transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.dialUntil(context.Background(), address, timeout)
}

// dialUntil is DialTimeout; the stream ends with the context too.
func (t transport) dialUntil(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := dialStream(ctx, sourceOf(t.port), address, gossipStream, timeout)
	if err != nil {
		return nil, err
	}
	return &hungUp{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

// hungUp is a stream that a context ends.
type hungUp struct {
	net.Conn
	forget func() bool
}

func (h *hungUp) Close() error {
	h.forget()
	return h.Conn.Close()
}

// until is a transport whose streams end with a context, where it can.
type until struct {
	memberlist.Transport
	ctx context.Context
}

func (u until) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	if t, ok := u.Transport.(transport); ok {
		return t.dialUntil(u.ctx, address, timeout)
	}
	return u.Transport.DialTimeout(address, timeout)
}

// sourceOf is the address from which an agent speaks that listens at one address of a host
// with several: the same, as its packets of UDP do. Nil, any, for who listens at all.
func sourceOf(l net.Listener) net.Addr {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || at.IP.IsUnspecified() {
		return nil
	}
	return &net.TCPAddr{IP: at.IP, Zone: at.Zone}
}

// dialStream opens a stream of a kind.
func dialStream(ctx context.Context, from net.Addr, address string, kind byte, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout, LocalAddr: from}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	err = conn.SetWriteDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = conn.Write([]byte{kind})
	}
	if err == nil {
		err = conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
