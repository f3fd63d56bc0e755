package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"
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

// lans counts networks: the names of one that is gone stay for a moment.
var lans atomic.Int64

// lan is the network of a round: hosts at two bridges, one of which is for those that are
// cut off together. Without namespaces all hosts are this one, and no link can be cut.
type lan struct {
	number int
	apart  bool
	stages []*stage
	ports  []int
}

func newLan(hosts int, apart bool) (*lan, error) {
	l := &lan{number: int(lans.Add(1)), apart: apart}
	if apart {
		for _, name := range []string{"br", "bx"} {
			if err := errors.Join(ip("link add %s%d type bridge", name, l.number), ip("link set %s%d up", name, l.number)); err != nil {
				return l, err
			}
		}
	}
	for i := range hosts {
		s, err := newStage(apart)
		if err != nil {
			return l, err
		}
		l.stages = append(l.stages, s)
		if err := l.plug(i); err != nil {
			return l, err
		}
	}
	return l, nil
}

// plug connects a host.
func (l *lan) plug(i int) error {
	if !l.apart {
		port, err := freePort()
		l.ports = append(l.ports, port)
		return err
	}
	l.ports = append(l.ports, 7946)
	s := l.stages[i]
	if err := ip("link add v%dx%d type veth peer name eth0 netns %d", l.number, i, s.tid); err != nil {
		return err
	}
	return errors.Join(ip("link set v%dx%d master br%d up", l.number, i, l.number), s.do(func() error {
		return errors.Join(ip("addr add %s/24 dev eth0", l.host(i)), ip("link set eth0 up"), ip("link set lo up"))
	}))
}

// freePort is a port that nobody listens at now, on TCP and UDP.
func freePort() (int, error) {
	for range 20 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return port, nil
		}
	}
	return 0, errors.New("no port is free in TCP and UDP")
}

func (l *lan) host(i int) string {
	if !l.apart {
		return "127.0.0.1"
	}
	return fmt.Sprintf("10.77.0.%d", i+1)
}

func (l *lan) address(i int) string { return net.JoinHostPort(l.host(i), strconv.Itoa(l.ports[i])) }

// cut has a host reach nobody, and nobody it, without a sign of it.
func (l *lan) cut(i int) error { return ip("link set v%dx%d nomaster", l.number, i) }

// split has a host reach only those that are split off too.
func (l *lan) split(i int) error { return ip("link set v%dx%d master bx%d", l.number, i, l.number) }

// heal undoes both.
func (l *lan) heal(i int) error { return ip("link set v%dx%d master br%d", l.number, i, l.number) }

// deafen has what a host sends to another one get lost, not what comes back: it goes to an
// address of the link that nobody has.
func (l *lan) deafen(from, to int) error {
	return l.stages[from].do(func() error {
		return ip("neigh replace %s lladdr 02:00:00:00:00:01 dev eth0 nud permanent", l.host(to))
	})
}

func (l *lan) hear(from, to int) error {
	return l.stages[from].do(func() error { return ip("neigh del %s dev eth0", l.host(to)) })
}

// end ends all processes that were started on its hosts, and takes the network down.
func (l *lan) end() {
	for _, s := range l.stages {
		s.end()
	}
	if l.apart {
		_, _ = ip("link del br%d", l.number), ip("link del bx%d", l.number)
	}
}
