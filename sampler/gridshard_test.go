package sampler_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// sharded gives the arrays of a field a shard shape.
func sharded(f sampler.Field, shard []int64) sampler.Field {
	f.Arrays = slices.Clone(f.Arrays)
	for i := range f.Arrays {
		f.Arrays[i].Shard = shard
	}
	return f
}

// By shard a grid has the crops that it has without, each once; the crops of a
// block begin in one shard, and those of another block in another.
func TestGridByShard(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	extents := func(most int64) []int64 { return []int64{1 + r.Int64N(most), 1 + r.Int64N(most), 1 + r.Int64N(most)} }
	for range 300 {
		crop, shard := extents(5), extents(9)
		image := sharded(field("image", 0, crop, extents(20), extents(20)), shard)
		c := sampler.GridCrops{Fields: []sampler.Field{image}, Stride: extents(6), Tail: sampler.GridTail(r.IntN(3))}
		plain, err := sampler.NewGrid(c)
		if err != nil {
			continue // the crop does not fit
		}
		c.ByShard = true
		g := mustGrid(t, c)
		if g.Len() != plain.Len() || g.Blocks().Samples() != g.Len() || plain.Blocks() != nil {
			t.Fatalf("%+v: %d crops in %d, want %d", c, g.Blocks().Samples(), g.Len(), plain.Len())
		}
		crops := map[string]int{}
		for i := range plain.Len() {
			crops[fmt.Sprint(plain.Sample(i).Crops)]++
		}
		shards := map[string]bool{}
		for b := range g.Blocks().Len() {
			span := g.Blocks().Span(b)
			var home string
			for i := span.Start; i < span.Stop; i++ {
				s := g.Sample(i)
				crops[fmt.Sprint(s.Crops)]--
				c := s.Crops[0]
				at := fmt.Sprint(c.Array, c.Box[0].Start/shard[0], c.Box[1].Start/shard[1], c.Box[2].Start/shard[2])
				if i > span.Start && at != home || s.ID != i || g.Blocks().Of(i) != b {
					t.Fatalf("%+v: block %d has crops of shards %s and %s", c, b, home, at)
				}
				home = at
			}
			if shards[home] {
				t.Fatalf("%+v: shard %s is two blocks", c, home)
			}
			shards[home] = true
		}
		for crop, n := range crops {
			if n != 0 {
				t.Fatalf("%+v: crop %s comes %d times less than without ByShard", c, crop, n)
			}
		}
	}
}

// The first field's shards count, with axes aligned at the last; a crop in the
// middle of a larger window lies where it begins itself.
func TestGridByShardOfSeveralFields(t *testing.T) {
	label := sharded(field("label", 10, []int64{4}, []int64{40}), []int64{10})
	image := field("image", 0, []int64{1, 8}, []int64{2, 40})
	g := mustGrid(t, sampler.GridCrops{Fields: []sampler.Field{label, image}, Stride: []int64{1, 1}, ByShard: true})
	if g.Blocks().Len() != 4 {
		t.Fatalf("%d blocks, want one for each of the label's shards", g.Blocks().Len())
	}
	for i := range g.Len() {
		if c := g.Sample(i).Crops[0]; c.Box[0].Start/10 != g.Blocks().Of(i) {
			t.Errorf("sample %d at %s is in block %d", i, c.Box, g.Blocks().Of(i))
		}
	}
}

func TestRefusedShards(t *testing.T) {
	f := field("a", 0, []int64{2}, []int64{1 << 40})
	for _, c := range []struct {
		kind  error
		shard []int64
	}{{nd.ErrConfig, nil}, {nd.ErrConfig, []int64{0}}, {nd.ErrConfig, []int64{4, 4}}, {nd.ErrBudget, []int64{4}}} {
		_, err := sampler.NewGrid(sampler.GridCrops{Fields: []sampler.Field{sharded(f, c.shard)}, ByShard: true})
		if !errors.Is(err, c.kind) {
			t.Errorf("shard %v: %v, want %v", c.shard, err, c.kind)
		}
	}
}

// Over a grid by shard a stream reads K shards a window, and the grid's option
// changes its fingerprint.
func TestStreamOverShards(t *testing.T) {
	image := sharded(field("image", 0, []int64{2, 2}, []int64{40, 40}), []int64{8, 16})
	c := sampler.GridCrops{Fields: []sampler.Field{image}, ByShard: true}
	g := mustGrid(t, c)
	s := sampler.Stream{N: g.Len(), Global: 8, Fingerprint: g.Fingerprint(), Shuffle: true, Blocks: g.Blocks(), Window: 3}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	order := s.Order(1)
	shards, left := map[string]bool{}, int64(0)
	for p := int64(0); len(shards) < 3 || left > 0; p++ {
		sample := order.At(p)
		b := g.Sample(sample).Crops[0].Box
		if at := fmt.Sprint(b[0].Start/8, b[1].Start/16); !shards[at] {
			shards[at] = true
			left += g.Blocks().Span(g.Blocks().Of(sample)).Len()
		}
		left--
		if len(shards) > 3 {
			t.Fatalf("position %d of the first window is in a fourth shard: %v", p, shards)
		}
	}
	prints := map[string]bool{g.Fingerprint(): true}
	other := c
	other.Fields = []sampler.Field{sharded(image, []int64{16, 8})}
	prints[mustGrid(t, other).Fingerprint()] = true
	c.ByShard = false
	prints[mustGrid(t, c).Fingerprint()] = true
	if len(prints) != 3 {
		t.Errorf("fingerprints %v", prints)
	}
	state := s.State(1, 2)
	if state.Block != sampler.BlocksOfSource || state.Window != 3 {
		t.Errorf("state %+v", state)
	}
	s.Blocks, s.Block = nil, 32
	if _, err := state.Check(s, false); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a state of other blocks: %v", err)
	}
}
