//go:build !purego

package codec

// hasAVX2 and hasF16C say what the processor and the operating system offer.
var hasAVX2, hasF16C = vectorFeatures()

func vectorFeatures() (avx2, f16c bool) {
	const osxsave, avx, f16 = 1 << 27, 1 << 28, 1 << 29 // leaf 1, ECX
	most, _, _, _ := cpuid(0, 0)
	_, _, c, _ := cpuid(1, 0)
	if most < 7 || c&osxsave == 0 || c&avx == 0 {
		return false, false
	}
	const xmm, ymm = 1 << 1, 1 << 2 // state that the system saves, XCR0
	if saved := xgetbv(); saved&xmm == 0 || saved&ymm == 0 {
		return false, false
	}
	_, b, _, _ := cpuid(7, 0)
	avx2 = b&(1<<5) != 0
	return avx2, avx2 && c&f16 != 0
}

//go:noescape
func cpuid(leaf, subleaf uint32) (a, b, c, d uint32)

//go:noescape
func xgetbv() (low uint32)
