package codec

import (
	"fmt"
	"testing"
)

// BenchmarkGather2 compares the tiled read of a transposed chunk with its plain
// twin and with a Gather a row.
func BenchmarkGather2(b *testing.B) {
	for _, size := range []int{1, 2, 4, 8} {
		for _, n := range []int{64, 512} {
			src, dst := make([]byte, n*n*size), make([]byte, n*n*size)
			f := func(name string, gather func()) {
				b.Run(fmt.Sprintf("%s/%d/%d", name, size, n), func(b *testing.B) {
					b.SetBytes(int64(len(dst)))
					for b.Loop() {
						gather()
					}
				})
			}
			f("vector", func() { Gather2(dst, n*size, src, 0, size, n*size, n, n, size) })
			f("plain", func() { gather2Plain(dst, n*size, src, 0, size, n*size, n, n, size) })
			f("rows", func() {
				for r := range n {
					Gather(dst[r*n*size:], src, r*size, n*size, n, size)
				}
			})
		}
	}
}

// BenchmarkFlip compares the flip of a row with its plain twin.
func BenchmarkFlip(b *testing.B) {
	for _, size := range []int{1, 2, 4, 8} {
		src, dst := make([]byte, 128*size), make([]byte, 128*size)
		f := func(name string, flip func(dst, src []byte, size int)) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(dst)))
				for b.Loop() {
					flip(dst, src, size)
				}
			})
		}
		f("vector", reverse)
		f("plain", reversePlain)
	}
}
