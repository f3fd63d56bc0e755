package codec

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"github.com/headrace/headrace/nd"
)

func TestParseElement(t *testing.T) {
	for name, want := range map[string]element{
		"<i4": {nd.I32, false}, ">f8": {nd.F64, true}, "|u1": {nd.U8, false}, "<u1": {nd.U8, false}, ">i1": {nd.I8, false},
		"|b1": {nd.Bool, false}, "?": {}, "i2": {nd.I16, false}, "u8": {nd.U64, false}, "=f2": {nd.F16, false},
		"int32": {nd.I32, false}, "float16": {nd.F16, false}, "bfloat16": {nd.BF16, false}, ">c8": {nd.C64, true}, "<c16": {nd.C128, false},
		"i16": {}, "|i4": {}, "<U4": {}, "|S3": {}, "<M8[ns]": {}, "": {}, "<": {}, "<>i4": {}, "f": {}, "i-4": {}, "f16": {}, "object": {},
	} {
		got, err := parseElement(name)
		if got != want || (err == nil) != want.Valid() {
			t.Errorf("%q is %v, %v; want %v", name, got, err, want)
		}
	}
}

// What a filter cannot do is said when the array is opened.
func TestFilterSettings(t *testing.T) {
	for _, c := range []struct {
		name, config string
		kind         error
		word         string
	}{
		{"delta", `{}`, nd.ErrCorrupt, "dtype is missing"},
		{"delta", `{"dtype":7}`, nd.ErrCorrupt, "dtype is 7"},
		{"delta", `{"dtype":"<U4"}`, nd.ErrUnsupported, "<U4"},
		{"delta", `{"dtype":"|b1"}`, nd.ErrUnsupported, "bool"},
		{"delta", `{"dtype":"<i4","astype":"<c8"}`, nd.ErrUnsupported, "c64"},
		{"fixedscaleoffset", `{"dtype":"<f4","offset":1}`, nd.ErrCorrupt, "scale is missing"},
		{"fixedscaleoffset", `{"dtype":"<f4","scale":1}`, nd.ErrCorrupt, "offset is missing"},
		{"fixedscaleoffset", `{"dtype":"<f4","scale":"1","offset":1}`, nd.ErrCorrupt, "scale"},
		{"fixedscaleoffset", `{"dtype":"<c8","scale":1,"offset":1}`, nd.ErrUnsupported, "c64"},
		{"quantize", `{"dtype":"<i4","digits":1}`, nd.ErrUnsupported, "i32"},
		{"quantize", `{"digits":1}`, nd.ErrCorrupt, "dtype is missing"},
		{"astype", `{"encode_dtype":"<i4"}`, nd.ErrCorrupt, "decode_dtype is missing"},
		{"astype", `{"encode_dtype":"<i4","decode_dtype":"<c8"}`, nd.ErrUnsupported, "c64"},
		{"packbits", `{"padding_encoding":"none"}`, nd.ErrUnsupported, "padding_encoding"},
		{"shuffle", `{"elementsize":"x"}`, nd.ErrCorrupt, "elementsize"},
	} {
		_, err := New(c.name, json.RawMessage(c.config))
		wantKind(t, err, c.kind, c.name, c.word)
	}
}

// Settings that only matter to an encoder never stop a reader.
func TestHintsAreForgiven(t *testing.T) {
	for name, config := range map[string]string{
		"zstd":  `{"id":"zstd","level":"fast","checksum":1,"extra":[]}`,
		"blosc": `{"cname":7,"clevel":null,"shuffle":"none of ours","typesize":-4,"blocksize":1e99}`,
		"gzip":  `{"level":-77}`,
	} {
		c := stage(t, name, config)
		encoded := encodeAll(t, []Codec{c}, ramp(300))
		if _, err := chain(t, 300, c).Decode(make([]byte, 300), encoded, NewScratch()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Bytes that are no whole number of elements are corrupt, and so are counts of
// unused bits that cannot be.
func TestFilterCorrupt(t *testing.T) {
	for _, c := range []struct {
		name, config string
		src          []byte
	}{
		{"delta", `{"dtype":"<i4","astype":"<i2"}`, make([]byte, 5)},
		{"fixedscaleoffset", `{"dtype":"<f4","astype":"<i2","scale":1,"offset":0}`, make([]byte, 7)},
		{"astype", `{"encode_dtype":"<i4","decode_dtype":"<i2"}`, make([]byte, 6)},
		{"quantize", `{"dtype":"<f4","digits":1}`, make([]byte, 6)},
		{"packbits", ``, nil},
		{"packbits", ``, []byte{8, 0, 0}},
		{"packbits", ``, []byte{1}},
	} {
		_, err := stage(t, c.name, c.config).Decode(make([]byte, 100), c.src, NewScratch())
		wantKind(t, err, nd.ErrCorrupt, c.name)
	}
}

// An element larger than the chunk is all tail.
func TestShuffleOfHugeElements(t *testing.T) {
	c := stage(t, "shuffle", `{"elementsize":100000}`)
	got, err := chain(t, 9, c).Decode(make([]byte, 9), []byte("all a tail"[:9]), NewScratch())
	if err != nil || string(got) != "all a tai" {
		t.Fatalf("%q, %v", got, err)
	}
}

// Sums wrap around where tiles meet as everywhere else.
func TestDeltaAcrossTiles(t *testing.T) {
	const n = 5000
	src := make([]byte, 0, 2*n)
	for range n {
		src = binary.LittleEndian.AppendUint16(src, 40_000)
	}
	got, err := stage(t, "delta", `{"dtype":"<u2"}`).Decode(make([]byte, 2*n), src, NewScratch())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if v := binary.LittleEndian.Uint16(got[2*i:]); v != uint16((i+1)*40_000) {
			t.Fatalf("element %d is %d", i, v)
		}
	}
}

// numcodecs' own example: the values come back to the digits that the scale
// keeps.
func TestFixedScaleOffsetExample(t *testing.T) {
	c := stage(t, "fixedscaleoffset", `{"dtype":"<f8","astype":"|u1","scale":10,"offset":1000}`)
	var src []byte
	for i := range 11 {
		src = binary.LittleEndian.AppendUint64(src, math.Float64bits(1000+float64(i)*0.0999))
	}
	encoded, err := c.Encode(nil, src)
	if err != nil || len(encoded) != 11 || encoded[10] != 10 {
		t.Fatalf("%v, %v", encoded, err)
	}
	got, err := c.Decode(make([]byte, 88), encoded, NewScratch())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		if v := math.Float64frombits(binary.LittleEndian.Uint64(got[8*i:])); v != float64(i)/10+1000 {
			t.Errorf("element %d is %v", i, v)
		}
	}
}
