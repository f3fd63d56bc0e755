package zarr

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// The type of a node is its own member, wherever that stands, and not a word in
// its attributes.
func TestIsArrayReadsTheOuterMember(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"attributes": {"node_type": "array"}, "zarr_format": 3, "node_type": "group"}`:           false,
		`{"attributes": {"node_type": "group"}, "zarr_format": 3, "node_type" : "array"}`:          true,
		`{"attributes": ["node_type", "array"], "zarr_format": 3, "x": "node_type"}`:               false,
		`{"zarr_format": 3, "node_type": "array", "node_type": "group"}`:                           false,
		`{"zarr_format": 3, "node\u005ftype": "array"}`:                                            true,
		`{"zarr_format": 3, "x": "\"node_type\": \"array\"", "node_type": "group"}`:                false,
		`{"zarr_format": 3, "attributes": {"a": NaN, "b": [{"c": "}"}]}, "node_type":"array"}`:     true,
		"\xef\xbb\xbf{\"zarr_format\": 3, \"node_type\"\n:\t\"array\"}":                            true,
		`{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"node_type":"array"}}`: false,
	} {
		if got, err := IsArray([]byte(doc)); got != want || err != nil {
			t.Errorf("%s: %v, %v", doc, got, err)
		}
	}
}

// A list of codecs that no writer makes is refused before it is read: each costs
// some microseconds wherever the array is opened.
func TestManyCodecs(t *testing.T) {
	doc := func(n int) []byte {
		return []byte(`{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":0,
			"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},
			"codecs":["bytes"` + strings.Repeat(`,"crc32c"`, n-1) + `]}`)
	}
	if _, err := ParseArray(doc(maxCodecs)); err != nil {
		t.Error(err)
	}
	if _, err := ParseArray(doc(maxCodecs + 1)); !errors.Is(err, nd.ErrUnsupported) {
		t.Errorf("%d codecs: %v", maxCodecs+1, err)
	}
}

// Attributes are the user's: an array is parsed without a value for each of
// them, so many cost little.
func TestManyAttributes(t *testing.T) {
	doc := func(n int) []byte {
		return []byte(`{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":0,
			"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},
			"codecs":["bytes"],"attributes":{"a":0` + strings.Repeat(`,"a":{"b":1}`, n) + `}}`)
	}
	allocs := func(doc []byte) float64 {
		return testing.AllocsPerRun(5, func() {
			if is, err := IsArray(doc); !is || err != nil {
				t.Error(is, err)
			}
			if _, err := ParseArray(doc); err != nil {
				t.Error(err)
			}
		})
	}
	few, many := allocs(doc(1)), allocs(doc(10_000))
	if many > few+100 {
		t.Errorf("%v allocations for 10000 attributes, %v for one", many, few)
	}
}
