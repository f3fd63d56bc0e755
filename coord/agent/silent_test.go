package agent

import (
	"io"
	"net"
	"testing"
	"time"
)

// silent listens, and answers nothing. It tells of each stream of gossip.
func silent(t *testing.T, asked chan<- struct{}) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				var first [1]byte
				if _, err := io.ReadFull(conn, first[:]); err == nil && first[0] == gossipStream {
					asked <- struct{}{}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// within fails if a function takes longer.
func within(t *testing.T, most time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("%s takes more than %v", what, most)
	}
}

// Contacts that take a stream and never answer keep neither the agent's goroutine waiting when
// it becomes another member, nor Close.
func TestSilentContacts(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	contacts := []string{silent(t, asked), silent(t, asked), silent(t, asked)}
	a := startHost(t, "a", func(c *Config) { c.Witness, c.Contacts = true, contacts })
	<-asked // it is inside a join
	within(t, time.Second, "quit", func() {
		_ = a.do(t.Context(), func() error { a.again("test"); return nil })
	})
	<-asked
	within(t, 5*time.Second, "Close", func() { _ = a.Close() })
}
