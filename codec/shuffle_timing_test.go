package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkShuffle compares the transforms with their plain twins on a block
// that stays in the second-level cache and on one that does not.
func BenchmarkShuffle(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, typesize := range []int{1, 2, 4, 8} {
		for _, length := range []int{64 << 10, 4 << 20} {
			src, dst := randomBytes(rng, length), make([]byte, length)
			f := func(name string, transform func(dst, src []byte, typesize int)) {
				b.Run(fmt.Sprintf("%s/%d/%dKiB", name, typesize, length>>10), func(b *testing.B) {
					b.SetBytes(int64(length))
					for b.Loop() {
						transform(dst, src, typesize)
					}
				})
			}
			if typesize > 1 {
				f("unshuffle/vector", Unshuffle)
				f("unshuffle/plain", unshufflePlain)
				f("shuffle/plain", Shuffle)
			}
			f("bitunshuffle/vector", BitUnshuffle)
			f("bitunshuffle/plain", plainBitUnshuffle)
			f("bitshuffle/plain", BitShuffle)
		}
	}
}

// BenchmarkSwap compares the byte swaps with their plain twins.
func BenchmarkSwap(b *testing.B) {
	for word, plain := range plainSwaps {
		for _, length := range []int{256, 64 << 10} {
			src, dst := make([]byte, length), make([]byte, length)
			f := func(name string, swap func(dst, src []byte)) {
				b.Run(fmt.Sprintf("%s/%d/%dB", name, word, length), func(b *testing.B) {
					b.SetBytes(int64(length))
					for b.Loop() {
						swap(dst, src)
					}
				})
			}
			f("vector", func(dst, src []byte) { swapBytes(dst, src, word) })
			f("plain", plain)
		}
	}
}
