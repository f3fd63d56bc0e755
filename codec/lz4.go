package codec

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/nd"
	"github.com/pierrec/lz4/v4"
)

// lz4Codec is numcodecs' lz4: the decoded size as 4 bytes, little-endian, then
// one LZ4 block. (It is not the LZ4 frame format.)
//
// The format of blocks forbids encoders to begin a match less than 12 bytes before the end of a
// block, or to let one reach into its last 5; a decoder is allowed to refuse such a block, as liblz4 does, and need not. Here
// and in the GPU's kernels it is decoded: its bytes are not in doubt.
type lz4Codec struct{}

const lz4Header = 4

func newLZ4(settings) (Codec, error) { return lz4Codec{}, nil }

func (lz4Codec) Name() string { return "lz4" }

func (lz4Codec) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	if len(src) < lz4Header {
		return nil, nd.Errorf(nd.ErrCorrupt, "lz4: %d bytes cannot hold the header", len(src))
	}
	size := binary.LittleEndian.Uint32(src)
	if int64(size) > int64(len(dst)) {
		return nil, tooLong("lz4", len(dst))
	}
	n, ok := decodeLZ4(dst[:size], src[lz4Header:])
	if !ok || n != int(size) {
		return nil, nd.Errorf(nd.ErrCorrupt, "lz4: the block does not decode to the %d bytes of its header", size)
	}
	return dst[:n], nil
}

func (lz4Codec) Encode(dst, src []byte) ([]byte, error) {
	if len(src) > math.MaxInt32 {
		return nil, nd.Errorf(nd.ErrUnsupported, "lz4: %d bytes do not fit its header", len(src))
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	block, err := encodeLZ4(src, false)
	return append(dst, block...), err
}

// encodeLZ4 makes one block, which always succeeds: what does not compress
// becomes literals.
func encodeLZ4(src []byte, high bool) ([]byte, error) {
	block := make([]byte, lz4.CompressBlockBound(len(src))+1)
	var n int
	var err error
	if high {
		n, err = lz4.CompressBlockHC(src, block, lz4.Level9, nil, nil)
	} else {
		n, err = lz4.CompressBlock(src, block, nil)
	}
	if err != nil {
		return nil, nd.Errorf(nd.ErrBug, "lz4: encode %d bytes: %w", len(src), err)
	}
	if n == 0 {
		return lz4Literals(src), nil
	}
	return block[:n], nil
}

// lz4Literals is a block without a match.
func lz4Literals(src []byte) []byte {
	if len(src) < 15 {
		return append([]byte{byte(len(src) << 4)}, src...)
	}
	block := []byte{15 << 4}
	rest := len(src) - 15
	for ; rest >= 255; rest -= 255 {
		block = append(block, 255)
	}
	return append(append(block, byte(rest)), src...)
}
