package agent

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
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
	if _, err := h.attach(ctx, 1, wrong); err == nil || !strings.Contains(err.Error(), "ahead 7, the job's 0") {
		t.Errorf("ranks of another look-ahead: %v", err)
	}
}

// A name server that does not answer keeps only those waiting who need it: the agent's goroutine
// goes on, and Close does not wait for it.
func TestSilentNameServer(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	asked := make(chan struct{}, 100)
	h := startHost(t, "a", func(c *Config) {
		c.Form, c.Advertise = true, "node7:7946"
		c.lookup = func(ctx context.Context, _ string) ([]net.IP, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	attached := make(chan error, 1)
	go func() {
		_, err := h.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 10, Steps: 10})
		attached <- err
	}()
	<-asked
	within(t, time.Second, "a probe", func() {
		if err := h.Alive(); err != nil {
			t.Error(err)
		}
	})
	if err := <-attached; err == nil || !strings.Contains(err.Error(), "node7:7946 by which others reach it") {
		t.Errorf("attached: %v", err)
	}
	_ = h.do(ctx, func() error { h.beginAgain(); return nil }) // as after an eviction
	<-asked
	within(t, time.Second, "a probe", func() { _ = h.Alive() })
	within(t, time.Second, "Close", func() { _ = h.Close() })
}

// A rank that takes the place of one that was killed is taken, whichever of the two the agent hears
// of first: here both are there when it looks.
func TestSuccessorOfADeadRank(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	h := startHost(t, "a", func(c *Config) { c.Form = true })
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 1000, Steps: 1, Ahead: 4}
	keep, err := h.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.die()
	client := func() *agentapi.Client {
		c, err := agentapi.Dial(ctx, h.socket, agentapi.Hello{RunID: "job", LocalRank: 1, World: 2, Round: -1})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old, err := h.attach(ctx, 1, want)
	if err != nil {
		t.Fatal(err)
	}
	const cycles = 20
	for i := range cycles {
		next := client()
		standing, busy := make(chan struct{}), make(chan struct{})
		free := sync.OnceFunc(func() { close(busy) })
		t.Cleanup(free)
		h.inbox.put(call(func() { close(standing); <-busy }))
		<-standing
		old.die()
		attached := make(chan error, 1)
		go func() {
			f, err := fence.Attach(ctx, next, want, 1)
			old = &worker{next, f}
			attached <- err
		}()
		eventually(t, ctx, "end and begin are queued", func() bool {
			h.inbox.mu.Lock()
			defer h.inbox.mu.Unlock()
			return len(h.inbox.list) >= 2
		})
		free()
		if err := <-attached; err != nil {
			t.Fatalf("cycle %d of %d: %v", i, cycles, err)
		}
	}
	second := client()
	defer second.Close() //nolint:errcheck // it was refused
	if _, err := fence.Attach(ctx, second, want, 1); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "local rank 1 is attached already") {
		t.Errorf("a second loader of a rank that lives: %v", err)
	}
	old.die()
}
