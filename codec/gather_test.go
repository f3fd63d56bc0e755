package codec

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGather compares with one copy an element, for every way in which a row can
// lie in a chunk: packed, repeated, flipped, strided either way.
func TestGather(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, size := range []int{1, 2, 3, 4, 8, 12, 16, 32} {
		for _, stride := range []int{size, 0, -size, 2 * size, 3*size + 1, 1, -1, -5 * size} {
			for n := range 70 {
				checkGather(t, rng, stride, n, size)
			}
		}
	}
}

func checkGather(t *testing.T, rng *rand.Rand, stride, n, size int) {
	t.Helper()
	// The source ends right behind its last element, so that a read beyond panics.
	span := max(n-1, 0)*max(stride, -stride) + size
	before := rng.IntN(9)
	src := randomBytes(rng, before+span)
	base := before
	if stride < 0 {
		base = len(src) - size
	}
	want := make([]byte, 0, n*size)
	for i := range n {
		want = append(want, src[base+i*stride:base+i*stride+size]...)
	}
	dst := append(make([]byte, n*size), 0xa5)
	Gather(dst, src, base, stride, n, size)
	if string(dst[:n*size]) != string(want) || dst[n*size] != 0xa5 {
		t.Fatalf("Gather of %d elements of %d bytes, stride %d: wrong bytes", n, size, stride)
	}
}

// TestReverse compares the plain loop, which a processor with vectors only uses
// for what they leave.
func TestReverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, size := range []int{1, 2, 4, 8, 16, 3} {
		for n := range 100 {
			src, got, want := randomBytes(rng, n*size), make([]byte, n*size), make([]byte, n*size)
			for i := range n {
				copy(want[i*size:(i+1)*size], src[(n-1-i)*size:])
			}
			reversePlain(got, src, size)
			if string(got) != string(want) {
				t.Fatalf("%d elements of %d bytes: wrong bytes", n, size)
			}
		}
	}
}

// TestGather2 compares with a Gather a row, for all orders of the axes and both
// directions along each.
func TestGather2(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, size := range []int{1, 2, 4, 8, 3, 16} {
		for range 150 {
			outer, inner := rng.IntN(90), rng.IntN(90)
			strideOuter, strideInner := size, size*max(outer, 1)+rng.IntN(2)*size
			if rng.IntN(2) == 0 {
				strideOuter, strideInner = size*max(inner, 1), size
			}
			base := 0
			if rng.IntN(2) == 0 {
				base += max(outer-1, 0) * strideOuter
				strideOuter = -strideOuter
			}
			if rng.IntN(2) == 0 {
				base += max(inner-1, 0) * strideInner
				strideInner = -strideInner
			}
			src := randomBytes(rng, (max(outer-1, 0)*abs(strideOuter) + max(inner-1, 0)*abs(strideInner) + size))
			dstStride := inner*size + rng.IntN(3)*size
			got, want := make([]byte, outer*dstStride+1), make([]byte, outer*dstStride+1)
			plain := make([]byte, len(got))
			gather2Plain(plain, dstStride, src, base, strideOuter, strideInner, outer, inner, size)
			Gather2(got, dstStride, src, base, strideOuter, strideInner, outer, inner, size)
			for r := range outer {
				Gather(want[r*dstStride:], src, base+r*strideOuter, strideInner, inner, size)
			}
			if string(got) != string(want) || string(plain) != string(want) {
				t.Fatalf("Gather2 of %d by %d elements of %d bytes, strides %d %d: wrong bytes",
					outer, inner, size, strideOuter, strideInner)
			}
		}
	}
}

// TestGather2Bounds: a matrix that does not fit panics before the loops in
// assembly, which check nothing, touch memory.
func TestGather2Bounds(t *testing.T) {
	const n, size = 16, 4
	f := func(dst, src []byte, base, strideOuter, strideInner int) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("base %d, strides %d %d: no panic", base, strideOuter, strideInner)
			}
		}()
		Gather2(slices.Clip(dst), n*size, slices.Clip(src), base, strideOuter, strideInner, n, n, size)
	}
	whole := make([]byte, n*n*size)
	short := whole[1:]
	f(whole, short, 0, size, n*size)
	f(short, whole, 0, size, n*size)
	f(whole, whole, 1, size, n*size)
	f(whole, whole, -1, size, n*size)
	f(whole, whole, 0, -size, n*size)
	f(whole, whole, n*size, size, -n*size)
	f(whole, whole, (n*n-n)*size-1, size, -n*size)
}

func abs(v int) int { return max(v, -v) }

func TestFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, size := range []int{0, 1, 2, 3, 8, 16, 9000} {
		elem := randomBytes(rng, size)
		for _, length := range []int{0, 1, 2, 15, 16, 17, 100, 8192, 9001, 50000} {
			dst := make([]byte, length)
			Fill(dst, elem)
			for i, b := range dst {
				if size > 0 && b != elem[i%size] || size == 0 && b != 0 {
					t.Fatalf("Fill of %d bytes with %d: byte %d is wrong", length, size, i)
				}
			}
		}
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	src, dst := make([]byte, 64*64*16), make([]byte, 64*64*16)
	for _, size := range []int{1, 2, 4, 8, 16} {
		n := testing.AllocsPerRun(3, func() {
			Gather(dst, src, 63*size, -size, 64, size)
			Gather2(dst, 64*size, src, 0, size, 64*size, 64, 64, size)
			Fill(dst, src[:size])
		})
		if n != 0 {
			t.Errorf("elements of %d bytes: %v allocations", size, n)
		}
	}
}
