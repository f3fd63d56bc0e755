package codec

import (
	"math"
	"math/big"

	"github.com/headrace/headrace/nd"
)

// ConvertRef converts one element by the rules of Converter. It is the slow twin
// of every conversion loop and shares nothing with them: a value is an exact
// binary number that is rounded where a rule says so. It is for tests; a pair
// that Converter refuses leaves dst unchanged.
func ConvertRef(dst []byte, to nd.DType, src []byte, from nd.DType, bigEndian bool, affine *Affine) {
	if checkPair(from, to, affine) != nil {
		return
	}
	if from == to && affine == nil && from != nd.Bool {
		for at := 0; at < from.Size(); at += from.Word() {
			writeBits(dst[at:], readBits(src[at:], from.Word(), bigEndian), from.Word())
		}
		return
	}
	if from == nd.BF16 && to == nd.F32 && affine == nil {
		writeBits(dst, readBits(src, 2, bigEndian)<<16, 4)
		return
	}
	x := readNumber(readBits(src, from.Size(), bigEndian), from)
	if affine != nil {
		x = x.scaled(*affine)
	}
	writeBits(dst, x.bits(to), to.Size())
}

func readBits(src []byte, size int, bigEndian bool) uint64 {
	var w uint64
	for i := range size {
		at := size - 1 - i
		if bigEndian {
			at = i
		}
		w = w<<8 | uint64(src[at])
	}
	return w
}

func writeBits(dst []byte, w uint64, size int) {
	for i := range size {
		dst[i] = byte(w >> (8 * i))
	}
}

// binaryFormat is a binary floating point format of IEEE 754.
type binaryFormat struct{ exponent, fraction uint } // bits of the two fields

func formatOf(d nd.DType) binaryFormat {
	switch d {
	case nd.F16:
		return binaryFormat{5, 10}
	case nd.BF16:
		return binaryFormat{8, 7}
	case nd.F32:
		return binaryFormat{8, 23}
	}
	return binaryFormat{11, 52}
}

func (f binaryFormat) bias() int        { return 1<<(f.exponent-1) - 1 }
func (f binaryFormat) infinity() uint64 { return (1<<f.exponent - 1) << f.fraction }

// number is the value of an element. The sign stands apart from the magnitude,
// for zeros and NaNs have one too. A finite number is mantissa * 2^exponent,
// exactly: sums and products of such numbers are such numbers.
type number struct {
	negative bool
	nan      bool
	payload  uint64 // of a NaN: its fraction, moved up to 52 bits
	infinite bool
	mantissa *big.Int
	exponent int
}

func whole(v uint64) number { return number{mantissa: new(big.Int).SetUint64(v)} }

func readNumber(w uint64, d nd.DType) number {
	switch {
	case d == nd.Bool && w != 0:
		return whole(1)
	case d == nd.Bool || d.Unsigned():
		return whole(w)
	case d.Signed():
		unused := 64 - 8*d.Size()
		v := int64(w<<unused) >> unused
		x := number{negative: v < 0, mantissa: big.NewInt(v)}
		x.mantissa.Abs(x.mantissa)
		return x
	}
	return formatOf(d).read(w)
}

func (f binaryFormat) read(w uint64) number {
	fraction := w & (1<<f.fraction - 1)
	exponent := int(w >> f.fraction & (1<<f.exponent - 1))
	negative := w>>(f.exponent+f.fraction) != 0
	switch {
	case exponent == 1<<f.exponent-1 && fraction != 0:
		return number{negative: negative, nan: true, payload: fraction << (52 - f.fraction)}
	case exponent == 1<<f.exponent-1:
		return number{negative: negative, infinite: true}
	case exponent == 0:
		exponent = 1
	default:
		fraction |= 1 << f.fraction
	}
	x := whole(fraction)
	x.negative, x.exponent = negative, exponent-f.bias()-int(f.fraction)
	return x
}

// bits is the number as an element of type d.
func (x number) bits(d nd.DType) uint64 {
	switch {
	case d == nd.Bool:
		return x.mantissa.Uint64()
	case d == nd.BF16:
		f32 := formatOf(nd.F32)
		return formatOf(d).round(f32.read(f32.round(x)))
	case d.Float():
		return formatOf(d).round(x)
	}
	return x.integer(d)
}

