package sampler_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// The global batches are the same for every number of ranks, and every rank gets
// the same number of batches.
func TestSameGlobalBatchesAtAnyWorld(t *testing.T) {
	for _, tail := range []sampler.Tail{sampler.TailShort, sampler.TailDrop, sampler.TailMask} {
		s := sampler.Stream{N: 1000, Global: 48, Seed: 5, Fingerprint: "f", Shuffle: true, Tail: tail}
		e := s.Epoch(2)
		for world := 1; world <= 64; world++ {
			for step := range s.Steps() {
				var union []int64
				for rank := range world {
					for _, p := range e.Positions(step, rank, world) {
						union = append(union, e.Order().At(p))
					}
				}
				if want := s.Batch(2, step); !slices.Equal(union, want) {
					t.Fatalf("%v, world %d, step %d: ranks have %v, want %v", tail, world, step, union, want)
				}
			}
		}
	}
}

// Ranks of a group get the same samples, groups share the batch out, and Where
// names the first rank of the group.
func TestReplicas(t *testing.T) {
	s := sampler.Stream{N: 103, Global: 10, Shuffle: true, Replicas: 4}
	plain := s
	plain.Replicas = 0
	e := s.Epoch(0)
	const world = 12
	if err := s.CheckWorld(world); err != nil {
		t.Fatal(err)
	}
	for step := range s.Steps() {
		for rank := range world {
			if got, want := s.Slice(step, rank, world), plain.Slice(step, rank/4, 3); got != want {
				t.Fatalf("step %d rank %d: %v, want %v", step, rank, got, want)
			}
			for _, p := range e.Positions(step, rank, world) {
				want := sampler.Place{Position: p, Step: step, Rank: rank / 4 * 4}
				if at := e.Where(e.Order().At(p), world); at != want {
					t.Fatalf("position %d: %+v, want %+v", p, at, want)
				}
			}
		}
	}
	for _, bad := range []int{0, -1, 6, 3} {
		if err := s.CheckWorld(bad); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%d ranks in groups of 4: %v", bad, err)
		}
		if s.Slice(0, 0, bad).Len() != 0 || s.MaxRows(bad) != 0 || s.Weight(0, 1, bad) != 0 {
			t.Errorf("%d ranks in groups of 4 get samples", bad)
		}
	}
}

// What is computed from the ranks' own means and weights is the mean over the
// samples of the batch, however it is cut.
func TestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		s := sampler.Stream{N: 1 + r.Int64N(300), Global: 1 + r.Int64N(60), Tail: sampler.Tail(r.IntN(3)), Replicas: 1 + r.IntN(3)}
		world := s.Replicas * (1 + r.IntN(20))
		loss := func(p int64) float64 { return float64(p * p % 97) }
		for step := range s.Steps() {
			var got, want float64
			for rank := range world {
				slice := s.Slice(step, rank, world)
				if slice.Len() > s.MaxRows(world) {
					t.Fatalf("%+v world %d: %d samples, at most %d", s, world, slice.Len(), s.MaxRows(world))
				}
				mean := 0.0
				for p := slice.Start; p < slice.Stop; p++ {
					mean += loss(p) / float64(slice.Len())
				}
				got += s.Weight(step, slice.Len(), world) * mean / float64(world)
			}
			span := s.Span(step)
			for p := span.Start; p < span.Stop; p++ {
				want += loss(p) / float64(span.Len())
			}
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("%+v world %d step %d: the ranks come to %v, the batch to %v", s, world, step, got, want)
			}
		}
		if w := s.Weight(s.Steps(), 1, world); w != 0 {
			t.Fatalf("%+v: a weight of %v after the last step", s, w)
		}
	}
}

func TestSpans(t *testing.T) {
	f := func(positions []int64, want ...nd.Span) {
		t.Helper()
		if got := sampler.Spans(positions); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", positions, got, want)
		}
	}
	f(nil)
	f([]int64{4}, nd.Span{Start: 4, Stop: 5})
	f([]int64{4, 5, 7, 9, 10, 11}, nd.Span{Start: 4, Stop: 6}, nd.Span{Start: 7, Stop: 8}, nd.Span{Start: 9, Stop: 12})
}
