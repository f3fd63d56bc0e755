package codec

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/nd"
)

// delta stores the first element and then the differences between neighbours.
// Integers wrap around in the decoded type, and differences may be stored in
// another type. Where floats take part, sums are calculated in the type that
// holds both, as numpy does for numcodecs.
type delta struct {
	decoded, stored element
	working         nd.DType
	load, save      recast // stored to working type, working type to decoded
	store           recast // decoded type, little-endian, to stored
}

func newDelta(set settings) (Codec, error) {
	decoded, err := set.element("dtype", element{})
	if err != nil {
		return nil, err
	}
	stored, err := set.element("astype", decoded)
	if err != nil {
		return nil, err
	}
	if !decoded.number() || !stored.number() {
		return nil, nd.Errorf(nd.ErrUnsupported, "codec delta: %v stored as %v", decoded.DType, stored.DType)
	}
	d := delta{decoded: decoded, stored: stored, working: sumType(decoded.DType, stored.DType)}
	work := element{DType: d.working}
	if d.load, err = newRecast(stored, work); err != nil {
		return nil, err
	}
	if d.save, err = newRecast(work, decoded); err != nil {
		return nil, err
	}
	d.store, err = newRecast(element{DType: decoded.DType}, stored)
	return d, err
}

// sumType is the type in which differences are added up.
func sumType(decoded, stored nd.DType) nd.DType {
	if !decoded.Float() && !stored.Float() {
		return decoded
	}
	size := max(floatSize(decoded), floatSize(stored))
	return map[int]nd.DType{2: nd.F16, 4: nd.F32, 8: nd.F64}[size]
}

// floatSize is the size of the smallest float that holds every value of d, save
// for 64-bit integers.
func floatSize(d nd.DType) int {
	if d.Float() {
		return d.Size()
	}
	return min(2*d.Size(), 8)
}

func (delta) Name() string { return "delta" }

func (d delta) encodedSize(decoded int) int { return resized(decoded, d.decoded, d.stored) }

func (d delta) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	dst, err := roomFor("delta", dst, src, d.stored, d.decoded)
	if err != nil {
		return nil, err
	}
	sum := uint64(0)
	s.eachTile(dst, src, d.load, d.save, func(tile []byte) { sum = cumulate(tile, d.working, sum) })
	return dst, nil
}

// cumulate adds sum to the first element and to every other the one before. It
// returns the last one. Sums are the bits of an element of type t.
func cumulate(b []byte, t nd.DType, sum uint64) uint64 {
	switch t {
	case nd.F64:
		sum := math.Float64frombits(sum)
		for i := 0; i+8 <= len(b); i += 8 {
			sum += math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))
			binary.LittleEndian.PutUint64(b[i:], math.Float64bits(sum))
		}
		return math.Float64bits(sum)
	case nd.F32:
		sum := math.Float32frombits(uint32(sum))
		for i := 0; i+4 <= len(b); i += 4 {
			sum += math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(sum))
		}
		return uint64(math.Float32bits(sum))
	case nd.F16:
		sum := uint16(sum)
		for i := 0; i+2 <= len(b); i += 2 {
			sum = f32ToF16(f16ToF32(sum) + f16ToF32(binary.LittleEndian.Uint16(b[i:])))
			binary.LittleEndian.PutUint16(b[i:], sum)
		}
		return uint64(sum)
	}
	return cumulateIntegers(b, t.Size(), sum)
}

// cumulateIntegers wraps around: signed or not makes no difference.
func cumulateIntegers(b []byte, size int, sum uint64) uint64 {
	switch size {
	case 1:
		for i, v := range b {
			sum += uint64(v)
			b[i] = byte(sum)
		}
	case 2:
		for i := 0; i+2 <= len(b); i += 2 {
			sum += uint64(binary.LittleEndian.Uint16(b[i:]))
			binary.LittleEndian.PutUint16(b[i:], uint16(sum))
		}
	case 4:
		for i := 0; i+4 <= len(b); i += 4 {
			sum += uint64(binary.LittleEndian.Uint32(b[i:]))
			binary.LittleEndian.PutUint32(b[i:], uint32(sum))
		}
	case 8:
		for i := 0; i+8 <= len(b); i += 8 {
			sum += binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(b[i:], sum)
		}
	}
	return sum
}

func (d delta) Encode(dst, src []byte) ([]byte, error) {
	n := resized(len(src), d.decoded, d.stored)
	if n < 0 {
		return nil, nd.Errorf(nd.ErrShape, "delta: %d bytes are no whole number of elements", len(src))
	}
	native := append([]byte(nil), src...)
	if d.decoded.big {
		swapBytes(native, native, d.decoded.Size())
	}
	differ(native, element{DType: d.decoded.DType})
	out := make([]byte, n)
	d.store.convert(out, native)
	return append(dst, out...), nil
}

// differ replaces every element but the first by its difference to the one
// before.
func differ(b []byte, e element) {
	size := e.Size()
	for i := len(b) - size; i > 0; i -= size {
		this, before := b[i:i+size], b[i-size:i]
		if e.Float() {
			previous := floatOf(before, e)
			mapFloats(this, this, e, func(v float64) float64 { return v - previous })
			continue
		}
		storeInteger(this, loadInteger(this, e)-loadInteger(before, e))
	}
}

func floatOf(b []byte, e element) (v float64) {
	mapFloats(make([]byte, len(b)), b, e, func(f float64) float64 { v = f; return f })
	return v
}
