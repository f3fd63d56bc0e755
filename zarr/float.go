package zarr

import (
	"math"
	"math/big"
	"strconv"

	"github.com/headrace/headrace/nd"
)

// floatBits rounds decimal text once, half to even, to a float type and gives
// its bits. Parsing as float64 first and narrowing then would round twice.
func floatBits(text string, d nd.DType) (uint64, error) {
	if len(text) > maxNumber {
		return 0, corrupt("number of %d characters", len(text))
	}
	switch d {
	case nd.F64:
		x, err := parseFloat(text, 64)
		return math.Float64bits(x), err
	case nd.F32:
		x, err := parseFloat(text, 32)
		return uint64(math.Float32bits(float32(x))), err
	}
	x, err := roundToOdd(text)
	if d == nd.F16 {
		return narrow(x, 5, 10), err
	}
	return narrow(x, 8, 7), err
}

// parseFloat takes a number beyond the range as infinity, as numpy does.
func parseFloat(text string, bits int) (float64, error) {
	x, err := strconv.ParseFloat(text, bits)
	if err != nil && !math.IsInf(x, 0) {
		return 0, corrupt("%q is not a number", text)
	}
	return x, nil
}

// roundToOdd is text as the float64 whose last bit is set whenever the text has
// no exact float64. Rounding such a value to a much shorter float gives the same
// as rounding the text itself.
func roundToOdd(text string) (float64, error) {
	x, err := parseFloat(text, 64)
	if err != nil || x == 0 || math.IsInf(x, 0) {
		return x, err
	}
	// Four bits a digit hold any dyadic number exactly; for all others a parse of
	// this precision stays on the right side of x.
	exact, _, err := big.ParseFloat(text, 10, uint(64+4*len(text)), big.ToNearestEven)
	if err != nil {
		return 0, corrupt("%q is not a number", text)
	}
	b := math.Float64bits(x)
	switch cmp := exact.Cmp(big.NewFloat(x)); {
	case cmp == 0:
		return x, nil
	case (cmp < 0) == (x > 0): // x lies further from zero than the text
		b--
	}
	return math.Float64frombits(b | 1), nil
}

// narrow rounds x half to even to a float with the given exponent and mantissa
// bits and gives its bit pattern. Subnormals are kept, overflow is infinity.
func narrow(x float64, expBits, manBits int) uint64 {
	sign := math.Float64bits(x) >> 63 << (expBits + manBits)
	infinity := uint64(1<<expBits-1) << manBits
	switch x = math.Abs(x); {
	case math.IsNaN(x):
		return sign | infinity | 1<<(manBits-1)
	case x == 0:
		return sign
	case math.IsInf(x, 0):
		return sign | infinity
	}
	frac, exp := math.Frexp(x) // x = frac * 2^exp, 0.5 <= frac < 1
	mantissa := uint64(math.Ldexp(frac, 53))
	biased := exp - 1 + 1<<(expBits-1) - 1
	shift := 52 - manBits
	if biased < 1 {
		shift += 1 - biased
		biased = 1
	}
	if shift > 62 {
		return sign
	}
	q, rest, half := mantissa>>shift, mantissa&(1<<shift-1), uint64(1)<<(shift-1)
	if rest > half || rest == half && q&1 == 1 {
		q++
	}
	// q holds the implicit bit of a normal number, so a carry raises the exponent.
	return sign | min(uint64(biased-1)<<manBits+q, infinity)
}
