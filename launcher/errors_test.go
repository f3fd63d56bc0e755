package launcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/launcher"
	"github.com/headrace/headrace/nd"
)

// A program that calls Run tells a job that failed from a launcher that could not do
// its part, and from a Spec that makes no sense.
func TestKindsOfErrors(t *testing.T) {
	l, port := listenSomewhere(t)
	defer l.Close() //nolint:errcheck // of the test
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		args string
		code int
		kind error
	}{
		{t.Context(), "--no-python /bin/true", 0, nil},
		{t.Context(), "--no-python /bin/false", 1, launcher.ErrFailed},
		{stopped, "--no-python /bin/true", 143, launcher.ErrFailed},
		{t.Context(), "--no-python /bin/absent", 127, nd.ErrNotFound},
		{t.Context(), "--no-python /bin", 126, nd.ErrIO},
		{t.Context(), "--master-port " + port + " --no-python /bin/true", 1, nd.ErrIO},
		{t.Context(), "--master-addr no.such.host.invalid --no-python /bin/true", 1, nd.ErrIO},
	} {
		result, err := launcher.Run(c.ctx, inProcess(t, strings.Fields(c.args)...))
		if result.Code != c.code || !errors.Is(err, c.kind) {
			t.Errorf("%s: exit %d, %v, want %d and %v", c.args, result.Code, err, c.code, c.kind)
		}
	}
	spec := inProcess(t, "--no-python", "/bin/true")
	spec.Workers = 0
	if result, err := launcher.Run(t.Context(), spec); result.Code != 2 || !errors.Is(err, nd.ErrConfig) {
		t.Errorf("no workers: exit %d, %v", result.Code, err)
	}
}
