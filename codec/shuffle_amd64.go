//go:build !purego

package codec

// unshuffleGroup is the number of elements that the loops in assembly take at
// once: fewer go through plain Go.
const unshuffleGroup = 32

// unshuffleVector is Unshuffle in assembly. It reports false, having done
// nothing, where there is no loop for the size.
func unshuffleVector(dst, src []byte, typesize int) bool {
	if !hasAVX2 || typesize < 2 || len(src) < unshuffleGroup*typesize {
		return false
	}
	n := len(src) / typesize
	whole := n * typesize
	to, from := &dst[:whole][0], &src[0]
	switch typesize { // direct calls, so that no argument escapes
	case 2:
		unshuffle2AVX2(to, from, n)
	case 4:
		unshuffle4AVX2(to, from, n)
	case 8:
		unshuffle8AVX2(to, from, n)
	default:
		return false
	}
	copy(dst[whole:], src[whole:])
	return true
}

// bitUnshuffleVector is bitUnshuffleGeneric in assembly: a block of bit planes
// becomes byte planes, which are then unshuffled while they are in the cache. It
// reports false, having done nothing, where a plane is shorter than a vector.
func bitUnshuffleVector(dst, src []byte, n, typesize int) bool {
	const vector = 32           // bytes of a bit plane
	const group = 8 * vector    // elements of it
	var planes [16 * group]byte // cleared once a call
	row, size := n/8, typesize  // bytes of a bit plane in src
	most := len(planes) / group / size
	if !hasAVX2 || row < vector || most == 0 {
		return false
	}
	src = src[:n*size]
	for at := 0; at < row; {
		groups := min(most, (row-at)/vector)
		if groups == 0 { // the last block overlaps the one before
			groups, at = 1, row-vector
		}
		elements := groups * group
		to := dst[8*at*size:][:elements*size]
		if size == 1 {
			bitPlanesAVX2(&to[0], &src[at], row, groups)
		} else {
			for k := range size {
				bitPlanesAVX2(&planes[k*elements], &src[8*k*row+at], row, groups)
			}
			Unshuffle(to, planes[:elements*size], size)
		}
		at += groups * vector
	}
	return true
}

//go:noescape
func unshuffle2AVX2(dst, src *byte, n int)

//go:noescape
func unshuffle4AVX2(dst, src *byte, n int)

//go:noescape
func unshuffle8AVX2(dst, src *byte, n int)

//go:noescape
func bitPlanesAVX2(dst, src *byte, row, groups int)
