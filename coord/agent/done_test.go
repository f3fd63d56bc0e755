package agent

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
)

// The end of a lockstep job: the ranks that worked close behind the last step of an epoch. One that came
// late, and has been given a step at most to which nobody else comes, hears that the job is over, and is
// never halted; both agents know it.
func TestDoneRanksEndTheJob(t *testing.T) {
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 10}
	a := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 2 })
	b := startHost(t, "b", func(c *Config) { c.Contacts = []string{a.Address()} })
	workers := make(chan *worker, 2)
	for local := range 2 {
		go func() {
			w, err := a.attach(ctx, local, want)
			if err != nil {
				t.Error(err)
			}
			workers <- w
		}()
	}
	first, second := <-workers, <-workers
	if t.Failed() {
		return
	}
	for s := range int64(10) {
		for _, w := range []*worker{first, second} {
			if err := w.fence.Lease(ctx, 0, s); err != nil {
				t.Fatal(err)
			}
			w.fence.Delivered(0, s)
		}
	}
	late, err := b.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		p := late.fence.Place()
		for {
			changed := late.fence.Changed()
			if err := late.fence.Lease(ctx, p.Epoch, p.Step); err != nil {
				ended <- err
				return
			}
			select { // the trainer waits for the others, and looks again when something has changed
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	began := time.Now()
	first.fence.Close()
	second.fence.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("a rank that came late: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if sa, sb := a.State(), b.State(); !sa.Over || !sb.Over {
		t.Errorf("the agents know that the job is over: %v, %v", sa.Over, sb.Over)
	}
	for _, w := range []*worker{first, second, late} {
		w.die()
	}
}

// Who has started a rank may see its end before the rank's last words are read: it was done all the
// same, and the job is over.
func TestLastWordsBehindTheEnd(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	h := startHost(t, "a", func(c *Config) { c.Form = true })
	w, err := h.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	for s := range int64(10) {
		if err := w.fence.Lease(ctx, 0, s); err != nil {
			t.Fatal(err)
		}
		w.fence.Delivered(0, s)
	}
	standing, busy := make(chan struct{}), make(chan struct{})
	h.inbox.put(call(func() { close(standing); <-busy }))
	<-standing
	h.Ended(0)
	go w.fence.Close()
	eventually(t, ctx, "its last words are queued behind its end", func() bool {
		h.inbox.mu.Lock()
		defer h.inbox.mu.Unlock()
		return len(h.inbox.list) >= 2
	})
	close(busy)
	eventually(t, ctx, "the job is over", func() bool { return h.State().Over })
}
