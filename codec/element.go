package codec

import (
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// element is an element type as filters store it: numpy's names carry the byte
// order.
type element struct {
	nd.DType
	big bool
}

// parseElement reads the name of a type: numpy's ("<i4", ">f8", "|u1", "i4") or
// zarr v3's ("int32"). Without a byte order, and with "=", it is little-endian.
func parseElement(name string) (element, error) {
	if d, err := nd.ParseDType(name); err == nil && len(name) > 3 {
		return element{DType: d}, nil // names of three letters are numpy's: "i16" has 16 bytes
	}
	rest := strings.TrimLeft(name, "<>|=")
	order := name[:len(name)-len(rest)]
	if len(order) > 1 || rest == "" {
		return element{}, nd.Errorf(nd.ErrUnsupported, "dtype %q", name)
	}
	size, err := strconv.Atoi(rest[1:])
	if err != nil {
		return element{}, nd.Errorf(nd.ErrUnsupported, "dtype %q", name)
	}
	d := numpyType(rest[0], size)
	if !d.Valid() || order == "|" && d.Size() > 1 {
		return element{}, nd.Errorf(nd.ErrUnsupported, "dtype %q", name)
	}
	return element{DType: d, big: order == ">" && d.Size() > 1}, nil
}

// numpyType is the type of numpy's kind letter and size in bytes.
func numpyType(kind byte, size int) nd.DType {
	for _, d := range nd.DTypes() {
		if d.Size() != size || d == nd.BF16 {
			continue
		}
		if kind == 'b' && d == nd.Bool || kind == 'i' && d.Signed() || kind == 'u' && d.Unsigned() ||
			kind == 'f' && d.Float() || kind == 'c' && d.Complex() {
			return d
		}
	}
	return nd.Invalid
}

// element reads a setting that names a type; otherwise is taken where it is
// absent. Without one (Invalid) the setting must be there.
func (s settings) element(key string, otherwise element) (element, error) {
	var name string
	ok, err := s.get(key, &name)
	if err != nil {
		return element{}, err
	}
	if !ok {
		if !otherwise.Valid() {
			return element{}, s.missing(key)
		}
		return otherwise, nil
	}
	e, err := parseElement(name)
	if err != nil {
		return element{}, nd.Errorf(nd.ErrUnsupported, "codec %s: setting %s is %q", s.codec, key, name)
	}
	return e, nil
}

// integer reports whether e counts: bool is no number here.
func (e element) integer() bool { return e.Signed() || e.Unsigned() }

// number reports whether filters can calculate with e.
func (e element) number() bool { return e.integer() || e.Float() }

// resized is the number of bytes that n bytes of elements of one type become in
// another, -1 if n bytes are no whole number of elements.
func resized(n int, from, to element) int {
	if n%from.Size() != 0 {
		return -1
	}
	return n / from.Size() * to.Size()
}
