package page

import (
	"sort"
	"strings"
)

const (
	// cellCount is how many pieces the epoch is drawn in: what an eye tells apart on a
	// screen, and a kilobyte to send. They fill whole rows of 96 and of 48.
	cellCount = 1152
	// digits are how full a cell is, from nothing to all. Nothing and all are exact: a
	// cell that lacks one position is not the last digit.
	digits = "0123456789abcdefghijklmnopqrstuvwxyz"
)

// cells draws the positions that are done: [0, n) in pieces of one length, and of each how
// full it is. An epoch of fewer positions than cellCount has a piece for each.
func cells(done []Span, n int64) string {
	count := min(cellCount, n)
	full := make([]int64, count)
	for _, x := range done {
		fill(full, max(0, x[0]), min(n, x[1]), n)
	}
	var b strings.Builder
	for i, f := range full {
		b.WriteByte(digit(f, edge(i+1, count, n)-edge(i, count, n)))
	}
	return b.String()
}

// edge is where a cell begins.
func edge(cell int, count, n int64) int64 {
	c := int64(cell)
	return n/count*c + n%count*c/count // n*c may not fit
}

// fill adds a span to the cells that it meets.
func fill(full []int64, start, stop, n int64) {
	count := int64(len(full))
	if start >= stop {
		return
	}
	i := sort.Search(len(full), func(i int) bool { return edge(i+1, count, n) > start })
	for ; i < len(full) && edge(i, count, n) < stop; i++ {
		full[i] += min(stop, edge(i+1, count, n)) - max(start, edge(i, count, n))
	}
}

func digit(full, of int64) byte {
	last := int64(len(digits) - 1)
	switch {
	case full <= 0:
		return digits[0]
	case full >= of:
		return digits[last]
	}
	return digits[min(1+int64(float64(full)/float64(of)*float64(last-1)), last-1)]
}
