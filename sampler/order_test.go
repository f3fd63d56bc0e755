package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func testKey(i uint64) Key { return EpochKey("test", 0, i, 0) }

// bijection checks At and Where exhaustively.
func bijection(t *testing.T, n int64, at, where func(int64) int64) {
	t.Helper()
	seen := make([]bool, n)
	for p := range n {
		i := at(p)
		if i < 0 || i >= n || seen[i] {
			t.Fatalf("n %d: position %d gives %d, twice or out of range", n, p, i)
		}
		seen[i] = true
		if back := where(i); back != p {
			t.Fatalf("n %d: sample %d lies at %d, Where says %d", n, i, p, back)
		}
	}
}

func TestBijectionForEveryN(t *testing.T) {
	for n := int64(0); n <= 4096; n++ {
		o := New(n, testKey(uint64(n)))
		bijection(t, n, o.At, o.Where)
		if o.Len() != n {
			t.Fatalf("Len %d, want %d", o.Len(), n)
		}
	}
}

// The network is a bijection at the small sizes too, where New takes the table:
// there the grid is at its most uneven.
func TestNetworkForEveryN(t *testing.T) {
	for n := int64(1); n <= 1200; n++ {
		f := newFeistel(uint64(n), testKey(uint64(n)))
		bijection(t, n,
			func(p int64) int64 { return int64(f.forward(uint64(p))) },
			func(i int64) int64 { return int64(f.backward(uint64(i))) })
	}
}

// Sizes at which block ciphers on powers of two go wrong: beside powers of 2 and
// 4, beside squares, and primes.
func TestBijectionAtEdges(t *testing.T) {
	sizes := []int64{4099, 10007, 65521, 65537, 99991, 104729} // primes
	for k := 12; k <= 17; k++ {
		sizes = append(sizes, 1<<k-1, 1<<k, 1<<k+1) // 4^k is among them
	}
	for _, r := range []int64{65, 100, 129, 255, 257, 316, 511} {
		sizes = append(sizes, r*r-1, r*r, r*r+1, r*(r+1), r*(r+1)+1)
	}
	for _, n := range sizes {
		o := New(n, testKey(uint64(n)))
		bijection(t, n, o.At, o.Where)
	}
}

// Sizes too large to walk through: what is at p lies at p, at both ends and at
// random.
func TestRoundTripsUpToInt64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []int64{math.MaxInt64, math.MaxInt64 - 1, 1_000_000_007, 3_037_000_499 * 3_037_000_499}
	for k := 20; k <= 62; k++ {
		sizes = append(sizes, 1<<k-1, 1<<k, 1<<k+1)
	}
	for _, n := range sizes {
		o := New(n, testKey(uint64(n)))
		for j := range 200 {
			p := r.Int64N(n)
			if j < 4 {
				p = []int64{0, 1, n - 2, n - 1}[j]
			}
			i := o.At(p)
			if i < 0 || i >= n || o.Where(i) != p || o.At(o.Where(p)) != p {
				t.Fatalf("n %d: position %d gives %d, which lies at %d", n, p, i, o.Where(i))
			}
		}
	}
}

func TestCeilSqrt(t *testing.T) {
	f := func(n uint64) {
		t.Helper()
		r := ceilSqrt(n)
		if r*r < n || (r-1)*(r-1) >= n {
			t.Errorf("ceilSqrt(%d) = %d", n, r)
		}
	}
	for n := uint64(1); n < 10_000; n++ {
		f(n)
	}
	for _, r := range []uint64{1<<26 + 1, 94906267, 1<<31 - 1, 1 << 31, 3_037_000_499} {
		f(r*r - 1)
		f(r * r)
		f(r*r + 1)
	}
	f(math.MaxInt64)
}

// Positions and samples that do not exist are -1, never a panic.
func TestOutOfRange(t *testing.T) {
	for _, n := range []int64{-5, 0, 1, 10, 5000} {
		for _, o := range []*Order{New(n, testKey(1)), Sequential(n)} {
			for _, x := range []int64{math.MinInt64, -1, max(n, 0), math.MaxInt64} {
				if o.At(x) != -1 || o.Where(x) != -1 {
					t.Errorf("n %d: At(%d) = %d, Where = %d, want -1", n, x, o.At(x), o.Where(x))
				}
			}
		}
	}
}

func TestSequential(t *testing.T) {
	o := Sequential(1 << 40)
	for _, p := range []int64{0, 17, 1<<40 - 1} {
		if o.At(p) != p || o.Where(p) != p {
			t.Errorf("position %d holds %d", p, o.At(p))
		}
	}
}

// Each part of the key changes the order, and seed and epoch do not stand in for
// each other.
func TestKeysDiffer(t *testing.T) {
	keys := map[Key]string{}
	add := func(name string, k Key) {
		if other, twice := keys[k]; twice {
			t.Errorf("%s and %s have one key", name, other)
		}
		keys[k] = name
	}
	for seed := range uint64(4) {
		for epoch := range int64(4) {
			add(fmt.Sprintf("seed %d epoch %d", seed, epoch), EpochKey("ff", 10, seed, epoch))
		}
	}
	add("n", EpochKey("ff", 11, 0, 0))
	add("fingerprint", EpochKey("fe", 10, 0, 0))
	// The length in front of a string keeps it from running into what follows.
	add("longer fingerprint", EpochKey("ff\n\x00\x00\x00\x00\x00\x00\x00", 0, 0, 0))
}

