//go:build uring && linux

package store

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/headrace/headrace/nd"
)

func needRing(t *testing.T, limit int) *ring {
	t.Helper()
	r, err := newRing(limit)
	if errors.Is(err, nd.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// close ends reads that would never end by themselves, as of a disk that hangs:
// here of a pipe into which nobody writes.
func TestCloseCancelsReads(t *testing.T) {
	r := needRing(t, 4)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, out)
	defer shut(t, in)
	if err := setDirect(out, false); err != nil { // clears O_NONBLOCK
		t.Fatal(err)
	}
	pool := newBlocks(4)
	var blocks []*block
	for range 4 {
		b, err := pool.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks[:3] {
		b.fd, b.n, b.off = int32(out.Fd()), 10, -1
		if !r.push(b) {
			t.Fatal("the ring is closed")
		}
	}
	// A read that is queued after them and answered: they are in flight now.
	if _, err := r.read(ordinary(t), blocks[3], 3, 0); err != nil {
		t.Fatal(err)
	}
	r.close()
	for _, b := range blocks {
		if b != blocks[3] {
			<-b.done
			if got := syscall.Errno(-b.res); got != syscall.ECANCELED {
				t.Errorf("%v, want ECANCELED", got)
			}
		}
		pool.put(b)
	}
	if _, err := r.read(out, blocks[0], 1, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	r.close()
	pool.close()
	if n := pool.mapped.Load(); n != 0 {
		t.Errorf("%d blocks are still mapped", n)
	}
}

func ordinary(t *testing.T) *os.File {
	t.Helper()
	name := files(t, 1)[0]
	f, err := os.Open(name.path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, f) })
	return f
}

// A ring that the kernel refuses is nd.ErrUnsupported, and leaves nothing behind.
func TestRefusedRing(t *testing.T) {
	if _, err := newRing(1 << 20); !errors.Is(err, nd.ErrUnsupported) {
		t.Errorf("a ring of a million reads: %v, want nd.ErrUnsupported", err)
	}
}

// A ring that broke fails those who wait and those who come, and gives up the
// memory that the kernel may still write to.
func TestBrokenRing(t *testing.T) {
	r := &ring{ended: make(chan struct{}), table: make([]*block, 2)}
	close(r.ended)
	pool := newBlocks(2)
	flying, err := pool.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := pool.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.table[flying.id] = flying
	r.mu.queue = append(r.mu.queue, waiting)
	r.fail(os.ErrInvalid)
	<-flying.done
	<-waiting.done
	if flying.res >= 0 || waiting.res >= 0 || !flying.lost || waiting.lost {
		t.Errorf("in flight: %d, lost %v; queued: %d, lost %v", flying.res, flying.lost, waiting.res, waiting.lost)
	}
	if _, err := r.read(os.Stdin, waiting, 1, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("a later read: %v", err)
	}
	pool.put(flying)
	pool.put(waiting)
	pool.close()
	if n := pool.mapped.Load(); n != 1 {
		t.Errorf("%d blocks are mapped, want the one that is lost", n)
	}
}
