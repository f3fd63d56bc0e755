package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The twins below follow the layouts of the formats one byte or one bit at a
// time.

func shuffleRef(dst, src []byte, typesize int) {
	copy(dst, src)
	n := len(src) / max(typesize, 1)
	for i := range n {
		for k := range typesize {
			dst[k*n+i] = src[i*typesize+k]
		}
	}
}

func unshuffleRef(dst, src []byte, typesize int) {
	copy(dst, src)
	n := len(src) / max(typesize, 1)
	for i := range n {
		for k := range typesize {
			dst[i*typesize+k] = src[k*n+i]
		}
	}
}

func bitShuffleRef(dst, src []byte, typesize int) {
	copy(dst, src)
	n := len(src) / max(typesize, 1)
	if typesize < 1 || len(src) < typesize || n%8 != 0 {
		return
	}
	clear(dst[:n*typesize])
	for i := range n {
		for bit := range 8 * typesize {
			b := src[i*typesize+bit/8] >> (bit % 8) & 1
			dst[bit*n/8+i/8] |= b << (i % 8)
		}
	}
}

func bitUnshuffleRef(dst, src []byte, typesize int) {
	copy(dst, src)
	n := len(src) / max(typesize, 1)
	if typesize < 1 || len(src) < typesize || n%8 != 0 {
		return
	}
	clear(dst[:n*typesize])
	for i := range n {
		for bit := range 8 * typesize {
			b := src[bit*n/8+i/8] >> (i % 8) & 1
			dst[i*typesize+bit/8] |= b << (bit % 8)
		}
	}
}

type shuffleFunc func(dst, src []byte, typesize int)

var shuffles = []struct {
	name      string
	fast, ref shuffleFunc
	inverse   shuffleFunc
}{
	{"Shuffle", Shuffle, shuffleRef, Unshuffle},
	{"Unshuffle", Unshuffle, unshuffleRef, Shuffle},
	{"BitShuffle", BitShuffle, bitShuffleRef, BitUnshuffle},
	{"BitUnshuffle", BitUnshuffle, bitUnshuffleRef, BitShuffle},
	{"plain Unshuffle", plainUnshuffle, unshuffleRef, Shuffle},
	{"plain BitUnshuffle", plainBitUnshuffle, bitUnshuffleRef, BitShuffle},
}

// plainUnshuffle and plainBitUnshuffle are what a processor without vectors runs.

func plainUnshuffle(dst, src []byte, typesize int) {
	unshufflePlain(dst[:len(src)], src, typesize)
}

func plainBitUnshuffle(dst, src []byte, typesize int) {
	copy(dst, src)
	if n, ok := bitShuffled(len(src), typesize); ok {
		bitUnshuffleGeneric(dst, src, n, typesize)
	}
}

// TestShuffles compares each transform with its slow twin at all short lengths,
// which have every kind of leftover, and at lengths around the blocks of vector
// loops; and undoes it.
func TestShuffles(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, typesize := range []int{-1, 0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 255} {
		size := max(typesize, 1)
		for n := range 201 {
			checkShuffles(t, rng, n, typesize)
			checkShuffles(t, rng, n*size+rng.IntN(size), typesize)
		}
		for _, n := range []int{248, 256, 264, 500, 504, 512, 520, 1000, 1024, 4104} {
			checkShuffles(t, rng, n*size, typesize)
			checkShuffles(t, rng, n*size+size-1, typesize)
		}
	}
}

func checkShuffles(t *testing.T, rng *rand.Rand, length, typesize int) {
	t.Helper()
	src := offset(randomBytes(rng, length), rng.IntN(32))
	for _, s := range shuffles {
		want := make([]byte, length)
		s.ref(want, src, typesize)
		dst := make([]byte, length+96)
		for i := range dst {
			dst[i] = 0xa5
		}
		at := rng.IntN(64)
		got := dst[at : at+length]
		s.fast(got, src, typesize)
		if string(got) != string(want) {
			t.Fatalf("%s of %d bytes, typesize %d: differs from its slow twin", s.name, length, typesize)
		}
		for i, b := range dst {
			if (i < at || i >= at+length) && b != 0xa5 {
				t.Fatalf("%s of %d bytes, typesize %d: touched byte %d beside the result", s.name, length, typesize, i-at)
			}
		}
		back := make([]byte, length)
		s.inverse(back, got, typesize)
		if string(back) != string(src) {
			t.Fatalf("%s of %d bytes, typesize %d: the inverse does not undo it", s.name, length, typesize)
		}
	}
}

