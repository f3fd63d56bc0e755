package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// writeFolder lays objects out below a new folder.
func writeFolder(t testing.TB, objects map[string][]byte) string {
	t.Helper()
	root := t.TempDir()
	for key, data := range objects {
		path := filepath.Join(root, key)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// shut closes at once.
func shut(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestConform(t *testing.T) {
	objects := storetest.Objects()
	t.Run("memory", func(t *testing.T) { storetest.Conform(t, store.NewMemory(objects)) })
	t.Run("file", func(t *testing.T) {
		storetest.Conform(t, store.NewFile(writeFolder(t, objects), store.Options{}))
	})
	t.Run("file with one descriptor", func(t *testing.T) {
		fds := store.NewDescriptors(1)
		defer shut(t, fds)
		storetest.Conform(t, store.NewFile(writeFolder(t, objects), store.Options{Descriptors: fds}))
	})
	t.Run("open", func(t *testing.T) {
		st, err := store.Open("file://"+writeFolder(t, objects), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		storetest.Conform(t, st)
	})
}

// Stores that share a set of open files share its bound and live and die alone.
func TestSharedDescriptors(t *testing.T) {
	fds := store.NewDescriptors(2)
	objects := map[string][]byte{"a": []byte("a"), "b": []byte("b")}
	var stores []*store.File
	for range 2 {
		stores = append(stores, store.NewFile(writeFolder(t, objects), store.Options{Descriptors: fds}))
	}
	for _, st := range stores {
		for _, key := range []string{"a", "b"} {
			if _, err := st.Size(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := fds.Stats(); s.Open != 2 || s.Misses != 4 {
		t.Errorf("%+v, want 2 open files after 4 misses", s)
	}
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[1].Size(t.Context(), "b"); err != nil {
		t.Errorf("the other store was closed too: %v", err)
	}
	if err := fds.Close(); err != nil || fds.Stats().Open != 0 {
		t.Errorf("close: %v, %d open", err, fds.Stats().Open)
	}
	if _, err := stores[1].Size(t.Context(), "b"); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("after the set was closed: %v", err)
	}
}

func TestShortObjectSaysWhereItEnds(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"c/0": make([]byte, 10)})
	st := store.NewFile(root, store.Options{})
	defer shut(t, st)
	err := st.ReadAt(t.Context(), "c/0", make([]byte, 8), 5)
	for _, want := range []string{"ends at byte 10, wanted 5..13", filepath.Join(root, "c/0"), "bytes 5+8"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A file renamed over one that is open does not mix with it: reads go on to give
// the old bytes until the descriptor is gone.
func TestReplacedFileStaysConsistent(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"a": []byte("old"), "new": []byte("NEW"), "b": []byte("b")})
	fds := store.NewDescriptors(1)
	st := store.NewFile(root, store.Options{Descriptors: fds})
	defer shut(t, fds)
	read := func(key string, n int, off int64) string {
		p := make([]byte, n)
		if err := st.ReadAt(t.Context(), key, p, off); err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	if got := read("a", 1, 0); got != "o" {
		t.Fatalf("got %q", got)
	}
	if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if got := read("a", 2, 1); got != "ld" {
		t.Errorf("through the open file: %q, want the old bytes", got)
	}
	read("b", 1, 0) // takes the only place
	if got := read("a", 3, 0); got != "NEW" {
		t.Errorf("after it was closed: %q, want the new bytes", got)
	}
}

func TestSystemErrors(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"a": []byte("a")})
	for name, make := range map[string]func(string) error{
		"loop": func(path string) error { return os.Symlink(path, path) },
		"fifo": func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		if err := make(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	st := store.NewFile(root, store.Options{})
	defer shut(t, st)
	for _, key := range []string{"loop", "fifo", strings.Repeat("x", 300)} {
		_, err := st.Size(t.Context(), key)
		if !errors.Is(err, nd.ErrIO) || errors.Is(err, nd.ErrNotFound) {
			t.Errorf("%.10s: %v, want an I/O error and not a missing object", key, err)
		}
		if n := strings.Count(fmt.Sprint(err), key); n != 1 {
			t.Errorf("%.10s: the key is named %d times in %v", key, n, err)
		}
	}
}

// Links are followed: labs spread shards over disks with them.
func TestSymbolicLinks(t *testing.T) {
	other := writeFolder(t, map[string][]byte{"far/0": []byte("far")})
	root := writeFolder(t, nil)
	if err := os.Symlink(filepath.Join(other, "far"), filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	st := store.NewFile(root, store.Options{})
	defer shut(t, st)
	got, err := store.ReadAll(t.Context(), st, "c/0", 10)
	if err != nil || string(got) != "far" {
		t.Errorf("%q %v", got, err)
	}
	names, err := st.List(t.Context(), "")
	if err != nil || len(names) != 1 || names[0] != "c/" {
		t.Errorf("list: %q %v", names, err)
	}
}

// A link whose target is gone (a disk that is not mounted) is an I/O error and not
// an object that was never written, whichever part of the key it is. An object
// that is missing behind a good link is nd.ErrNotFound as anywhere.
func TestLinksThatLeadNowhere(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"disk/0": {1}})
	for link, target := range map[string]string{"gone": "disk2", "good": "disk", "file": "disk/9"} {
		if err := os.Symlink(filepath.Join(root, target), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := store.NewFile(root, store.Options{})
	defer shut(t, f)
	for key, kind := range map[string]error{
		"gone/0/1": nd.ErrIO, "file": nd.ErrIO, "good/7": nd.ErrNotFound, "good/1/2": nd.ErrNotFound, "none/0": nd.ErrNotFound,
	} {
		if _, err := f.Size(t.Context(), key); !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", key, err, kind)
		}
	}
}

func TestReadAll(t *testing.T) {
	st := store.NewMemory(map[string][]byte{"a": []byte("abc")})
	got, err := store.ReadAll(t.Context(), st, "a", 3)
	if err != nil || !bytes.Equal(got, []byte("abc")) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := store.ReadAll(t.Context(), st, "a", 2); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("one byte over the limit: %v, want ErrBudget", err)
	}
	if _, err := store.ReadAll(t.Context(), st, "b", 2); !errors.Is(err, nd.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
}

// Reading from an open file takes nothing from the heap, through Open's retries
// too.
func TestReadAllocatesNothing(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"c/0": make([]byte, 100)})
	st, err := store.Open(root, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, st)
	p := make([]byte, 100)
	allocs := testing.AllocsPerRun(100, func() {
		if err := st.ReadAt(t.Context(), "c/0", p, 0); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a read, want none", allocs)
	}
}
