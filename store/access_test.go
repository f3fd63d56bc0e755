package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// eachAccess runs a test with every way to read; one that this build or machine
// lacks is skipped with the store's own reason.
func eachAccess(t *testing.T, test func(t *testing.T, a store.Access)) {
	for _, a := range []store.Access{store.Buffered, store.Direct, store.Uring} {
		t.Run(a.String(), func(t *testing.T) {
			st, err := store.Open(t.TempDir(), store.Options{Access: a})
			if errors.Is(err, nd.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			shut(t, st)
			test(t, a)
		})
	}
}

func TestAccessConforms(t *testing.T) {
	eachAccess(t, func(t *testing.T, a store.Access) {
		storetest.Conform(t, store.NewFile(writeFolder(t, storetest.Objects()), store.Options{Access: a}))
		fds := store.NewDescriptors(1)
		defer shut(t, fds)
		storetest.Conform(t, store.NewFile(writeFolder(t, storetest.Objects()), store.Options{Access: a, Descriptors: fds}))
	})
}

// edges are lengths around the blocks of disks and of the readers.
func edges() map[string][]byte {
	r := rand.NewChaCha8([32]byte{1})
	objects := map[string][]byte{}
	for _, n := range []int{0, 1, 511, 512, 513, 4095, 4096, 4097, 3*4096 + 700, store.BlockBytes - 1, store.BlockBytes, store.BlockBytes + 1, 2*store.BlockBytes + 4097} {
		data := make([]byte, n)
		_, _ = r.Read(data) // never fails
		objects[fmt.Sprint(n)] = data
	}
	return objects
}

// Whatever the range and the length of the file, every way gives what os.File
// gives, and an error of the same kind where the range goes beyond the end.
func TestAccessesReadWhatFileReads(t *testing.T) {
	objects := edges()
	root := writeFolder(t, objects)
	eachAccess(t, func(t *testing.T, a store.Access) {
		st := store.NewFile(root, store.Options{Access: a})
		defer shut(t, st)
		for key, want := range objects {
			f, err := os.Open(filepath.Join(root, key))
			if err != nil {
				t.Fatal(err)
			}
			differ(t, st, f, key, len(want))
			shut(t, f)
		}
		if s := st.Stats(); a != store.Buffered && s.Direct == 0 && s.Refused == 0 {
			t.Errorf("no read went past the page cache: %+v", s)
		}
	})
}

func differ(t *testing.T, st *store.File, f *os.File, key string, size int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(size), 3))
	for range 60 {
		off := r.Int64N(int64(size) + 10)
		n := r.IntN(size + 20)
		if r.IntN(2) == 0 { // short reads near the end and the blocks' borders
			off = max(0, int64(size)-r.Int64N(5000))
			n = r.IntN(5010)
		}
		want, got := make([]byte, n), make([]byte, n)
		_, wantErr := f.ReadAt(want, off)
		err := st.ReadAt(t.Context(), key, got, off)
		if wantErr != nil {
			if !errors.Is(err, nd.ErrCorrupt) {
				t.Fatalf("%s %d+%d: %v, want nd.ErrCorrupt since File says %v", key, off, n, err, wantErr)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s %d+%d: other bytes than File, or %v", key, off, n, err)
		}
	}
}

// A file system that has no direct reads is read through the page cache, and each
// file is counted once. The files of /proc are such.
func TestRefusedDirectReads(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	eachAccess(t, func(t *testing.T, a store.Access) {
		st := store.NewFile("/proc/sys/kernel", store.Options{Access: a})
		defer shut(t, st)
		for range 3 {
			p := make([]byte, 4)
			if err := st.ReadAt(t.Context(), "ostype", p, 1); err != nil || string(p) != "inux" {
				t.Fatalf("%q %v", p, err)
			}
		}
		want := uint64(1)
		if a == store.Buffered {
			want = 0
		}
		if s := st.Stats(); s.Refused != want || s.Direct != 0 {
			t.Errorf("%d files refused, %d direct reads, want %d and none", s.Refused, s.Direct, want)
		}
	})
}

