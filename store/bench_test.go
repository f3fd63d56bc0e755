package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/headrace/headrace/store"
)

// BenchmarkFileRead reads from files that lie in the page cache: what a read
// costs with its file open, and what it costs when every read opens one.
func BenchmarkFileRead(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, fds := range []int{64, 1} {
			b.Run(fmt.Sprintf("%dKiB/fds=%d", size>>10, fds), func(b *testing.B) { benchRead(b, size, fds) })
		}
	}
}

func benchRead(b *testing.B, size, fds int) {
	objects := make(map[string][]byte)
	keys := make([]string, 16)
	for i := range keys {
		keys[i] = fmt.Sprintf("c/%d", i)
		objects[keys[i]] = make([]byte, size)
	}
	d := store.NewDescriptors(fds)
	defer shut(b, d)
	st := store.NewFile(writeFolder(b, objects), store.Options{Descriptors: d})
	p := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := st.ReadAt(b.Context(), keys[i%len(keys)], p, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFileParallel is small reads by all cores at once: contention on the
// set of open files shows here.
func BenchmarkFileParallel(b *testing.B) {
	objects := make(map[string][]byte)
	keys := make([]string, 64)
	for i := range keys {
		keys[i] = fmt.Sprintf("c/%d", i)
		objects[keys[i]] = make([]byte, 4<<10)
	}
	st := store.NewFile(writeFolder(b, objects), store.Options{})
	defer shut(b, st)
	var next atomic.Int64
	b.SetBytes(4 << 10)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		p := make([]byte, 4<<10)
		for i := int(next.Add(17)); pb.Next(); i++ {
			if err := st.ReadAt(b.Context(), keys[i%len(keys)], p, 0); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
