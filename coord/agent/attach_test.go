package agent

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
)

// A first rank with which the agent cannot begin leaves nothing behind: when the cause is
// gone, here an address that is not known yet and a job that cannot be, it attaches again.
func TestFirstAttachFails(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	h := startHost(t, "a", func(c *Config) { c.Form, c.Advertise = true, "not known yet:7946" })
	want := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 10, Steps: 10}
	if _, err := h.attach(ctx, 0, want); err == nil || !strings.Contains(err.Error(), "by which others reach it") {
		t.Fatalf("at an address that is not known: %v", err)
	}
	err := h.do(ctx, func() error { // it is known now
		h.mu.Lock()
		defer h.mu.Unlock()
		h.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(h.Port()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wrong := want
	wrong.Steps = 1 << 40
	if _, err := h.attach(ctx, 0, wrong); err == nil || !strings.Contains(err.Error(), "Steps is") {
		t.Fatalf("a job that cannot be: %v", err)
	}
	w, err := h.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	wrong = want
	wrong.Ahead = 7
	if _, err := h.attach(ctx, 1, wrong); err == nil || !strings.Contains(err.Error(), "ahead 7; they mean lockstep, \"p\", 10, 10, 0, 0") {
		t.Errorf("ranks of another look-ahead: %v", err)
	}
}
