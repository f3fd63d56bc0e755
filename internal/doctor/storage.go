package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sampleBytes bounds what is read; enough for a steady rate, and read within
	// two seconds at 100 MB/s.
	sampleBytes = 192 << 20
	// ownBytes is the size of the file that is written where there is none to read.
	ownBytes = 64 << 20
	readSize = 1 << 20
	readers  = 4 // as many as the engine's default
	manyKeys = 4096
	slowDisk = 200e6 // bytes a second: below this reading holds up one decoding core
)

// storage measures reads below s.Path: from the device, with the page cache of
// these files dropped, and again from the page cache.
func (s System) storage(ctx context.Context) []Check {
	fail := func(err error) []Check {
		return []Check{{"storage", Fail, err.Error(), "give a path that exists and can be read: --path DIR"}}
	}
	files, err := existing(s.Path)
	if err != nil {
		return fail(err)
	}
	if len(files) == 0 {
		own, err := writeRandom(s.Path, ownBytes)
		if own != "" {
			defer os.Remove(own) //nolint:errcheck // a leftover harms nobody
		}
		if err != nil {
			return fail(fmt.Errorf("nothing to read there, and no test file can be written: %w", err))
		}
		files = []string{own}
	}
	dropped := drop(files)
	cold, err := rate(ctx, files)
	if err != nil {
		return fail(err)
	}
	warm, err := rate(ctx, files)
	if err != nil {
		return fail(err)
	}
	device := Check{Name: "storage", Status: OK, Found: cold.String() + " with the page cache dropped"}
	if !dropped {
		device.Found = cold.String() + " on first read (the page cache could not be dropped)"
	}
	if cold.perSecond() < slowDisk {
		device.Status, device.Advice = Warn, "reading will be the bottleneck: copy hot data to a local disk, or use larger chunks and shards"
	}
	return []Check{device, {"page cache", OK, warm.String(), ""}}
}

// existing lists files below path until they hold sampleBytes.
func existing(path string) (files []string, err error) {
	total, seen := int64(0), 0
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > manyKeys || total >= sampleBytes {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			files = append(files, name)
			total += info.Size()
		}
		return nil
	})
	if total < 1<<20 {
		files = nil // too little to time
	}
	return files, err
}

// writeRandom makes a file of n random bytes in a folder and gives its name.
func writeRandom(folder string, n int64) (name string, err error) {
	f, err := os.CreateTemp(folder, ".headrace-doctor*")
	if err != nil {
		return "", err
	}
	_, err = io.CopyN(f, rand.Reader, n)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

// drop takes the files out of the page cache, as far as the system lets us.
func drop(files []string) (ok bool) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		_ = f.Close()
		if err != nil {
			return false
		}
	}
	return true
}

// speed is bytes read in a time.
type speed struct {
	bytes int64
	took  time.Duration
}

func (s speed) perSecond() float64 { return float64(s.bytes) / max(s.took.Seconds(), 1e-9) }

func (s speed) String() string {
	return fmt.Sprintf("%.2f GB/s (%s in %d MiB reads, %d at a time)", s.perSecond()/1e9, size(s.bytes), readSize>>20, readers)
}

// rate reads the files, up to sampleBytes, with a few readers at a time.
func rate(ctx context.Context, files []string) (speed, error) {
	var next, total atomic.Int64
	var wait sync.WaitGroup
	failed := make([]error, readers)
	began := time.Now()
	for i := range readers {
		wait.Go(func() {
			p := make([]byte, readSize)
			for failed[i] == nil && ctx.Err() == nil && total.Load() < sampleBytes {
				n := int(next.Add(1)) - 1
				if n >= len(files) {
					return
				}
				failed[i] = readWhole(ctx, files[n], p, &total)
			}
		})
	}
	wait.Wait()
	return speed{total.Load(), time.Since(began)}, errors.Join(append(failed, ctx.Err())...)
}

func readWhole(ctx context.Context, name string, p []byte, total *atomic.Int64) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	for off := int64(0); ctx.Err() == nil && total.Load() < sampleBytes; {
		n, err := f.ReadAt(p, off)
		total.Add(int64(n))
		off += int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
