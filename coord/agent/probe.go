package agent

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/internal/sealed"
	"github.com/headrace/headrace/nd"
)

// A probe asks whether an agent can be reached, and by whom: by TCP a stream of kind 'P',
// sealed, with one message each way; by UDP a packet and its echo, of one length:
//
//	'P' ‖ 1: ping, 2: pong ‖ nonce (16) ‖ HMAC-SHA-256 of all before (32) ‖ zeros
//
// A ping is as long as the longest packet of gossip, so that a path that loses those shows.
// Nothing is answered to who does not know the key, and no answer is longer than what
// asked for it.
const (
	ping, pong   = 1, 2
	pingHead     = 2 + 16
	pingLeast    = pingHead + sha256.Size
	pingLength   = 1400 // memberlist's UDPBufferSize
	probeMessage = 4 << 10
	// probeHello is what a probe sends: more than the random bytes at the begin of a stream
	// with a key, which one without has to be told from.
	probeHello = 64
	// pings and pingWait: one lost packet is no news, three are.
	pings    = 3
	pingWait = 400 * time.Millisecond
)

// Answer is what an agent says of itself to who knows the key.
type Answer struct {
	Protocol int    `json:"protocol"` // coord.Version
	Release  string `json:"release"`  // of headrace
	Job      string `json:"job"`
	Name     string `json:"name"`
	ID       string `json:"id"` // as a member; empty before it is one
	View     uint64 `json:"view"`
	Nodes    int    `json:"nodes"` // of the view
	Ranks    int    `json:"ranks"`
	Waiting  string `json:"waiting,omitempty"`
}

// Reach is how an agent was reached.
type Reach struct {
	Answer      Answer
	Stream      time.Duration // for a TCP connection, key and answer
	StreamError error         // nil: it was reached by TCP, and has the same key
	Packet      time.Duration // for a UDP packet and back, the fastest
	Lost        int           // of so many UDP packets
	PacketError error         // nil: it was reached by UDP
}

// Packets is how many UDP packets a probe sends.
const Packets = pings

// Probe reaches for an agent, by TCP and by UDP, with the job's key. The two are tried at
// the same time.
func Probe(ctx context.Context, address string, key []byte) (r Reach) {
	var pinging sync.WaitGroup
	pinging.Go(func() { r.Packet, r.Lost, r.PacketError = pingAgent(ctx, address, key) })
	began := time.Now()
	r.Answer, r.StreamError = askAgent(ctx, address, key)
	r.Stream = time.Since(began)
	pinging.Wait()
	return r
}

