package codec

import (
	"encoding/binary"
	"math"
)

// decodeLZ4Twin decodes one LZ4 block, byte by byte, after the format's
// description (github.com/lz4/lz4, doc/lz4_Block_format.md). It returns the
// number of bytes decoded; ok is false if the block is malformed or longer than
// dst. It is the decoder of purego builds and the oracle of the assembly.
//
// A block is a run of sequences: a token (literal count in the high four bits,
// match length - 4 in the low four, 15 continued by bytes up to one below 255),
// the literals, and the distance of the match as 2 bytes. The last sequence ends
// with its literals; a block that ends with a match is not what the format wants,
// but the assembly takes it, and the caller knows the length.
func decodeLZ4Twin(dst, src []byte) (n int, ok bool) {
	at := 0
	for at < len(src) {
		token := src[at]
		literals, next, ok := lz4Length(src, at+1, int(token>>4))
		if !ok || literals > len(src)-next || literals > len(dst)-n {
			return n, false
		}
		n += copy(dst[n:], src[next:next+literals])
		at = next + literals
		if at == len(src) {
			return n, token&15 == 0
		}
		if at+2 > len(src) {
			return n, false
		}
		distance := int(binary.LittleEndian.Uint16(src[at:]))
		length, next, ok := lz4Length(src, at+2, int(token&15))
		length += 4
		if !ok || distance == 0 || distance > n || length > len(dst)-n {
			return n, false
		}
		for range length {
			dst[n] = dst[n-distance]
			n++
		}
		at = next
	}
	return n, len(src) > 0
}

// lz4Length completes a length whose four bits in the token are nibble.
func lz4Length(src []byte, at, nibble int) (length, next int, ok bool) {
	length = nibble
	if nibble < 15 {
		return length, at, true
	}
	for at < len(src) && length <= math.MaxInt32-255 {
		more := src[at]
		at++
		length += int(more)
		if more < 255 {
			return length, at, true
		}
	}
	return 0, at, false
}
