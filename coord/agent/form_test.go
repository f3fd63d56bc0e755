package agent

import (
	"testing"

	"github.com/headrace/headrace/agentapi"
)

// The agent that forms the job asks its contacts first: started again at its old address
// it is in the job that it formed, and not in another one of the same name.
func TestFormerStartedAgain(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 200, Steps: 1, Epochs: 1, Ahead: 16}
	a := startHost(t, "a", func(c *Config) {
		c.Form, c.Expect, c.Contacts = true, 2, []string{"127.0.0.1:9"} // where nobody listens
	})
	contact := func(c *Config) { c.Contacts = []string{a.Address()} }
	b := startHost(t, "b", contact)
	witness := startHost(t, "witness", func(c *Config) { c.Witness = true; contact(c) })
	var workers [2]*worker
	ended := make(chan error, 2)
	for i, h := range []*host{a, b} {
		go func() {
			w, err := h.attach(ctx, 0, want)
			workers[i] = w
			ended <- err
		}()
	}
	for range workers {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	l := &ledger{done: map[int64]int{}}
	if err := workers[0].work(ctx, l, 4); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*host{b, witness} { // all three decide, or the job would be lost with the first
		eventually(t, ctx, "three decide", func() bool { return h.deciding() == 3 })
	}
	workers[0].die()
	a.stop()
	again := startHost(t, "again", func(c *Config) {
		c.Listen, c.Form, c.Expect, c.Contacts = a.Address(), true, 2, []string{a.Address(), b.Address()}
	})
	third, err := again.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	if n := again.State().View.Number; n == 0 {
		t.Errorf("it is in view 0: another job")
	}
	for _, w := range []*worker{workers[1], third} {
		defer w.die()
		go func() { ended <- w.work(ctx, l, 0) }()
	}
	for range workers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for p := range want.N {
		if l.done[p] == 0 {
			t.Errorf("position %d was never finished", p)
		}
	}
}

func (h *host) deciding() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.voters
}
