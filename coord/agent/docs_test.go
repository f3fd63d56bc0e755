package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/metrics/page"
)

// Each metric and each reason is in the guide: by its name, or by its end in a list of
// names that begin alike.
func TestGuideHasEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var d drops
	since := time.Now()
	s := page.Snapshot{View: page.View{Since: &since}, Job: page.Job{Mode: "lockstep"}, Nodes: []page.Node{{Lag: new(int64)}}, Coverage: page.Coverage{Last: &page.Closed{}}, Counters: page.Counters{Dropped: d.counts()}}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{collector{func() page.Snapshot { return s }}, newSettle()} {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) < 30 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	for _, f := range families {
		name := f.GetName()
		_, rest, _ := strings.Cut(strings.TrimPrefix(name, "headrace_"), "_")
		if !strings.Contains(string(text), "`"+name) && !strings.Contains(string(text), "`_"+rest+"`") {
			t.Errorf("docs/observability.md lacks %s", name)
		}
	}
	for why := range dropCount {
		if !strings.Contains(string(text), "`"+why.String()+"`") {
			t.Errorf("docs/observability.md lacks the reason %s", why)
		}
	}
}
