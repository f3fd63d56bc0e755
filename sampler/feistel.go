package sampler

import (
	"math"
	"math/bits"
)

const rounds = 12

// feistel is a keyed permutation of [0, n): the generalised Feistel cipher of
// Black and Rogaway (2002) on a grid of a·b cells, with cycle walking over the
// cells from n on. Since a·b - n < a, one more walk is needed for less than one
// cell in b.
//
// A look-up is a chain of operations of which each waits for the one before, about
// twenty a round: what counts is the length of that chain.
type feistel struct {
	n, b uint64
	a    divisor
	keys [rounds]uint64 // folded
	wide bool           // L and R may have more than foldShift bits: n is above 2^60
}

func newFeistel(n uint64, key Key) feistel {
	a := ceilSqrt(n)
	f := feistel{n: n, a: newDivisor(a), b: (n-1)/a + 1}
	w := newWords(key)
	for r := range f.keys {
		f.keys[r] = fold(w.next())
	}
	f.wide = a > 1<<foldShift
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
	if f.wide {
		return f.encryptWide(x)
	}
	a, b := f.a.d, f.b
	r, l := f.a.divide(x)
	for i := 0; i < rounds; i += 2 {
		l = add(l, scale(r^f.keys[i], a), a)
		r = add(r, scale(l^f.keys[i+1], b), b)
	}
	return l + a*r
}

func (f *feistel) decrypt(x uint64) uint64 {
	if f.wide {
		return f.decryptWide(x)
	}
	a, b := f.a.d, f.b
	r, l := f.a.divide(x)
	for i := rounds - 2; i >= 0; i -= 2 {
		r = subtract(r, scale(l^f.keys[i+1], b), b)
		l = subtract(l, scale(r^f.keys[i], a), a)
	}
	return l + a*r
}

func (f *feistel) encryptWide(x uint64) uint64 {
	a, b := f.a.d, f.b
	r, l := f.a.divide(x)
	for i := 0; i < rounds; i += 2 {
		l = add(l, scale(fold(r)^f.keys[i], a), a)
		r = add(r, scale(fold(l)^f.keys[i+1], b), b)
	}
	return l + a*r
}

func (f *feistel) decryptWide(x uint64) uint64 {
	a, b := f.a.d, f.b
	r, l := f.a.divide(x)
	for i := rounds - 2; i >= 0; i -= 2 {
		r = subtract(r, scale(fold(l)^f.keys[i+1], b), b)
		l = subtract(l, scale(fold(r)^f.keys[i], a), a)
	}
	return l + a*r
}

// row is forward for positions in a row, the first of them given.
func (f *feistel) row(first uint64, list []int64) {
	for len(list) >= 4 && !f.wide {
		four := (*[4]int64)(list)
		f.encrypt4(first, four)
		for i, x := range four {
			if uint64(x) >= f.n {
				four[i] = int64(f.forward(uint64(x)))
			}
		}
		first, list = first+4, list[4:]
	}
	for i := range list {
		list[i] = int64(f.forward(first + uint64(i)))
	}
}

// encrypt4 is encrypt for four cells in a row, not wide. The processor works on all
// of them at once.
func (f *feistel) encrypt4(first uint64, to *[4]int64) {
	a, b := f.a.d, f.b
	r0, l0 := f.a.divide(first)
	r1, l1 := f.a.divide(first + 1)
	r2, l2 := f.a.divide(first + 2)
	r3, l3 := f.a.divide(first + 3)
	for i := 0; i < rounds; i += 2 {
		k := f.keys[i]
		l0 = add(l0, scale(r0^k, a), a)
		l1 = add(l1, scale(r1^k, a), a)
		l2 = add(l2, scale(r2^k, a), a)
		l3 = add(l3, scale(r3^k, a), a)
		k = f.keys[i+1]
		r0 = add(r0, scale(l0^k, b), b)
		r1 = add(r1, scale(l1^k, b), b)
		r2 = add(r2, scale(l2^k, b), b)
		r3 = add(r3, scale(l3^k, b), b)
	}
	to[0], to[1], to[2], to[3] = int64(l0+a*r0), int64(l1+a*r1), int64(l2+a*r2), int64(l3+a*r3)
}

// The round function f(x xor key, m) is scale(fold(x) xor fold(key), m): fold, the
// first step of mix, is linear. The keys are folded beforehand, and halves of up to
// foldShift bits are what they were.

const foldShift = 30

func fold(x uint64) uint64 { return x ^ x>>foldShift }

// scale is the rest of mix, and a multiplication that brings it below m.
func scale(x, m uint64) uint64 {
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	hi, _ := bits.Mul64(x^x>>31, m)
	return hi
}

// add is x+y mod m of numbers below m.
func add(x, y, m uint64) uint64 {
	x += y
	d := x - m
	if x < m {
		d = x
	}
	return d
}

// subtract is x-y mod m of numbers below m.
func subtract(x, y, m uint64) uint64 {
	d := x - y
	if x < y {
		d += m
	}
	return d
}

// divisor divides by a number that is given once: by multiplication, in a quarter
// of the time.
type divisor struct{ d, inverse uint64 }

func newDivisor(d uint64) divisor { return divisor{d, math.MaxUint64 / d} }

func (v divisor) divide(x uint64) (quotient, rest uint64) {
	// With inverse at least 2^64/d - 1 this is too low by less than 2.
	quotient, _ = bits.Mul64(x, v.inverse)
	rest = x - quotient*v.d
	if rest >= v.d {
		quotient++
		rest -= v.d
	}
	return quotient, rest
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
