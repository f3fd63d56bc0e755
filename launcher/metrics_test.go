package launcher_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/rank"
)

// The port of --metrics-port has the launcher's numbers and what the ranks' loaders
// have sent over HEADRACE_AGENT.
func TestMetrics(t *testing.T) {
	j := start(t, nil, append([]string{"--metrics-port", "0"}, workers(2, "env", "wait")...)...)
	env := map[string]string{}
	for _, kv := range regexp.MustCompile(`"([A-Z_]+=[^"]*)"`).FindAllStringSubmatch(j.line(), -1) {
		name, value, _ := strings.Cut(kv[1], "=")
		env[name] = value
	}
	id, source, err := rank.Detect(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil || id.World != 2 || id.Agent == "" || id.LocalWorld != 2 || source != rank.Torchrun {
		t.Fatalf("a worker is %+v from %s (%v)", id, source, err)
	}
	client, err := agentapi.Dial(t.Context(), id.Agent, agentapi.Hello{RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SendStats(agentapi.Stats{"samples_total": 12}); err != nil {
		t.Fatal(err)
	}
	j.line()
	address := regexp.MustCompile(`metrics at (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(j.errors())[1]
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	want := fmt.Sprintf(`headrace_loader_samples_total{local_rank="%d",rank="%d"} 12`, id.LocalRank, id.Rank)
	text := ""
	testwait.Until(t, "the stats come", func() bool {
		_, text = get("/metrics")
		return strings.Contains(text, want)
	})
	for _, want := range []string{"headrace_launcher_workers 2\n", "headrace_launcher_rounds_total 1\n", "headrace_launcher_restarts 0\n", "headrace_launcher_nodes 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := get(path); code != 200 {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	j.send(syscall.SIGTERM)
	if code, _, stderr := j.wait(); code != 143 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}
