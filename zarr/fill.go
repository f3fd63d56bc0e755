package zarr

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// fillReader turns a fill_value into the bytes of one element.
type fillReader struct {
	*parser
	d  DType
	v3 bool
}

// fill reads fill_value. Everything that has one meaning is accepted; what the
// specification does not allow is noted.
func (f fillReader) fill(raw json.RawMessage) ([]byte, error) {
	size := f.d.Size()
	switch {
	case raw == nil:
		f.note("fill_value is absent, 0 taken")
		return make([]byte, size), nil
	case string(raw) == "null":
		if f.v3 { // in v2, null is legal and means undefined; all readers give 0
			f.note("fill_value is null, 0 taken")
		}
		return make([]byte, size), nil
	}
	b, err := f.value(raw)
	if err != nil {
		if b, ok := f.base64(raw); ok {
			return b, nil
		}
	}
	return b, err
}

func (f fillReader) value(raw json.RawMessage) ([]byte, error) {
	if f.d.Complex() {
		return f.complex(raw)
	}
	bits, err := f.scalar(raw, f.d.DType)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:f.d.Size()], nil
}

// complex reads [re, im]; a single number is the real part.
func (f fillReader) complex(raw json.RawMessage) ([]byte, error) {
	half := nd.F32
	if f.d.DType == nd.C128 {
		half = nd.F64
	}
	parts := []json.RawMessage{raw, json.RawMessage("0")}
	pair := raw[0] == '['
	if pair {
		list, err := parseList("fill_value", raw)
		if err != nil {
			return nil, err
		}
		if len(list) != 2 {
			return nil, corrupt("fill_value %s has %d parts, %s has 2", excerpt(raw), len(list), f.d.Name)
		}
		parts = list
	}
	var out []byte
	for _, part := range parts {
		bits, err := f.scalar(part, half)
		if err != nil {
			return nil, err
		}
		out = append(out, binary.LittleEndian.AppendUint64(nil, bits)[:half.Size()]...)
	}
	if !pair {
		f.note("fill_value %s of %s taken as the real part", excerpt(raw), f.d.Name)
	}
	return out, nil
}

