package nd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Span is the half-open range [Start, Stop) of one axis.
type Span struct{ Start, Stop int64 }

// Len is the number of indices in the span, 0 if it is empty or reversed, MaxInt64
// if there are more.
func (s Span) Len() int64 {
	switch n := s.Stop - s.Start; {
	case s.Stop <= s.Start:
		return 0
	case n < 0: // it does not fit
		return math.MaxInt64
	default:
		return n
	}
}

// Intersect is the part that both spans cover; it is empty if there is none.
func (s Span) Intersect(t Span) Span {
	return Span{max(s.Start, t.Start), min(s.Stop, t.Stop)}
}

// Box is a span per axis. A box of no axes holds exactly one element: the one
// of a 0-d array.
type Box []Span

// Whole is the box that covers an array of the given shape.
func Whole(shape []int64) Box {
	b := make(Box, len(shape))
	for i, n := range shape {
		b[i] = Span{0, n}
	}
	return b
}

// Shape is the extent of each axis.
func (b Box) Shape() []int64 {
	shape := make([]int64, len(b))
	for i, s := range b {
		shape[i] = s.Len()
	}
	return shape
}

// Elements is the number of elements in the box; ok is false when it does not
// fit an int64.
func (b Box) Elements() (n int64, ok bool) { return Product(b.Shape()) }

// Within reports whether the box lies inside an array of the given shape.
func (b Box) Within(shape []int64) bool {
	if len(b) != len(shape) {
		return false
	}
	for i, s := range b {
		if s.Start < 0 || s.Stop > shape[i] {
			return false
		}
	}
	return true
}

// String is the form that ParseBox reads: "0:4,10:20".
func (b Box) String() string {
	parts := make([]string, len(b))
	for i, s := range b {
		parts[i] = fmt.Sprintf("%d:%d", s.Start, s.Stop)
	}
	return strings.Join(parts, ",")
}

// ParseBox reads "start:stop" per axis, separated by commas. Bounds may be
// negative: they are plain coordinates, never counted from the end, since boxes
// outside the array are legal where padding is asked for.
func ParseBox(text string) (Box, error) {
	if strings.TrimSpace(text) == "" {
		return Box{}, nil
	}
	parts := strings.Split(text, ",")
	box := make(Box, len(parts))
	for i, part := range parts {
		lo, hi, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, fmt.Errorf("box axis %d: %q is not start:stop", i, part)
		}
		start, err := strconv.ParseInt(strings.TrimSpace(lo), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("box axis %d: start %q is not an integer", i, lo)
		}
		stop, err := strconv.ParseInt(strings.TrimSpace(hi), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("box axis %d: stop %q is not an integer", i, hi)
		}
		if stop < start {
			return nil, fmt.Errorf("box axis %d: stop %d lies before start %d", i, stop, start)
		}
		box[i] = Span{start, stop}
	}
	return box, nil
}

// Product multiplies extents; ok is false when one is negative or the product
// does not fit an int64. An extent of 0 makes the product 0 whatever the others.
func Product(extents []int64) (n int64, ok bool) {
	n, ok = 1, true
	for _, e := range extents {
		switch {
		case e < 0:
			return 0, false
		case e == 0:
			n = 0
		case n > math.MaxInt64/e:
			ok = false
		case ok:
			n *= e
		}
	}
	if n == 0 {
		return 0, true
	}
	return n, ok
}
