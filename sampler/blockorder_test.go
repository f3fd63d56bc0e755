package sampler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
)

// randomBlocks cuts up to 600 samples at random.
func randomBlocks(t *testing.T, r *rand.Rand) *Blocks {
	t.Helper()
	sizes := make([]int64, r.IntN(40))
	for i := range sizes {
		sizes[i] = 1 + r.Int64N(30)
	}
	b, err := NewBlocks(sizes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bijection and inverse over all positions, for every number of samples, block
// size and window there is at small n, and for blocks of any sizes.
func TestBlockOrderIsABijection(t *testing.T) {
	check := func(b *Blocks, window int) {
		t.Helper()
		o := NewBlocked(b, window, testKey(uint64(b.n)))
		bijection(t, b.n, o.At, o.Where)
		for _, x := range []int64{-1, b.n, math.MaxInt64, math.MinInt64} {
			if o.At(x) != -1 || o.Where(x) != -1 {
				t.Fatalf("n %d: %d is in range", b.n, x)
			}
		}
	}
	for n := int64(0); n <= 24; n++ {
		for size := int64(1); size <= n+2; size++ {
			for window := 1; window <= 6; window++ {
				check(equalBlocks(n, size), window)
			}
		}
	}
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		check(randomBlocks(t, r), 1+r.IntN(12))
	}
	check(equalBlocks(10_007, 100), 30) // windows above the table
	check(equalBlocks(4096, 1), 4096)
}

// Blocks of one size by arithmetic, and the same by a table, are one order.
func TestEqualBlocksAreNotSpecial(t *testing.T) {
	for _, n := range []int64{1, 7, 40, 41, 1999} {
		for _, size := range []int64{1, 3, 10, 64, 400, 6000} {
			var sizes []int64
			for rest := n; rest > 0; rest -= size {
				sizes = append(sizes, min(size, rest))
			}
			table, err := NewBlocks(sizes)
			if err != nil {
				t.Fatal(err)
			}
			equal := equalBlocks(n, size)
			a, b := NewBlocked(equal, 5, testKey(1)), NewBlocked(table, 5, testKey(1))
			for i := range n {
				if x, y := a.At(i), b.At(i); x != y || i%7 == 0 && a.Where(x) != b.Where(y) {
					t.Fatalf("n %d size %d: position %d holds %d and %d", n, size, i, x, y)
				}
				if equal.Of(i) != table.Of(i) || equal.Span(equal.Of(i)) != table.Span(table.Of(i)) {
					t.Fatalf("n %d size %d: sample %d is in block %d and %d", n, size, i, equal.Of(i), table.Of(i))
				}
			}
			if equal.Len() != table.Len() || equal.Samples() != table.Samples() {
				t.Fatalf("n %d size %d: %d and %d blocks", n, size, equal.Len(), table.Len())
			}
		}
	}
}

// Each window has the samples of exactly K blocks, the last of what is left: the
// bound on what must be open at a time.
func TestWindowTouchesExactlyItsBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 4))
	for range 100 {
		b := randomBlocks(t, r)
		if r.IntN(2) == 0 {
			b = equalBlocks(r.Int64N(500), 1+r.Int64N(40))
		}
		window := 1 + r.Int64N(9)
		o := NewBlocked(b, int(window), testKey(r.Uint64()))
		seen := map[int64]bool{} // blocks of earlier windows
		for p := int64(0); p < b.n; {
			want, left := map[int64]bool{}, int64(0)
			for blocks := min(window, b.Len()-int64(len(seen))); int64(len(want)) < blocks || left > 0; p++ {
				block := b.Of(o.At(p))
				if seen[block] {
					t.Fatalf("block %d comes in two windows", block)
				}
				if !want[block] {
					want[block] = true
					left += b.Span(block).Len()
				}
				left--
				if int64(len(want)) > blocks {
					t.Fatalf("more than %d blocks in a window", blocks)
				}
			}
			for block := range want {
				seen[block] = true
			}
		}
		if int64(len(seen)) != b.Len() {
			t.Fatalf("%d of %d blocks came", len(seen), b.Len())
		}
	}
}

// Over keys every sample is as likely at every position, also beside a short block.
func TestBlockOrderIsUniform(t *testing.T) {
	const n, keys = 10, 20_000
	for _, size := range []int64{2, 5, 1} {
		var at [n][]int
		for p := range at {
			at[p] = make([]int, n)
		}
		for k := range uint64(keys) {
			o := NewBlocked(equalBlocks(n, size), 2, testKey(k))
			for p := range at {
				at[p][o.At(int64(p))]++
			}
		}
		for p := range at {
			if z := zScore(at[p]); math.Abs(z) > 4 {
				t.Errorf("blocks of %d: position %d is not uniform, z = %.1f", size, p, z)
			}
		}
	}
}

