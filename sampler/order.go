package sampler

import (
	"math"
	"math/bits"
)

// tableLimit is the largest n whose order is kept as a table, 8 KiB with its
// inverse: uniform over all permutations, which a network on a grid of few cells
// only comes near, and twenty times faster to look up.
const tableLimit = 1024

const rounds = 12

// Order is a permutation of the samples 0 … n-1: which sample each position of
// an epoch holds, and where each sample is. It takes constant memory and
// constant time for any n and is safe for concurrent use.
type Order struct {
	n        int64
	shuffled bool

	at, where []int32 // n <= tableLimit
	feistel   feistel // above

	blocks *blockOrder // instead, where samples are shuffled by blocks
}

// New is the seeded order of n samples; each key gives another. A negative n
// counts as 0.
func New(n int64, key Key) *Order {
	o := &Order{n: max(0, n), shuffled: true}
	if o.n > tableLimit {
		o.feistel = newFeistel(uint64(n), key)
	} else {
		o.at, o.where = shuffle(int(o.n), key)
	}
	return o
}

// NewBlocked is the seeded order that shuffles blocks as wholes, and then the
// samples of each window of so many blocks in a row. Blocks of one size cost
// constant memory, others 8 bytes each. A window below 1 counts as 1.
//
// A look-up in the window of the one before takes constant time; another window
// costs a few hashes first, or a table for a small one.
func NewBlocked(blocks *Blocks, window int, key Key) *Order {
	return &Order{n: blocks.n, shuffled: true, blocks: newBlockOrder(blocks, max(1, int64(window)), key)}
}

// Sequential is the order in which position p holds sample p.
func Sequential(n int64) *Order { return &Order{n: max(0, n)} }

// Len is the number of samples.
func (o *Order) Len() int64 { return o.n }

// At is the sample at a position, -1 if there is no such position.
func (o *Order) At(pos int64) int64 {
	switch {
	case pos < 0 || pos >= o.n:
		return -1
	case !o.shuffled:
		return pos
	case o.at != nil:
		return int64(o.at[pos])
	case o.blocks != nil:
		return o.blocks.forward(pos)
	}
	return int64(o.feistel.forward(uint64(pos)))
}

// Where is the position of a sample, -1 if there is no such sample.
func (o *Order) Where(index int64) int64 {
	switch {
	case index < 0 || index >= o.n:
		return -1
	case !o.shuffled:
		return index
	case o.where != nil:
		return int64(o.where[index])
	case o.blocks != nil:
		return o.blocks.backward(index)
	}
	return int64(o.feistel.backward(uint64(index)))
}

// shuffle is Fisher and Yates', with its inverse.
func shuffle(n int, key Key) (at, where []int32) {
	at, where = make([]int32, n), make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	w := newWords(key)
	for i := n - 1; i > 0; i-- {
		j := below(w.next, uint64(i)+1)
		at[i], at[j] = at[j], at[i]
	}
	for pos, index := range at {
		where[index] = int32(pos)
	}
	return at, where
}

// feistel is a keyed permutation of [0, n): the generalised Feistel cipher of
// Black and Rogaway (2002) on a grid of a·b cells, with cycle walking over the
// cells from n on. Since a·b - n < a, one more walk is needed for less than one
// cell in b.
type feistel struct {
	n, a, b uint64
	keys    [rounds]uint64
}

func newFeistel(n uint64, key Key) feistel {
	a := ceilSqrt(n)
	f := feistel{n: n, a: a, b: (n-1)/a + 1}
	w := newWords(key)
	for r := range f.keys {
		f.keys[r] = w.next()
	}
	return f
}

func (f *feistel) forward(x uint64) uint64 {
	for {
		x = f.encrypt(x)
		if x < f.n {
			return x
		}
	}
}

func (f *feistel) backward(x uint64) uint64 {
	for {
		x = f.decrypt(x)
		if x < f.n {
			return x
		}
	}
}

func (f *feistel) encrypt(x uint64) uint64 {
	l, r := x%f.a, x/f.a
	for i := 0; i < rounds; i += 2 {
		l += scale(r^f.keys[i], f.a)
		if l >= f.a {
			l -= f.a
		}
		r += scale(l^f.keys[i+1], f.b)
		if r >= f.b {
			r -= f.b
		}
	}
	return l + f.a*r
}

func (f *feistel) decrypt(x uint64) uint64 {
	l, r := x%f.a, x/f.a
	for i := rounds - 2; i >= 0; i -= 2 {
		d := scale(l^f.keys[i+1], f.b)
		if r < d {
			r += f.b
		}
		r -= d
		d = scale(r^f.keys[i], f.a)
		if l < d {
			l += f.a
		}
		l -= d
	}
	return l + f.a*r
}

// scale is the round function: a hash of x in [0, m).
func scale(x, m uint64) uint64 {
	hi, _ := bits.Mul64(mix(x), m)
	return hi
}

// ceilSqrt is the smallest r with r·r >= n, for 0 < n < 2^63.
func ceilSqrt(n uint64) uint64 {
	r := uint64(math.Sqrt(float64(n))) // off by one at most, in either direction
	for r*r >= n {
		r--
	}
	for r*r < n {
		r++
	}
	return r
}
