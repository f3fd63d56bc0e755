package storetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// Objects are the contents that Conform expects a store to have.
func Objects() map[string][]byte {
	long := make([]byte, 100_000)
	for i := range long {
		long[i] = byte(i * 31 >> 3)
	}
	return map[string][]byte{
		"zarr.json": []byte("{}"),
		"empty":     {},
		"c/0/0":     long,
		"c/0/1":     []byte("one"),
		"c/1/0":     []byte("ten"),
		"b-":        []byte("sorts before b/"),
		"b/x":       []byte("x"),
	}
}

// Conform checks the rules that every store keeps, on a store that holds Objects
// and nothing else. It closes the store.
func Conform(t *testing.T, st store.Store) {
	ctx := t.Context()
	t.Run("reads", func(t *testing.T) { conformReads(ctx, t, st) })
	t.Run("missing", func(t *testing.T) { conformMissing(ctx, t, st) })
	t.Run("keys", func(t *testing.T) { conformKeys(ctx, t, st) })
	t.Run("list", func(t *testing.T) { conformList(ctx, t, st) })
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		wantKind(t, "cancelled read", st.ReadAt(ctx, "c/0/1", make([]byte, 1), 0), context.Canceled)
	})
	t.Run("closed", func(t *testing.T) {
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		wantKind(t, "read after close", st.ReadAt(ctx, "c/0/1", make([]byte, 1), 0), nd.ErrClosed)
		_, err := st.Size(ctx, "c/0/1")
		wantKind(t, "size after close", err, nd.ErrClosed)
		_, err = st.List(ctx, "")
		wantKind(t, "list after close", err, nd.ErrClosed)
		wantKind(t, "second close", st.Close(), nil)
	})
}

func conformReads(ctx context.Context, t *testing.T, st store.Store) {
	for key, want := range Objects() {
		size, err := st.Size(ctx, key)
		if err != nil || size != int64(len(want)) {
			t.Errorf("size of %s: %d %v, want %d", key, size, err, len(want))
		}
		for _, off := range []int64{0, 1, size / 2, size - 1, size} {
			for _, n := range []int64{0, 1, size - off, size - off + 1} {
				if off < 0 || n < 0 {
					continue
				}
				p := make([]byte, n)
				err := st.ReadAt(ctx, key, p, off)
				switch {
				case n == 0:
					wantKind(t, "read of nothing", err, nil)
				case off+n > size:
					wantKind(t, "read beyond the end", err, nd.ErrCorrupt)
				case err != nil || !bytes.Equal(p, want[off:off+n]):
					t.Errorf("%s %d+%d: wrong bytes or error %v", key, off, n, err)
				}
			}
		}
		for _, off := range []int64{-1, math.MinInt64, math.MaxInt64} {
			wantKind(t, "impossible offset", st.ReadAt(ctx, key, make([]byte, 2), off), nd.ErrCorrupt)
		}
	}
}

// conformMissing: a key that goes on below an object is not there, on every kind of
// store alike. One that names a folder is not there where folders are but common
// beginnings of keys; a real folder where an object should be is wrong data, never
// a missing chunk.
func conformMissing(ctx context.Context, t *testing.T, st store.Store) {
	for _, key := range []string{"c", "c/0"} {
		if _, err := st.Size(ctx, key); !errors.Is(err, nd.ErrNotFound) && !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("size of a folder: %v", err)
		}
	}
	for _, key := range []string{"nothing", "c/2/0", "zarr.json/x"} {
		wantKind(t, "read "+key, st.ReadAt(ctx, key, make([]byte, 1), 0), nd.ErrNotFound)
		_, err := st.Size(ctx, key)
		wantKind(t, "size "+key, err, nd.ErrNotFound)
		var e *nd.Error
		if errors.As(err, &e) && e.File == "" {
			t.Errorf("size %s: the error does not name the key: %v", key, err)
		}
	}
	for _, prefix := range []string{"nothing", "c/2/", "zarr.json"} {
		_, err := st.List(ctx, prefix)
		wantKind(t, "list "+prefix, err, nd.ErrNotFound)
	}
}

func conformKeys(ctx context.Context, t *testing.T, st store.Store) {
	for _, key := range []string{"", "/", "/etc/passwd", "..", "../x", "c/../zarr.json", "c//0", "./c", "c/0/0/", "c/\x00"} {
		wantKind(t, "read "+key, st.ReadAt(ctx, key, make([]byte, 1), 0), nd.ErrUnsupported)
		_, err := st.Size(ctx, key)
		wantKind(t, "size "+key, err, nd.ErrUnsupported)
	}
	for _, prefix := range []string{"..", "../", "c/..", "//", "/etc"} {
		_, err := st.List(ctx, prefix)
		wantKind(t, "list "+prefix, err, nd.ErrUnsupported)
	}
}

func conformList(ctx context.Context, t *testing.T, st store.Store) {
	for prefix, want := range map[string][]string{
		"":     {"b-", "b/", "c/", "empty", "zarr.json"},
		"c":    {"0/", "1/"},
		"c/":   {"0/", "1/"},
		"c/0/": {"0", "1"},
	} {
		got, err := st.List(ctx, prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("list %q: %q %v, want %q", prefix, got, err, want)
		}
	}
}

func wantKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got error %v, want %v", what, err, kind)
	}
}
