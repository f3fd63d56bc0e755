package codec

//go:generate go run ./internal/castgen

import (
	"math"

	"github.com/headrace/headrace/nd"
)

// numTypes is the length of tables indexed by an element type.
const numTypes = int(nd.C128) + 1

// Affine is the map y = x*Scale + Offset. Both steps are rounded to float64: the
// product is never fused with the sum.
type Affine struct{ Scale, Offset float64 }

// Convert converts n contiguous elements from src to dst, which must not
// overlap. The elements of dst are little-endian. It panics if either is too
// short: lengths are the caller's invariant.
type Convert func(dst, src []byte, n int)

// Plane is Rows rows of N contiguous elements: the first byte of the first row of
// each side, and the bytes to the next row, which may be negative.
type Plane struct {
	N, Rows          int
	Dst, Src         int
	DstStep, SrcStep int
}

// ConvertPlane converts the rows of a plane as Convert does one: rows of a crop are
// short, and a call for each would cost as much as its elements.
type ConvertPlane func(dst, src []byte, p Plane)

// Converter returns the loop that converts elements of one type to another. The
// source is big-endian if big is set. A nil affine means none; else every
// element x becomes float64(x)*Scale + Offset before it is converted.
//
// The rules, the same on host and GPU:
//   - integer to integer clamps to the destination's range, never through
//     floating point;
//   - floating point to integer truncates towards zero, then clamps; NaN is 0;
//   - to f32, f64 and f16: one rounding from the source value, half to even,
//     overflow to infinity;
//   - to bf16: to f32 first, then to bf16, two roundings;
//   - a NaN keeps its sign and the top bits of its payload and becomes quiet;
//   - equal types, and bf16 to f32, keep their bits if there is no affine;
//   - a bool source is 0 or 1, where any byte but 0 counts as 1. Only bool
//     becomes bool, and only a complex type becomes itself.
//
// Any other pair is an error of kind nd.ErrShape; a scale or an offset that is
// not finite is one of kind nd.ErrConfig.
func Converter(from, to nd.DType, big bool, affine *Affine) (Convert, error) {
	plane, err := PlaneConverter(from, to, big, affine)
	if err != nil {
		return nil, err
	}
	return func(dst, src []byte, n int) { plane(dst, src, Plane{N: n, Rows: 1}) }, nil
}

// PlaneConverter is Converter for planes.
func PlaneConverter(from, to nd.DType, big bool, affine *Affine) (ConvertPlane, error) {
	if err := checkPair(from, to, affine); err != nil {
		return nil, err
	}
	if fast := vectorConvert(from, to, big, affine); fast != nil {
		return fast, nil
	}
	return planeOf(plainConvert(from, to, big, affine), from, to), nil
}

// planeOf converts a plane row by row.
func planeOf(row Convert, from, to nd.DType) ConvertPlane {
	in, out := from.Size(), to.Size()
	return func(dst, src []byte, p Plane) {
		for range p.Rows {
			row(dst[p.Dst:p.Dst+p.N*out], src[p.Src:p.Src+p.N*in], p.N)
			p.Dst += p.DstStep
			p.Src += p.SrcStep
		}
	}
}

// plainConvert is the loop without assembly, for any legal pair.
func plainConvert(from, to nd.DType, big bool, affine *Affine) Convert {
	switch {
	case affine != nil:
		return affineConvert(from, to, big, *affine)
	case from == to && from != nd.Bool:
		return identity(from, big)
	}
	return casts[from][to][byteOrderIndex(big)]
}

// byteOrderIndex is the last index of the tables of loops.
func byteOrderIndex(big bool) int {
	if big {
		return 1
	}
	return 0
}

func checkPair(from, to nd.DType, affine *Affine) error {
	switch {
	case !from.Valid() || !to.Valid():
		return nd.Errorf(nd.ErrShape, "no conversion from %v to %v: not an element type", from, to)
	case from != to && (from.Complex() || to.Complex()):
		return nd.Errorf(nd.ErrShape, "no conversion from %v to %v: a complex type only becomes itself", from, to)
	case from != to && to == nd.Bool:
		return nd.Errorf(nd.ErrShape, "no conversion from %v to bool: ask for an integer type", from)
	case affine == nil:
		return nil
	case to.Complex() || to == nd.Bool:
		return nd.Errorf(nd.ErrShape, "no scale and offset for %v: ask for a numeric type or leave them out", to)
	case !finite(affine.Scale) || !finite(affine.Offset):
		return nd.Errorf(nd.ErrConfig, "scale %v and offset %v must be finite", affine.Scale, affine.Offset)
	}
	return nil
}

func finite(v float64) bool { return v-v == 0 }

// identity copies elements, and swaps the bytes of their words if the source is
// big-endian.
func identity(d nd.DType, big bool) Convert {
	size, word := d.Size(), d.Word()
	if !big || word == 1 {
		return func(dst, src []byte, n int) { copy(dst[:n*size], src[:n*size]) }
	}
	return func(dst, src []byte, n int) { swapBytes(dst, src[:n*size], word) }
}

