package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

func TestOpenURI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b%.zarr")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "zarr.json")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	escaped := strings.NewReplacer("%", "%25", " ", "%20").Replace(dir)
	f := func(uri string, want error) {
		t.Helper()
		st, err := store.Open(uri, store.Options{})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", uri, err, want)
		}
		if err == nil && st.String() != dir {
			t.Errorf("%q opened %s", uri, st)
		}
		if err == nil {
			shut(t, st)
		}
	}
	f(dir, nil)
	f(dir+"/", nil)
	f("file://"+escaped, nil)
	f("file://localhost"+escaped, nil)
	f("FILE://"+escaped, nil)
	f("", nd.ErrConfig)
	f("file://relative/a.zarr", nd.ErrConfig)
	f("file:///a%zz", nd.ErrConfig)
	f(dir+"/nothing", nd.ErrNotFound)
	f(file, nd.ErrNotFound)
	f(file+"/x", nd.ErrNotFound)
	f("http://host/a.zarr", nd.ErrUnsupported)
	f("https://host/a.zarr", nd.ErrUnsupported)
	f("s3://bucket/key?region=x", nd.ErrUnsupported)
	f("a.zip", nd.ErrUnsupported)
	f("a.zip!/inner", nd.ErrUnsupported)
	f("gopher://host", nd.ErrUnsupported)
}

func TestRelativeRootIsResolvedOnce(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"a/0": []byte("a")})
	t.Chdir(root)
	st := store.NewFile("a", store.Options{})
	defer shut(t, st)
	t.Chdir(t.TempDir())
	if _, err := st.Size(t.Context(), "0"); err != nil {
		t.Error(err)
	}
}

// Whatever CheckKey lets through stays below the root when it is joined to it.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"", "a", "c/0/1", "..", "a/..", "a/../..", "/a", "a//b", "./a", "a/.", "...", "a\x00b", `a\..\b`, "..."} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if store.CheckKey(key) != nil {
			return
		}
		joined := filepath.Join("/root/data", key)
		if joined != "/root/data/"+key {
			t.Errorf("%q was let through and cleans to %q", key, joined)
		}
	})
}
