package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// affines are the maps of the tests: none, one that changes nothing but the way
// through float64, one with rounding in both steps, and the edges.
var affines = []*Affine{
	nil,
	{1, 0},
	{0.1, -3.7},
	{-1, 0.5},
	{0, 7},
	{1e300, 1e308},
	{5e-324, math.Copysign(0, -1)},
}

// TestConverterMatchesRef compares every loop, in assembly and plain, with the
// exact arithmetic of ConvertRef at the values where the rules of conversion
// have their edges.
func TestConverterMatchesRef(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, from := range nd.DTypes() {
		values := edgeValues(from, rng)
		for _, to := range nd.DTypes() {
			for i, affine := range affines {
				for _, big := range []bool{false, true} {
					some := values
					if i > 0 || big {
						some = sample(rng, values, 50)
					}
					compareRef(t, some, from, to, big, affine)
				}
			}
		}
	}
}

// compareRef takes little-endian elements. A pair without a conversion passes:
// TestConverterRefuses says which those are.
func compareRef(t *testing.T, src []byte, from, to nd.DType, big bool, affine *Affine) {
	t.Helper()
	convert, err := Converter(from, to, big, affine)
	if err != nil {
		return
	}
	if big {
		src = bigEndian(src, from.Word())
	}
	in, out := from.Size(), to.Size()
	n := len(src) / in
	got, plain, want := make([]byte, n*out), make([]byte, n*out), make([]byte, n*out)
	convert(got, src, n)
	plainConvert(from, to, big, affine)(plain, src, n)
	for i := range n {
		ConvertRef(want[i*out:], to, src[i*in:], from, big, affine)
	}
	for loop, row := range map[string][]byte{"Converter": got, "plainConvert": plain} {
		for i := range n {
			if g, w := row[i*out:(i+1)*out], want[i*out:(i+1)*out]; string(g) != string(w) {
				t.Errorf("%s, %v to %v, big %v, affine %v: element %x gives %x, want %x",
					loop, from, to, big, affine, src[i*in:(i+1)*in], g, w)
				break
			}
		}
	}
}

