package loader

import (
	"testing"

	"github.com/headrace/headrace/sampler"
)

// The share that is read at home is told where samples have a home, and is the order's own.
func TestHomeShare(t *testing.T) {
	s := sampler.Stream{N: 50, Global: 16, Fingerprint: "f", Shuffle: true, Block: 2, Window: 8}
	if share, ok := homeShare(sampler.Resume{Stream: s}, 4); ok {
		t.Errorf("samples without a home: %v", share)
	}
	s.Nodes = 2
	for step := range s.Steps() {
		e := s.Epoch(1)
		want := float64(e.HomeReads(step, 4)) / float64(e.Span(step).Len())
		if got, ok := homeShare(sampler.Resume{Stream: s, Epoch: 1, Step: step}, 4); !ok || got != want || got <= 0 || got > 1 {
			t.Errorf("step %d: %v, %v, want %v", step, got, ok, want)
		}
	}
	if _, ok := homeShare(sampler.Resume{Stream: s, Step: s.Steps()}, 4); ok {
		t.Error("a step behind the last one")
	}
}
