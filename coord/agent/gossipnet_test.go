package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// memnet is a network in memory for gossip, in which synctest sees the time pass: packets
// are late, lost, doubled and overtake each other, links are cut in one direction or in
// both. Its draws come from one seed; who draws first is up to the scheduler, so a seed
// is not one history.
type memnet struct {
	latency, jitter       time.Duration
	loss, double, reorder float64

	mu      sync.Mutex
	rand    *rand.Rand
	hosts   []*memhost
	cut     func(from, to int) bool // nil: all is well
	packets int64
	bytes   int64
	longest int // packet
	tape    []recorded
	taped   bool // packets are recorded
}

// recorded is a packet as a listener on the wire has it.
type recorded struct {
	to     *memhost
	packet memberlist.Packet
}

// replay sends again what was recorded.
func (n *memnet) replay() int {
	n.mu.Lock()
	tape := n.tape
	n.taped = false
	n.mu.Unlock()
	for i, r := range tape {
		p := r.packet
		p.Buf, p.Timestamp = append([]byte(nil), p.Buf...), time.Now()
		select {
		case r.to.packets <- &p:
		case <-r.to.gone:
		}
		if i%100 == 99 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return len(tape)
}

// lateBy is how much later a packet comes that others overtake.
const lateBy = 50 * time.Millisecond

// resend is when TCP sends again what got lost.
const resend = 200 * time.Millisecond

func newMemnet(seed uint64, loss float64) *memnet {
	return &memnet{
		latency: 200 * time.Microsecond, jitter: 600 * time.Microsecond, loss: loss, double: loss / 5, reorder: loss,
		rand: rand.New(rand.NewPCG(seed, 0x6d656d6e6574)),
	}
}

// memhost is a host of the network: memberlist's transport.
type memhost struct {
	net     *memnet
	place   int
	packets chan *memberlist.Packet
	streams chan net.Conn
	gone    chan struct{} // closed when the host is lost
	once    sync.Once
}

// host adds a host.
func (n *memnet) host() *memhost {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &memhost{net: n, place: len(n.hosts), packets: make(chan *memberlist.Packet, queuedPackets), streams: make(chan net.Conn), gone: make(chan struct{})}
	n.hosts = append(n.hosts, h)
	return h
}

func (h *memhost) ip() net.IP      { return net.IPv4(10, 0, byte(h.place>>8), byte(h.place)) }
func (h *memhost) address() string { return net.JoinHostPort(h.ip().String(), "7946") }

// lose ends a host without a word to anyone.
func (h *memhost) lose() { h.once.Do(func() { close(h.gone) }) }

func (h *memhost) lost() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// cuts sets which links are cut; nil: none.
func (n *memnet) cuts(cut func(from, to int) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// passes reports whether a host's packets reach another one, but for chance.
func (n *memnet) passes(from, to *memhost) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return to != nil && !from.lost() && !to.lost() && (n.cut == nil || !n.cut(from.place, to.place))
}

func (n *memnet) at(address string) *memhost {
	n.mu.Lock()
	defer n.mu.Unlock()
	var a, b, port int
	if _, err := fmt.Sscanf(address, "10.0.%d.%d:%d", &a, &b, &port); err != nil || a<<8+b >= len(n.hosts) {
		return nil
	}
	return n.hosts[a<<8+b]
}

// delays are how long after now the copies of a packet arrive; none: it is lost.
func (n *memnet) delays(length int) (list []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.packets++
	n.bytes += int64(length)
	n.longest = max(n.longest, length)
	copies := 1
	if n.rand.Float64() < n.double {
		copies = 2
	}
	for range copies {
		if n.rand.Float64() < n.loss {
			continue
		}
		d := n.latency + time.Duration(n.rand.Int64N(int64(n.jitter)))
		if n.rand.Float64() < n.reorder {
			d += time.Duration(n.rand.Int64N(int64(lateBy)))
		}
		list = append(list, d)
	}
	return list
}

// crossing is how long bytes of a stream are under way: what gets lost is sent again.
func (n *memnet) crossing() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.latency + time.Duration(n.rand.Int64N(int64(n.jitter)))
	for again := resend; n.rand.Float64() < n.loss; again *= 2 {
		d += again
	}
	return d
}

func (h *memhost) WriteTo(b []byte, address string) (time.Time, error) {
	to := h.net.at(address)
	if h.lost() || to == nil {
		return time.Now(), nil
	}
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: &net.UDPAddr{IP: h.ip(), Port: 7946}}
	h.net.mu.Lock()
	if h.net.taped {
		h.net.tape = append(h.net.tape, recorded{to, *packet})
	}
	h.net.mu.Unlock()
	for _, d := range h.net.delays(len(b)) {
		time.AfterFunc(d, func() {
			if !h.net.passes(h, to) {
				return
			}
			p := *packet
			p.Buf, p.Timestamp = append([]byte(nil), packet.Buf...), time.Now()
			select {
			case to.packets <- &p:
			default: // as a socket whose buffer is full
			}
		})
	}
	return time.Now(), nil
}

func (h *memhost) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	to := h.net.at(address)
	d := 2 * h.net.crossing()
	if !h.net.passes(h, to) || !h.net.passes(to, h) || d > timeout {
		d = timeout
		to = nil
	}
	arrives := time.NewTimer(d)
	defer arrives.Stop()
	select {
	case <-arrives.C:
	case <-h.gone:
		return nil, net.ErrClosed
	}
	if to == nil {
		return nil, os.ErrDeadlineExceeded
	}
	near, far := net.Pipe()
	select {
	case to.streams <- &memstream{Conn: far, from: to, to: h}:
		return &memstream{Conn: near, from: h, to: to}, nil
	case <-to.gone:
	case <-h.gone:
	case <-time.After(timeout):
	}
	return nil, os.ErrDeadlineExceeded
}

func (h *memhost) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return h.ip(), 7946, nil }
func (h *memhost) PacketCh() <-chan *memberlist.Packet                 { return h.packets }
func (h *memhost) StreamCh() <-chan net.Conn                           { return h.streams }
func (h *memhost) Shutdown() error                                     { h.lose(); return nil }

// memstream is one end of a stream. Once the link was cut while it was in use nothing
// comes through any more, not even its end.
type memstream struct {
	net.Conn
	from, to *memhost
	mu       sync.Mutex
	dead     bool
}

func (s *memstream) passes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.from.net
	if !n.passes(s.from, s.to) || !n.passes(s.to, s.from) { // without acknowledgements nothing goes on
		s.dead = true
	}
	return !s.dead
}

func (s *memstream) Write(p []byte) (int, error) {
	time.Sleep(s.from.net.crossing())
	if !s.passes() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *memstream) Close() error {
	if !s.passes() {
		return s.SetDeadline(time.Unix(1, 0))
	}
	return s.Conn.Close()
}

func (s *memstream) RemoteAddr() net.Addr { return &net.TCPAddr{IP: s.to.ip(), Port: 7946} }
