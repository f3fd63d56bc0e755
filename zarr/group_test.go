package zarr

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/nd"
)

// IsArray answers from node_type alone, so that a listing can name nodes whose
// metadata are not read.
func TestIsArray(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"zarr_format": 3, "node_type": "array"}`: true,
		`{"zarr_format": 3, "node_type": "group"}`: false,
		`{"zarr_format": 3}`:                       false,
	} {
		if got, err := IsArray([]byte(doc)); got != want || err != nil {
			t.Errorf("%s: %v, %v", doc, got, err)
		}
	}
	for doc, kind := range map[string]error{`[]`: nd.ErrCorrupt, `{`: nd.ErrCorrupt, `{"zarr_format": "3.0"}`: nd.ErrUnsupported} {
		if _, err := IsArray([]byte(doc)); !errors.Is(err, kind) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// Attributes of a v2 group come from a document of their own; the group that
// they are added to does not change.
func TestGroupAttributes(t *testing.T) {
	g, err := ParseGroup([]byte(`{"zarr_format": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	h, err := g.WithAttributes([]byte(`{"a": NaN}`))
	if err != nil || string(h.Attributes) != `{"a": "NaN"}` || g.Attributes != nil {
		t.Errorf("attributes %s and %s, %v", h.Attributes, g.Attributes, err)
	}
	for _, doc := range []string{`[]`, `{"a": }`} {
		if _, err := g.WithAttributes([]byte(doc)); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// A level is named by its path first, since paths may be numbers that do not
// start at 0, and by its index else.
func TestMultiscaleLevel(t *testing.T) {
	m := Multiscale{Levels: []MultiscaleLevel{{Path: "1"}, {Path: "scale/2"}, {Path: "3"}}}
	for name, want := range map[string]string{"1": "1", "0": "1", "2": "3", "scale/2": "scale/2"} {
		if l, err := m.Level(name); err != nil || l.Path != want {
			t.Errorf("level %s is %q, %v", name, l.Path, err)
		}
	}
	for _, name := range []string{"4", "-1", "scale", "", "99999999999999999999"} {
		if _, err := m.Level(name); !errors.Is(err, nd.ErrNotFound) {
			t.Errorf("level %q: %v", name, err)
		}
	}
}
