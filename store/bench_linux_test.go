package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// coldBytes is the size of the file of BenchmarkColdRead, and coldReads how many
// reads of coldRead bytes each case may make. The cases read different parts of the
// file, none of them twice: the page cache is emptied of it at the start, but what
// lies below (a host, a disk with memory) may keep what it has read.
const (
	coldBytes = 4 << 30
	coldReads = 1900
	coldRead  = 176 << 10 // a common size of compressed chunks
)

// BenchmarkColdRead reads at random offsets of a file that is not in the page
// cache, by as many goroutines as the queue is deep. It takes the file of the
// variable COLD_FILE, and gives the CPU time of the process a read beside the
// elapsed time.
//
//	COLD_FILE=... go test -run '^$' -bench ColdRead -benchtime 1900x ./store
func BenchmarkColdRead(b *testing.B) {
	path := os.Getenv("COLD_FILE")
	if path == "" {
		b.Skip("COLD_FILE is not set: a file of 4 GiB on the disk to be measured")
	}
	slots := rand.New(rand.NewPCG(1, 1)).Perm(coldBytes / coldRead)
	for _, depth := range []int{1, 4, 16, 64} {
		for _, a := range []store.Access{store.Buffered, store.Direct, store.Uring} {
			part := slots[:coldReads]
			slots = slots[coldReads:]
			b.Run(fmt.Sprintf("%s/depth=%d", a, depth), func(b *testing.B) { benchCold(b, path, a, depth, part) })
		}
	}
}

func benchCold(b *testing.B, path string, a store.Access, depth int, slots []int) {
	if b.N > coldReads {
		b.Fatalf("-benchtime %dx at most: more would come back to what was read", coldReads)
	}
	st, err := store.Open(filepath.Dir(path), store.Options{Access: a})
	if errors.Is(err, nd.ErrUnsupported) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, st)
	forget(b, path)
	var next atomic.Int64
	var wg sync.WaitGroup
	cpu := cpuTime(b)
	b.SetBytes(coldRead)
	b.ResetTimer()
	for range depth {
		wg.Go(func() {
			p := make([]byte, coldRead)
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				off := int64(slots[len(slots)-b.N+int(i)]) * coldRead
				if err := st.ReadAt(b.Context(), filepath.Base(path), p, off); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N)/1e3, "cpu-us/op")
	if s := st.(*store.Retry).Stats(); s.Enters > 0 {
		b.ReportMetric(float64(s.Enters)/float64(b.N), "enters/op")
	}
}

// forget empties the page cache of a file.
func forget(b *testing.B, path string) {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, f)
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what the process has used, in nanoseconds, user and system.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
