package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// counting is a store that counts the bytes that are read.
type counting struct {
	store.Store
	bytes int
}

func (c *counting) ReadAt(ctx context.Context, key string, p []byte, offset int64) error {
	c.bytes += len(p)
	return c.Store.ReadAt(ctx, key, p, offset)
}

// A document over the limit of its kind is refused by its size, before any of it
// is read; a zarr.json of an array by one look, since a group's may be larger.
// One such node does not keep the listing of its group from the others.
func TestLargeDocuments(t *testing.T) {
	spaces := strings.Repeat(" ", zarr.MaxDocument)
	objects := objectsOf(`.zgroup: {"zarr_format": 2}`)
	objects["two/.zarray"] = []byte(spaces + "{}")
	objects["three/zarr.json"] = []byte(`{"zarr_format": 3, "node_type": "array"}` + spaces)
	objects["group/zarr.json"] = []byte(`{"zarr_format": 3, "node_type": "group"}` + spaces)
	st := &counting{Store: store.NewMemory(objects)}
	for path, most := range map[string]int{"two": 0, "three": zarr.MaxDocument + 100} {
		st.bytes = 0
		n, err := InspectStore(t.Context(), st, path)
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(n.Err, nd.ErrUnsupported) || !strings.Contains(n.Err.Error(), "at most 16777216 are read") || n.Document != nil {
			t.Errorf("%s: %v, a document of %d bytes", path, n.Err, len(n.Document))
		}
		if st.bytes > most {
			t.Errorf("%s: %d bytes were read", path, st.bytes)
		}
		if _, err := openLevel(t.Context(), st, path, ""); !errors.Is(err, nd.ErrUnsupported) {
			t.Errorf("open %s: %v", path, err)
		}
	}
	n, err := InspectStore(t.Context(), st, "")
	if err != nil || len(n.Children) != 3 {
		t.Fatalf("%d children, %v", len(n.Children), err)
	}
	for _, c := range n.Children {
		if c.Group != (c.Path == "group") || (c.Err == nil) != c.Group {
			t.Errorf("%+v", c)
		}
	}
}

// Attributes are not needed for the elements: too many are a note.
func TestLargeAttributes(t *testing.T) {
	objects := objectsOf(`.zarray: <v2>`)
	objects[".zattrs"] = []byte("{}" + strings.Repeat(" ", zarr.MaxDocument))
	o, err := openLevel(t.Context(), store.NewMemory(objects), "", "")
	if err != nil || len(o.array.Notes) != 1 || !strings.Contains(o.array.Notes[0], ".zattrs is left out") {
		t.Errorf("%+v, %v", o, err)
	}
}
