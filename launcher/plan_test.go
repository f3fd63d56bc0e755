package launcher_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// checkPlan is what a rank's loader does at its start.
func checkPlan(seed string) {
	id, _, err := rank.Detect(os.LookupEnv)
	if err != nil {
		panic(err)
	}
	c, err := agentapi.Dial(context.Background(), id.Agent, agentapi.Hello{PID: os.Getpid(), RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1})
	if err != nil {
		panic(err)
	}
	n, _ := strconv.ParseUint(seed, 10, 64)
	first := int64(id.Rank) * 2
	plan := agentapi.Plan{
		Check: "train", Rank: id.Rank, World: id.World, PlanHash: strings.Repeat("a", 32), Fingerprint: "f", N: 100, Global: int64(id.World) * 2, Seed: n, Tail: "short",
		Batch: nd.Span{Stop: int64(id.World) * 2}, Own: []nd.Span{{Start: first, Stop: first + 2}},
	}
	verdict := "agreed"
	if err := c.PlanCheck(context.Background(), plan); err != nil {
		verdict = err.Error()
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s\n", verdict)
	_ = c.Close()
}

// The ranks of two nodes compare their plans through the launchers; a rank that
// differs is named, with the field, on every rank.
func TestPlansAcrossNodes(t *testing.T) {
	for odd, want := range map[string]string{"": "agreed", "rank=1,plan=9": "seed"} {
		words := []string{"plan=8", "exit=0"}
		if odd != "" {
			words = []string{odd, "rank=0,plan=8", "exit=0"}
		}
		for i, j := range nodes(t, "static", [2][]string{}, words...) {
			code, out, stderr := j.wait()
			if code != 0 || !strings.Contains(strings.ToLower(out), want) || odd != "" && (!strings.Contains(out, "rank 0") && !strings.Contains(out, "ranks 0") || !strings.Contains(out, "1")) {
				t.Errorf("node %d: exit %d, %q, want %q\n%s", i, code, out, want, stderr)
			}
		}
	}
}
