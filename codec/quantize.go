package codec

import (
	"math"

	"github.com/headrace/headrace/nd"
)

// newQuantize makes numcodecs' quantize: floats rounded to a power of two that
// keeps the given number of decimal digits. Decoding only converts the type.
func newQuantize(set settings) (Codec, error) {
	decoded, err := set.element("dtype", element{})
	if err != nil {
		return nil, err
	}
	stored, err := set.element("astype", decoded)
	if err != nil {
		return nil, err
	}
	if !decoded.Float() || !stored.Float() {
		return nil, nd.Errorf(nd.ErrUnsupported, "codec quantize: %v stored as %v, both must be floats", decoded.DType, stored.DType)
	}
	a, err := makeAstype("quantize", stored, decoded)
	digits := set.hint("digits", 0)
	a.quantum = math.Exp2(-math.Ceil(float64(digits) * math.Log2(10)))
	return a, err
}

// quantized rounds floats to multiples of quantum, half to even.
func quantized(src []byte, e element, quantum float64) []byte {
	out := make([]byte, len(src))
	mapFloats(out, src, e, func(v float64) float64 { return math.RoundToEven(v/quantum) * quantum })
	return out
}

// mapFloats applies f to every float of src, one at a time: for encoders.
func mapFloats(dst, src []byte, e element, f func(float64) float64) {
	wide := element{DType: nd.F64}
	in, _ := newRecast(e, wide) // e is a float: both ways exist
	out, _ := newRecast(wide, e)
	var buf [8]byte
	for i := 0; i < len(src); i += e.Size() {
		in.convert(buf[:], src[i:i+e.Size()])
		storeInteger(buf[:], math.Float64bits(f(math.Float64frombits(loadInteger(buf[:], wide)))))
		out.convert(dst[i:i+e.Size()], buf[:])
	}
}
