package sampler_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Every sample of an epoch comes once, whatever the batch and the number of
// ranks; the slices of a batch join up and differ by one at most.
func TestEpochIsExactlyOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s := sampler.Stream{
			N: r.Int64N(3000), Global: 1 + r.Int64N(200), Seed: r.Uint64(), Fingerprint: "f",
			Shuffle: r.IntN(4) > 0, Tail: sampler.Tail(r.IntN(3)),
		}
		world, epoch := 1+r.IntN(40), r.Int64N(5)
		order := s.Order(epoch)
		seen := make([]int, s.N)
		next := int64(0)
		for step := range s.Steps() {
			batch := s.Batch(epoch, step)
			at := s.Span(step).Start
			if at != next {
				t.Fatalf("%+v: step %d starts at %d, want %d", s, step, at, next)
			}
			smallest, largest := int64(math.MaxInt64), int64(0)
			for rank := range world {
				slice := s.Slice(step, rank, world)
				if slice.Start != at {
					t.Fatalf("%+v: step %d: rank %d of %d starts at %d, want %d", s, step, rank, world, slice.Start, at)
				}
				for i, sample := range order.Samples(slice) {
					seen[sample]++
					if want := batch[slice.Start-next+int64(i)]; sample != want {
						t.Fatalf("%+v: slice holds %d, batch %d", s, sample, want)
					}
					want := sampler.Place{Position: slice.Start + int64(i), Step: step, Rank: rank}
					// A look-up makes the order of the epoch, so one a batch is enough.
					if i > 0 || rank != int(step)%world {
						continue
					}
					if place := s.Where(epoch, sample, world); place != want {
						t.Fatalf("%+v: sample %d is at %+v, want %+v", s, sample, place, want)
					}
				}
				at = slice.Stop
				smallest, largest = min(smallest, slice.Len()), max(largest, slice.Len())
			}
			next += int64(len(batch))
			if at != next || largest-smallest > 1 {
				t.Fatalf("%+v: step %d: slices end at %d, want %d; sizes %d to %d", s, step, at, next, smallest, largest)
			}
		}
		missing := s.N - next
		if s.Tail != sampler.TailDrop && missing != 0 || missing >= s.Global {
			t.Fatalf("%+v: %d positions left out", s, missing)
		}
		for sample, n := range seen {
			want := 1
			if order.Where(int64(sample)) >= next {
				want = 0 // dropped
			}
			if n != want {
				t.Fatalf("%+v: sample %d came %d times, want %d", s, sample, n, want)
			}
		}
		if missing > 0 {
			dropped := order.At(s.N - 1)
			if place := s.Where(epoch, dropped, world); place != (sampler.Place{Position: s.N - 1, Step: -1, Rank: -1}) {
				t.Fatalf("%+v: dropped sample %d is at %+v", s, dropped, place)
			}
		}
	}
}

// The largest numbers there are: nothing overflows.
func TestStreamAtTheEdge(t *testing.T) {
	s := sampler.Stream{N: math.MaxInt64, Global: math.MaxInt64 - 1, Shuffle: true}
	if s.Steps() != 2 || s.Span(1) != (nd.Span{Start: math.MaxInt64 - 1, Stop: math.MaxInt64}) {
		t.Errorf("%d steps, the last is %v", s.Steps(), s.Span(1))
	}
	const world = math.MaxInt32
	at := s.Slice(0, world-1, world)
	if at.Stop != s.Global || at.Len() != s.Global/world && at.Len() != s.Global/world+1 {
		t.Errorf("last slice %v", at)
	}
	s.Global = 1000
	sample := s.Order(0).At(math.MaxInt64 - 1)
	if got := s.Where(0, sample, 3); got.Position != math.MaxInt64-1 || got.Step != s.Steps()-1 {
		t.Errorf("last position: %+v", got)
	}
}

func TestStreamMisuse(t *testing.T) {
	s := sampler.Stream{N: 10, Global: 4}
	for what, span := range map[string]nd.Span{
		"step -1": s.Span(-1), "step 3": s.Span(3), "rank -1": s.Slice(0, -1, 2), "rank 2": s.Slice(0, 2, 2),
		"world 0": s.Slice(0, 0, 0), "no batch": sampler.Stream{N: 10}.Span(0), "slice of step 3": s.Slice(3, 0, 1),
	} {
		if span.Len() != 0 {
			t.Errorf("%s: %v, want nothing", what, span)
		}
	}
	if at := s.Where(0, 10, 1); at != (sampler.Place{Position: -1, Step: -1, Rank: -1}) {
		t.Errorf("sample 10: %+v", at)
	}
	if at := s.Where(0, 9, 0); at.Step != 2 || at.Rank != -1 {
		t.Errorf("world 0: %+v", at)
	}
}

func TestStreamValidate(t *testing.T) {
	if err := (sampler.Stream{N: 0, Global: 1}).Validate(); err != nil {
		t.Error(err)
	}
	many := sampler.Stream{N: 10, Global: 1 << 40, Block: 4, Window: 1, Nodes: 1 << 40}
	if err := many.Validate(); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "Nodes is") || !strings.Contains(err.Error(), "Global is") {
		t.Errorf("memory without bound: %v", err)
	}
	for _, world := range []int{0, math.MaxInt32 + 1, math.MaxInt} {
		s := sampler.Stream{N: 10, Global: 4}
		if err := s.CheckWorld(world); !errors.Is(err, nd.ErrConfig) || s.Slice(0, 0, world).Len() != 0 {
			t.Errorf("%d ranks: %v, and the first gets %v", world, err, s.Slice(0, 0, world))
		}
	}
	err := sampler.Stream{N: -1, Global: 0, Tail: 9, Replicas: -1}.Validate()
	if !errors.Is(err, nd.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	for _, field := range []string{"N is -1", "Global is 0", "Tail is 9", "Replicas is -1"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not report %q", err, field)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for _, tail := range []sampler.Tail{sampler.TailShort, sampler.TailDrop, sampler.TailMask} {
		if got, err := sampler.ParseTail(tail.String()); got != tail || err != nil {
			t.Errorf("%v: %v %v", tail, got, err)
		}
	}
	for _, tail := range []sampler.GridTail{sampler.GridDrop, sampler.GridShift, sampler.GridPad} {
		if got, err := sampler.ParseGridTail(tail.String()); got != tail || err != nil {
			t.Errorf("%v: %v %v", tail, got, err)
		}
	}
	for _, weight := range []sampler.Weight{sampler.ByVolume, sampler.Equal} {
		if got, err := sampler.ParseWeight(weight.String()); got != weight || err != nil {
			t.Errorf("%v: %v %v", weight, got, err)
		}
	}
	for _, parse := range []func(string) error{
		func(s string) error { _, err := sampler.ParseTail(s); return err },
		func(s string) error { _, err := sampler.ParseGridTail(s); return err },
		func(s string) error { _, err := sampler.ParseWeight(s); return err },
	} {
		if err := parse("other"); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("an unknown name: %v", err)
		}
	}
}
