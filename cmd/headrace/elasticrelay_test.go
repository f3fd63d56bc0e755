package main

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// relays stand between the agents of a round where there are no network namespaces: each
// agent listens at an address of its own and speaks from it, by which a relay knows who
// speaks, and others reach it by its relay. What a link does not let pass is lost if it is a
// packet, and waits if it is of a stream, as it would for TCP's retransmissions.
type relays struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	away    map[int]side
	lost    map[[2]int]bool // what the first sends to the second
	changed chan struct{}   // closed, and another one made, when links change
	dropped chan struct{}   // packets; more than fit are not counted
}

// side is the network that a host is in.
type side int

const (
	atHome side = iota
	splitOff
	cutOff // alone
)

func newRelays() *relays {
	ctx, cancel := context.WithCancel(context.Background())
	return &relays{
		ctx: ctx, cancel: cancel, away: map[int]side{}, lost: map[[2]int]bool{},
		changed: make(chan struct{}), dropped: make(chan struct{}, 1),
	}
}

func (r *relays) set(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

func (r *relays) cut(i int) error   { return r.set(func() { r.away[i] = cutOff }) }
func (r *relays) split(i int) error { return r.set(func() { r.away[i] = splitOff }) }
func (r *relays) heal(i int) error  { return r.set(func() { r.away[i] = atHome }) }

func (r *relays) deafen(from, to int) error {
	return r.set(func() { r.lost[[2]int{from, to}] = true })
}

func (r *relays) hear(from, to int) error {
	return r.set(func() { delete(r.lost, [2]int{from, to}) })
}

func (r *relays) end() {
	r.cancel()
	r.running.Wait()
}

func relayedHost(i int) string { return "127.0.77." + strconv.Itoa(i+1) }

func hostOf(address net.IP) (host int, is bool) {
	b := address.To4()
	return int(b[3]) - 1, b[2] == 77
}

// passes reports whether packets pass, and what is closed when that changes.
func (r *relays) passes(from, to int) (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	together := from == to || r.away[from] == r.away[to] && r.away[from] != cutOff
	return together && !r.lost[[2]int{from, to}], r.changed
}

// await returns when a stream of two hosts goes on, which needs both directions; false: the
// round has ended.
func (r *relays) await(a, b int) bool {
	for {
		there, changed := r.passes(a, b)
		if back, _ := r.passes(b, a); there && back {
			return true
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return false
		}
	}
}

func (r *relays) plug(i int, _ *stage) (listens, reached string, err error) {
	listens, err = freeAddress(relayedHost(i))
	if err != nil {
		return "", "", err
	}
	reached, err = freeAddress(relayedHost(i))
	if err != nil {
		return "", "", err
	}
	return listens, reached, r.open(i, reached, listens)
}

// open starts the relay of a host.
func (r *relays) open(host int, at, address string) error {
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	context.AfterFunc(r.ctx, func() { _ = tcp.Close() })
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	context.AfterFunc(r.ctx, func() { _ = udp.Close() })
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	r.running.Go(func() { r.carry(udp, host, to) })
	r.running.Go(func() {
		for {
			in, err := tcp.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.join(in, host, address) })
		}
	})
	return nil
}

// carry hands on packets. Their sender's address is lost: gossip says in the packet who asks.
func (r *relays) carry(udp net.PacketConn, host int, to net.Addr) {
	buf := make([]byte, 64<<10)
	for {
		n, sender, err := udp.ReadFrom(buf)
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // the host's port is closed: its agent was killed
		}
		from, is := hostOf(sender.(*net.UDPAddr).IP)
		if ok, _ := r.passes(from, host); is && ok {
			_, _ = udp.WriteTo(buf[:n], to)
			continue
		}
		select {
		case r.dropped <- struct{}{}:
		default:
		}
	}
}

// join is one stream, until one of its ends closes it, or the round ends.
func (r *relays) join(in net.Conn, host int, address string) {
	defer func() { _ = in.Close() }()
	from, is := hostOf(in.RemoteAddr().(*net.TCPAddr).IP)
	if !is || !r.await(from, host) {
		return
	}
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	both := func() { _, _ = in.Close(), out.Close() }
	defer both()
	stop := context.AfterFunc(r.ctx, both)
	defer stop()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		copying.Go(func() {
			_, _ = io.Copy(held{way[1], func() bool { return r.await(from, host) }}, way[0])
			if r.await(from, host) {
				both()
			}
		})
	}
	copying.Wait()
}

// held is a writer that waits before it writes.
type held struct {
	to    io.Writer
	await func() bool
}

func (h held) Write(b []byte) (int, error) {
	if !h.await() {
		return 0, io.ErrClosedPipe
	}
	return h.to.Write(b)
}

// Relays let pass what the links let pass, and nothing of it is lost in a stream.
func TestRelays(t *testing.T) {
	l, err := newLan(2, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	heard := make(chan string, 16)
	listener, err := net.Listen("tcp", l.listens[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 16)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					heard <- string(buf[:n])
				}
			}()
		}
	}()
	packets, err := net.ListenPacket("udp", l.listens[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packets.Close() }()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(relayedHost(0))}}
	stream, err := from.Dial("tcp", l.reached[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	say := func(text string) {
		t.Helper()
		if _, err := stream.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(text string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != text {
				t.Fatalf("heard %q, wanted %q", got, text)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q is not heard", text)
		}
	}
	udp := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(relayedHost(0))}}
	packet, err := udp.Dial("udp", l.reached[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packet.Close() }()
	sends := func(b byte) {
		t.Helper()
		if _, err := packet.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	say("a")
	hears("a")
	for name, links := range map[string][2]func() error{
		"cut":   {func() error { return l.cut(1) }, func() error { return l.heal(1) }},
		"split": {func() error { return l.split(0) }, func() error { return l.heal(0) }},
		"deaf":  {func() error { return l.deafen(0, 1) }, func() error { return l.hear(0, 1) }},
	} {
		if err := links[0](); err != nil {
			t.Fatal(err)
		}
		say(name)
		sends(0)
		select {
		case <-l.links.(*relays).dropped:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: a packet is not dropped", name)
		}
		select {
		case got := <-heard:
			t.Errorf("%s: heard %q", name, got)
		case <-time.After(50 * time.Millisecond): // it could come later, and would fail the next round
		}
		if err := links[1](); err != nil {
			t.Fatal(err)
		}
		hears(name)
		sends(1)
		buf := make([]byte, 16)
		if err := packets.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, _, err := packets.ReadFrom(buf); err != nil || n != 1 || buf[0] != 1 {
			t.Fatalf("%s: packet %v, %v", name, buf[:n], err)
		}
	}
}
