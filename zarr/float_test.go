package zarr

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/headrace/headrace/nd"
)

// exactValue is the number that a 16-bit float stands for, which is
// neither NaN nor an infinity.
func exactValue(bits uint64, expBits, manBits uint) *big.Rat {
	exp := bits >> manBits & (1<<expBits - 1)
	man := int64(bits & (1<<manBits - 1))
	if exp == 0 {
		exp = 1
	} else {
		man += 1 << manBits
	}
	shift := int64(exp) - int64(1<<(expBits-1)-1) - int64(manBits)
	r := new(big.Rat).SetInt64(man)
	power := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(shift, -shift))))
	if shift < 0 {
		power.Inv(power)
	}
	return r.Mul(r, power)
}

// TestFloatBits checks decimal text against exact arithmetic: for every pair of
// neighbours among the 16-bit floats, the text of the exact middle goes to the
// even one, and text a hair to either side goes to the near one. Text that went
// through float64 first would miss the hair.
func TestFloatBits(t *testing.T) {
	for _, f := range []struct {
		d                nd.DType
		expBits, manBits uint
	}{{nd.F16, 5, 10}, {nd.BF16, 8, 7}} {
		top := uint64(1<<f.expBits-1) << f.manBits
		for bits := uint64(0); bits+1 < top; bits += 13 {
			low := exactValue(bits, f.expBits, f.manBits)
			high := exactValue(bits+1, f.expBits, f.manBits)
			middle := new(big.Rat).Add(low, high)
			middle.Mul(middle, big.NewRat(1, 2))
			hair := new(big.Rat).Mul(high, new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil)))
			for text, want := range map[string]uint64{
				decimal(middle):                           bits + bits&1,
				decimal(new(big.Rat).Add(middle, hair)):   bits + 1,
				decimal(new(big.Rat).Sub(middle, hair)):   bits,
				decimal(low):                              bits,
				"-" + decimal(middle):                     (bits + bits&1) | 1<<15,
				"-" + decimal(new(big.Rat).Set(high)):     (bits + 1) | 1<<15,
				decimal(high) + "00000000000000000000001": bits + 1,
			} {
				got, err := floatBits(text, f.d)
				if err != nil || got != want {
					t.Fatalf("%s of %s is %04x (%v), want %04x", f.d, text, got, err, want)
				}
			}
		}
	}
}

// decimal is the exact decimal form of a dyadic number.
func decimal(r *big.Rat) string { return r.FloatString(220) }

// TestNarrow: narrow, used with the sizes of float32, must agree with the
// hardware on any float64.
func TestNarrow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		x := math.Float64frombits(r.Uint64())
		if r.IntN(2) == 0 { // near the range of float32
			x = math.Ldexp(r.Float64()*2-1, r.IntN(290)-150)
		}
		if math.IsNaN(x) {
			continue
		}
		if got, want := narrow(x, 8, 23), uint64(math.Float32bits(float32(x))); got != want {
			t.Fatalf("%g is %08x, want %08x", x, got, want)
		}
	}
}

// TestExactInteger: integers keep all 64 bits in any spelling.
func TestExactInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		want := r.Uint64() >> r.IntN(64)
		plain := strconv.FormatUint(want, 10)
		cut := 1 + r.IntN(len(plain))
		for _, text := range []string{
			plain, plain + ".000", plain + "e0", plain + "0e-1",
			fmt.Sprintf("%s.%se%d", plain[:cut], plain[cut:]+"0", len(plain)-cut),
		} {
			negative, got, ok := exactInteger("-" + text)
			if !negative || !ok || got != want {
				t.Fatalf("-%s is %v %d %v, want %d", text, negative, got, ok, want)
			}
		}
		if _, _, ok := exactInteger(plain + ".5"); ok {
			t.Fatalf("%s.5 is taken as an integer", plain)
		}
	}
}
