package codec

import (
	"encoding/binary"
	"math/bits"
)

// Gather copies n elements of size bytes to dst, packed. Element i lies at
// src[base+i*stride]; the stride is in bytes and may be 0 (one element repeated)
// or negative (a flipped axis). dst and src must not overlap. It panics if an
// element lies outside src or dst.
func Gather(dst, src []byte, base, stride, n, size int) {
	if n <= 0 {
		return
	}
	dst = dst[:n*size]
	switch stride {
	case size:
		copy(dst, src[base:base+n*size])
	case 0:
		Fill(dst, src[base:base+size])
	case -size:
		first := base - (n-1)*size
		reverse(dst, src[first:base+size], size)
	default:
		gatherStrided(dst, src, base, stride, size)
	}
}

// gatherStrided is Gather for len(dst)/size elements and any stride.
func gatherStrided(dst, src []byte, base, stride, size int) {
	p := base
	switch size {
	case 1:
		for i := range dst {
			dst[i] = src[p]
			p += stride
		}
	case 2:
		for i := 0; i < len(dst)-1; i += 2 {
			binary.LittleEndian.PutUint16(dst[i:], binary.LittleEndian.Uint16(src[p:]))
			p += stride
		}
	case 4:
		for i := 0; i < len(dst)-3; i += 4 {
			binary.LittleEndian.PutUint32(dst[i:], binary.LittleEndian.Uint32(src[p:]))
			p += stride
		}
	case 8:
		for i := 0; i < len(dst)-7; i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(src[p:]))
			p += stride
		}
	case 16:
		for i := 0; i < len(dst)-15; i += 16 {
			*(*[16]byte)(dst[i:]) = [16]byte(src[p:])
			p += stride
		}
	default:
		for i := 0; i < len(dst); i += size {
			copy(dst[i:i+size], src[p:p+size])
			p += stride
		}
	}
}

// reverse copies the elements of src to dst, last one first; both have the same
// length, a multiple of size.
func reverse(dst, src []byte, size int) {
	done := reverseVector(dst, src, size)
	reversePlain(dst[done:], src[:len(src)-done], size)
}

// reversePlain turns sizes below a word a word at a time.
func reversePlain(dst, src []byte, size int) {
	i := 0
	if size == 1 || size == 2 || size == 4 {
		for ; i < len(dst)-7; i += 8 {
			w := binary.LittleEndian.Uint64(src[len(src)-i-8:])
			binary.LittleEndian.PutUint64(dst[i:], reverseWord(w, size))
		}
	}
	gatherStrided(dst[i:], src, len(src)-i-size, -size, size)
}

func reverseWord(w uint64, size int) uint64 {
	switch size {
	case 1:
		return bits.ReverseBytes64(w)
	case 2:
		w = w>>16&0x0000ffff0000ffff | w&0x0000ffff0000ffff<<16
	}
	return bits.RotateLeft64(w, 32)
}

// Gather2 is Gather for nOuter rows of nInner elements: element i of row r lies
// at src[base+r*strideOuter+i*strideInner] and goes to element i of the row that
// starts at dst[r*dstStride]. A source whose outer axis is the closer one (a
// transposed chunk) is read in tiles, so that every cache line is used up while
// it is there.
func Gather2(dst []byte, dstStride int, src []byte, base, strideOuter, strideInner, nOuter, nInner, size int) {
	if nOuter <= 0 || nInner <= 0 {
		return
	}
	if transposeVector(dst, dstStride, src, base, strideOuter, strideInner, nOuter, nInner, size) {
		return
	}
	gather2Plain(dst, dstStride, src, base, strideOuter, strideInner, nOuter, nInner, size)
}

func gather2Plain(dst []byte, dstStride int, src []byte, base, strideOuter, strideInner, nOuter, nInner, size int) {
	// Columns whose lines fit the first-level cache need no tiles.
	const line, most = 64, 512
	tile := nInner
	if outer, inner := max(strideOuter, -strideOuter), max(strideInner, -strideInner); outer < line && outer < inner && nInner > most {
		tile = 32
	}
	for i := 0; i < nInner; i += tile {
		n := min(tile, nInner-i)
		for r := range nOuter {
			Gather(dst[r*dstStride+i*size:], src, base+r*strideOuter+i*strideInner, strideInner, n, size)
		}
	}
}

// Fill sets dst to repetitions of elem, the last one cut short where the length
// of dst is no multiple of it. It does nothing if elem is empty.
func Fill(dst, elem []byte) {
	if len(elem) == 0 {
		return
	}
	filled := fillFirst(dst, elem)
	// Every copy reads what was written last, in whole elements. A source much
	// beyond the first-level cache would only be read from further away.
	const most = 8 << 10
	for filled < len(dst) {
		from := filled
		if from > most {
			from = max(most/len(elem), 1) * len(elem)
		}
		filled += copy(dst[filled:], dst[:from])
	}
}

// fillFirst writes some elements, whole ones unless dst ends, and returns their
// bytes. Rows of padding are short, so that sizes up to a word start with a few
// words rather than with a copy of one element.
func fillFirst(dst, elem []byte) int {
	const some = 64
	if len(dst) < some || len(elem) > 8 || 8%len(elem) != 0 {
		return copy(dst, elem)
	}
	var word [8]byte
	for i := 0; i < len(word); i += len(elem) {
		copy(word[i:], elem)
	}
	w := binary.LittleEndian.Uint64(word[:])
	for i := 0; i < some; i += len(word) {
		binary.LittleEndian.PutUint64(dst[i:], w)
	}
	return some
}