// At the largest numbers nothing overflows.
func TestBlockOrderAtTheEdge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62, 1<<62 - 1} {
		for _, size := range []int64{1, 2048, 1 << 40, 1<<62 - 1, 1 << 62, math.MaxInt64} {
			o := NewBlocked(equalBlocks(n, size), 256, testKey(1))
			for j := range 50 {
				p := r.Int64N(n)
				if j < 2 {
					p = []int64{0, n - 1}[j]
				}
				if i := o.At(p); i < 0 || i >= n || o.Where(i) != p {
					t.Fatalf("n %d size %d: position %d gives %d, which lies at %d", n, size, p, i, o.Where(i))
				}
			}
		}
	}
}

func TestRefusedBlocks(t *testing.T) {
	for _, sizes := range [][]int64{{0}, {3, -1}, {math.MaxInt64, 1}} {
		if _, err := NewBlocks(sizes); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}

func TestBlockLookUpsAllocateNothingWithinAWindow(t *testing.T) {
	o := NewBlocked(equalBlocks(1<<30, 1<<10), 256, testKey(1))
	o.At(0)
	if a := testing.AllocsPerRun(100, func() { o.Where(o.At(17)) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

// The quality figures are what orders give on average.
func TestQuality(t *testing.T) {
	for _, s := range []Stream{
		{N: 8000, Global: 32, Shuffle: true, Block: 40, Window: 10},
		{N: 8000, Global: 256, Shuffle: true, Block: 10, Window: 20}, // more than a window
		{N: 8000, Global: 200, Shuffle: true, Block: 20, Window: 10}, // exactly one
		{N: 1600, Global: 16, Shuffle: true, Block: 8, Window: 1},    // no mixing
		{N: 2048, Global: 64, Shuffle: true, Block: 1, Window: 2048}, // a full shuffle
		{N: 2000, Global: 64, Shuffle: true},
	} {
		blocks := s.blocks()
		if blocks == nil {
			blocks = equalBlocks(s.N, 1)
		}
		q := s.Quality()
		var met, neighbours, batches, pairs float64
		for epoch := range int64(20) {
			o := s.Order(epoch)
			for first := int64(0); first+s.Global <= s.N; first += s.Global {
				seen := map[int64]bool{}
				for p := first; p < first+s.Global; p++ {
					seen[blocks.Of(o.At(p))] = true
				}
				met += float64(len(seen))
				batches++
			}
			for p := int64(1); p < s.N; p++ {
				if blocks.Of(o.At(p)) == blocks.Of(o.At(p-1)) {
					neighbours++
				}
				pairs++
			}
		}
		if got := met / batches; math.Abs(got-q.DistinctBlocks) > 0.05*got+0.1 {
			t.Errorf("%+v: batches have %.2f blocks, the figure is %.2f", s, got, q.DistinctBlocks)
		}
		if got := neighbours / pairs; math.Abs(got-q.Neighbours) > 0.05*got+0.01 {
			t.Errorf("%+v: %.3f have their block before them, the figure is %.3f", s, got, q.Neighbours)
		}
	}
	// The table of the literature: 1000 classes, one a block, batches of 256.
	for window, want := range map[int]float64{10: 10, 64: 63, 256: 162} {
		q := Stream{N: 1_000_000, Global: 256, Shuffle: true, Block: 1000, Window: window}.Quality()
		if math.Abs(q.DistinctBlocks-want) > 1 || math.Abs(q.FullShuffle-226) > 1 {
			t.Errorf("window %d: %.0f classes, want %.0f; full %.0f", window, q.DistinctBlocks, want, q.FullShuffle)
		}
	}
	if got := distinct(256, 1000, 1e18); math.Abs(got-256) > 0.01 {
		t.Errorf("256 samples of very many come from %v blocks", got)
	}
	huge := Stream{N: math.MaxInt64, Global: 1 << 61, Shuffle: true, Block: 4, Window: 2}
	if q := huge.Quality(); math.Abs(q.DistinctBlocks/(1<<59)-1) > 1e-6 {
		t.Errorf("a batch of many windows: %+v", q)
	}
	if q := (Stream{Global: 4}).Quality(); q != (Quality{}) {
		t.Errorf("no sample: %+v", q)
	}
}

func BenchmarkBlockAt(b *testing.B) {
	o := NewBlocked(equalBlocks(1_000_000_000, 2048), 256, testKey(1))
	table := make([]int64, 1_000_000_000/2048)
	for i := range table {
		table[i] = 2048
	}
	blocks, err := NewBlocks(table)
	if err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]*Order{"equal": o, "table": NewBlocked(blocks, 256, testKey(1))} {
		b.Run(fmt.Sprintf("%s/n=1e9", name), func(b *testing.B) {
			var p, sum int64
			for b.Loop() {
				sum += o.At(p)
				p++
			}
		})
	}
}