// What happens to a file while it is open looks the same in every way.
func TestAccessesFailAlike(t *testing.T) {
	eachAccess(t, func(t *testing.T, a store.Access) {
		root := writeFolder(t, map[string][]byte{
			"cut": make([]byte, 20_000), "old": bytes.Repeat([]byte{1}, 9000), "new": bytes.Repeat([]byte{2}, 9000), "dir/x": {1},
		})
		st := store.NewFile(root, store.Options{Access: a})
		defer shut(t, st)
		read := func(key string, n int, off int64) ([]byte, error) {
			p := make([]byte, n)
			err := st.ReadAt(t.Context(), key, p, off)
			return p, err
		}
		for _, key := range []string{"cut", "old"} {
			if _, err := read(key, 100, 5000); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(filepath.Join(root, "cut"), 5050); err != nil {
			t.Fatal(err)
		}
		if _, err := read("cut", 100, 5000); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("beyond the new end: %v, want nd.ErrCorrupt", err)
		}
		if _, err := read("cut", 50, 5000); err != nil {
			t.Errorf("before the new end: %v", err)
		}
		if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "old")); err != nil {
			t.Fatal(err)
		}
		if p, err := read("old", 8999, 1); err != nil || !bytes.Equal(p, bytes.Repeat([]byte{1}, 8999)) {
			t.Errorf("a file that was replaced: not its old bytes, or %v", err)
		}
		if _, err := read("dir", 1, 0); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("a folder: %v, want nd.ErrCorrupt", err)
		}
		unreadable(t, root, read)
	})
}

func unreadable(t *testing.T, root string, read func(string, int, int64) ([]byte, error)) {
	t.Helper()
	if err := os.Symlink("loop", filepath.Join(root, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := read("loop", 1, 0); !errors.Is(err, nd.ErrIO) {
		t.Errorf("a loop of links: %v, want nd.ErrIO", err)
	}
	if os.Geteuid() == 0 {
		return // root may read everything
	}
	if err := os.Chmod(filepath.Join(root, "dir/x"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := read("dir/x", 1, 0); !errors.Is(err, nd.ErrIO) {
		t.Errorf("without permission: %v, want nd.ErrIO", err)
	}
}

// Many readers of more files than may be open, and a Close in their midst: each
// read gives the right bytes or says that the store is closed, and nothing is left
// open, mapped or running (the last is looked at by TestMain).
func TestAccessUnderLoad(t *testing.T) {
	objects := edges()
	root := writeFolder(t, objects)
	eachAccess(t, func(t *testing.T, a store.Access) {
		before := openFiles(t)
		fds := store.NewDescriptors(3)
		st := store.NewFile(root, store.Options{Access: a, Descriptors: fds})
		var wg sync.WaitGroup
		halfway := make(chan struct{})
		reached := sync.OnceFunc(func() { close(halfway) })
		for w := range 8 {
			wg.Go(func() {
				defer reached()
				for i := range 100 {
					if i == 50 {
						reached()
					}
					if !readSome(t, st, objects, uint64(w*1000+i)) {
						return
					}
				}
			})
		}
		<-halfway
		shut(t, fds)
		wg.Wait()
		if s := fds.Stats(); s.Open != 0 || s.Blocks != 0 {
			t.Errorf("%d files open, %d blocks mapped after Close", s.Open, s.Blocks)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d descriptors of the process, %d before", after, before)
		}
		shut(t, fds)
		if err := st.ReadAt(t.Context(), "513", make([]byte, 1), 0); !errors.Is(err, nd.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func readSome(t *testing.T, st *store.File, objects map[string][]byte, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 9))
	key := []string{"513", "4097", "12988", fmt.Sprint(store.BlockBytes + 1), fmt.Sprint(2*store.BlockBytes + 4097)}[r.IntN(5)]
	want := objects[key]
	off := r.IntN(len(want))
	p := make([]byte, r.IntN(len(want)-off+1))
	err := st.ReadAt(t.Context(), key, p, int64(off))
	if errors.Is(err, nd.ErrClosed) {
		return false
	}
	if err != nil || !bytes.Equal(p, want[off:off+len(p)]) {
		t.Errorf("%s %d+%d: wrong bytes or %v", key, off, len(p), err)
		return false
	}
	return true
}

// openFiles is the number of descriptors of this process, 0 where it cannot be
// told.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func TestAccessAllocatesNothing(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"c/0": make([]byte, 10_000)})
	eachAccess(t, func(t *testing.T, a store.Access) {
		st := store.NewFile(root, store.Options{Access: a})
		defer shut(t, st)
		p := make([]byte, 5000)
		allocs := testing.AllocsPerRun(100, func() {
			if err := st.ReadAt(t.Context(), "c/0", p, 77); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations a read, want none", allocs)
		}
	})
}

// What cannot be had is said at Open, and by every read where there is no Open.
func TestUnknownAccess(t *testing.T) {
	root := writeFolder(t, map[string][]byte{"a": {1}})
	if _, err := store.Open(root, store.Options{Access: 77}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("open: %v", err)
	}
	st := store.NewFile(root, store.Options{Access: 77})
	defer shut(t, st)
	if err := st.ReadAt(t.Context(), "a", make([]byte, 1), 0); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("read: %v", err)
	}
}
