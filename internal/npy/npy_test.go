package npy

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// The names are numpy's own (numpy.dtype(x).str), but for bfloat16.
func TestDescr(t *testing.T) {
	want := strings.Fields("|b1 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 <f2 <V2 <f4 <f8 <c8 <c16")
	for i, d := range nd.DTypes() {
		if got := Descr(d); got != want[i] {
			t.Errorf("%v: %s, want %s", d, got, want[i])
		}
	}
	if got := TimeDescr('M', "ns"); got != "<M8[ns]" {
		t.Errorf("datetime: %s", got)
	}
	if got := TimeDescr('m', ""); got != "<m8" {
		t.Errorf("timedelta: %s", got)
	}
}

// The bytes are those that numpy.save writes for np.zeros((2,3), "<f4").
func TestHeaderBytes(t *testing.T) {
	want := "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
	want += strings.Repeat(" ", 127-len(want)) + "\n"
	if got := string(Header("<f4", []int64{2, 3})); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A 0-d shape is (), one axis needs its comma, and a header beyond 64 KiB takes
// version 2.
func TestHeaderForms(t *testing.T) {
	f := func(shape []int64, tuple string, version byte) {
		t.Helper()
		h := Header("|u1", shape)
		if len(h)%64 != 0 || h[len(h)-1] != '\n' {
			t.Errorf("%v: header of %d bytes", shape, len(h))
		}
		if h[6] != version || !strings.Contains(string(h), "'shape': "+tuple+",") {
			t.Errorf("%v: %q", shape, h[:min(len(h), 200)])
		}
		size := int(binary.LittleEndian.Uint16(h[8:])) + 10
		if version == 2 {
			size = int(binary.LittleEndian.Uint32(h[8:])) + 12
		}
		if size != len(h) {
			t.Errorf("%v: header says %d bytes, has %d", shape, size, len(h))
		}
	}
	f(nil, "()", 1)
	f([]int64{7}, "(7,)", 1)
	f([]int64{0, 1 << 40}, "(0, 1099511627776)", 1)
	many := make([]int64, 30000)
	f(many, "("+strings.TrimSuffix(strings.Repeat("0, ", len(many)), ", ")+")", 2)
}
