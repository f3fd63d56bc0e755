package codec

import (
	"encoding/binary"

	"github.com/headrace/headrace/nd"
)

// recast converts elements by numpy's rules for astype, which are not those of
// Converter: an integer that does not fit keeps its low bits, and whatever is
// not zero becomes true. (A float outside the range of an integer has no defined
// result in numpy; here it is clamped and NaN is 0.)
type recast struct {
	from, to element
	loop     Convert // nil: between integers, or to bool
}

func newRecast(from, to element) (recast, error) {
	r := recast{from: from, to: to}
	intLike := func(e element) bool { return e.integer() || e.DType == nd.Bool }
	if intLike(to) && (intLike(from) || to.DType == nd.Bool && from.Float()) {
		return r, nil
	}
	if from.Complex() || to.Complex() {
		return r, nd.Errorf(nd.ErrUnsupported, "conversion from %v to %v", from.DType, to.DType)
	}
	loop, err := Converter(from.DType, to.DType, from.big, nil)
	r.loop = loop
	return r, err
}

// convert fills dst, whose length says how many elements there are.
func (r recast) convert(dst, src []byte) {
	switch {
	case r.loop != nil:
		r.loop(dst, src, len(dst)/r.to.Size())
	case r.from.DType == r.to.DType && r.from.DType != nd.Bool:
		copy(dst, src)
		if r.from.big {
			swapBytes(dst, dst, r.from.Size())
		}
	default:
		r.convertIntegers(dst, src)
	}
	if r.to.big {
		swapBytes(dst, dst, r.to.Size())
	}
}

// convertIntegers widens by sign or zeros, and narrows by dropping high bits.
func (r recast) convertIntegers(dst, src []byte) {
	in, out := r.from.Size(), r.to.Size()
	for i := 0; i*out < len(dst); i++ {
		v := loadInteger(src[i*in:][:in], r.from)
		if r.to.DType == nd.Bool {
			v = r.truth(v)
		}
		storeInteger(dst[i*out:][:out], v)
	}
}

// truth is 1 for every value but 0 and, of floats, -0.
func (r recast) truth(bits uint64) uint64 {
	if r.from.Float() {
		bits <<= 64 - 8*r.from.Size() + 1 // without the sign
	}
	if bits != 0 {
		return 1
	}
	return 0
}

// eachTile converts src to the type that a filter calculates in, lets the filter
// change it in place, and converts the result to dst, so many elements at a time
// that they stay in the first-level cache.
func (s *Scratch) eachTile(dst, src []byte, load, save recast, calculate func(tile []byte)) {
	const elements = 1024
	in, work, out := load.from.Size(), load.to.Size(), save.to.Size()
	s.tile = grown(s.tile, elements*8)
	for len(src) > 0 {
		n := min(elements, len(src)/in)
		tile := s.tile[:n*work]
		load.convert(tile, src[:n*in])
		calculate(tile)
		save.convert(dst[:n*out], tile)
		src, dst = src[n*in:], dst[n*out:]
	}
}

// loadInteger gives the value of an element as 64 bits of two's complement.
func loadInteger(b []byte, e element) uint64 {
	var v uint64
	switch {
	case e.DType == nd.Bool:
		return uint64(truth(b[0]))
	case len(b) == 1:
		v = uint64(b[0])
	case len(b) == 2 && e.big:
		v = uint64(binary.BigEndian.Uint16(b))
	case len(b) == 2:
		v = uint64(binary.LittleEndian.Uint16(b))
	case len(b) == 4 && e.big:
		v = uint64(binary.BigEndian.Uint32(b))
	case len(b) == 4:
		v = uint64(binary.LittleEndian.Uint32(b))
	case e.big:
		v = binary.BigEndian.Uint64(b)
	default:
		v = binary.LittleEndian.Uint64(b)
	}
	if e.Signed() {
		unused := 64 - 8*len(b)
		v = uint64(int64(v<<unused) >> unused)
	}
	return v
}

func storeInteger(b []byte, v uint64) {
	switch len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// astype stores elements in another type: numcodecs' astype, and quantize, whose
// rounding was done by the encoder.
type astype struct {
	name           string
	decode, encode recast
	quantum        float64 // quantize: what encoded values are multiples of; else 0
}

func newAstype(set settings) (Codec, error) {
	stored, err := set.element("encode_dtype", element{})
	if err != nil {
		return nil, err
	}
	decoded, err := set.element("decode_dtype", element{})
	if err != nil {
		return nil, err
	}
	return makeAstype(set.codec, stored, decoded)
}

func makeAstype(name string, stored, decoded element) (a astype, err error) {
	a.name = name
	if a.decode, err = newRecast(stored, decoded); err != nil {
		return a, nd.Errorf(nd.ErrUnsupported, "codec %s: %w", name, err)
	}
	a.encode, err = newRecast(decoded, stored)
	return a, err
}

func (a astype) Name() string { return a.name }

func (a astype) encodedSize(decoded int) int {
	return resized(decoded, a.decode.to, a.decode.from)
}

func (a astype) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	dst, err := roomFor(a.name, dst, src, a.decode.from, a.decode.to)
	if err != nil {
		return nil, err
	}
	a.decode.convert(dst, src)
	return dst, nil
}

// roomFor cuts dst to the size that the elements of src have after conversion.
func roomFor(codec string, dst, src []byte, from, to element) ([]byte, error) {
	n := resized(len(src), from, to)
	if n < 0 {
		return nil, nd.Errorf(nd.ErrCorrupt, "%s: %d bytes are no whole number of elements of %d", codec, len(src), from.Size())
	}
	if n > len(dst) {
		return nil, tooLong(codec, len(dst))
	}
	return dst[:n], nil
}

func (a astype) Encode(dst, src []byte) ([]byte, error) {
	n := resized(len(src), a.encode.from, a.encode.to)
	if n < 0 {
		return nil, nd.Errorf(nd.ErrShape, "%s: %d bytes are no whole number of elements", a.name, len(src))
	}
	out := make([]byte, n)
	if a.quantum != 0 {
		src = quantized(src, a.encode.from, a.quantum)
	}
	a.encode.convert(out, src)
	return append(dst, out...), nil
}