// base64 reads the raw bytes of one element, which some v2 writers use for any
// type. The padding of base64 sets it apart from all other forms.
func (f fillReader) base64(raw json.RawMessage) ([]byte, bool) {
	s, err := parseString("fill_value", raw)
	if err != nil || f.v3 {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != f.d.Size() {
		return nil, false
	}
	if f.d.Big {
		for word := range slices.Chunk(b, f.d.Word()) {
			slices.Reverse(word)
		}
	}
	f.note("fill_value %q read as base64", s)
	return b, true
}

// scalar is the bit pattern of a fill value of a type that is not complex.
func (f fillReader) scalar(raw json.RawMessage, d nd.DType) (uint64, error) {
	text := string(raw)
	if raw[0] == '"' {
		s, err := parseString("fill_value", raw)
		if err != nil {
			return 0, err
		}
		if bits, ok := f.special(s, d); ok {
			return bits, nil
		}
		if !isNumber(s) && s != "true" && s != "false" {
			return 0, f.bad(raw)
		}
		f.note("fill_value %q is a string, read as the value in it", s)
		text = s
	}
	switch {
	case text == "true" || text == "false":
		return f.boolean(text, d)
	case !isNumber(text):
		return 0, f.bad(raw)
	case d.Float():
		return floatBits(text, d)
	}
	return f.integer(text, d)
}

func (f fillReader) bad(raw json.RawMessage) error {
	return corrupt("fill_value %s is not a value of %s", excerpt(raw), f.d.Name)
}

func (f fillReader) boolean(text string, d nd.DType) (uint64, error) {
	number := "0"
	if text == "true" {
		number = "1"
	}
	if d != nd.Bool {
		f.note("fill_value %s of %s read as %s", text, f.d.Name, number)
	}
	if d.Float() {
		return floatBits(number, d)
	}
	return uint64(number[0] - '0'), nil
}

// integer reads the number of an integer or bool type, exactly.
func (f fillReader) integer(text string, d nd.DType) (uint64, error) {
	negative, magnitude, ok := exactInteger(text)
	limit := uint64(math.MaxUint64) >> (64 - 8*d.Size())
	switch {
	case d == nd.Bool:
		limit = 1
	case !d.Unsigned() && negative:
		limit = limit/2 + 1
	case !d.Unsigned():
		limit /= 2
	case negative:
		limit = 0
	}
	if !ok || magnitude > limit {
		return 0, corrupt("fill_value %s is not a value of %s", text, f.d.Name)
	}
	if f.v3 && d == nd.Bool {
		f.note("fill_value %s of bool read as true or false", text)
	} else if f.v3 && strings.ContainsAny(text, ".eE") {
		f.note("fill_value %s of %s read as an integer", text, f.d.Name)
	}
	if negative {
		return -magnitude, nil
	}
	return magnitude, nil
}

// special reads the strings that stand for values: NaN, infinities, bit
// patterns and NaT.
func (f fillReader) special(s string, d nd.DType) (uint64, bool) {
	if f.d.Time != 0 {
		return 1 << 63, s == "NaT"
	}
	if !d.Float() {
		return 0, false
	}
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		return hexBits(digits, d)
	}
	name := strings.TrimPrefix(strings.ToLower(s), "+")
	x, ok := map[string]float64{
		"nan": math.NaN(), "infinity": math.Inf(1), "-infinity": math.Inf(-1),
		"inf": math.Inf(1), "-inf": math.Inf(-1),
	}[name]
	if !ok {
		return 0, false
	}
	if s != "NaN" && s != "Infinity" && s != "-Infinity" {
		f.note("fill_value %q read as %v", s, x)
	}
	return specialBits(x, d), true
}

// hexBits reads a bit pattern, most significant digit first whatever the byte
// order of the chunks is.
func hexBits(digits string, d nd.DType) (uint64, bool) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != d.Size() {
		return 0, false
	}
	var bits uint64
	for _, x := range b {
		bits = bits<<8 | uint64(x)
	}
	return bits, true
}

// specialBits is NaN or an infinity in a float type. "NaN" is the quiet NaN with
// sign 0 and an otherwise empty payload; Go's math.NaN() sets a payload bit.
func specialBits(x float64, d nd.DType) uint64 {
	switch d {
	case nd.F16:
		return narrow(x, 5, 10)
	case nd.BF16:
		return narrow(x, 8, 7)
	case nd.F32:
		return narrow(x, 8, 23)
	}
	if math.IsNaN(x) {
		return 0x7ff8 << 48
	}
	return math.Float64bits(x)
}

// isNumber reports whether text is a number of JSON's grammar.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') &&
		json.Valid([]byte(text)) && !strings.ContainsAny(text, " \t\r\n")
}

// exactInteger is the value of a JSON number without going through floating
// point; ok is false for a fraction or a magnitude of 2^64 and more.
func exactInteger(text string) (negative bool, magnitude uint64, ok bool) {
	text, negative = strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.Atoi(text[i+1:])
		if err != nil && e == 0 {
			return negative, 0, false
		}
		exponent, text = max(-maxNumber, min(e, maxNumber)), text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if len(whole)+len(fraction) > maxNumber {
		return negative, 0, false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	for exponent < 0 && strings.HasSuffix(digits, "0") {
		digits, exponent = digits[:len(digits)-1], exponent+1
	}
	if digits == "" {
		return negative, 0, true
	}
	if exponent < 0 || len(digits)+exponent > 20 {
		return negative, 0, false
	}
	magnitude, err := strconv.ParseUint(digits+strings.Repeat("0", exponent), 10, 64)
	return negative, magnitude, err == nil
}
