//go:build !purego

package codec

// transposeTile is the number of rows and columns of a tile of the loops in
// assembly.
const transposeTile = 8

// transposeVector is Gather2 in assembly for a source whose outer axis is the
// contiguous one, in either direction. It reports false, having done nothing,
// where there is no loop for the case.
func transposeVector(dst []byte, dstStride int, src []byte, base, strideOuter, strideInner, nOuter, nInner, size int) bool {
	const tile = transposeTile
	switch {
	case !hasAVX2 || size > 8 || size&(size-1) != 0 || strideOuter != size && strideOuter != -size:
		return false
	case nOuter < tile || nInner < tile || dstStride < nInner*size:
		return false
	}
	if strideOuter < 0 { // the same columns from their other end
		base += (nOuter - 1) * strideOuter
	}
	// The loops check no bounds: the corners of both matrices must lie inside.
	last := base + (nInner-1)*strideInner
	src = src[:max(base, last)+nOuter*size]
	_ = src[min(base, last)]
	dst = dst[:(nOuter-1)*dstStride+nInner*size]

	const line = 64 // bytes of a cache line: what is fetched of a column is used up
	for r := 0; r < nOuter; r += line / size {
		rows := min(line/size, nOuter-r)
		for i := 0; i < nInner; i += tile {
			i = min(i, nInner-tile)
			column := base + i*strideInner
			for q := 0; q < rows; {
				tiles := (rows - q) / tile
				at := r + q
				if tiles == 0 { // the last tile overlaps the one before
					tiles, at = 1, nOuter-tile
				}
				q += tiles * tile
				to, stride := at*dstStride, dstStride
				if strideOuter < 0 {
					to, stride = (nOuter-1-at)*dstStride, -dstStride
				}
				transposeTiles(&dst[to+i*size], stride, &src[column+at*size], strideInner, tiles, size)
			}
		}
	}
	return true
}

func transposeTiles(dst *byte, dstStride int, src *byte, srcStride, tiles, size int) {
	switch size {
	case 1:
		transpose1AVX2(dst, dstStride, src, srcStride, tiles)
	case 2:
		transpose2AVX2(dst, dstStride, src, srcStride, tiles)
	case 4:
		transpose4AVX2(dst, dstStride, src, srcStride, tiles)
	case 8:
		transpose8AVX2(dst, dstStride, src, srcStride, tiles)
	}
}

// reverseOrders turn the elements of 16 bytes, by the size of an element.
var reverseOrders = [17]*[16]byte{
	1:  {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
	2:  {14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
	4:  {12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3},
	8:  {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
	16: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
}

// reverseVector turns as many elements from the end of src as fill vectors and
// returns their bytes.
func reverseVector(dst, src []byte, size int) int {
	const vector = 32
	whole := len(src) &^ (vector - 1)
	if !hasAVX2 || whole == 0 || size >= len(reverseOrders) || reverseOrders[size] == nil {
		return 0
	}
	reverseAVX2(&dst[:whole][0], &src[len(src)-whole], whole, reverseOrders[size])
	return whole
}

//go:noescape
func reverseAVX2(dst, src *byte, n int, order *[16]byte)

//go:noescape
func transpose1AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)

//go:noescape
func transpose2AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)

//go:noescape
func transpose4AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)

//go:noescape
func transpose8AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)
