//go:build coordfault

package sim

import (
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/coord"
)

// Each bug that can be switched on is found within a thousand seeds, and
// its shrunk scenario finds it again from a file.
func TestFaultsAreFound(t *testing.T) {
	var one sync.Mutex
	found := 0
	t.Cleanup(func() {
		if found < int(coord.Faults)-1 {
			t.Errorf("%d of %d bugs are found", found, coord.Faults-1)
		}
	})
	for f := coord.Fault(1); f < coord.Faults; f++ {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				sc := Draw(seed, &Options{Faults: menu(f), Break: f})
				r := Run(sc, Watch{})
				if len(r.Violations) == 0 {
					continue
				}
				small := Shrink(sc, 40, Breaks(r.Violations[0].Invariant, nil))
				back, err := Parse(strings.NewReader(small.String()))
				if err != nil || !Breaks(r.Violations[0].Invariant, nil)(&back) {
					t.Errorf("bug %d: the scenario does not find it: %v\n%s", f, err, small.String())
				}
				t.Logf("bug %d: seed %d: %v; %d nodes and %d actions are enough", f, seed, r.Violations[0], len(small.Ranks), len(small.Actions))
				one.Lock()
				found++
				one.Unlock()
				return
			}
		})
	}
}

// menu is what may happen where a bug is looked for. An agent with the number of one that has voted
// comes only where that one is cut off as well, which is rare among all faults.
func menu(f coord.Fault) []Kind {
	if f == coord.NumberAgain {
		return []Kind{Kill, Stop, Partition, Split, Leave, Join, Twin}
	}
	return Kinds()
}
