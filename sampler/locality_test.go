package sampler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Who reads what does not change a batch: the ranks' positions are the batch, each
// once, as many for each rank as in its slice, and Where agrees. Also for blocks of
// any size, more nodes than blocks, several windows in a batch, and no shuffle.
func TestLocalityIsAPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		blocks := randomBlocks(t, r)
		s := Stream{
			N: blocks.n, Global: 1 + r.Int64N(80), Seed: r.Uint64(), Fingerprint: "f", Shuffle: r.IntN(5) > 0,
			Blocks: blocks, Window: 1 + r.IntN(9), Nodes: 1 + r.IntN(7), Replicas: 1 + r.IntN(2), Tail: Tail(r.IntN(3)),
		}
		if r.IntN(2) == 0 {
			s.Blocks, s.Block = nil, 1+r.Int64N(20)
		}
		world := s.Nodes * s.Replicas * (1 + r.IntN(3))
		if err := errors.Join(s.Validate(), s.CheckWorld(world)); err != nil {
			t.Fatal(err)
		}
		e, again := s.Epoch(1), s.Epoch(1)
		for step := range s.Steps() {
			var union []int64
			for rank := range world {
				p := e.Positions(step, rank, world)
				if !slices.IsSorted(p) || int64(len(p)) != s.Slice(step, rank, world).Len() {
					t.Fatalf("%+v world %d step %d rank %d: %v, want %d", s, world, step, rank, p, s.Slice(step, rank, world).Len())
				}
				if group := rank / s.Replicas * s.Replicas; !slices.Equal(p, again.Positions(step, group, world)) {
					t.Fatalf("%+v world %d step %d: rank %d has other positions than %d", s, world, step, rank, group)
				}
				if rank%s.Replicas == 0 {
					union = append(union, p...)
				}
				if len(p) > 0 {
					at := p[r.IntN(len(p))]
					want := Place{at, step, rank / s.Replicas * s.Replicas}
					if got := e.Where(e.Order().At(at), world); got != want {
						t.Fatalf("%+v world %d: position %d is at %+v, want %+v", s, world, at, got, want)
					}
				}
			}
			slices.Sort(union)
			span := s.Span(step)
			for i, p := range union {
				if p != span.Start+int64(i) {
					t.Fatalf("%+v world %d step %d: positions %v, want %v", s, world, step, union, span)
				}
			}
			if int64(len(union)) != span.Len() {
				t.Fatalf("%+v world %d step %d: %d positions, want %d", s, world, step, len(union), span.Len())
			}
		}
	}
}

// Homes are shared out evenly: equal blocks exactly, others to within a block. A
// block's favourite takes it unless that is full.
func TestHomesAreEven(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		b := randomBlocks(t, r)
		nodes := 1 + r.IntN(8)
		keys := newHomeKeys("f", nodes)
		order := newBlockOrder(b, 1+r.Int64N(40), testKey(r.Uint64()))
		for at := int64(0); at < b.n; {
			w := order.windowAt(at)
			h := keys.homes(order, w)
			load, largest := make([]int64, nodes), int64(0)
			for j, v := range h.node {
				size := order.start(w.blocks.Start+int64(j)+1) - order.start(w.blocks.Start+int64(j))
				load[v] += size
				largest = max(largest, size)
			}
			if most := (w.places.Len()-1)/int64(nodes) + 1; slices.Max(load) >= most+largest {
				t.Fatalf("%d samples on %d nodes: %v", w.places.Len(), nodes, load)
			}
			at = w.places.Stop
		}
	}
	keys, all := newHomeKeys("f", 16), make([]int32, 16)
	for v := range all {
		all[v] = int32(v)
	}
	order := newBlockOrder(equalBlocks(128*2048*5, 2048), 128, testKey(1))
	favourites := 0
	for at := int64(0); at < order.blocks.n; at = order.windowAt(at).places.Stop {
		w := order.windowAt(at)
		counts := make([]int, 16)
		for j, v := range keys.homes(order, w).node {
			counts[v]++
			if v == keys.choose(order.order.At(w.blocks.Start+int64(j)), all) {
				favourites++
			}
		}
		for v, n := range counts {
			if n != 8 {
				t.Errorf("node %d is home to %d blocks, want 8", v, n)
			}
		}
	}
	if share := float64(favourites) / (128 * 5); share < 0.75 {
		t.Errorf("%.2f of the blocks are at their favourite", share)
	}
}

