// Package testport gives tests ports that nobody else takes before the program under test does.
//
// A port that the kernel has picked, and that a test has given back, may be picked again at once
// for whoever asks for any: an agent of a test beside it, or the near end of a connection. The
// ports from here are below the kernel's range, and a name in the abstract namespace of Unix
// sockets keeps each for its test, against other test binaries too.
package testport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports: below Linux's default net.ipv4.ip_local_port_range, and below torch's own 29400 and 29500.
const (
	first = 20000
	count = 9000
)

// Free is a port of TCP at which nobody listens. It is the test's until its end.
func Free(t testing.TB) int {
	t.Helper()
	start := rand.IntN(count)
	for i := range count {
		port := first + (start+i)%count
		claim, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@headrace-test-port-" + strconv.Itoa(port), Net: "unix"})
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			_ = claim.Close() // nobody has dialled it
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return port
	}
	t.Fatalf("there is no free port from %d on", first)
	return 0
}
