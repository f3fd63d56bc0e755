//go:build !purego

package codec

func swap2(dst, src []byte) {
	whole := swapVector(dst, src, swap2AVX2)
	swap2Generic(dst[whole:], src[whole:])
}

func swap4(dst, src []byte) {
	whole := swapVector(dst, src, swap4AVX2)
	swap4Generic(dst[whole:], src[whole:])
}

func swap8(dst, src []byte) {
	whole := swapVector(dst, src, swap8AVX2)
	swap8Generic(dst[whole:], src[whole:])
}

// swapVector swaps as many bytes as fill vectors and returns their number.
func swapVector(dst, src []byte, loop func(dst, src *byte, n int)) int {
	const vector = 32
	whole := len(src) &^ (vector - 1)
	if !hasAVX2 || whole == 0 {
		return 0
	}
	loop(&dst[:whole][0], &src[:whole][0], whole)
	return whole
}

//go:noescape
func swap2AVX2(dst, src *byte, n int)

//go:noescape
func swap4AVX2(dst, src *byte, n int)

//go:noescape
func swap8AVX2(dst, src *byte, n int)
