//go:build coordfault

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/sim"
)

// A scenario that breaks an invariant ends with exit code 1, and names it.
func TestSimulateFails(t *testing.T) {
	sc := sim.Draw(2, &sim.Options{Nodes: 4, Ranks: 1, Break: coord.ViewNotCounted})
	sc.Actions = []sim.Action{{At: 3 * time.Second, Kind: sim.Kill, Who: "1"}}
	file := filepath.Join(t.TempDir(), "a.scenario")
	if err := os.WriteFile(file, []byte(sc.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := run(t.Context(), []string{"simulate", "--replay", file, "--trace"}, &out, &errs)
	if code != exitError || !strings.Contains(errs.String(), "1 of 1 seeds broke an invariant") || !strings.Contains(out.String(), "VIOLATION I1") {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}
