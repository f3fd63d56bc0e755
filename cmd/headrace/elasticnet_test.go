package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// stage is a thread of its own, in a network namespace of its own where there are
// namespaces. Processes that it starts are in that namespace too, and are killed when it
// ends.
type stage struct {
	calls chan func()
	ended chan struct{}
	tid   int
}

func newStage(apart bool) (*stage, error) {
	s := &stage{calls: make(chan func()), ended: make(chan struct{})}
	began := make(chan error, 1)
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		s.tid = unix.Gettid()
		if apart {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				began <- err
				return
			}
		}
		began <- nil
		for f := range s.calls {
			f()
		}
	}()
	return s, <-began
}

// do has the thread run a function.
func (s *stage) do(f func() error) (err error) {
	done := make(chan struct{})
	s.calls <- func() { err = f(); close(done) }
	<-done
	return err
}

// start starts a process.
func (s *stage) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return s.do(cmd.Start)
}

// dial connects to an address as it is in the namespace.
func (s *stage) dial(address string) (conn net.Conn, err error) {
	err = s.do(func() error { conn, err = net.Dial("tcp", address); return err })
	return conn, err
}

func (s *stage) end() {
	close(s.calls)
	<-s.ended
}

func ip(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if out, err := exec.Command("ip", strings.Fields(text)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", text, err, out)
	}
	return nil
}

// links are those between the hosts of a round.
type links interface {
	// plug connects a host, and says where its agent listens and where others reach it.
	plug(i int, s *stage) (listens, reached string, err error)
	// cut has a host reach nobody, and nobody it, without a sign of it.
	cut(i int) error
	// split has a host reach only those that are split off too.
	split(i int) error
	// heal undoes both.
	heal(i int) error
	// deafen has what a host sends to another one get lost, not what comes back; hear undoes it.
	deafen(from, to int) error
	hear(from, to int) error
	end()
}

// lan is the network of a round, on network namespaces where there are such.
type lan struct {
	links
	stages           []*stage
	listens, reached []string // by host
}

func newLan(hosts int, apart bool) (*lan, error) {
	l := &lan{links: newRelays()}
	if apart {
		l.links = &bridges{number: int(lans.Add(1))}
	}
	for i := range hosts {
		s, err := newStage(apart)
		if err != nil {
			return l, err
		}
		l.stages = append(l.stages, s)
		listens, reached, err := l.plug(i, s)
		if err != nil {
			return l, err
		}
		l.listens, l.reached = append(l.listens, listens), append(l.reached, reached)
	}
	return l, nil
}

// end ends all processes that were started on its hosts, and takes the network down.
func (l *lan) end() {
	for _, s := range l.stages {
		s.end()
	}
	l.links.end()
}

// freeAddress has a port at which nobody listens now, on TCP and UDP.
func freeAddress(host string) (string, error) {
	for range 20 {
		tcp, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return "", err
		}
		at := tcp.Addr().String()
		udp, err := net.ListenPacket("udp", at)
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return at, nil
		}
	}
	return "", errors.New("no port is free in TCP and UDP")
}

// lans counts networks: the names of one that is gone stay for a moment.
var lans atomic.Int64

// bridges are links of network namespaces: two bridges, one for those that are split off
// together.
type bridges struct {
	number int
	stages []*stage
}

func (b *bridges) plug(i int, s *stage) (listens, reached string, err error) {
	if len(b.stages) == 0 {
		for _, name := range []string{"br", "bx"} {
			if err := errors.Join(ip("link add %s%d type bridge", name, b.number), ip("link set %s%d up", name, b.number)); err != nil {
				return "", "", err
			}
		}
	}
	b.stages = append(b.stages, s)
	if err := ip("link add v%dx%d type veth peer name eth0 netns %d", b.number, i, s.tid); err != nil {
		return "", "", err
	}
	at := net.JoinHostPort(b.host(i), "7946")
	return at, at, errors.Join(ip("link set v%dx%d master br%d up", b.number, i, b.number), s.do(func() error {
		return errors.Join(ip("addr add %s/24 dev eth0", b.host(i)), ip("link set eth0 up"), ip("link set lo up"))
	}))
}

func (b *bridges) host(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

func (b *bridges) cut(i int) error { return ip("link set v%dx%d nomaster", b.number, i) }

func (b *bridges) split(i int) error { return ip("link set v%dx%d master bx%d", b.number, i, b.number) }

func (b *bridges) heal(i int) error { return ip("link set v%dx%d master br%d", b.number, i, b.number) }

// deafen sends what is for the other to an address of the link that nobody has.
func (b *bridges) deafen(from, to int) error {
	return b.stages[from].do(func() error {
		return ip("neigh replace %s lladdr 02:00:00:00:00:01 dev eth0 nud permanent", b.host(to))
	})
}

func (b *bridges) hear(from, to int) error {
	return b.stages[from].do(func() error { return ip("neigh del %s dev eth0", b.host(to)) })
}

func (b *bridges) end() {
	_, _ = ip("link del br%d", b.number), ip("link del bx%d", b.number)
}
