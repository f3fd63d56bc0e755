package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/metrics"
	"github.com/headrace/headrace/metrics/page"
)

func observe(t *testing.T, h *host) *metrics.Server {
	t.Helper()
	s, err := h.Observe(Observing{Addr: "127.0.0.1:0", Stats: h.server.Stats})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t *testing.T, s *metrics.Server, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// scraped is what Prometheus reads.
type scraped map[string]*dto.MetricFamily

func scrape(t *testing.T, s *metrics.Server) scraped {
	t.Helper()
	status, body := read(t, s, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	f, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if status != http.StatusOK || err != nil {
		t.Fatalf("%d, %v:\n%s", status, err, body)
	}
	return f
}

// value is that of a metric with these labels, in any order; ok: it is told.
func (f scraped) value(name string, labels ...string) (v float64, ok bool) {
	for _, m := range f[name].GetMetric() {
		fits := true
		for i := 0; i < len(labels); i += 2 {
			has := false
			for _, l := range m.GetLabel() {
				has = has || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
			}
			fits = fits && has
		}
		if fits {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
		}
	}
	return 0, false
}

// eventually asks again and again until the answer is yes.
func eventually(t *testing.T, ctx context.Context, what string, yes func() bool) {
	t.Helper()
	for !yes() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func view(t *testing.T, s *metrics.Server) (p page.Snapshot) {
	t.Helper()
	status, body := read(t, s, "/debug/view")
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, body)
	}
	return p
}

// An agent shows its job from before it knows it to the end: what scrapes, probes and the
// JSON view say fits what the ranks have done.
func TestObserve(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 400, Steps: 1, Epochs: 1, Ahead: 20}
	a := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 2 })
	b := startHost(t, "b", func(c *Config) { c.Contacts = []string{a.Address()} })
	sa, sb := observe(t, a), observe(t, b)
	if status, body := read(t, sa, "/readyz"); status != 503 || !strings.Contains(body, "no rank has attached") {
		t.Errorf("before a rank: %d %q", status, body)
	}
	if status, body := read(t, sa, "/healthz"); status != 200 {
		t.Errorf("health: %d %q", status, body)
	}
	if p := view(t, sa); p.Status != page.Joining || p.Job.Name != "job" || p.Agent.Name != "a" {
		t.Errorf("before a rank: %+v", p)
	}
	if _, told := scrape(t, sa).value("headrace_job_view"); told {
		t.Error("a view is told before there is one")
	}
	var workers [2]*worker
	var attaching sync.WaitGroup
	for i, h := range []*host{a, b} {
		attaching.Go(func() { // each waits for the other
			w, err := h.attach(ctx, 0, want)
			if err == nil {
				workers[i] = w
				t.Cleanup(w.die)
				err = w.client.SendStats(agentapi.Stats{"samples_total": 7, "step": 3})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	attaching.Wait()
	if t.Failed() {
		return
	}
	l := &ledger{done: map[int64]int{}}
	if err := workers[0].work(ctx, l, 10); err != nil { // five positions each
		t.Fatal(err)
	}
	eventually(t, ctx, "both agents are ready", func() bool { return a.Ready() == nil && b.Ready() == nil })
	if status, body := read(t, sb, "/readyz"); status != 200 {
		t.Errorf("in the job: %d %q", status, body)
	}
	eventually(t, ctx, "the loaders' stats are there", func() bool {
		v, ok := scrape(t, sa).value("headrace_loader_samples_total", "rank", "0", "local_rank", "0")
		return ok && v == 7
	})
	eventually(t, ctx, "the commits are decided", func() bool { return view(t, sa).Coverage.Done == 50 })
	if p := view(t, sa); p.Status != page.Running || len(p.Nodes) != 2 || len(p.Ranks) != 2 || p.Coverage.Of != 400 || p.Coverage.Done != 50 || count(p.Coverage.Spans) != 50 ||
		p.Ranks[0].Left == nil || p.Ranks[1].Left == nil || *p.Ranks[0].Left+*p.Ranks[1].Left != 350 || p.Job.Mode != "async" || !p.Agent.Leader || p.Ranks[0].Stats["step"] != 3 {
		t.Errorf("in the middle: %+v", p)
	}
	for name, want := range map[string]float64{
		"headrace_job_nodes": 2, "headrace_job_ranks": 2, "headrace_job_covered_positions": 50, "headrace_job_positions": 400, "headrace_job_running": 1,
		"headrace_job_halted": 0, "headrace_agent_leader": 1, "headrace_gossip_members": 2, "headrace_gossip_lost_members": 0, "headrace_agent_evictions_total": 0,
	} {
		if v, ok := scrape(t, sa).value(name); !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	f := scrape(t, sa)
	if v, ok := f.value("headrace_agent_commit_parts_total", "verdict", "effective"); !ok || v < 1 {
		t.Errorf("%v parts", v)
	}
	for why := range dropCount {
		if _, ok := f.value("headrace_agent_messages_dropped_total", "reason", why.String()); !ok {
			t.Errorf("drops for %s are not told", why)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := workers[0].work(ctx, l, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "the job is over", func() bool { return view(t, sa).Status == page.Over })
	p := view(t, sa)
	if p.Coverage.Last == nil || p.Coverage.Last.Count != 400 || p.Counters.Evicted != 1 || p.Counters.LastSettle <= 0 || p.Counters.LastSettle > 5 {
		t.Errorf("at the end: %+v, %+v", p.Coverage, p.Counters)
	}
	f = scrape(t, sa)
	if _, ok := f.value("headrace_job_epoch_closed_info", "epoch", "0", "positions", "400", "digest", p.Coverage.Last.Digest); !ok {
		t.Errorf("the digest is not told: %v", f["headrace_job_epoch_closed_info"])
	}
	if h := f["headrace_agent_settle_seconds"].GetMetric(); len(h) != 1 || h[0].GetHistogram().GetSampleCount() == 0 {
		t.Errorf("settle: %v", h)
	}
	if status, body := read(t, sb, "/healthz"); status != 503 {
		t.Errorf("an agent that has ended: %d %q", status, body)
	}
	if status, body := read(t, sb, "/readyz"); status != 503 || !strings.Contains(body, "ended") {
		t.Errorf("an agent that has ended: %d %q", status, body)
	}
	if p := view(t, sb); p.Status != page.Ended {
		t.Errorf("an agent that has ended: %+v", p)
	}
}

func count(list []page.Span) (n int64) {
	for _, x := range list {
		n += x[1] - x[0]
	}
	return n
}

// An agent without a majority says so, and is not ready; one whose job waits or has
// halted is.
func TestNotReadyWithoutAMajority(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1 << 20, Steps: 1 << 16}
	hosts := []*host{startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 3 })}
	for _, name := range []string{"b", "c"} {
		hosts = append(hosts, startHost(t, name, func(c *Config) { c.Contacts = []string{hosts[0].Address()} }))
	}
	for _, h := range hosts {
		go func() {
			if w, err := h.attach(ctx, 0, want); err == nil {
				context.AfterFunc(ctx, w.die)
			}
		}()
	}
	shown := observe(t, hosts[0])
	eventually(t, ctx, "three nodes decide", func() bool {
		s := view(t, shown)
		return s.Status == page.Running && len(s.View.Voters) == 3
	})
	for _, h := range hosts[1:] { // as if their network were gone
		h.links.close()
	}
	eventually(t, ctx, "it is not ready", func() bool { return hosts[0].Ready() != nil })
	if status, body := read(t, shown, "/readyz"); status != 503 || !strings.Contains(body, "a majority of the 3 voters does not answer") {
		t.Errorf("%d %q", status, body)
	}
	if s := view(t, shown); s.Status != page.Cut || s.Reason == "" {
		t.Errorf("%s: %s", s.Status, s.Reason)
	}
	if v, ok := scrape(t, shown).value("headrace_job_running"); !ok || v != 0 {
		t.Errorf("running is %v", v)
	}
}

// The key of the metrics goes in the clear: it cannot be the job's. Off loopback there
// must be one.
func TestKeyOfTheMetrics(t *testing.T) {
	key := "0123456789abcdef"
	c := Config{Job: "job", Form: true, Key: []byte(key), Observe: Observing{Addr: "127.0.0.1:0", Key: key}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "in the clear") {
		t.Errorf("got %v", err)
	}
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	if s, err := a.Observe(Observing{Addr: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v, %v", s, err)
	}
}
