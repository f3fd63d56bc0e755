//go:build linux

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/nd"
)

// scripted is a directReader whose kernel answers as reply says: with fewer bytes,
// or an error.
func scripted(t *testing.T, data []byte, reply func(n int) (int, error)) (*directReader, *descriptor) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &directReader{blocks: newBlocks(1), counts: &directCounts{}}
	t.Cleanup(func() { shut(t, file); r.blocks.close() })
	r.read = func(file *os.File, b *block, n int, off int64) (int, error) {
		if off%4096 != 0 || n%4096 != 0 || n > len(b.mem) {
			t.Errorf("read of %d at %d into %d bytes: not of whole blocks", n, off, len(b.mem))
		}
		n, err := reply(n)
		if err != nil {
			return 0, err
		}
		return pread(file, b, n, off)
	}
	fd := &descriptor{file: file, align: 4096}
	fd.direct.Store(true)
	return r, fd
}

// However short the reads are, and wherever a file stops to allow them, the bytes
// are those of os.File.
func TestShortDirectReadsAreContinued(t *testing.T) {
	data := make([]byte, 3*BlockBytes+1234)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(data) // never fails
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		stop := r.IntN(12)
		reader, fd := scripted(t, data, func(n int) (int, error) {
			if stop--; stop == 0 {
				return 0, syscall.EINVAL
			}
			return r.IntN(n + 1), nil
		})
		off := r.IntN(len(data))
		p := make([]byte, r.IntN(len(data)-off+1))
		n, err := reader.readAt(t.Context(), fd, p, int64(off))
		if n != len(p) || err != nil || !bytes.Equal(p, data[off:off+len(p)]) {
			t.Fatalf("seed %d: %d+%d: %d bytes, %v, or wrong ones", seed, off, len(p), n, err)
		}
		if got := reader.counts.refused.Load(); (got == 1) == fd.direct.Load() {
			t.Fatalf("seed %d: direct is %v, %d counted", seed, fd.direct.Load(), got)
		}
	}
}

// An error of the disk is not taken for a refusal, nor the end of the file for one.
func TestDirectErrors(t *testing.T) {
	r, fd := scripted(t, make([]byte, 5000), func(int) (int, error) { return 0, syscall.EIO })
	_, err := r.readAt(t.Context(), fd, make([]byte, 10), 0)
	if got := fileError(err, "name", 0, 10); !errors.Is(got, nd.ErrIO) || !errors.Is(got, syscall.EIO) {
		t.Errorf("%v, want nd.ErrIO of EIO", got)
	}
	r, fd = scripted(t, make([]byte, 5000), func(n int) (int, error) { return n, nil })
	if n, err := r.readAt(t.Context(), fd, make([]byte, 10), 4995); n != 5 || !errors.Is(err, io.EOF) {
		t.Errorf("across the end: %d %v", n, err)
	}
	if n, err := r.readAt(t.Context(), fd, make([]byte, 2), 1<<63-3); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the last offset that there is: %d %v", n, err)
	}
	if !fd.direct.Load() {
		t.Error("the file was taken for one that refuses")
	}
}

// The pool never maps more than its limit; who waits is woken by a block, by its
// context and by close; what is in use at close is unmapped by its user.
func TestBlocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBlocks(2)
		take := func(ctx context.Context) *block {
			b, err := p.take(ctx)
			if err != nil {
				t.Error(err)
			}
			return b
		}
		a, b := take(t.Context()), take(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		got := make(chan *block)
		go func() { got <- take(t.Context()) }()
		synctest.Wait()
		p.put(a)
		if c := <-got; c != a || c.id == b.id {
			t.Error("not the block that came back")
		}
		failed := make(chan error)
		go func() {
			_, err := p.take(t.Context())
			failed <- err
		}()
		synctest.Wait()
		p.close()
		if err := <-failed; !errors.Is(err, nd.ErrClosed) {
			t.Errorf("closed while waiting: %v", err)
		}
		if n := p.mapped.Load(); n != 2 {
			t.Errorf("%d blocks mapped, 2 are in use", n)
		}
		p.put(a)
		p.put(b)
		if n := p.mapped.Load(); n != 0 {
			t.Errorf("%d blocks mapped at the end", n)
		}
	})
}

// What the kernel tells of a file is checked by reading it: whole blocks of that
// size are taken.
func TestAlignmentIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 3*maxAlign), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := openObject(path)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, file)
	align, ok := directAlign(file)
	if !ok || setDirect(file, true) != nil {
		t.Skipf("the file system of %s has no direct reads", path)
	}
	mem, err := mapBlock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unmapBlock(mem); err != nil {
			t.Error(err)
		}
	}()
	n, err := pread(file, &block{mem: mem}, int(align), align)
	if err != nil || n != int(align) {
		t.Error(fmt.Errorf("alignment %d: read %d, %w", align, n, err))
	}
}
