package codec

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/nd"
)

// fixedScaleOffset stores floats as integers: round((v - offset) * scale).
// Decoding is stored/scale + offset, calculated as numpy does for numcodecs: in
// float64 when the stored type is an integer, else in the stored type, with
// scale and offset rounded to it first.
type fixedScaleOffset struct {
	scale, offset float64
	decoded       element
	stored        element
	load, save    recast // stored to working type, working type to decoded
	encodeLoad    recast // the same two ways for Encode
	encodeSave    recast
}

func newFixedScaleOffset(set settings) (Codec, error) {
	var f fixedScaleOffset
	var err error
	if f.decoded, err = set.element("dtype", element{}); err != nil {
		return nil, err
	}
	if f.stored, err = set.element("astype", f.decoded); err != nil {
		return nil, err
	}
	if err = set.required("scale", &f.scale); err != nil {
		return nil, err
	}
	if err = set.required("offset", &f.offset); err != nil {
		return nil, err
	}
	if !f.decoded.number() || !f.stored.number() {
		return nil, nd.Errorf(nd.ErrUnsupported, "codec fixedscaleoffset: %v stored as %v", f.decoded.DType, f.stored.DType)
	}
	work, wide := f.working(), element{DType: nd.F64}
	for _, pair := range []struct {
		loop     *recast
		from, to element
	}{{&f.load, f.stored, work}, {&f.save, work, f.decoded}, {&f.encodeLoad, f.decoded, wide}, {&f.encodeSave, wide, f.stored}} {
		if *pair.loop, err = newRecast(pair.from, pair.to); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// working is the type of the arithmetic.
func (f fixedScaleOffset) working() element {
	if f.stored.integer() {
		return element{DType: nd.F64}
	}
	return element{DType: f.stored.DType}
}

func (fixedScaleOffset) Name() string { return "fixedscaleoffset" }

func (f fixedScaleOffset) encodedSize(decoded int) int { return resized(decoded, f.decoded, f.stored) }

func (f fixedScaleOffset) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	dst, err := roomFor("fixedscaleoffset", dst, src, f.stored, f.decoded)
	if err != nil {
		return nil, err
	}
	s.eachTile(dst, src, f.load, f.save, func(tile []byte) { f.unscale(tile, f.load.to.DType) })
	return dst, nil
}

// unscale calculates in place. Each step is rounded to the working type.
func (f fixedScaleOffset) unscale(b []byte, t nd.DType) {
	switch t {
	case nd.F64:
		for i := 0; i+8 <= len(b); i += 8 {
			v := math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))
			binary.LittleEndian.PutUint64(b[i:], math.Float64bits(float64(v/f.scale)+f.offset))
		}
	case nd.F32:
		scale, offset := float32(f.scale), float32(f.offset)
		for i := 0; i+4 <= len(b); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(v/scale)+offset))
		}
	case nd.F16:
		half := func(v float32) float32 { return f16ToF32(f32ToF16(v)) }
		scale, offset := half(float32(f.scale)), half(float32(f.offset))
		for i := 0; i+2 <= len(b); i += 2 {
			v := f16ToF32(binary.LittleEndian.Uint16(b[i:]))
			binary.LittleEndian.PutUint16(b[i:], f32ToF16(half(v/scale)+offset))
		}
	}
}

// Encode calculates in float64.
func (f fixedScaleOffset) Encode(dst, src []byte) ([]byte, error) {
	n := resized(len(src), f.decoded, f.stored)
	if n < 0 {
		return nil, nd.Errorf(nd.ErrShape, "fixedscaleoffset: %d bytes are no whole number of elements", len(src))
	}
	wide := make([]byte, len(src)/f.decoded.Size()*8)
	f.encodeLoad.convert(wide, src)
	mapFloats(wide, wide, element{DType: nd.F64}, func(v float64) float64 {
		return math.RoundToEven((v - f.offset) * f.scale)
	})
	out := make([]byte, n)
	f.encodeSave.convert(out, wide)
	return append(dst, out...), nil
}