// TestShuffleLayout has results worked out by hand from the formats' texts.
func TestShuffleLayout(t *testing.T) {
	f := func(transform shuffleFunc, typesize int, src, want string) {
		t.Helper()
		got := make([]byte, len(src))
		transform(got, []byte(src), typesize)
		if string(got) != want {
			t.Errorf("%q with typesize %d gives %q, want %q", src, typesize, got, want)
		}
	}
	f(Shuffle, 2, "aAbBcCx", "abcABCx")
	f(Unshuffle, 2, "abcABCx", "aAbBcCx")
	f(Unshuffle, 4, "abABxyXYr", "aAxXbByYr")
	f(Unshuffle, 1, "abc", "abc")
	// Element 0 has bit 0 of its first byte, element 9 has bit 7 of its second.
	f(BitShuffle, 2, "\x01"+zeros(18)+"\x80"+zeros(12), "\x01"+zeros(30)+"\x02")
	f(BitUnshuffle, 2, "\x01"+zeros(30)+"\x02", "\x01"+zeros(18)+"\x80"+zeros(12))
	// Nine elements are no multiple of eight: plain. Eight and a rest: the rest is.
	f(BitUnshuffle, 1, "123456789", "123456789")
	f(BitShuffle, 2, "\xff\xff"+zeros(14)+"r", zeros(0)+"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01r")
	f(BitShuffle, 4, "abc", "abc")
}

func zeros(n int) string { return string(make([]byte, n)) }

// FuzzShuffles looks for a length or a typesize where a transform and its slow
// twin part.
func FuzzShuffles(f *testing.F) {
	for _, typesize := range []int{1, 2, 4, 8, 9} {
		f.Add([]byte(fmt.Sprintf("%0*d", 64*typesize+3, typesize)), typesize)
	}
	f.Fuzz(func(t *testing.T, src []byte, typesize int) {
		if typesize > 1<<10 {
			typesize %= 1 << 10
		}
		for _, s := range shuffles {
			got, want := make([]byte, len(src)), make([]byte, len(src))
			s.fast(got, src, typesize)
			s.ref(want, src, typesize)
			if string(got) != string(want) {
				t.Fatalf("%s, typesize %d: got %x, want %x", s.name, typesize, got, want)
			}
		}
	})
}

func TestShufflesDoNotAllocate(t *testing.T) {
	src, dst := make([]byte, 8<<10), make([]byte, 8<<10)
	for _, s := range shuffles {
		for _, typesize := range []int{1, 2, 3, 4, 8, 16} {
			if n := testing.AllocsPerRun(3, func() { s.fast(dst, src, typesize) }); n != 0 {
				t.Errorf("%s, typesize %d: %v allocations", s.name, typesize, n)
			}
		}
	}
}

var plainSwaps = map[int]func(dst, src []byte){2: swap2Generic, 4: swap4Generic, 8: swap8Generic}

// TestSwapBytes covers leftovers and swapping in place, which the codec "bytes"
// may do.
func TestSwapBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, word := range []int{0, 1, 2, 3, 4, 8, 16} {
		for length := range 300 {
			src := offset(randomBytes(rng, length), rng.IntN(32))
			want := append([]byte(nil), src...)
			for at := 0; word > 0 && at+word <= length; at += word {
				for k := range word {
					want[at+k] = src[at+word-1-k]
				}
			}
			got := make([]byte, length)
			if plain := plainSwaps[word]; plain != nil {
				plain(got, src)
				if string(got) != string(want) {
					t.Fatalf("words of %d in %d bytes: wrong bytes from the plain loop", word, length)
				}
			}
			swapBytes(got, src, word)
			inPlace := offset(src, rng.IntN(32))
			swapBytes(inPlace, inPlace, word)
			if string(got) != string(want) || string(inPlace) != string(want) {
				t.Fatalf("words of %d in %d bytes: wrong bytes", word, length)
			}
		}
	}
}
