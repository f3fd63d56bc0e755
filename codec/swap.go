package codec

import (
	"encoding/binary"
	"math/bits"
)

// swapBytes reverses the bytes of every word of src into dst. dst may be src
// itself, but must not overlap it otherwise. Bytes behind the last whole word
// are copied.
func swapBytes(dst, src []byte, word int) {
	dst = dst[:len(src)]
	switch word {
	case 2:
		swap2(dst, src)
	case 4:
		swap4(dst, src)
	case 8:
		swap8(dst, src)
	default:
		swapAny(dst, src, word)
	}
}

func swap2Generic(dst, src []byte) {
	const even = 0x00ff00ff00ff00ff
	i := 0
	for ; i < len(src)-7 && i < len(dst)-7; i += 8 {
		w := binary.LittleEndian.Uint64(src[i:])
		binary.LittleEndian.PutUint64(dst[i:], w>>8&even|w&even<<8)
	}
	swapAny(dst[i:], src[i:], 2)
}

func swap4Generic(dst, src []byte) {
	i := 0
	for ; i < len(src)-7 && i < len(dst)-7; i += 8 {
		w := bits.ReverseBytes64(binary.LittleEndian.Uint64(src[i:]))
		binary.LittleEndian.PutUint64(dst[i:], bits.RotateLeft64(w, 32))
	}
	swapAny(dst[i:], src[i:], 4)
}

func swap8Generic(dst, src []byte) {
	i := 0
	for ; i < len(src)-7 && i < len(dst)-7; i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.BigEndian.Uint64(src[i:]))
	}
	copy(dst[i:], src[i:])
}

// swapAny is swapBytes for any size of word, one byte at a time.
func swapAny(dst, src []byte, word int) {
	if word < 1 {
		word = 1
	}
	whole := len(src) / word * word
	for i := 0; i < whole; i += word {
		for a, b := i, i+word-1; a <= b; a, b = a+1, b-1 {
			dst[a], dst[b] = src[b], src[a]
		}
	}
	copy(dst[whole:], src[whole:])
}