// askAgent asks an agent by TCP who it is.
func askAgent(ctx context.Context, address string, key []byte) (p Answer, err error) {
	raw, err := dialStream(ctx, nil, address, probeStream, dialTimeout)
	if err != nil {
		return p, nd.Errorf(nd.ErrIO, "%w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer raw.Close() //nolint:errcheck // what it had to say was read
	if err := raw.SetDeadline(time.Now().Add(firstByteTimeout)); err != nil {
		return p, nd.Errorf(nd.ErrIO, "%w", err)
	}
	counted := &countedConn{Conn: raw}
	conn, err := sealed.Client(counted, key)
	if err == nil {
		err = conn.Send(make([]byte, probeHello), sendTimeout)
	}
	var text []byte
	if err == nil {
		if err = raw.SetReadDeadline(time.Now().Add(firstByteTimeout)); err == nil {
			text, err = conn.Receive(probeMessage)
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err != nil && ctx.Err() != nil:
		return p, nd.Errorf(nd.ErrIO, "something listens, and does not answer")
	case err != nil && counted.n == 0: // one with a key sends random bytes first, whatever ours is
		return p, nd.Errorf(nd.ErrConfig, "it hangs up before a byte: it takes no more streams, has no key where one was given, or is no agent of headrace")
	case err != nil:
		return p, nd.Errorf(nd.ErrConfig, "it has another key, or is no agent of headrace")
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, nd.Errorf(nd.ErrCorrupt, "its answer: %w", err)
	}
	if p.Protocol != coord.Version {
		return p, nd.Errorf(nd.ErrUnsupported, "it speaks version %d, this one %d: install the same headrace everywhere", p.Protocol, coord.Version)
	}
	return p, nil
}

// countedConn counts what comes.
type countedConn struct {
	net.Conn
	n int
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	return n, err
}

// answerProbe tells who knows the key who this agent is.
func (a *Agent) answerProbe(raw net.Conn) {
	if raw.SetDeadline(time.Now().Add(firstByteTimeout)) != nil {
		return
	}
	conn, err := sealed.Server(raw, a.config.Key)
	if err != nil {
		return
	}
	if raw.SetReadDeadline(time.Now().Add(firstByteTimeout)) != nil {
		return
	}
	if _, err := conn.Receive(probeMessage); err != nil {
		if errors.Is(err, nd.ErrCorrupt) {
			a.drops.add(dropKey)
		}
		return
	}
	p := Answer{Protocol: coord.Version, Release: a.config.Release, Job: a.config.Job, Name: a.config.Name}
	a.mu.Lock()
	state, id := a.mu.state, a.mu.self
	p.Waiting = a.mu.waiting
	a.mu.Unlock()
	if id != (coord.ID{}) {
		p.ID = id.String()
	}
	if v := state.View; v != nil {
		p.View, p.Nodes, p.Ranks = v.Number, len(v.Members), v.World()
	}
	if text, err := json.Marshal(p); err == nil {
		_ = conn.Send(text, sendTimeout) // who asked has gone
	}
}

// pingAgent sends a few packets one after the other.
func pingAgent(ctx context.Context, address string, key []byte) (fastest time.Duration, lost int, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return 0, pings, nd.Errorf(nd.ErrIO, "%w", err)
	}
	defer conn.Close() //nolint:errcheck // packets have no end
	for range pings {
		took, once := pingOnce(conn, key)
		if once != nil {
			lost, err = lost+1, once
			continue
		}
		if fastest == 0 || took < fastest {
			fastest = took
		}
	}
	if lost < pings {
		return fastest, lost, nil
	}
	return 0, lost, err
}

func pingOnce(conn net.Conn, key []byte) (time.Duration, error) {
	packet := newPing(key)
	began := time.Now()
	err := conn.SetDeadline(began.Add(pingWait))
	if err == nil {
		_, err = conn.Write(packet)
	}
	buf := make([]byte, maxPacket)
	for err == nil {
		var n int
		if n, err = conn.Read(buf); err == nil && answers(buf[:n], packet, key) {
			return time.Since(began), nil
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nd.Errorf(nd.ErrIO, "no answer")
	}
	return 0, nd.Errorf(nd.ErrIO, "%w", err)
}

func newPing(key []byte) []byte {
	p := make([]byte, pingLength)
	p[0], p[1] = probeStream, ping
	_, _ = rand.Read(p[2:pingHead]) // it never fails
	copy(p[pingHead:], mark(key, p[:pingHead]))
	return p
}

// mark is what only those with the key can write behind a packet's head.
func mark(key, head []byte) []byte {
	derived, err := hkdf.Key(sha256.New, key, nil, "headrace/ping/1", sha256.Size)
	if err != nil {
		derived = nil // lengths are constants that it takes
	}
	h := hmac.New(sha256.New, derived)
	_, _ = h.Write(head) // it never fails
	return h.Sum(nil)
}

func marked(packet, key []byte) bool {
	return len(packet) >= pingLeast && hmac.Equal(packet[pingHead:pingLeast], mark(key, packet[:pingHead]))
}

// answers reports whether a packet is the pong of a ping.
func answers(packet, ping, key []byte) bool {
	return marked(packet, key) && packet[1] == pong && len(packet) == len(ping) && bytes.Equal(packet[2:pingHead], ping[2:pingHead])
}

// answerPing makes the pong of a ping, nil where it is none.
func (a *Agent) answerPing(packet []byte) []byte {
	if !marked(packet, a.config.Key) || packet[1] != ping {
		a.drops.add(dropGossipKey)
		return nil
	}
	back := make([]byte, len(packet))
	back[0], back[1] = probeStream, pong
	copy(back[2:], packet[2:pingHead])
	copy(back[pingHead:], mark(a.config.Key, back[:pingHead]))
	return back
}
