package testport

import (
	"net"
	"strconv"
	"testing"
)

// No port is given twice while its test runs, nor one at which somebody listens; afterwards it is
// free for others.
func TestFree(t *testing.T) {
	given := map[int]bool{}
	t.Run("many", func(t *testing.T) {
		for range 100 {
			port := Free(t)
			if given[port] {
				t.Fatalf("port %d is given twice", port)
			}
			given[port] = true
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() //nolint:errcheck // nobody has dialled it
		}
	})
	for port := range given {
		claim, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@headrace-test-port-" + strconv.Itoa(port), Net: "unix"})
		if err != nil {
			t.Fatalf("port %d is still claimed: %v", port, err)
		}
		_ = claim.Close()
	}
}