// affineBlock holds elements between the two halves of an affine conversion. It
// lives on the stack: rows are short, and clearing it is part of every call.
type affineBlock [64]float64

func affineConvert(from, to nd.DType, big bool, a Affine) Convert {
	in, out := from.Size(), to.Size()
	return func(dst, src []byte, n int) {
		var block affineBlock
		for n > 0 {
			m := min(n, len(block))
			scaleBlock(&block, src, m, from, big, a)
			unscaleBlock(dst, &block, m, to)
			dst, src, n = dst[m*out:], src[m*in:], n-m
		}
	}
}

// truth is the numeric value of a stored bool: some writers store 255 for true.
func truth(b byte) uint8 {
	if b != 0 {
		return 1
	}
	return 0
}

// The functions trunc* convert a number by the rule for integer destinations. A
// Go conversion is defined only in range, and the open bounds below are those of
// the numbers that truncate into it; NaN fails both comparisons.

func truncI8(v float64) int8 {
	if v > math.MinInt8-1 && v < math.MaxInt8+1 {
		return int8(int32(v))
	}
	return int8(saturate(v, math.MinInt8, math.MaxInt8))
}

func truncI16(v float64) int16 {
	if v > math.MinInt16-1 && v < math.MaxInt16+1 {
		return int16(int32(v))
	}
	return int16(saturate(v, math.MinInt16, math.MaxInt16))
}

func truncI32(v float64) int32 {
	if v > math.MinInt32-1 && v < math.MaxInt32+1 {
		return int32(v)
	}
	return int32(saturate(v, math.MinInt32, math.MaxInt32))
}

func truncI64(v float64) int64 {
	if v >= math.MinInt64 && v < -math.MinInt64 {
		return int64(v)
	}
	return saturate(v, math.MinInt64, math.MaxInt64)
}

func truncU8(v float64) uint8 {
	if v > -1 && v < math.MaxUint8+1 {
		return uint8(int32(v))
	}
	return uint8(saturate(v, 0, math.MaxUint8))
}

func truncU16(v float64) uint16 {
	if v > -1 && v < math.MaxUint16+1 {
		return uint16(int32(v))
	}
	return uint16(saturate(v, 0, math.MaxUint16))
}

func truncU32(v float64) uint32 {
	if v > -1 && v < math.MaxUint32+1 {
		return uint32(int64(v))
	}
	return uint32(saturate(v, 0, math.MaxUint32))
}

func truncU64(v float64) uint64 {
	switch {
	case v > -1 && v < 1<<63:
		return uint64(int64(v))
	case v >= 1<<64:
		return math.MaxUint64
	case v >= 1<<63:
		return 1<<63 | uint64(int64(v-1<<63))
	}
	return 0
}

// saturate is the value for a number outside the range lo..hi.
func saturate(v float64, lo, hi int64) int64 {
	switch {
	case v > 0:
		return hi
	case v < 0:
		return lo
	}
	return 0 // NaN
}

func bf16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// f32ToBF16 rounds to nearest even. Adding to a NaN could carry into its sign,
// so its payload is cut off instead.
func f32ToBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// f16ToF32 is exact. No step meets a subnormal float32, so that a thread that
// flushes them (a trainer may ask for that) gets the same result.
func f16ToF32(h uint16) float32 {
	sign, b := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	switch {
	case b > 0x1f<<23: // NaN
		return math.Float32frombits(sign | 0x7fc00000 | b)
	case b == 0x1f<<23:
		return math.Float32frombits(sign | 0x7f800000)
	case b < 1<<23: // subnormal, in units of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(h&0x3ff)*0x1p-24))
	}
	return math.Float32frombits(sign | (b + (127-15)<<23))
}

// f32ToF16 rounds once, to nearest even.
func f32ToF16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 2^16 and more, infinity
		return sign | 0x7c00
	case b < 0x38800000:
		// Below 2^-14, the least normal half: the units of 0.5 as a float32 are
		// those of the subnormal halves, so that the sum rounds at the right bit.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	// A carry moves on to the exponent, and from the greatest half to infinity.
	b -= (127 - 15) << 23
	return sign | uint16((b+0xfff+b>>13&1)>>13)
}

// f64ToF16 rounds once, to nearest even: the way through float32 could round up
// to a tie and then round the tie.
func f64ToF16(v float64) uint16 {
	b := math.Float64bits(v)
	sign := uint16(b >> 48 & 0x8000)
	b &= 1<<63 - 1
	switch {
	case b > 0x7ff<<52: // NaN
		return sign | 0x7e00 | uint16(b>>42&0x3ff)
	case b >= (1023+16)<<52:
		return sign | 0x7c00
	case b < (1023-14)<<52:
		// As in f32ToF16: the unit of 2^28 as a float64 is 2^-24.
		return sign | uint16(math.Float64bits(math.Float64frombits(b)+1<<28))
	}
	b -= (1023 - 15) << 52
	return sign | uint16((b+1<<41-1+b>>42&1)>>42)
}
