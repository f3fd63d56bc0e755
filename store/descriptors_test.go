package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/nd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files writes n files named by their index, each holding its name.
func files(t testing.TB, n int) []objectName {
	t.Helper()
	dir := t.TempDir()
	names := make([]objectName, n)
	for i := range names {
		names[i] = objectName{root: dir, key: fmt.Sprintf("%03d", i)}
		if err := os.WriteFile(names[i].path(), []byte(names[i].key), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// shut closes at once.
func shut(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func use(t *testing.T, d *Descriptors, name objectName) {
	t.Helper()
	fd, err := d.acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	d.release(fd)
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	d := NewDescriptors(2)
	defer shut(t, d)
	p := files(t, 3)
	use(t, d, p[0]) // miss
	use(t, d, p[1]) // miss
	use(t, d, p[0]) // hit: 1 is now the oldest
	use(t, d, p[2]) // miss, evicts 1
	use(t, d, p[0]) // hit
	use(t, d, p[1]) // miss, evicts 2
	want := Stats{Hits: 2, Misses: 4, Evictions: 2, Open: 2}
	if got := d.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Callers that want a file at the same time share one open.
func TestSingleFlight(t *testing.T) {
	p := files(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var opens atomic.Int32
		gate := make(chan struct{})
		d := newDescriptors(4, func(path string) (*os.File, error) {
			opens.Add(1)
			<-gate
			return openObject(path)
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { use(t, d, p[0]) })
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if opens.Load() != 1 {
			t.Errorf("%d opens, want 1", opens.Load())
		}
		shut(t, d)
	})
}

// A failed open fails all who waited for it, and is not remembered.
func TestFailedOpenIsTriedAgain(t *testing.T) {
	p := files(t, 1)
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		fail := true
		d := newDescriptors(1, func(path string) (*os.File, error) {
			<-gate
			if fail {
				return nil, nd.Errorf(nd.ErrIO, "injected")
			}
			return openObject(path)
		})
		var failed atomic.Int32
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := d.acquire(t.Context(), p[0]); errors.Is(err, nd.ErrIO) {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if failed.Load() != 5 || d.Stats().Open != 0 {
			t.Errorf("%d of 5 failed, %d open", failed.Load(), d.Stats().Open)
		}
		fail = false
		use(t, d, p[0])
		shut(t, d)
	})
}

// A file in use keeps its place: one more open waits until a user leaves, and a
// context or Close ends the wait.
func TestFullSetWaits(t *testing.T) {
	p := files(t, 4)
	synctest.Test(t, func(t *testing.T) {
		d := newDescriptors(1, openObject)
		held, err := d.acquire(t.Context(), p[0])
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 3)
		acquire := func(ctx context.Context, name objectName) {
			fd, err := d.acquire(ctx, name)
			if err == nil {
				d.release(fd)
			}
			got <- err
		}
		go acquire(ctx, p[1])
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled wait: %v", err)
		}
		go acquire(t.Context(), p[2])
		synctest.Wait()
		if _, err := held.file.Stat(); err != nil {
			t.Errorf("the file in use was closed: %v", err)
		}
		d.release(held)
		if err := <-got; err != nil {
			t.Errorf("after a release: %v", err)
		}
		held, err = d.acquire(t.Context(), p[0])
		if err != nil {
			t.Fatal(err)
		}
		go acquire(t.Context(), p[3])
		synctest.Wait()
		shut(t, d)
		if err := <-got; !errors.Is(err, nd.ErrClosed) {
			t.Errorf("closed while waiting: %v", err)
		}
		if _, err := held.file.Stat(); err != nil {
			t.Errorf("Close took the file from its user: %v", err)
		}
		d.release(held)
		if n := d.Stats().Open; n != 0 {
			t.Errorf("%d files open at the end", n)
		}
	})
}

// A dropped descriptor serves its users to the end and is opened anew for the
// next.
func TestDropOpensAnew(t *testing.T) {
	d := NewDescriptors(4)
	defer shut(t, d)
	p := files(t, 1)
	first, err := d.acquire(t.Context(), p[0])
	if err != nil {
		t.Fatal(err)
	}
	d.drop(first)
	d.drop(first)
	second, err := d.acquire(t.Context(), p[0])
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("the dropped descriptor was found again")
	}
	if _, err := first.file.Stat(); err != nil {
		t.Errorf("closed under its user: %v", err)
	}
	d.release(first)
	if _, err := first.file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("not closed by its last user: %v", err)
	}
	d.release(second)
	if n := d.Stats().Open; n != 1 {
		t.Errorf("%d open, want 1", n)
	}
}

// Many readers of more files than fit: every one reads the right bytes, and the
// number of open files never passes the limit.
func TestBoundHoldsUnderLoad(t *testing.T) {
	const limit, workers, rounds = 3, 8, 400
	var opened, peak atomic.Int64
	p := files(t, 12)
	var d *Descriptors
	d = newDescriptors(limit, func(path string) (*os.File, error) {
		opened.Add(1)
		if n := int64(d.Stats().Open); n > peak.Load() {
			peak.Store(n)
		}
		return openObject(path)
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var buf [3]byte
			for range rounds {
				name := p[r.IntN(len(p))]
				fd, err := d.acquire(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				if r.IntN(10) == 0 {
					d.drop(fd)
				}
				if _, err := fd.file.ReadAt(buf[:], 0); err != nil || string(buf[:]) != name.key {
					t.Errorf("%s: %q %v", name.key, buf, err)
				}
				d.release(fd)
			}
		})
	}
	wg.Wait()
	if peak.Load() > limit {
		t.Errorf("%d files open, limit %d", peak.Load(), limit)
	}
	s := d.Stats()
	if s.Hits+s.Misses != workers*rounds || int64(s.Misses) != opened.Load() {
		t.Errorf("%+v after %d reads and %d opens", s, workers*rounds, opened.Load())
	}
	if err := d.Close(); err != nil || d.Stats().Open != 0 {
		t.Errorf("close: %v, %d open", err, d.Stats().Open)
	}
}

func TestLimitStaysBelowTheProcess(t *testing.T) {
	if got, want := NewDescriptors(1<<30).limit, openFileLimit()/2; got != want {
		t.Errorf("limit %d, want %d", got, want)
	}
	if got := NewDescriptors(0).limit; got > DefaultDescriptors || got < 1 {
		t.Errorf("default limit %d", got)
	}
}
