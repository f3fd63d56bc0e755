package agent

import (
	"testing"

	"github.com/headrace/headrace/agentapi"
)

// Two jobs of one name and key whose agents have met by gossip: a second agent was told to form
// the job. What they say of theirs is counted in the other one, and neither waits for it.
func TestTwoJobsInOneGossip(t *testing.T) {
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 1500, Steps: 1, Epochs: 1, Ahead: 64}
	var hosts [2]*host
	var workers [2]*worker
	var ledgers [2]*ledger
	for i, name := range []string{"a", "b"} {
		h := startHost(t, name, func(c *Config) { c.Form = true })
		w, err := h.attach(ctx, 0, want)
		if err != nil {
			t.Fatal(err)
		}
		defer w.die()
		hosts[i], workers[i], ledgers[i] = h, w, &ledger{done: map[int64]int{}}
	}
	startHost(t, "both", func(c *Config) {
		c.Witness, c.Contacts = true, []string{hosts[0].Address(), hosts[1].Address()}
	})
	work := func(most int) {
		for i, w := range workers {
			if err := w.work(ctx, ledgers[i], most); err != nil {
				t.Fatalf("%s: %v", hosts[i].config.Name, err)
			}
		}
	}
	eventually(t, ctx, "each hears of the other's job", func() bool {
		work(1)
		return hosts[0].drops.counts()["other-run"] > 0 && hosts[1].drops.counts()["other-run"] > 0
	})
	work(0)
	for i, l := range ledgers {
		for p := range want.N {
			if l.done[p] != 1 {
				t.Errorf("%s: position %d is done %d times", hosts[i].config.Name, p, l.done[p])
				break
			}
		}
	}
}
