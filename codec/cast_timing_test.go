package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
)

// timedCasts are the pairs that have a vector loop, with and without affine.
func timedCasts(f func(name string, from, to nd.DType, big bool, affine *Affine)) {
	for _, affine := range []*Affine{nil, {0.5, 3}} {
		for _, from := range nd.DTypes() {
			for _, to := range nd.DTypes() {
				for _, big := range []bool{false, true} {
					if checkPair(from, to, affine) != nil || big && from.Word() == 1 {
						continue
					}
					if vectorConvert(from, to, big, affine) == nil {
						continue
					}
					name := fmt.Sprintf("%v-%v", from, to)
					if big {
						name += "-big"
					}
					if affine != nil {
						name += "-affine"
					}
					f(name, from, to, big, affine)
				}
			}
		}
	}
}

// BenchmarkConvert compares each vector loop with its plain twin on a short row
// and on a long one; bytes are those of the result.
func BenchmarkConvert(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	timedCasts(func(name string, from, to nd.DType, big bool, affine *Affine) {
		for _, n := range []int{32, 128, 4096} {
			src, dst := make([]byte, n*from.Size()), make([]byte, n*to.Size())
			for i := range n { // small numbers of the type, no NaN, no overflow
				ConvertRef(src[i*from.Size():], from, []byte{byte(rng.Uint32() & 0x7f)}, nd.U8, false, nil)
			}
			if big {
				src = bigEndian(src, from.Word())
			}
			timeConvert(b, fmt.Sprintf("%s/vector/%d", name, n), vectorConvert(from, to, big, affine), dst, src, n)
			timeConvert(b, fmt.Sprintf("%s/plain/%d", name, n), planeOf(plainConvert(from, to, big, affine), from, to), dst, src, n)
		}
	})
}

func timeConvert(b *testing.B, name string, convert ConvertPlane, dst, src []byte, n int) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(dst)))
		for b.Loop() {
			convert(dst, src, Plane{N: n, Rows: 1})
		}
	})
}