// A plane is its rows: the bytes between them stay, steps may go backwards, and
// what would leave either side panics before it writes.
func TestConvertPlane(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		from, to := nd.DTypes()[rng.IntN(len(nd.DTypes()))], nd.DTypes()[rng.IntN(len(nd.DTypes()))]
		affine, big := affines[rng.IntN(3)], rng.IntN(2) == 1
		convert, err := PlaneConverter(from, to, big, affine)
		if err != nil {
			continue
		}
		in, out := from.Size(), to.Size()
		p := Plane{N: rng.IntN(40), Rows: rng.IntN(6)}
		p.DstStep, p.SrcStep = p.N*out+rng.IntN(9), p.N*in+rng.IntN(9)
		p.Dst, p.Src = rng.IntN(5), rng.IntN(5)
		src := make([]byte, p.Src+p.Rows*p.SrcStep+p.N*in)
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 1 {
			p.Src, p.SrcStep = p.Src+max(0, p.Rows-1)*p.SrcStep, -p.SrcStep
		}
		got := bytes.Repeat([]byte{0xa5}, p.Dst+p.Rows*p.DstStep+p.N*out)
		want := slices.Clone(got)
		for r := range p.Rows {
			for i := range p.N {
				ConvertRef(want[p.Dst+r*p.DstStep+i*out:], to, src[p.Src+r*p.SrcStep+i*in:], from, big, affine)
			}
		}
		convert(got, src, p)
		if !bytes.Equal(got, want) {
			t.Fatalf("%v to %v, big %v, affine %v, %+v: got % x, want % x", from, to, big, affine, p, got, want)
		}
		if p.N > 0 && p.Rows > 0 {
			clear(got)
			p.DstStep, p.Dst = -p.DstStep, len(got)-p.N*out+1
			if !panics(func() { convert(got, src, p) }) {
				t.Fatalf("%v to %v, %+v: wrote beyond %d bytes", from, to, p, len(got))
			}
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func bigEndian(src []byte, word int) []byte {
	swapped := slices.Clone(src)
	for w := range slices.Chunk(swapped, word) {
		slices.Reverse(w)
	}
	return swapped
}

// sample picks n random groups of 16 bytes: whole elements of any type.
func sample(rng *rand.Rand, values []byte, n int) []byte {
	const group = 16
	var some []byte
	for range n {
		at := rng.IntN(len(values)/group) * group
		some = append(some, values[at:at+group]...)
	}
	return some
}

// edgeValues are the little-endian elements of a type at the edges of every
// other type, padded to a multiple of 16 bytes.
func edgeValues(d nd.DType, rng *rand.Rand) []byte {
	var words []uint64
	switch {
	case d.Complex():
		for range 200 {
			words = append(words, rng.Uint64())
		}
	case d.Float():
		words = floatEdges(formatOf(d), rng)
	default:
		words = integerEdges(rng)
	}
	for range 400 {
		words = append(words, rng.Uint64(), rng.Uint64()>>rng.IntN(64))
	}
	for i := range words {
		words[i] &= 1<<(8*min(d.Size(), 8)) - 1
	}
	slices.Sort(words)
	words = slices.Compact(words)
	size := min(d.Size(), 8)
	var values []byte
	for _, w := range words {
		values = binary.LittleEndian.AppendUint64(values, w)[:len(values)+size]
	}
	for len(values)%16 != 0 {
		values = append(values, 0)
	}
	return values
}

// precisions are the significant bits of bf16, f16, f32 and f64.
var precisions = []int{8, 11, 24, 53}

// integerEdges has the limits of all integer types, powers of two, and numbers
// on and beside the ties of every float type.
func integerEdges(rng *rand.Rand) []uint64 {
	var words []uint64
	around := func(w uint64) {
		words = append(words, w-1, w, w+1, -w-1, -w, -w+1)
	}
	around(0)
	around(65504)
	around(65520)
	for bit := range 64 {
		around(1 << bit)
		for _, p := range precisions {
			if bit < p {
				continue
			}
			m := 1<<(p-1) | rng.Uint64()>>(64-p+1)
			tie := m<<(bit-p+1) | 1<<(bit-p)
			around(tie)
			around(tie ^ 1<<(bit-p+1)) // the neighbour that rounds the other way
		}
	}
	return words
}

// floatEdges has the special values, every power of two with ties of every
// narrower format, also in its subnormal range, and the limits of integers.
func floatEdges(f binaryFormat, rng *rand.Rand) []uint64 {
	var words []uint64
	sign := uint64(1) << (f.exponent + f.fraction)
	add := func(w uint64) {
		for _, v := range []uint64{w - 1, w, w + 1} {
			words = append(words, v&(sign-1), v|sign)
		}
	}
	add(0)
	add(f.infinity())
	add(f.infinity() | 1<<(f.fraction-1)) // quiet and beside it signalling NaN
	add(f.infinity() | rng.Uint64()>>(64-f.fraction))
	for _, e := range exponentEdges(f) {
		base := e << f.fraction
		add(base)
		add(base | 1<<(f.fraction-1)) // halves
		for range 3 {
			cut := uint(rng.IntN(int(f.fraction)))
			m := rng.Uint64() >> (64 - f.fraction) >> cut << cut
			if cut > 0 {
				m |= 1 << (cut - 1)
			}
			add(base | m)
		}
	}
	for _, w := range integerEdges(rng) {
		add(f.round(readNumber(w, nd.I64)))
		add(f.round(readNumber(w, nd.U64)))
	}
	return words
}

// exponentEdges are the exponent fields at the ends of a format's range and at
// those of narrower formats and of the integers.
func exponentEdges(f binaryFormat) []uint64 {
	var fields []uint64
	for e := range uint64(1) << f.exponent {
		power := int(e) - f.bias()
		edge := e < 4 || e > 1<<f.exponent-4
		for _, p := range []int{-1074, -1022, -149, -133, -126, -25, -14, 16, 64, 127} {
			edge = edge || power >= p-2 && power <= p+2
		}
		if edge || power >= -2 && power <= 12 {
			fields = append(fields, e)
		}
	}
	return fields
}

// TestConversionExamples has the published examples of the rules and the
// classic wrong answers: double rounding, a carry out of a NaN, flushed
// subnormals, fused multiply-add.
func TestConversionExamples(t *testing.T) {
	f := func(from, to nd.DType, affine *Affine, in, want any) {
		t.Helper()
		convert, err := Converter(from, to, false, affine)
		if err != nil {
			t.Fatal(err)
		}
		src, _ := binary.Append(nil, binary.LittleEndian, in)
		expected, _ := binary.Append(nil, binary.LittleEndian, want)
		got := make([]byte, len(expected))
		convert(got, src, len(src)/from.Size())
		if string(got) != string(expected) {
			t.Errorf("%v to %v of %v: got %x, want %x", from, to, in, got, expected)
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f(nd.I16, nd.U8, nil, []int16{-1, 12, 256}, []uint8{0, 12, 255})
	f(nd.F32, nd.I16, nil, []float32{-1.9, 12.9, nan, inf}, []int16{-1, 12, 0, 32767})
	f(nd.F32, nd.U8, nil, []float32{-inf, -0.9, 255.9, 256}, []uint8{0, 0, 255, 255})
	f(nd.F64, nd.I64, nil, []float64{-1 << 63, 1 << 63, -1e300}, []int64{math.MinInt64, math.MaxInt64, math.MinInt64})
	f(nd.F64, nd.U64, nil, []float64{1 << 63, 1<<64 - 2048, 1 << 64}, []uint64{1 << 63, 1<<64 - 2048, math.MaxUint64})
	f(nd.U64, nd.I64, nil, []uint64{1<<53 + 1, math.MaxUint64}, []int64{1<<53 + 1, math.MaxInt64})
	// 2^24+1 and so on: by way of float64 the sticky bit is lost.
	f(nd.I64, nd.F32, nil, []int64{1<<60 + 1<<36 + 1}, []float32{1<<60 + 1<<37})
	// To bf16 two roundings: 257*2^17+1 is above a tie of bf16, but f32 drops the 1.
	f(nd.I32, nd.BF16, nil, []int32{257<<17 + 1}, []uint16{0x4c00})
	f(nd.F32, nd.BF16, nil, []uint32{0x7fffffff, 0xff800001, 0x7f7fffff}, []uint16{0x7fff, 0xffc0, 0x7f80})
	// 1 + 2^-11 + 2^-40 lies above a tie of f16, but f32 would drop the 2^-40.
	f(nd.F64, nd.F16, nil, []float64{1 + 0x1p-11 + 0x1p-40, 65519.99, 65520, 0x1p-25, 0x1.8p-25}, []uint16{0x3c01, 0x7bff, 0x7c00, 0, 1})
	f(nd.F16, nd.F32, nil, []uint16{1, 0x8000, 0x7c01}, []uint32{0x33800000, 0x80000000, 0x7fc02000})
	f(nd.Bool, nd.F32, nil, []uint8{0, 1, 255}, []float32{0, 1, 1})
	f(nd.Bool, nd.Bool, nil, []uint8{0, 1, 255}, []uint8{0, 1, 1})
	// 0.1 rounds up: 10*0.1 is 1 after rounding, and a fused sum would leave a rest.
	f(nd.U8, nd.F64, &Affine{0.1, -1}, []uint8{10}, []float64{0})
}

// TestConverterRefuses has every pair that has no conversion.
func TestConverterRefuses(t *testing.T) {
	numeric := func(d nd.DType) bool { return d.Valid() && !d.Complex() && d != nd.Bool }
	all := append(nd.DTypes(), nd.Invalid, nd.DType(200))
	for _, from := range all {
		for _, to := range all {
			plain := from == to && from.Valid() || numeric(to) && (numeric(from) || from == nd.Bool)
			scaled := numeric(to) && (numeric(from) || from == nd.Bool)
			checkRefusal(t, from, to, nil, plain)
			checkRefusal(t, from, to, &Affine{2, 1}, scaled)
		}
	}
	for _, a := range []Affine{{math.NaN(), 0}, {1, math.Inf(-1)}} {
		if _, err := Converter(nd.U8, nd.F32, false, &a); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("affine %v: error %v, want ErrConfig", a, err)
		}
	}
}

func checkRefusal(t *testing.T, from, to nd.DType, affine *Affine, legal bool) {
	t.Helper()
	convert, err := Converter(from, to, false, affine)
	if legal && (err != nil || convert == nil) || !legal && !errors.Is(err, nd.ErrShape) {
		t.Errorf("%v to %v with affine %v: error %v, legal %v", from, to, affine, err, legal)
	}
}

// TestConvertLengths runs every loop over all short rows, for vector loops have
// their edges there, and at odd addresses; it must not touch what lies around.
func TestConvertLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, from := range nd.DTypes() {
		for _, to := range nd.DTypes() {
			for _, affine := range []*Affine{nil, {0.5, 3}} {
				for _, big := range []bool{false, true} {
					convert, err := Converter(from, to, big, affine)
					if err != nil {
						continue
					}
					whole := randomBytes(rng, 220*from.Size())
					want := make([]byte, 220*to.Size())
					for i := range 220 {
						ConvertRef(want[i*to.Size():], to, whole[i*from.Size():], from, big, affine)
					}
					checkLengths(t, fmt.Sprintf("%v to %v, big %v, affine %v", from, to, big, affine), rng, convert, whole, want, from.Size(), to.Size())
				}
			}
		}
	}
}

func checkLengths(t *testing.T, name string, rng *rand.Rand, convert Convert, whole, want []byte, in, out int) {
	t.Helper()
	const guard = 64
	for n := range 201 {
		first := rng.IntN(20)
		src := offset(whole[first*in:(first+n)*in], rng.IntN(32))
		dst := make([]byte, n*out+2*guard)
		for i := range dst {
			dst[i] = 0xa5
		}
		at := rng.IntN(guard)
		convert(dst[at:at+n*out], src, n)
		if string(dst[at:at+n*out]) != string(want[first*out:(first+n)*out]) {
			t.Errorf("%s: wrong row of %d elements", name, n)
			return
		}
		for i, b := range dst {
			if (i < at || i >= at+n*out) && b != 0xa5 {
				t.Errorf("%s: row of %d elements touched byte %d beside it", name, n, i-at)
				return
			}
		}
	}
}

// offset copies src to an address that is shift bytes off an allocation's start,
// with nothing behind it.
func offset(src []byte, shift int) []byte {
	moved := make([]byte, shift+len(src))
	copy(moved[shift:], src)
	return moved[shift:]
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestHalfRoundTrip widens every half and narrows it again: both ways are exact
// for all but signalling NaNs, which become quiet.
func TestHalfRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		want := uint16(h)
		if h&0x7fff > 0x7c00 {
			want |= 0x200
		}
		if got := f32ToF16(f16ToF32(uint16(h))); got != want {
			t.Fatalf("%04x comes back as %04x through float32", h, got)
		}
		if got := f64ToF16(float64(f16ToF32(uint16(h)))); got != want {
			t.Fatalf("%04x comes back as %04x through float64", h, got)
		}
	}
}

// FuzzConvert compares a row of raw bytes, read as any type, with ConvertRef.
func FuzzConvert(f *testing.F) {
	f.Add([]byte{0, 0x7c, 1, 0x7c, 0xff, 0xff, 0, 0x80}, uint8(nd.F16), uint8(nd.F32), false, false, 1.0, 0.0)
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 0x80}, uint8(nd.I64), uint8(nd.F32), true, false, 1.0, 0.0)
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 0x80}, uint8(nd.U8), uint8(nd.BF16), false, true, 0.1, -12.5)
	f.Add(make([]byte, 100), uint8(nd.F32), uint8(nd.BF16), true, false, 1.0, 0.0)
	f.Fuzz(func(t *testing.T, src []byte, from, to uint8, big, scale bool, a, b float64) {
		var affine *Affine
		if scale {
			affine = &Affine{a, b}
		}
		compareRef(t, src, nd.DType(from), nd.DType(to), big, affine)
	})
}

// TestConvertDoesNotAllocate guards the promise for the hot loop of assembly.
func TestConvertDoesNotAllocate(t *testing.T) {
	src, dst := make([]byte, 16*128), make([]byte, 16*128)
	for _, from := range nd.DTypes() {
		for _, to := range nd.DTypes() {
			for _, affine := range []*Affine{nil, {2, 1}} {
				convert, err := Converter(from, to, true, affine)
				if err != nil {
					continue
				}
				if n := testing.AllocsPerRun(5, func() { convert(dst, src, 128) }); n != 0 {
					t.Errorf("%v to %v, affine %v: %v allocations a row", from, to, affine, n)
				}
			}
		}
	}
}
