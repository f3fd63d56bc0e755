package rendezvous

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func hold(t *testing.T, port int) *Port {
	t.Helper()
	p, err := HoldPort(port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// listenAt is what torch's store does: bind with SO_REUSEADDR, as Go's listeners have
// it too, and listen.
func listenAt(t *testing.T, host string, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("rank 0 cannot listen at the held port: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestHeldPort tries what Port's comment says of the kernel.
func TestHeldPort(t *testing.T) {
	p := hold(t, AnyPort)
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		l := listenAt(t, host, p.Number)
		if second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number))); err == nil {
			t.Errorf("two listeners at one port, the first at %s", host)
			_ = second.Close()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, family := range []int{syscall.AF_INET, syscall.AF_INET6} {
		if err := plainBind(family, p.Number); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("family %d: a socket without SO_REUSEADDR binds the held port: %v", family, err)
		}
	}
}

func plainBind(family, port int) error {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }()
	if family == syscall.AF_INET {
		return syscall.Bind(fd, &syscall.SockaddrInet4{Port: port})
	}
	return syscall.Bind(fd, &syscall.SockaddrInet6{Port: port})
}

// The rendezvous listens first, closes its listener, and keeps what it accepted;
// rank 0 listens then.
func TestHeldPortAfterListener(t *testing.T) {
	p := hold(t, AnyPort)
	l := listenAt(t, "", p.Number)
	near, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)))
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	store := listenAt(t, "0.0.0.0", p.Number)
	if _, err := far.Write([]byte{1}); err != nil {
		t.Errorf("the old connection broke: %v", err)
	}
	client, err := net.Dial("tcp", store.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far, client} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The kernel does not give the held port away. The socket option narrows its choice
// to this one port, so that the test need not take all others.
func TestHeldPortIsNotGivenAway(t *testing.T) {
	const localPortRange = 51 // IP_LOCAL_PORT_RANGE, ip(7)
	p := hold(t, AnyPort)
	narrow := func(reuse int) int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, localPortRange, p.Number<<16|p.Number); err != nil {
			t.Skip("this kernel has no IP_LOCAL_PORT_RANGE (Linux 6.3):", err)
		}
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, reuse); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for reuse := range 2 {
		if err := syscall.Bind(narrow(reuse), &syscall.SockaddrInet4{}); err == nil {
			t.Errorf("SO_REUSEADDR %d: bind to any port gave the held one", reuse)
		}
	}
	l := listenAt(t, "127.0.0.1", 0)
	target := &syscall.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Connect(narrow(0), target); err == nil {
		t.Error("a connection got the held port as its source")
	}
}

// pytorch issue 126510: two jobs on a host, both at 29500. A job that asked for no
// port takes another one; one that asked for it hears who has it.
func TestPortOfAnotherJob(t *testing.T) {
	first := hold(t, AnyPort)
	_, err := HoldPort(first.Number)
	wantText(t, err, "port "+strconv.Itoa(first.Number)+" is in use by another headrace job (pid "+strconv.Itoa(os.Getpid())+")")

	// Not 29500 itself: tests of other packages run beside this one.
	second, err := holdOrAny(first.Number)
	if err != nil {
		t.Fatal(err)
	}
	if second.Number == first.Number {
		t.Error("the port of another job was taken")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func wantText(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %v, want one line with %q", err, part)
	}
}

// A port that somebody listens at is refused with the process that does.
func TestPortInUse(t *testing.T) {
	l := listenAt(t, "127.0.0.1", 0)
	port := l.Addr().(*net.TCPAddr).Port
	_, err := HoldPort(port)
	name := filepath.Base(os.Args[0])
	wantText(t, err, "in use by pid "+strconv.Itoa(os.Getpid())+" ("+name[:min(len(name), 15)]+")") // proc(5): comm has 15 bytes
	_, err = Join(t.Context(), job(port, 2, 0))
	wantText(t, err, "in use by pid "+strconv.Itoa(os.Getpid()))
	if owner := portOwner(t.TempDir(), port); owner != "a process that is not visible" {
		t.Errorf("without /proc the owner is %s", owner)
	}
}

func TestPortIsFreeAfterClose(t *testing.T) {
	p := hold(t, AnyPort)
	for range 3 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p = hold(t, p.Number)
	}
}
