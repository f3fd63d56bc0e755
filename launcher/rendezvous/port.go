package rendezvous

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// What HoldPort takes instead of a number.
const (
	DefaultPort = 0  // 29500 if it is free and no other job on the host has it, else any
	AnyPort     = -1 // any free one
)

// standardPort is torchrun's default.
const standardPort = 29500

// Port is a TCP port of this host that is kept for rank 0 of a job, which will
// listen there later. Its owner closes it.
//
// It is held by a socket that is bound, with SO_REUSEADDR, and does not listen. On
// Linux (port_test.go tries each of these):
//
//   - a socket with SO_REUSEADDR, as torch's store sets it (2.15's both, the libuv one
//     and the older), can bind the port and listen, also while connections that were
//     accepted at the port live on;
//   - one without is refused, as is every further one once somebody listens;
//   - the kernel gives the port to nobody who asks for any, neither by bind nor as
//     the source of a connection.
//
// So the hold ends races with programs that look for a free port, and with those
// that do not set SO_REUSEADDR. It does not stop one that sets it and asks for this
// very number, as Go's own listeners do: jobs of ours therefore also claim the
// number by a name in the abstract namespace of Unix sockets, which like ports
// belongs to the network namespace and is free again when the process is gone.
type Port struct {
	Number int
	fd     int
	claim  *net.UnixListener
}

// HoldPort takes a port: this one, or DefaultPort or AnyPort.
func HoldPort(port int) (*Port, error) {
	switch port {
	case DefaultPort:
		return holdOrAny(standardPort)
	case AnyPort:
		return holdAny()
	}
	return holdNumber(port)
}

// holdOrAny holds a port, or another where that one is taken.
func holdOrAny(port int) (*Port, error) {
	if p, err := holdNumber(port); err == nil {
		return p, nil
	}
	return holdAny()
}

// holdAny holds a port of the kernel's choice. One that another job has claimed,
// and is about to bind, is not taken.
func holdAny() (*Port, error) {
	var err error
	for range 16 {
		var fd, port int
		if fd, err = bind(0); err != nil {
			return nil, nd.Errorf(nd.ErrIO, "no free port for the master: %w", err)
		}
		if port, err = boundPort(fd); err == nil {
			var claim *net.UnixListener
			if claim, err = claimPort(port); err == nil {
				return &Port{port, fd, claim}, nil
			}
		}
		_ = syscall.Close(fd) // nothing was written to it
	}
	return nil, err
}

func holdNumber(port int) (*Port, error) {
	claim, err := claimPort(port)
	if err != nil {
		return nil, err
	}
	fd, err := bind(port)
	if err == nil {
		return &Port{port, fd, claim}, nil
	}
	if claim != nil {
		_ = claim.Close() // the port's error says it all
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nd.Errorf(nd.ErrIO, "port %d is %w by %s: stop it, or name another port (--master-port, --rdzv-endpoint)", port, errInUse, portOwner("/proc", port))
	}
	return nil, nd.Errorf(nd.ErrIO, "port %d: %w", port, err)
}

// Close gives the port up.
func (p *Port) Close() error {
	if p == nil || p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	err := syscall.Close(fd)
	if p.claim != nil {
		err = errors.Join(err, p.claim.Close())
	}
	return err
}

// bind makes the socket that holds a port on all addresses.
func bind(port int) (int, error) {
	fd, err := bindFamily(syscall.AF_INET6, &syscall.SockaddrInet6{Port: port})
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) { // a host without IPv6
		return bindFamily(syscall.AF_INET, &syscall.SockaddrInet4{Port: port})
	}
	return fd, err
}

func bindFamily(family int, addr syscall.Sockaddr) (int, error) {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil && family == syscall.AF_INET6 {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = syscall.Bind(fd, addr)
	}
	if err != nil {
		return -1, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}

func boundPort(fd int) (int, error) {
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, nd.Errorf(nd.ErrIO, "port: %w", err)
	}
	if a, ok := addr.(*syscall.SockaddrInet6); ok {
		return a.Port, nil
	}
	return addr.(*syscall.SockaddrInet4).Port, nil
}

// claimPort tells other jobs of ours that a port is taken. Where the system has no
// abstract sockets there is no claim: nil.
func claimPort(port int) (*net.UnixListener, error) {
	name := &net.UnixAddr{Name: "@headrace-port-" + strconv.Itoa(port), Net: "unix"}
	l, err := net.ListenUnix("unix", name)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, nd.Errorf(nd.ErrIO, "port %d is %w by %s: stop it, or name another port (--master-port, --rdzv-endpoint)", port, errInUse, claimant(name))
	case err != nil:
		return nil, nil //nolint:nilerr // see above
	}
	return l, nil
}

// claimant is the process behind a claim: the kernel tells it without an answer.
func claimant(name *net.UnixAddr) string {
	const unknown = "another headrace job"
	conn, err := net.DialUnix("unix", nil, name)
	if err != nil {
		return unknown
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return unknown
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil || pid == 0 {
		return unknown
	}
	return fmt.Sprintf("%s (pid %d)", unknown, pid)
}

// PortOwner names the process that has a port of TCP or UDP, as far as it can be seen.
func PortOwner(port int) string { return portOwner("/proc", port) }

// portOwner names the process that has a port, as far as /proc shows it:
// sockets of other users' processes cannot be told.
func portOwner(proc string, port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err == nil {
			listeners(text, port, inodes)
		}
	}
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil || len(inodes) == 0 {
		return "a process that is not visible"
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		inode, socket := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		if err != nil || !socket || !inodes[inode] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			name = []byte("?")
		}
		return fmt.Sprintf("pid %s (%s)", filepath.Base(dir), bytes.TrimSpace(name))
	}
	return "another user's process"
}

// listeners adds the inodes of the sockets that listen at a port, from a table like
// /proc/net/tcp: columns 1, 3 and 9 are the local address, the state (0A: listen; 07, of
// UDP: bound) and the inode, see proc_net_tcp(5).
func listeners(table []byte, port int, inodes map[string]bool) {
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" && f[3] != "07" {
			continue
		}
		_, text, _ := strings.Cut(f[1], ":")
		number, err := hex.DecodeString(text)
		if err == nil && len(number) == 2 && int(number[0])<<8|int(number[1]) == port {
			inodes[f[9]] = true
		}
	}
}
