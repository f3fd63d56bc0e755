package loader

import (
	"testing"

	"github.com/headrace/headrace/sampler"
)

// Next waits for room only where nothing is under way. After the last batch of an
// epoch that must hold for the first of the next, whose push has not been tried
// yet: to take it without waiting would give a nil batch and no error.
func TestAheadAtTheSeam(t *testing.T) {
	a := ahead{}
	a.restart(sampler.Resume{Stream: sampler.Stream{N: 5, Global: 2}, Epoch: 3})
	for _, c := range []struct {
		pushed, epoch, step int64
		at                  bool
	}{
		{0, 3, 0, true},
		{2, 3, 2, true},
		{2, 3, 1, false},
		{2, 4, 0, false},
		{3, 4, 0, true},
		{3, 3, 2, false},
		{3, 4, 1, false},
	} {
		a.next.Step = c.pushed
		if got := a.at(c.epoch, c.step); got != c.at {
			t.Errorf("%d steps of epoch 3 pushed, the loader at epoch %d step %d: %v", c.pushed, c.epoch, c.step, got)
		}
	}
}
