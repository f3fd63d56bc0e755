//go:build !purego

package codec

import "github.com/headrace/headrace/nd"

// A vectorLoop converts n elements, at least a group of its kernel.
type vectorLoop = func(dst, src *byte, n int)

type vectorAffineLoop = func(dst, src *byte, n int, scale, offset float64)

// vectorGroup is the most elements that a kernel converts at once, and so the
// length of the shortest row that it takes.
func vectorGroup(to nd.DType) int {
	if to.Size() < 4 && !to.Float() {
		return 16
	}
	return 8
}

// vectorConvert is the loop in assembly, nil where there is none for the pair or
// the processor lacks the instructions.
func vectorConvert(from, to nd.DType, big bool, affine *Affine) Convert {
	if !hasAVX2 || !hasF16C && (from == nd.F16 || to == nd.F16) {
		return nil
	}
	twin := plainConvert(from, to, big, affine)
	group, in, out := vectorGroup(to), from.Size(), to.Size()
	if affine != nil {
		loop, a := vectorAffines[from][to][byteOrderIndex(big)], *affine
		if loop == nil {
			return nil
		}
		return func(dst, src []byte, n int) {
			if n < group {
				twin(dst, src, n)
				return
			}
			loop(&dst[:n*out][0], &src[:n*in][0], n, a.Scale, a.Offset)
		}
	}
	loop := vectors[from][to][byteOrderIndex(big)]
	if loop == nil {
		return nil
	}
	return func(dst, src []byte, n int) {
		if n < group {
			twin(dst, src, n)
			return
		}
		loop(&dst[:n*out][0], &src[:n*in][0], n)
	}
}
