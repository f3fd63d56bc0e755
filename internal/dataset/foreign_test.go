package dataset

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Nothing is written into a node of someone else, wherever it lies on the way to
// the new array: the folder keeps every file it had and gets no other.
func TestForeignNodes(t *testing.T) {
	f := func(below, document string) {
		t.Helper()
		base := t.TempDir()
		there := filepath.Join(base, filepath.FromSlash(document))
		if err := os.MkdirAll(filepath.Dir(there), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(there, []byte(`{"zarr_format": 2}`), 0o600); err != nil {
			t.Fatal(err)
		}
		before := files(t, base)
		err := Write(context.Background(), filepath.Join(base, below), []Array{small("none")}, nil)
		if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), filepath.Base(document)) {
			t.Errorf("%s, written at %q: got %v", document, below, err)
		}
		if !maps.Equal(before, files(t, base)) {
			t.Errorf("%s, written at %q: the folder changed", document, below)
		}
	}
	for _, name := range []string{"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"} {
		f("", name)
		f("deep/er", name)
		f("", "a/"+name)         // a group on the way to a/image
		if name != "zarr.json" { // that one is compared with the array to write
			f("", "a/image/"+name)
		}
	}
}

// A link into someone's group is a place inside that group.
func TestForeignBehindLink(t *testing.T) {
	base := t.TempDir()
	if err := os.MkdirAll(filepath.Join(base, "group/inner"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "group/.zgroup"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join(base, "group/inner"), link); err != nil {
		t.Fatal(err)
	}
	if err := Write(context.Background(), link, []Array{small("none")}, nil); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("got %v", err)
	}
}

// Groups that Write made take more arrays, of both formats, also below them.
func TestOwnGroupsGrow(t *testing.T) {
	root := t.TempDir()
	write(t, root, small("none"))
	second := small("none")
	second.Format, second.Path = 2, "a/second"
	write(t, root, small("none"), second)
	write(t, filepath.Join(root, "inner"), second)
}
