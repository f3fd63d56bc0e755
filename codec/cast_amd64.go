//go:build !purego

package codec

import "github.com/headrace/headrace/nd"

// A vectorLoop converts a plane of rows of n elements, at least a group of its
// kernel, and at least one row.
type vectorLoop = func(dst, src *byte, n, rows, dstStep, srcStep int)

type vectorAffineLoop = func(dst, src *byte, n, rows, dstStep, srcStep int, scale, offset float64)

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
func vectorConvert(from, to nd.DType, big bool, affine *Affine) ConvertPlane {
	if !hasAVX2 || !hasF16C && (from == nd.F16 || to == nd.F16) {
		return nil
	}
	twin := planeOf(plainConvert(from, to, big, affine), from, to)
	group, in, out := vectorGroup(to), from.Size(), to.Size()
	if affine != nil {
		loop, a := vectorAffines[from][to][byteOrderIndex(big)], *affine
		if loop == nil {
			return nil
		}
		return func(dst, src []byte, p Plane) {
			if p.N < group || p.Rows == 0 {
				twin(dst, src, p)
				return
			}
			d, s := p.starts(dst, src, out, in)
			loop(d, s, p.N, p.Rows, p.DstStep, p.SrcStep, a.Scale, a.Offset)
		}
	}
	loop := vectors[from][to][byteOrderIndex(big)]
	if loop == nil {
		return nil
	}
	return func(dst, src []byte, p Plane) {
		if p.N < group || p.Rows == 0 {
			twin(dst, src, p)
			return
		}
		d, s := p.starts(dst, src, out, in)
		loop(d, s, p.N, p.Rows, p.DstStep, p.SrcStep)
	}
}

// starts gives the first byte of each side after a check that the whole plane lies
// within them: the loops in assembly look at nothing.
func (p *Plane) starts(dst, src []byte, out, in int) (d, s *byte) {
	checkPlane(dst, p.Dst, p.DstStep, p.Rows, p.N*out)
	checkPlane(src, p.Src, p.SrcStep, p.Rows, p.N*in)
	return &dst[p.Dst], &src[p.Src]
}

func checkPlane(b []byte, at, step, rows, n int) {
	last := at + (rows-1)*step
	_, _ = b[at:at+n], b[last:last+n]
}