// integer truncates and clamps.
func (x number) integer(d nd.DType) uint64 {
	if x.nan {
		return 0
	}
	size := uint(8 * d.Size())
	least, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), size)
	if d.Signed() {
		most.Rsh(most, 1)
		least.Neg(most)
	}
	most.Sub(most, big.NewInt(1))
	v := new(big.Int)
	switch {
	case x.infinite:
		v.Lsh(most, 1)
	case x.exponent < 0:
		v.Rsh(x.mantissa, uint(-x.exponent))
	default:
		v.Lsh(x.mantissa, uint(x.exponent))
	}
	if x.negative {
		v.Neg(v)
	}
	if v.Cmp(least) < 0 {
		v = least
	}
	if v.Cmp(most) > 0 {
		v = most
	}
	if v.Sign() < 0 { // two's complement
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), size))
	}
	return v.Uint64()
}

// round is the number's nearest element of the format, ties to even, with sign.
func (f binaryFormat) round(x number) uint64 {
	w := f.infinity()
	switch {
	case x.nan:
		w |= x.payload>>(52-f.fraction) | 1<<(f.fraction-1)
	case !x.infinite:
		w = f.roundMagnitude(x.mantissa, x.exponent)
	}
	if x.negative {
		w |= 1 << (f.exponent + f.fraction)
	}
	return w
}

func (f binaryFormat) roundMagnitude(mantissa *big.Int, exponent int) uint64 {
	if mantissa.Sign() == 0 {
		return 0
	}
	least := 1 - f.bias() // the exponent of the least normal number
	e := max(exponent+mantissa.BitLen()-1, least)
	if e > f.bias() {
		return f.infinity()
	}
	// The last place of the result is worth 2^(e-fraction).
	units := shiftEven(mantissa, exponent-e+int(f.fraction))
	// A normal number brings its hidden bit, which counts as one exponent step.
	return min(units+uint64(e-least)<<f.fraction, f.infinity())
}

// shiftEven is v * 2^n, rounded to the nearest integer, ties to even.
func shiftEven(v *big.Int, n int) uint64 {
	if n >= 0 {
		return new(big.Int).Lsh(v, uint(n)).Uint64()
	}
	one := new(big.Int).Lsh(big.NewInt(1), uint(-n))
	q, rest := new(big.Int).QuoRem(v, one, new(big.Int))
	up := rest.Lsh(rest, 1).Cmp(one)
	if up > 0 || up == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q.Uint64()
}

// scaled is the affine map: the number, its product and the sum are each
// rounded to float64.
func (x number) scaled(a Affine) number {
	f := formatOf(nd.F64)
	scale, offset := f.read(math.Float64bits(a.Scale)), f.read(math.Float64bits(a.Offset))
	x = f.read(f.round(x))
	x = f.read(f.round(product(x, scale)))
	return f.read(f.round(sum(x, offset)))
}

// product is x*y for a finite y.
func product(x, y number) number {
	switch {
	case x.nan:
		return x
	case x.infinite && y.mantissa.Sign() == 0:
		return number{nan: true, negative: true} // the default NaN of x86 and CUDA
	}
	x.negative = x.negative != y.negative
	if !x.infinite {
		x.mantissa = new(big.Int).Mul(x.mantissa, y.mantissa)
		x.exponent += y.exponent
	}
	return x
}

// sum is x+y for a finite y. A sum of 0 is positive unless both are negative.
func sum(x, y number) number {
	if x.nan || x.infinite {
		return x
	}
	exponent := min(x.exponent, y.exponent)
	v := x.signedUnits(exponent)
	v.Add(v, y.signedUnits(exponent))
	negative := v.Sign() < 0 || v.Sign() == 0 && x.negative && y.negative
	return number{negative: negative, mantissa: v.Abs(v), exponent: exponent}
}

// signedUnits is the number in units of 2^exponent, which divides it.
func (x number) signedUnits(exponent int) *big.Int {
	v := new(big.Int).Lsh(x.mantissa, uint(x.exponent-exponent))
	if x.negative {
		v.Neg(v)
	}
	return v
}
