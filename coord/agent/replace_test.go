package agent

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// raw is a rank by its socket alone: what it is told, word for word.
type raw struct {
	client *agentapi.Client
	job    agentapi.Attachment

	mu      sync.Mutex
	state   agentapi.JobState
	decided []agentapi.Decided
}

func (h *host) raw(t *testing.T, a agentapi.Attach) *raw {
	t.Helper()
	client, err := agentapi.Dial(t.Context(), h.socket, agentapi.Hello{RunID: "job", World: 1, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{client: client}
	r.state.Rank = -1
	r.job, err = client.Attach(a, r.take)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) take(s *agentapi.JobState, d []agentapi.Decided) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s != nil {
		r.state = *s
	}
	r.decided = append(r.decided, d...)
}

// lane waits for the rank's lane.
func (r *raw) lane(t *testing.T) []agentapi.Span {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		s := r.state
		r.mu.Unlock()
		if s.Ending != "" {
			t.Fatal(s.Ending)
		}
		if s.Rank >= 0 && len(s.Lane) > 0 {
			return s.Lane
		}
	}
	t.Fatal("no lane")
	return nil
}

// The connection of a rank ends with a commit under way, and another process takes its place
// at once: the verdict is not for that one, which is given just what is not effective.
func TestVerdictsOfAReplacedRank(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	const n = 400
	want := agentapi.Attach{Plan: "p", Mode: "async", N: n, Steps: 1, Epochs: 1, Ahead: 8}
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	var before []agentapi.Span // that ended processes had under way
	r := a.raw(t, want)
	for range 4 {
		lane := r.lane(t)
		mine := agentapi.Span{Start: lane[0].Start, Stop: lane[0].Start + 4}
		r.mu.Lock()
		r.decided = nil
		r.mu.Unlock()
		if err := r.job.Commit([]agentapi.Part{{Span: mine, Digest: digestText(mine)}}); err != nil {
			t.Fatal(err)
		}
		_ = r.client.Close()
		before = append(before, mine)
		r = a.replace(ctx, t, want)
		r.lane(t)
		r.mu.Lock()
		for _, d := range r.decided {
			t.Errorf("a rank that has committed nothing hears of %v", d)
		}
		r.mu.Unlock()
	}
	_ = r.client.Close()
	w := a.next(ctx, t, want)
	if err := w.work(ctx, &ledger{done: map[int64]int{}}, 0); err != nil {
		t.Fatal(err)
	}
	counts := map[int64]int{} // by position, for the last process
	for _, d := range w.fence.Settled() {
		for p := d.Span.Start; p < d.Span.Stop && d.Effective; p++ {
			counts[p]++
		}
	}
	for p := range int64(n) {
		gone := slices.ContainsFunc(before, func(x agentapi.Span) bool { return x.Start <= p && p < x.Stop })
		if counts[p] > 1 || counts[p] == 0 && !gone {
			t.Errorf("position %d counts %d times for the last process", p, counts[p])
		}
	}
	c, ok := w.fence.Closed()
	if all := digestText(agentapi.Span{Stop: n}); !ok || c.Count != n || c.Digest != all {
		t.Errorf("closed %+v %v, want %d with %s", c, ok, n, all)
	}
}

func digestText(x agentapi.Span) string {
	return sampler.Digest{Lanes: digestOf(nd.Span(x))}.String()
}

// replace attaches in the place of a rank that has just ended.
func (h *host) replace(ctx context.Context, t *testing.T, a agentapi.Attach) *raw {
	t.Helper()
	h.vacant(ctx, t)
	return h.raw(t, a)
}

// next is replace, with a Fence.
func (h *host) next(ctx context.Context, t *testing.T, a agentapi.Attach) *worker {
	t.Helper()
	h.vacant(ctx, t)
	w, err := h.attach(ctx, 0, a)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// vacant waits until the agent has noticed that rank 0 has ended.
func (h *host) vacant(ctx context.Context, t *testing.T) {
	t.Helper()
	eventually(t, ctx, "the rank has ended", func() (vacant bool) {
		if err := h.do(ctx, func() error { vacant = h.seats[0] == nil; return nil }); err != nil {
			t.Fatal(err)
		}
		return vacant
	})
}
