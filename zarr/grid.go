package zarr

import (
	"iter"
	"slices"

	"github.com/headrace/headrace/nd"
)

// GridShape is the number of chunks of a level along each axis of the array. An
// axis of extent 0 has none.
func (a *Array) GridShape(level int) []int64 {
	grid := make([]int64, len(a.Shape))
	for i, n := range a.Shape {
		grid[i] = ceilDiv(n, a.Levels[level].Chunk[i])
	}
	return grid
}

// ceilDiv is n/d rounded up, without the overflow of (n+d-1)/d.
func ceilDiv(n, d int64) int64 {
	q := n / d
	if n%d != 0 {
		q++
	}
	return q
}

// ChunkBox is the part of index space that a chunk of a level covers; at the
// edge it reaches beyond the array.
func (a *Array) ChunkBox(level int, coord []int64) nd.Box {
	box := make(nd.Box, len(coord))
	for i, c := range coord {
		n := a.Levels[level].Chunk[i]
		box[i] = nd.Span{Start: c * n, Stop: (c + 1) * n}
	}
	return box
}

// Chunks yields the grid coordinates of the leaf chunks that the box, clipped to
// the array, touches, in C order. The yielded slice is valid until the next one.
// A box of another rank than the array's touches none.
func (a *Array) Chunks(box nd.Box) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		first, last, ok := a.chunkRange(box)
		if !ok {
			return
		}
		coord := slices.Clone(first)
		for yield(coord) {
			axis := len(coord) - 1
			for ; axis >= 0 && coord[axis] == last[axis]; axis-- {
				coord[axis] = first[axis]
			}
			if axis < 0 {
				return
			}
			coord[axis]++
		}
	}
}

// chunkRange is the first and the last leaf coordinate that the box touches; ok
// is false if it touches none.
func (a *Array) chunkRange(box nd.Box) (first, last []int64, ok bool) {
	if len(box) != len(a.Shape) {
		return nil, nil, false
	}
	first, last = make([]int64, len(box)), make([]int64, len(box))
	for i, s := range box {
		s = s.Intersect(nd.Span{Start: 0, Stop: a.Shape[i]})
		if s.Len() == 0 {
			return nil, nil, false
		}
		n := a.Leaf().Chunk[i]
		first[i], last[i] = s.Start/n, (s.Stop-1)/n
	}
	return first, last, true
}

// Parent appends to dst the grid coordinate, at the given level, of the chunk
// that holds the leaf chunk at coord. Level 0 is the stored object.
func (a *Array) Parent(dst []int64, level int, coord []int64) []int64 {
	outer, leaf := a.Levels[level].Chunk, a.Leaf().Chunk
	for i, c := range coord {
		dst = append(dst, c/(outer[i]/leaf[i]))
	}
	return dst
}

// IndexOf is the entry, in the index of its parent at the given level, of the
// chunk of the next level at grid coordinate coord. Coordinates count from the
// origin of the array, not of the parent. The index is in C order of the stored
// axes: with counts [3,1,2], chunk (2,0,1) of a shard is entry 5.
func (a *Array) IndexOf(level int, coord []int64) int64 {
	l := &a.Levels[level]
	linear := int64(0)
	for i, axis := range l.Order {
		n := l.Index.Counts[i]
		linear = linear*n + coord[axis]%n
	}
	return linear
}
