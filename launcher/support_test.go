package launcher_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/launcher"
)

// inProcess is the Spec of a job that the test's own process launches.
func inProcess(t *testing.T, args ...string) launcher.Spec {
	t.Helper()
	spec, err := launcher.Parse(args, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	spec.Env, spec.Stdout, spec.Stderr = clean(os.Environ()), null, os.Stderr
	return spec
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return ctx, stop
}

// listenSomewhere listens on a free port.
func listenSomewhere(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return l, port
}

// waitForListener returns once somebody listens at a port of this host.
func waitForListener(t *testing.T, port string) {
	t.Helper()
	testwait.Until(t, "somebody listens at port "+port, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
