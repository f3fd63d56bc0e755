package pipeline

import "testing"

// Ranks that share a GPU take no more of it by default than one alone would, and
// what one takes leaves the trainer its part.
func TestDefaultBudgetIsShared(t *testing.T) {
	for _, free := range []int64{0, 1, 1 << 30, 24 << 30, 140 << 30} {
		alone := defaultBudget(free, 0)
		if alone > free/4 || alone > 8<<30 || alone != defaultBudget(free, 1) {
			t.Errorf("%d free: one takes %d", free, alone)
		}
		for ranks := range 9 {
			if all := int64(ranks) * defaultBudget(free, ranks); all > alone || ranks > 0 && alone-all >= int64(ranks) {
				t.Errorf("%d free: %d ranks take %d, one %d", free, ranks, all, alone)
			}
		}
	}
}
