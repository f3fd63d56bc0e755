package sampler

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// plainFeistel is the network as doc.go has it, without a shortcut.
func plainFeistel(n uint64, key Key) func(uint64) uint64 {
	a := ceilSqrt(n)
	b := (n-1)/a + 1
	w := newWords(key)
	var keys [rounds]uint64
	for r := range keys {
		keys[r] = w.next()
	}
	f := func(x, m uint64) uint64 {
		hi, _ := bits.Mul64(mix(x), m)
		return hi
	}
	return func(x uint64) uint64 {
		for {
			l, r := x%a, x/a
			for i, key := range keys {
				if i%2 == 0 {
					l = (l + f(r^key, a)) % a
				} else {
					r = (r + f(l^key, b)) % b
				}
			}
			if x = l + a*r; x < n {
				return x
			}
		}
	}
}

// The fast forms of the network are the plain one: forwards and backwards, one
// position and a row of them, and on both sides of 2^60, from where on its halves
// are too wide for a shortcut.
func TestFeistelIsAsSpecified(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	sizes := []uint64{1025, 4097, 1_000_000, 1<<60 - 1, 1 << 60, 1<<60 + 1, 1<<60 + 1<<32, 1 << 62, math.MaxInt64}
	for range 40 {
		sizes = append(sizes, max(1025, r.Uint64()>>(1+r.IntN(50))))
	}
	for _, n := range sizes {
		key := testKey(n)
		plain, f := plainFeistel(n, key), newFeistel(n, key)
		for range 20 {
			first := r.Uint64N(n - 11)
			row := make([]int64, 11)
			f.row(first, row)
			for i, got := range row {
				x := first + uint64(i)
				if want := plain(x); uint64(got) != want || f.forward(x) != want || f.backward(want) != x {
					t.Fatalf("n %d: position %d has sample %d in a row, %d alone, and goes back to %d; want %d", n, x, got, f.forward(x), f.backward(want), want)
				}
			}
		}
	}
}

func TestDivisor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	numbers := []uint64{1, 2, 3, 10, 1 << 32, 1<<32 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}
	for range 1000 {
		numbers = append(numbers, 1+r.Uint64()>>r.IntN(64))
	}
	for _, d := range numbers {
		by := newDivisor(d)
		for _, x := range append(numbers, 0, d-1, d+1, d*(math.MaxUint64/d), d*(math.MaxUint64/d)-1) {
			if q, rest := by.divide(x); q != x/d || rest != x%d {
				t.Fatalf("%d by %d: %d rest %d, want %d rest %d", x, d, q, rest, x/d, x%d)
			}
		}
	}
}

// Samples of positions in a row are those of the positions one by one, for every
// kind of order and over the ends of windows.
func TestSamplesInARow(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 5))
	sizes := make([]int64, 300)
	for i := range sizes {
		sizes[i] = 1 + r.Int64N(40)
	}
	blocks, err := NewBlocks(sizes)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*Order{
		"sequential": Sequential(5000), "table": New(1000, testKey(1)), "network": New(5000, testKey(1)),
		"equal blocks": NewBlocked(equalBlocks(10_001, 100), 13, testKey(1)), "blocks": NewBlocked(blocks, 70, testKey(1)),
	} {
		for range 50 {
			list := make([]int64, r.Int64N(o.Len()/2))
			first := r.Int64N(o.Len() - int64(len(list)))
			o.samples(first, list)
			for i, got := range list {
				if want := o.At(first + int64(i)); got != want {
					t.Fatalf("%s: position %d has %d, in a row from %d on %d", name, first+int64(i), want, first, got)
				}
			}
		}
	}
}
