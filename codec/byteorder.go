package codec

import "github.com/headrace/headrace/nd"

// byteOrder swaps the bytes of every word: the array->bytes codec "bytes" of v3
// with big-endian order, where filters come after it in decoding. (A chain that
// ends in big-endian bytes leaves them to the element loop.)
type byteOrder struct{ word int }

// Swap is the stage that reverses the bytes of every word of the given size.
// Decoding and encoding are the same.
func Swap(word int) Codec { return byteOrder{max(word, 1)} }

func (byteOrder) Name() string { return "bytes" }

func (b byteOrder) encodedSize(decoded int) int {
	if decoded%b.word != 0 {
		return -1
	}
	return decoded
}

// Decode returns src itself for words of one byte.
func (b byteOrder) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	if len(src) > len(dst) {
		return nil, tooLong(b.Name(), len(dst))
	}
	if len(src)%b.word != 0 {
		return nil, nd.Errorf(nd.ErrCorrupt, "bytes: %d bytes are no whole number of words of %d", len(src), b.word)
	}
	if b.word == 1 {
		return src, nil
	}
	dst = dst[:len(src)]
	swapBytes(dst, src, b.word)
	return dst, nil
}

func (b byteOrder) Encode(dst, src []byte) ([]byte, error) {
	out := make([]byte, len(src))
	swapBytes(out, src, b.word)
	return append(dst, out...), nil
}
