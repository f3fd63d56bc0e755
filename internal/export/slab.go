package export

import "github.com/headrace/headrace/nd"

// slabs is how a tensor is cut into pieces that follow each other in C order:
// extent 1 along the axes before axis, rows along it, everything behind it.
type slabs struct {
	shape []int64 // of the whole tensor
	axis  int
	rows  int64
}

// cut chooses the largest slabs of at most limit bytes, whole chunks of the
// extent grain[axis] along the axis that is cut where they fit. No extent of
// shape is 0.
func cut(shape, grain []int64, size, limit int64) slabs {
	behind := size // bytes behind one index of the axis
	axis := len(shape) - 1
	for ; axis > 0 && behind*shape[axis] <= limit; axis-- {
		behind *= shape[axis]
	}
	s := slabs{shape: shape, axis: axis}
	if axis < 0 {
		return slabs{shape: shape, axis: 0}
	}
	s.rows = min(max(limit/behind, 1), shape[axis])
	if s.rows > grain[axis] && s.rows < shape[axis] {
		s.rows -= s.rows % grain[axis]
	}
	return s
}

// extents is the shape of every slab.
func (s slabs) extents() []int64 {
	shape := append([]int64(nil), s.shape...)
	for i := range shape {
		if i < s.axis {
			shape[i] = 1
		}
		if i == s.axis {
			shape[i] = s.rows
		}
	}
	return shape
}

// slab is one piece: its box in the tensor, and how many of its first rows an
// earlier slab had already. All slabs have one shape, so the last along the axis
// reaches back instead of being shorter.
type slab struct {
	box  nd.Box
	skip int64
}

// all yields the slabs in C order.
func (s slabs) all(yield func(slab) bool) {
	at := make([]int64, len(s.shape))
	for {
		if !yield(s.at(at)) {
			return
		}
		axis := s.axis
		for ; axis >= 0 && len(at) > 0; axis-- {
			step := int64(1)
			if axis == s.axis {
				step = s.rows
			}
			if at[axis] += step; at[axis] < s.shape[axis] {
				break
			}
			at[axis] = 0
		}
		if axis < 0 || len(at) == 0 {
			return
		}
	}
}

func (s slabs) at(start []int64) slab {
	extents := s.extents()
	box := make(nd.Box, len(extents))
	for i, n := range extents {
		box[i] = nd.Span{Start: start[i], Stop: start[i] + n}
	}
	p := slab{box: box}
	if len(box) > 0 {
		over := max(0, box[s.axis].Stop-s.shape[s.axis])
		box[s.axis].Start -= over
		box[s.axis].Stop -= over
		p.skip = over
	}
	return p
}