// homeSettings are those of the figures in docs/order.md.
var homeSettings = []struct {
	window int
	block  int64
	nodes  int
	global int64
	home   float64
}{
	{128, 2048, 16, 1024, 0.952},
	{128, 2048, 16, 8192, 0.983},
	{1024, 1024, 128, 8192, 0.951},
	{1024, 1024, 128, 65536, 0.984},
}

// Nearly all samples are read at home. What is not is the surplus of a step's
// uneven draw: with g samples a node it is 1/sqrt(2πg) of them.
func TestHomeReads(t *testing.T) {
	for _, c := range homeSettings {
		window := c.block * int64(c.window)
		s := Stream{N: 4 * window, Global: c.global, Shuffle: true, Block: c.block, Window: c.window, Nodes: c.nodes}
		e := s.Epoch(0)
		var home, all float64
		for step := range window / c.global / 4 {
			home += float64(e.HomeReads(step, c.nodes))
			all += float64(c.global)
		}
		t.Logf("K %d S %d nodes %d G %d: %.1f %% at home", c.window, c.block, c.nodes, c.global, 100*home/all)
		expected := 1 - 1/math.Sqrt(2*math.Pi*float64(c.global)/float64(c.nodes))
		if got := home / all; math.Abs(got-c.home) > 0.004 || math.Abs(got-expected) > 0.004 {
			t.Errorf("%+v: %.4f are read at home, want about %.4f", c, got, expected)
		}
	}
}

func TestNodesThatDoNotFit(t *testing.T) {
	s := Stream{N: 100, Global: 8, Nodes: 2}
	if err := s.Validate(); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("nodes without blocks: %v", err)
	}
	s.Block, s.Window = 4, 2
	for world, replicas := range map[int]int{3: 1, 6: 2, 4: 4, 0: 1} {
		s.Replicas = replicas
		if err := s.CheckWorld(world); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%d ranks in groups of %d on 2 nodes: %v", world, replicas, err)
		}
		if e := s.Epoch(0); len(e.Positions(0, 0, world)) != 0 || e.HomeReads(0, world) != 0 || e.Where(1, world).Rank != -1 {
			t.Errorf("%d ranks in groups of %d on 2 nodes get samples", world, replicas)
		}
	}
}

// The cost of a step: each rank looks at the whole batch.
func BenchmarkAssign(b *testing.B) {
	for _, c := range homeSettings {
		b.Run(fmt.Sprintf("G=%d/nodes=%d", c.global, c.nodes), func(b *testing.B) {
			s := Stream{N: 1_000_000_000, Global: c.global, Shuffle: true, Block: c.block, Window: c.window, Nodes: c.nodes}
			e := s.Epoch(0)
			var step int64
			for b.Loop() {
				e.Positions(step, 3, c.nodes)
				step++
			}
			slices, homes := readersOfABlock(e, c.nodes)
			b.ReportMetric(slices, "nodes/block-by-slices")
			b.ReportMetric(homes, "nodes/block")
		})
	}
}

// readersOfABlock is how many nodes read of a block of the first window, if ranks
// read slices and as they do.
func readersOfABlock(e *Epoch, nodes int) (slices, homes float64) {
	bySlice, byHome := map[[2]int64]bool{}, map[[2]int64]bool{}
	window := e.local.blocks.windowAt(0)
	for step := range window.places.Stop / e.Global {
		for i, v := range e.local.share(e.Span(step), nodes).node {
			var at [1]int64
			w, _ := e.local.blocks.places(step*e.Global+int64(i), at[:])
			j := e.local.blocks.at(at[0], w.blocks)
			byHome[[2]int64{j, int64(v)}] = true
			bySlice[[2]int64{j, int64(holder(int64(i), e.Global, nodes))}] = true
		}
	}
	blocks := float64(window.blocks.Len())
	return float64(len(bySlice)) / blocks, float64(len(byHome)) / blocks
}
