package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A rank that lies is found out: one whose digests are wrong by the coverage on which the
// agents agree, one that commits what it has not done by the ranks' own account.
func TestElasticLies(t *testing.T) {
	for lie, words := range map[string]string{"digest": "was closed with count and digest", "skip": "was never done"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			r := newRound(t, 1, 1, 2, false)
			r.n, r.epochs, r.pace, r.lie = 100, 1, 0, lie
			r.begin()
			if wrong := strings.Join(r.finish(), "\n"); !strings.Contains(wrong, words) || strings.Contains(wrong, "hangs") {
				t.Errorf("a lie about %s is not found: %q", lie, wrong)
			}
		})
	}
}

// A local rank that is killed is in the view no more within 500 ms, on one host: its
// agent sees the connection end, and the view settles. The times are the agent's own.
func TestElasticRankIsOutSoon(t *testing.T) {
	const kills, within = 5, 500 * time.Millisecond
	for _, profile := range []string{"default", "fast"} {
		t.Run(profile, func(t *testing.T) {
			r := newRound(t, 2, 1, 4, false)
			r.profile, r.n, r.epochs = profile, 1<<20, 1
			r.begin()
			n, draw := r.nodes[0], rand.New(rand.NewPCG(1, 1))
			var soon int
			var took []time.Duration
			for range kills {
				if !r.until("four ranks are in the view", func() bool { return n.seesRanks(time.Time{}, 4) != nil && r.done() > 0 }) {
					break
				}
				p := n.rank(draw.IntN(4))
				began := time.Now()
				p.signal(syscall.SIGKILL)
				if !r.until("three ranks are in the view", func() bool { return n.seesRanks(began, 3) != nil }) {
					break
				}
				d := n.seesRanks(began, 3).Time.Sub(began)
				took = append(took, d)
				if d <= within {
					soon++
				}
				if !r.until("four again", func() bool { return n.seesRanks(began, 4) != nil }) {
					break
				}
			}
			t.Logf("views without the rank after %v", took)
			if missed := len(took) - soon; missed > 0 {
				t.Logf("%d of %d kills took longer than %v: a machine that is busy with other tests may be late", missed, len(took), within)
			}
			if soon <= kills/2 {
				t.Errorf("views without a killed rank come after %v, wanted within %v: %v", took, within, r.failed)
			}
		})
	}
}

// seesRanks is the first view of so many ranks that the agent has told of after a time; nil:
// none yet.
func (n *node) seesRanks(after time.Time, ranks int) *told {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, e := range n.events {
		if e.Event == "view" && e.Time.After(after) && strings.Contains(e.Text, fmt.Sprint(" ", ranks, " ranks")) {
			return &n.events[i]
		}
	}
	return nil
}
