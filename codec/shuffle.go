package codec

import "encoding/binary"

// Shuffle writes byte k of every element of src to plane k of dst: all first
// bytes, then all second ones. Bytes behind the last whole element are copied,
// and so is everything if typesize is below 2. The lengths are equal, and the
// two must not overlap.
func Shuffle(dst, src []byte, typesize int) {
	dst = dst[:len(src)]
	if typesize < 2 {
		copy(dst, src)
		return
	}
	shuffleGeneric(dst, src, typesize)
}

// Unshuffle is the inverse of Shuffle.
func Unshuffle(dst, src []byte, typesize int) {
	dst = dst[:len(src)]
	if !unshuffleVector(dst, src, typesize) {
		unshufflePlain(dst, src, typesize)
	}
}

func unshufflePlain(dst, src []byte, typesize int) {
	switch typesize {
	case 2:
		unshuffle2Generic(dst, src)
	case 4:
		unshuffle4Generic(dst, src)
	case 8:
		unshuffle8Generic(dst, src)
	default:
		if typesize < 2 {
			copy(dst, src)
			return
		}
		unshuffleGeneric(dst, src, typesize)
	}
}

// BitShuffle writes bit b of byte k of every element to bit plane 8*k+b of dst.
// A plane holds one bit of each element, the first element in the lowest bit of
// the first byte. This is the rule of blosc version 1: a block whose number of
// whole elements is 0 or no multiple of 8 is copied as it is, and so are bytes
// behind the last whole element. The lengths are equal, and the two must not
// overlap.
func BitShuffle(dst, src []byte, typesize int) {
	dst = dst[:len(src)]
	n, ok := bitShuffled(len(src), typesize)
	if !ok {
		copy(dst, src)
		return
	}
	bitShuffleGeneric(dst, src, n, typesize)
	copy(dst[n*typesize:], src[n*typesize:])
}

// BitUnshuffle is the inverse of BitShuffle.
func BitUnshuffle(dst, src []byte, typesize int) {
	dst = dst[:len(src)]
	n, ok := bitShuffled(len(src), typesize)
	if !ok {
		copy(dst, src)
		return
	}
	if !bitUnshuffleVector(dst, src, n, typesize) {
		bitUnshuffleGeneric(dst, src, n, typesize)
	}
	copy(dst[n*typesize:], src[n*typesize:])
}

// bitShuffled returns the number of whole elements and whether a block of the
// given length is shuffled at all.
func bitShuffled(length, typesize int) (n int, ok bool) {
	if typesize < 1 {
		return 0, false
	}
	n = length / typesize
	return n, n > 0 && n%8 == 0
}

func shuffleGeneric(dst, src []byte, typesize int) {
	n := len(src) / typesize
	for k := range typesize {
		plane := dst[k*n : (k+1)*n]
		p := k
		for i := range plane {
			plane[i] = src[p]
			p += typesize
		}
	}
	copy(dst[n*typesize:], src[n*typesize:])
}

func unshuffleGeneric(dst, src []byte, typesize int) {
	n := len(src) / typesize
	for k := range typesize {
		p := k
		for _, b := range src[k*n : (k+1)*n] {
			dst[p] = b
			p += typesize
		}
	}
	copy(dst[n*typesize:], src[n*typesize:])
}

func unshuffle2Generic(dst, src []byte) {
	n := len(src) / 2
	a, b := src[:n], src[n:2*n]
	for i := 0; i < len(a) && i < len(b); i++ {
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(a[i])|uint16(b[i])<<8)
	}
	copy(dst[2*n:], src[2*n:])
}

func unshuffle4Generic(dst, src []byte) {
	n := len(src) / 4
	a, b, c, d := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
	for i := range a {
		w := uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
		binary.LittleEndian.PutUint32(dst[4*i:], w)
	}
	copy(dst[4*n:], src[4*n:])
}

func unshuffle8Generic(dst, src []byte) {
	n := len(src) / 8
	var plane [8][]byte
	for k := range plane {
		plane[k] = src[k*n : (k+1)*n]
	}
	for i := range n {
		var w uint64
		for k := range plane {
			w |= uint64(plane[k][i]) << (8 * k)
		}
		binary.LittleEndian.PutUint64(dst[8*i:], w)
	}
	copy(dst[8*n:], src[8*n:])
}

// bitShuffleGeneric moves eight elements at a time: byte k of each makes a
// matrix of 8 by 8 bits whose transpose is one byte of each of eight planes.
func bitShuffleGeneric(dst, src []byte, n, typesize int) {
	row := n / 8
	for k := range typesize {
		for g := range row {
			var m uint64
			p := g*8*typesize + k
			for i := range 8 {
				m |= uint64(src[p+i*typesize]) << (8 * i)
			}
			m = transpose8(m)
			p = k*8*row + g
			for b := range 8 {
				dst[p+b*row] = byte(m >> (8 * b))
			}
		}
	}
}

func bitUnshuffleGeneric(dst, src []byte, n, typesize int) {
	row := n / 8
	for k := range typesize {
		for g := range row {
			var m uint64
			p := k*8*row + g
			for b := range 8 {
				m |= uint64(src[p+b*row]) << (8 * b)
			}
			m = transpose8(m)
			p = g*8*typesize + k
			for i := range 8 {
				dst[p+i*typesize] = byte(m >> (8 * i))
			}
		}
	}
}

// transpose8 transposes a matrix of 8 by 8 bits whose row r is byte r: it swaps
// the two off-diagonal quarters of every block of 2, then 4, then 8 rows.
func transpose8(m uint64) uint64 {
	t := (m ^ m>>7) & 0x00aa00aa00aa00aa
	m ^= t ^ t<<7
	t = (m ^ m>>14) & 0x0000cccc0000cccc
	m ^= t ^ t<<14
	t = (m ^ m>>28) & 0x00000000f0f0f0f0
	return m ^ t ^ t<<28
}
