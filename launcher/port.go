package launcher

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// defaultPort is torch's.
const defaultPort = 29500

// claim holds a port for rank 0, which binds it later than the launcher chose it.
// Two things hold it. A socket that is bound and does not listen, with
// SO_REUSEADDR: others that set that option too, as torch's store does, may still
// bind and listen, while the system gives the port to nobody who asks for any. And
// a Unix socket with an abstract name, which tells launchers of other jobs in the
// same network namespace, and whose it is.
type claim struct {
	port int
	held int // descriptor of the bound socket
	name *net.UnixListener
}

// claimPort takes the wanted port, or says whose it is; 0 is the default one if it
// is free, else any; with anyFree it is any.
func claimPort(wanted int, anyFree bool) (*claim, error) {
	if wanted > 0 {
		return claimThis(wanted)
	}
	if !anyFree {
		if c, err := claimThis(defaultPort); err == nil {
			return c, nil
		}
	}
	var err error
	for range 64 { // another job may claim it between bind and claim
		var c *claim
		if c, err = claimThis(0); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func claimThis(port int) (*claim, error) {
	c := &claim{port: port, held: -1}
	if port > 0 {
		if err := c.announce(); err != nil {
			return nil, err
		}
	}
	if err := c.hold(); err != nil {
		c.release()
		return nil, err
	}
	if c.name == nil {
		if err := c.announce(); err != nil {
			c.release()
			return nil, err
		}
	}
	return c, nil
}

// announce claims the port among jobs of ours.
func (c *claim) announce() error {
	address := &net.UnixAddr{Name: "@headrace-port-" + strconv.Itoa(c.port), Net: "unix"}
	name, err := net.ListenUnix("unix", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nd.Errorf(nd.ErrIO, "port %d is taken by another job, whose launcher has pid %d", c.port, listenerPID(address))
	}
	if err != nil {
		return nd.Errorf(nd.ErrIO, "claim port %d: %w", c.port, err)
	}
	c.name = name
	return nil
}

// listenerPID asks the system who listens at a Unix socket, 0 for unknown.
func listenerPID(address *net.UnixAddr) int {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return 0
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(who.Pid)
		}
	})
	return pid
}

// hold binds the port on all addresses.
func (c *claim) hold() error {
	fd, any6, err := boundSocket(c.port)
	if err == nil && any6 == 0 {
		any6, err = portOf(fd)
	}
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if errors.Is(err, unix.EADDRINUSE) {
			return nd.Errorf(nd.ErrIO, "port %d is taken%s", c.port, ownerOf(c.port))
		}
		return nd.Errorf(nd.ErrIO, "bind port %d: %w", c.port, err)
	}
	c.port, c.held = any6, fd
	return nil
}

// boundSocket binds a port of both IP versions, or of version 4 where there is no 6.
// For any port the option comes after bind, so that no other bound socket shares it.
func boundSocket(port int) (fd, bound int, err error) {
	family := unix.AF_INET6
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		family = unix.AF_INET
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return -1, 0, err
	}
	if port > 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		var address unix.Sockaddr = &unix.SockaddrInet6{Port: port}
		if family == unix.AF_INET {
			address = &unix.SockaddrInet4{Port: port}
		}
		err = unix.Bind(fd, address)
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) && family == unix.AF_INET6 { // IPv6 is compiled in and switched off
		_ = unix.Close(fd)
		return boundSocket4(port)
	}
	if err == nil && port == 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	return fd, port, err
}

func boundSocket4(port int) (fd, bound int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	reuse := func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }
	if port > 0 {
		err = reuse()
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	}
	if err == nil {
		err = reuse()
	}
	return fd, port, err
}

func portOf(fd int) (int, error) {
	address, err := unix.Getsockname(fd)
	switch a := address.(type) {
	case *unix.SockaddrInet6:
		return a.Port, err
	case *unix.SockaddrInet4:
		return a.Port, err
	}
	return 0, err
}

// release gives the port up.
func (c *claim) release() {
	if c.held >= 0 {
		_ = unix.Close(c.held)
		c.held = -1
	}
	if c.name != nil {
		_ = c.name.Close()
		c.name = nil
	}
}

// ownerOf names the process that has a TCP port, where it can be found out.
func ownerOf(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			// proc_net(5): sl, local address:port, remote, state, …, inode as the tenth
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+fields[9]+"]"] = true
			}
		}
	}
	delete(inodes, "socket:[0]") // of no process any more
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && inodes[target] {
			pid := strings.Split(link, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf(" by pid %s (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return ", by a process of another user"
}