// zScore compares counts with a uniform expectation: chi-square as a normal
// deviate (Wilson and Hilferty). 0 is as expected, beyond 4 is not by chance.
func zScore(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want := float64(total) / float64(len(counts))
	chi2 := 0.0
	for _, c := range counts {
		chi2 += (float64(c) - want) * (float64(c) - want) / want
	}
	df := float64(len(counts) - 1)
	return (math.Cbrt(chi2/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df))
}

// Over many keys every position holds every sample equally often, and so does
// every pair of neighbours. The key alone is random, and it is fixed: the test
// cannot fail by chance.
func TestUniformOverKeys(t *testing.T) {
	table := func(n int64) func(Key) func(int64) int64 {
		return func(k Key) func(int64) int64 { return New(n, k).At }
	}
	network := func(n int64) func(Key) func(int64) int64 {
		return func(k Key) func(int64) int64 {
			f := newFeistel(uint64(n), k)
			return func(p int64) int64 { return int64(f.forward(uint64(p))) }
		}
	}
	for _, c := range []struct {
		name  string
		n     int64
		bins  int64
		keys  uint64
		order func(Key) func(int64) int64
	}{
		{"table", 8, 8, 20_000, table(8)},
		{"table", 10, 10, 20_000, table(10)},
		{"table", 1024, 16, 1000, table(1024)},
		{"network", 8, 8, 20_000, network(8)},
		{"network", 10, 10, 20_000, network(10)},
		{"network", 1025, 16, 15_000, network(1025)},
		{"network", 1 << 20, 16, 15_000, network(1 << 20)},
		{"network", 1<<40 + 1, 16, 15_000, network(1<<40 + 1)},
	} {
		limit := 4.0
		if c.n <= 10 {
			limit = 3 // where networks of fewer rounds, or on a power of two, fail by hundreds
		}
		const positions = 4
		bin := func(i int64) int64 { return int64(float64(i) / float64(c.n) * float64(c.bins)) }
		at := make([][]int, positions)
		pairs := make([][]int, positions-1)
		for p := range positions {
			at[p] = make([]int, c.bins)
		}
		for p := range pairs {
			pairs[p] = make([]int, c.bins*c.bins)
		}
		for k := range c.keys {
			order := c.order(testKey(k))
			previous := int64(-1)
			for p := range int64(positions) {
				i := order(p)
				at[p][bin(i)]++
				if p > 0 {
					pairs[p-1][bin(previous)*c.bins+bin(i)]++
				}
				previous = i
			}
		}
		for p := range positions {
			if z := zScore(at[p]); math.Abs(z) > limit {
				t.Errorf("%s n %d: position %d is not uniform, z = %.1f", c.name, c.n, p, z)
			}
		}
		for p := range pairs {
			counts := pairs[p]
			if c.n == c.bins { // a sample does not follow itself
				counts = offDiagonal(counts, int(c.bins))
			}
			if z := zScore(counts); math.Abs(z) > limit {
				t.Errorf("%s n %d: neighbours at %d are not uniform, z = %.1f", c.name, c.n, p, z)
			}
		}
	}
}

func offDiagonal(counts []int, n int) []int {
	var off []int
	for i, c := range counts {
		if i/n != i%n {
			off = append(off, c)
		}
	}
	return off
}

// One order looks like a shuffle: neighbours are as far apart as chance has it.
func TestNeighboursWithinOneOrder(t *testing.T) {
	for _, n := range []int64{100_000, 1 << 20, 1_000_003} {
		o := New(n, testKey(uint64(n)))
		counts := make([]int, 64)
		for p := range int64(60_000) {
			d := (o.At(p+1) - o.At(p) + n) % n
			counts[d*64/n]++
		}
		if z := zScore(counts); math.Abs(z) > 4 {
			t.Errorf("n %d: distances of neighbours, z = %.1f", n, z)
		}
	}
}

// below has no bias: with m = 3·2^62 a multiply-shift alone would give each
// third value half as often again.
func TestBelowIsUniform(t *testing.T) {
	w := newWords(testKey(0))
	counts := make([]int, 48)
	m := uint64(3) << 62
	for range 100_000 {
		x := below(w.next, m)
		if x >= m {
			t.Fatalf("%d is not below %d", x, m)
		}
		counts[x%3*16+x/(m/16)]++
	}
	if z := zScore(counts); math.Abs(z) > 4 {
		t.Errorf("z = %.1f", z)
	}
}

func TestLookUpsAllocateNothing(t *testing.T) {
	for _, n := range []int64{1000, 1 << 30} {
		o := New(n, testKey(1))
		if a := testing.AllocsPerRun(100, func() { o.Where(o.At(17)) }); a != 0 {
			t.Errorf("n %d: %v allocations", n, a)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	for _, n := range []int64{1000, 1_000_000, 4_194_305, 1_000_000_000, 10_000_000_000, 1 << 62} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			o := New(n, testKey(1))
			var p int64
			for b.Loop() {
				p = o.At(p)
			}
		})
	}
}

// Positions that are looked up one by one, and in a row as those of a batch are.
func BenchmarkAtInARow(b *testing.B) {
	o := New(1_000_000_000, testKey(1))
	b.Run("at", func(b *testing.B) {
		var p, sum int64
		for b.Loop() {
			sum += o.At(p)
			p = (p + 1) & (1<<19 - 1)
		}
	})
	b.Run("samples", func(b *testing.B) {
		list := make([]int64, 4096)
		for b.Loop() {
			o.samples(17, list)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/sample")
	})
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int64{1024, 1_000_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for i := uint64(0); b.Loop(); i++ {
				New(n, testKey(i))
			}
		})
	}
}
