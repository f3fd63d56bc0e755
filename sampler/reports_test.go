package sampler_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/sampler"
)

// The tests of this file are reports of users of other loaders. The comment has the
// situation.

// variants are a stream with batches of 48 in all ways in which its samples may be
// ordered and shared out; 24 ranks fit each.
func variants(t *testing.T, n int64) []sampler.Stream {
	t.Helper()
	var sizes []int64
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for left := n; left > 0; left -= sizes[len(sizes)-1] {
		sizes = append(sizes, min(left, 1+r.Int64N(90)))
	}
	blocks, err := sampler.NewBlocks(sizes)
	if err != nil {
		t.Fatal(err)
	}
	base := sampler.Stream{N: n, Global: 48, Seed: 3, Fingerprint: "f", Shuffle: true}
	list := []sampler.Stream{base}
	add := func(change func(*sampler.Stream)) {
		s := base
		change(&s)
		list = append(list, s)
	}
	add(func(s *sampler.Stream) { s.Shuffle = false })
	add(func(s *sampler.Stream) { s.Tail = sampler.TailMask })
	add(func(s *sampler.Stream) { s.Block, s.Window = 50, 4 })
	add(func(s *sampler.Stream) { s.Blocks, s.Window = blocks, 3 })
	add(func(s *sampler.Stream) { s.Blocks, s.Window, s.Nodes = blocks, 3, 4 })
	for i := range list {
		if err := list[i].Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// served counts how often the ranks get each sample from a place to the end of the
// epoch.
func served(r sampler.Resume, world int) map[int64]int {
	e, seen := r.Stream.Epoch(r.Epoch), map[int64]int{}
	for step := r.Step; step < r.Stream.Steps(); step++ {
		for rank := range world {
			for _, p := range e.Positions(step, rank, world) {
				seen[e.Order().At(p)]++
			}
		}
	}
	return seen
}

// The validation score depended on the number of GPUs: the last batch was filled up
// with samples that had been counted already (pytorch 25162, 22584). An epoch size
// was exact only at multiples of 64 (streaming 380), an equal split dropped rows
// (ray 18352): every sample is served once, at any number of samples and ranks.
func TestReportPaddedDuplicates(t *testing.T) {
	for _, n := range []int64{1, 23, 63, 64, 65, 1000, 1024, 1500} {
		for _, s := range variants(t, n) {
			for _, world := range []int{4, 8, 12, 24} {
				seen := served(sampler.Resume{Stream: s}, world)
				if int64(len(seen)) != n {
					t.Errorf("%+v, %d ranks: %d of %d samples came", s, world, len(seen), n)
				}
				for sample, times := range seen {
					if times != 1 {
						t.Fatalf("%+v, %d ranks: sample %d came %d times", s, world, sample, times)
					}
				}
			}
		}
	}
}

// Loaders with a state were off by a batch after a resume, since what had been
// prefetched counted as seen (accelerate 3938); a shuffle buffer was lost, and some
// rows came twice (datasets 7901, 8408); a state from before the first batch gave
// another window (grain 1178). A state is a position of what was delivered: before
// and after it every sample comes once, resumed anywhere, within a window too.
func TestReportDuplicatesAfterResume(t *testing.T) {
	for _, s := range variants(t, 1100) {
		for _, stop := range []int64{0, 1, 7, s.Steps() - 1, s.Steps()} {
			seen := map[int64]int{}
			e := s.Epoch(2)
			for step := range stop {
				for rank := range 24 {
					for _, p := range e.Positions(step, rank, 24) {
						seen[e.Order().At(p)]++
					}
				}
			}
			at, err := save(t, s.State(2, stop)).Check(s, false)
			if err != nil {
				t.Fatal(err)
			}
			for sample, times := range served(at, 8) {
				seen[sample] += times
			}
			for sample := range s.N {
				if seen[sample] != 1 {
					t.Fatalf("%+v stopped after %d: sample %d came %d times", s, stop, sample, seen[sample])
				}
			}
		}
	}
}

// From two data ranks to one, the state of the second was dropped (Megatron-Bridge
// 5637); resuming over several machines failed where one worked (litdata 248). No
// rank has a state of its own: the bytes are the same on all of them, and one is
// enough for any number of ranks.
func TestReportStateOfOneRankDropped(t *testing.T) {
	for _, s := range variants(t, 1100) {
		var first []byte
		for rank := range 24 {
			of := s // each rank makes its own stream
			of.Replicas = []int{0, 1, 2}[rank%3]
			doc, err := json.Marshal(of.State(1, 5))
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = doc
			}
			if !slices.Equal(doc, first) {
				t.Fatalf("rank %d has %s, rank 0 %s", rank, doc, first)
			}
		}
		state, err := sampler.ParseState(first)
		if err != nil {
			t.Fatal(err)
		}
		single := s
		single.Nodes = 0
		at, err := state.Check(single, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(len(served(at, 1))); got != s.N-5*48 {
			t.Errorf("%+v: one rank goes on with %d samples, want %d", s, got, s.N-5*48)
		}
	}
}

// The position was counted in packed batches and read as samples, so that a run
// went back and repeated some (llm-foundry 1277). It is counted in samples of the
// source, and the state's batch is the one that goes on.
func TestReportPositionInAnotherUnit(t *testing.T) {
	s := sampler.Stream{N: 1000, Global: 40, Fingerprint: "f", Shuffle: true}
	other := s
	other.Global = 7
	at, err := s.State(0, 10).Check(other, false)
	if err != nil || at.Step != 10 || at.Stream.Global != 40 || at.Rest().Start != 400 {
		t.Errorf("resumed at %+v %v", at, err)
	}
}

// Shards were dealt out to ranks: with fewer shards than ranks some had nothing
// (datasets 8669), with uneven ones some had fewer batches, and the job hung
// (webdataset 225, 250). Ranks share samples, not shards: every rank gets as many
// batches, and its part of each, to within one sample.
func TestReportUnevenShards(t *testing.T) {
	blocks, err := sampler.NewBlocks([]int64{900, 3, 40})
	if err != nil {
		t.Fatal(err)
	}
	s := sampler.Stream{N: 943, Global: 50, Fingerprint: "f", Shuffle: true, Blocks: blocks, Window: 2, Nodes: 8}
	e := s.Epoch(0)
	for step := range s.Steps() {
		least, most := 50, 0
		for rank := range 16 {
			n := len(e.Positions(step, rank, 16))
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 || step < s.Steps()-1 && least == 0 {
			t.Errorf("step %d: ranks have %d to %d samples", step, least, most)
		}
	}
}

// A shuffle by a block cipher gave one index twice and one never just above powers
// of four (Grain's index_shuffle, measured).
func TestReportIndexTwiceAbovePowersOfFour(t *testing.T) {
	for _, n := range []int64{65_537, 262_145, 1_048_577} {
		o := sampler.New(n, sampler.EpochKey("f", n, 0, 0))
		seen := make([]bool, n)
		for p := range n {
			i := o.At(p)
			if seen[i] {
				t.Fatalf("n %d: index %d comes twice", n, i)
			}
			seen[i] = true
		}
	}
}

// Seed and epoch were added, so that epoch 1 of seed 0 was epoch 0 of seed 1, and
// two runs of an ensemble saw the same data a step apart.
func TestReportSeedPlusEpoch(t *testing.T) {
	for _, s := range variants(t, 1100) {
		if !s.Shuffle {
			continue
		}
		next := s
		next.Seed++
		if slices.Equal(s.Batch(1, 0), next.Batch(0, 0)) {
			t.Errorf("%+v: epoch 1 is epoch 0 of the next seed", s)
		}
	}
}
