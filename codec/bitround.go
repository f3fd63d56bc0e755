package codec

import (
	"math"

	"github.com/headrace/headrace/nd"
)

// bitround keeps only the first bits of each float's mantissa, so that the rest
// compresses well. The stored bytes are floats still: decoding does nothing.
type bitround struct {
	keep int
	of   element // what Encode takes its bytes for: no reader needs it
}

func newBitround(set settings) (Codec, error) {
	of, err := set.element("dtype", element{DType: nd.F32})
	if err != nil || !of.Float() || of.DType == nd.BF16 {
		of = element{DType: nd.F32}
	}
	return bitround{keep: max(0, set.hint("keepbits", math.MaxInt32)), of: of}, nil
}

func (bitround) Name() string { return "bitround" }

func (bitround) encodedSize(decoded int) int { return decoded }

// Decode returns src.
func (bitround) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	if len(src) > len(dst) {
		return nil, tooLong("bitround", len(dst))
	}
	return src, nil
}

// Encode rounds to the nearest kept value, half to even.
func (b bitround) Encode(dst, src []byte) ([]byte, error) {
	size := b.of.Size()
	if len(src)%size != 0 {
		return nil, nd.Errorf(nd.ErrShape, "bitround: %d bytes are no whole number of elements of %d", len(src), size)
	}
	mantissa := map[nd.DType]int{nd.F16: 10, nd.F32: 23, nd.F64: 52}[b.of.DType]
	drop := mantissa - b.keep
	if drop <= 0 {
		return append(dst, src...), nil
	}
	bits := element{big: b.of.big, DType: numpyType('u', size)}
	out := make([]byte, len(src))
	for i := 0; i < len(src); i += size {
		v := loadInteger(src[i:i+size], bits)
		v += v>>drop&1 + 1<<(drop-1) - 1
		storeInteger(out[i:i+size], v>>drop<<drop)
	}
	if bits.big {
		swapBytes(out, out, size)
	}
	return append(dst, out...), nil
}
