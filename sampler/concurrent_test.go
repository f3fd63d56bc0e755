package sampler_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/headrace/headrace/sampler"
)

// An epoch and a mix may be asked from many goroutines at once, each at another
// place: what they remember of the last look-up never shows. Run with -race.
func TestConcurrentUse(t *testing.T) {
	s := sampler.Stream{N: 20_000, Global: 100, Fingerprint: "f", Shuffle: true, Block: 30, Window: 4, Nodes: 3}
	mix := mustMix(t, sampler.MixedSources{Count: s.N, Parts: []sampler.MixPart{weighing(part(t, 50), 1), weighing(part(t, 3000), 2)}})
	look := func(e *sampler.Epoch, source sampler.Source, step int64) string {
		p := e.Positions(step, 1, 6)
		sample := e.Order().At(p[0])
		return fmt.Sprint(p, sample, e.Where(sample, 6), source.Sample(sample))
	}
	want := make([]string, s.Steps())
	for step := range want {
		want[step] = look(s.Epoch(1), sampler.InEpoch(mix, 1), int64(step)) // remembers nothing
	}
	e, source := s.Epoch(1), sampler.InEpoch(mix, 1)
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for i := range want {
				step := (i*7 + worker*50) % len(want)
				if got := look(e, source, int64(step)); got != want[step] {
					t.Errorf("step %d: %s, want %s", step, got, want[step])
				}
			}
		})
	}
	running.Wait()
}
