//go:build coordfault

package sim

import (
	"testing"

	"github.com/headrace/headrace/coord"
)

// Each bug that can be switched on is found.
func TestFaults(t *testing.T) {
	for f := coord.Fault(1); f < coord.Faults; f++ {
		found := false
		for seed := uint64(0); seed < 1000 && !found; seed++ {
			sc := Draw(seed, &Options{Faults: Kinds(), Break: f})
			if r := Run(sc, Watch{}); len(r.Violations) > 0 {
				t.Logf("bug %d: seed %d: %v", f, seed, r.Violations[0])
				found = true
			}
		}
		if !found {
			t.Errorf("bug %d is not found", f)
		}
	}
}
