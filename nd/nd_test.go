package nd_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

func TestSpan(t *testing.T) {
	for s, want := range map[nd.Span]int64{
		{Start: 2, Stop: 5}: 3, {Start: -3, Stop: 2}: 5, {Start: 5, Stop: 5}: 0, {Start: 5, Stop: 2}: 0,
		{Start: math.MinInt64, Stop: math.MaxInt64}: math.MaxInt64, {Start: math.MaxInt64, Stop: math.MinInt64}: 0,
		{Start: -2, Stop: math.MaxInt64}: math.MaxInt64,
	} {
		if got := s.Len(); got != want {
			t.Errorf("%v has %d indices, want %d", s, got, want)
		}
	}
	if got := (nd.Span{Start: 0, Stop: 4}).Intersect(nd.Span{Start: 6, Stop: 9}); got.Len() != 0 {
		t.Errorf("spans apart share %v", got)
	}
}

// What String writes ParseBox reads; what is no box is refused and named.
func TestParseBox(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " ": "", "0:4": "0:4", " 0 : 4 , -2:3 ": "0:4,-2:3", "5:5": "5:5",
	} {
		box, err := nd.ParseBox(text)
		if err != nil || box.String() != want {
			t.Errorf("%q: %q %v, want %q", text, box, err, want)
		}
	}
	for text, wrong := range map[string]string{
		"4": `"4"`, "0:4,": `""`, "a:4": `"a"`, "0:1.5": `"1.5"`, "0:99999999999999999999": `"99999999999999999999"`, "5:4": "4 lies before",
	} {
		if _, err := nd.ParseBox(text); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want an error that names %s", text, err, wrong)
		}
	}
}

func TestWithin(t *testing.T) {
	shape := []int64{4, 0}
	for text, want := range map[string]bool{"0:4,0:0": true, "1:2,0:0": true, "-1:2,0:0": false, "0:5,0:0": false, "0:4,0:1": false, "0:4": false} {
		box, err := nd.ParseBox(text)
		if err != nil || box.Within(shape) != want {
			t.Errorf("%s within %v: %v %v", text, shape, !want, err)
		}
	}
	if n, ok := (nd.Box{}).Elements(); n != 1 || !ok {
		t.Errorf("the box of a 0-d array holds %d elements, %v", n, ok)
	}
}

// Product agrees with arithmetic that does not overflow.
func FuzzProduct(f *testing.F) {
	f.Add(int64(3), int64(4), int64(5))
	f.Add(int64(1<<62), int64(2), int64(0))
	f.Add(int64(math.MaxInt64), int64(1), int64(1))
	f.Add(int64(3037000500), int64(3037000500), int64(1))
	f.Add(int64(-1), int64(0), int64(7))
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		got, ok := nd.Product([]int64{a, b, c})
		want := new(big.Int).Mul(big.NewInt(a), new(big.Int).Mul(big.NewInt(b), big.NewInt(c)))
		fits := a >= 0 && b >= 0 && c >= 0 && want.IsInt64()
		if ok != fits || ok && got != want.Int64() {
			t.Errorf("%d*%d*%d: %d %v, want %v %v", a, b, c, got, ok, want, fits)
		}
	})
}

func TestDTypes(t *testing.T) {
	for _, d := range nd.DTypes() {
		for _, name := range []string{d.String(), d.Name(), strings.ToUpper(d.Name())} {
			if got, err := nd.ParseDType(name); got != d || err != nil {
				t.Errorf("%q is read as %v, %v", name, got, err)
			}
		}
		if d.Size() < 1 || d.Word() > d.Size() || d.Complex() != (d.Word() != d.Size()) {
			t.Errorf("%v: %d bytes in words of %d", d, d.Size(), d.Word())
		}
		kinds := 0
		for _, is := range []bool{d == nd.Bool, d.Signed(), d.Unsigned(), d.Float(), d.Complex()} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%v is of %d kinds", d, kinds)
		}
	}
	for _, d := range []nd.DType{nd.Invalid, 200} {
		if d.Valid() || d.Size() != 0 || d.String() != "invalid" || d.Name() != "invalid" {
			t.Errorf("type %d passes for one", uint8(d))
		}
	}
	if _, err := nd.ParseDType("invalid"); err == nil {
		t.Error(`"invalid" is read as a type`)
	}
}

// An error matches its kind and its cause, and At fills in only what is not known.
func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	err := nd.Errorf(nd.ErrCorrupt, "got %d: %w", 3, cause)
	err = nd.At(err, nd.Place{File: "c/0", Offset: 7, Length: 9})
	err = nd.At(err, nd.Place{Array: "a", Chunk: "0/1", File: "other", Offset: 1, Length: 1})
	if !errors.Is(err, nd.ErrCorrupt) || !errors.Is(err, cause) || errors.Is(err, nd.ErrIO) {
		t.Errorf("%v matches the wrong kinds", err)
	}
	if got, want := err.Error(), "corrupt data: got 3: cause (array a, chunk 0/1, file c/0, bytes 7+9)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := nd.At(cause, nd.Place{File: "f"}); !errors.Is(err, nd.ErrIO) || !errors.Is(err, cause) {
		t.Errorf("an error of no kind becomes %v", err)
	}
	if err := nd.At(context.Canceled, nd.Place{File: "f"}); !errors.Is(err, context.Canceled) || errors.Is(err, nd.ErrIO) {
		t.Errorf("a context error becomes %v", err)
	}
	if nd.At(nil, nd.Place{}) != nil {
		t.Error("no error became one")
	}
}
