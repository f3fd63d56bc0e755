package nvcomp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/nvcomp"
	"github.com/headrace/headrace/cuda/nvcomp/nvcomptest"
	"github.com/headrace/headrace/nd"
)

// What the library has decides how it is called; what it says of itself is for
// messages, save for majors that nobody has seen yet.
func TestOpenForms(t *testing.T) {
	fake := cudatest.New(t)
	gpu := device(t, fake.Path)
	for name, c := range map[string]struct {
		form nvcomptest.Form
		says []string // none: it is taken
	}{
		"4.2":        {nvcomptest.Form{Major: 4, Version: 4200}, []string{"is nvCOMP 4.2.0", "5.x or 6.x", "nvidia-libnvcomp-cu13"}},
		"5.0":        {nvcomptest.Form{Major: 5, Version: 5000}, nil},
		"5.x as 9":   {nvcomptest.Form{Major: 5, Version: 9000}, []string{"nvCOMP 9.0.0", "not known"}},
		"6.0":        {nvcomptest.Six, nil},
		"silent":     {nvcomptest.Form{Major: 6, Version: 0}, nil},
		"incomplete": {nvcomptest.Form{Major: 5, Version: 5300, NoAlignments: true}, []string{"nvCOMP 5.3.0", "no nvcompBatchedZstdDecompressGetRequiredAlignments"}},
		"unlike all": {nvcomptest.Form{Major: 7, Version: 6100}, []string{"no nvcompBatchedZstdDecompressGetTempSize"}},
	} {
		t.Run(name, func(t *testing.T) {
			lib, err := nvcomp.Open(nvcomptest.Library(t, c.form), gpu)
			if c.says == nil {
				ok(t, err)
				if want := strings.TrimSuffix(name, "silent"); want != "" && !strings.HasPrefix(lib.Version(), want) {
					t.Errorf("version %s", lib.Version())
				}
				return
			}
			oneLine(t, err, nd.ErrUnsupported, c.says...)
		})
	}
}

// Without the library the error says what to install, for the driver's CUDA.
func TestOpenNothing(t *testing.T) {
	fake := cudatest.New(t)
	fake.Version(12080)
	gpu := device(t, fake.Path)
	for _, path := range []string{filepath.Join(t.TempDir(), "libnvcomp.so.5"), t.TempDir()} {
		_, err := nvcomp.Open(path, gpu)
		oneLine(t, err, nd.ErrUnsupported, "no nvCOMP, pip install nvidia-libnvcomp-cu12", path)
	}
	text := filepath.Join(t.TempDir(), "text")
	ok(t, os.WriteFile(text, []byte("no library"), 0o600))
	_, err := nvcomp.Open(text, gpu)
	oneLine(t, err, nd.ErrUnsupported, text)
}

// A folder is searched as the wheel lays it out.
func TestOpenFolder(t *testing.T) {
	fake := cudatest.New(t)
	gpu := device(t, fake.Path)
	built := nvcomptest.Library(t, nvcomptest.Six)
	_, err := nvcomp.Open(filepath.Dir(built), gpu)
	ok(t, err)
	packages := t.TempDir()
	folder := filepath.Join(packages, "nvidia", "libnvcomp", "lib64")
	ok(t, os.MkdirAll(folder, 0o700))
	ok(t, os.Rename(built, filepath.Join(folder, "libnvcomp.so.6")))
	_, err = nvcomp.Open(packages, gpu)
	ok(t, err)
}

// The library that the user has binds also where there is no GPU: nothing but its
// entries is asked for.
func TestOpenReal(t *testing.T) {
	if *libraryFlag == "" {
		t.Skip("needs nvCOMP: -nvcomp.library=PATH")
	}
	lib, err := nvcomp.Open(*libraryFlag, device(t, cudatest.New(t).Path))
	ok(t, err)
	input, output, temp, err := lib.Alignments(nvcomp.Zstd)
	t.Logf("nvCOMP %s, alignments %d, %d, %d, %v", lib.Version(), input, output, temp, err)
	bytes, err := lib.TempBytes(nvcomp.Zstd, 4096, 256<<10, 1<<30)
	t.Logf("%d bytes of scratch, %v", bytes, err)
}

// Each argument arrives where nvCOMP has it, for both forms of the query: the
// numbers are all different, and the fake gives back what it got.
func TestArguments(t *testing.T) {
	for _, form := range []nvcomptest.Form{nvcomptest.Five, nvcomptest.Six} {
		r := fakes(t, form)
		input, output, temp, err := r.lib.Alignments(nvcomp.Zstd)
		if err != nil || input != 4 || output != 8 || temp != 16 {
			t.Errorf("alignments %d, %d, %d, %v", input, output, temp, err)
		}
		bytes, err := r.lib.TempBytes(nvcomp.Zstd, 7, 1000, 5000)
		if err != nil || bytes != 7*64+5000 {
			t.Errorf("%d bytes of scratch, %v", bytes, err)
		}
		for i, want := range []int{7, 1000, 5000} {
			if got := r.fake.Argument(i); got != want {
				t.Errorf("argument %d of the query is %d, want %d", i, got, want)
			}
		}
		if hasStream := r.fake.Argument(3) != 0; hasStream != (form.Major == 6) {
			t.Errorf("form %d: stream %#x", form.Major, r.fake.Argument(3))
		}
		b := r.prepare([][]byte{stored([]byte("one chunk"))}, []int64{9})
		ok(t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch))
		for i, want := range []uint64{
			uint64(b.Sources), uint64(b.SourceBytes), uint64(b.DestinationBytes), uint64(b.ActualBytes), 1, uint64(b.Temp), uint64(b.TempBytes),
			uint64(b.Destinations), uint64(b.Statuses), uint64(r.stream.Handle()),
		} {
			if got := uint64(r.fake.Argument(i)); got != want {
				t.Errorf("argument %d of the decoder is %#x, want %#x", i, got, want)
			}
		}
		r.collect(b)
		r.quiet()
	}
}

// A batch is decoded, chunk by chunk, and a chunk that fails leaves the others
// alone. The caller's own context stays current on its thread.
func TestDecompress(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := fakes(t, nvcomptest.Five)
	r.driver.Lazy(true) // the copies to the GPU have not run when the library is called
	texts := [][]byte{[]byte("raw"), bytes.Repeat([]byte{7}, 1000), {}, noise(300_000), []byte("cut short"), []byte("broken")}
	var frames [][]byte
	var sizes []int64
	for _, text := range texts {
		frames = append(frames, stored(text))
		sizes = append(sizes, int64(len(text)))
	}
	sizes[4]--
	r.fake.Break(5, 13)
	b := r.prepare(frames, sizes)
	ok(t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch))
	r.collect(b)
	for i, text := range texts {
		data, actual, status := b.chunk(i)
		switch i {
		case 4:
			if status != 15 || actual != 0 {
				t.Errorf("a chunk without room: %s, %d bytes", nvcomp.StatusText(status), actual)
			}
		case 5:
			if status != 13 {
				t.Errorf("a broken chunk: %s", nvcomp.StatusText(status))
			}
		default:
			if status != 0 || actual != int64(len(text)) || !bytes.Equal(data, text) {
				t.Errorf("chunk %d: %s, %d bytes, equal %v", i, nvcomp.StatusText(status), actual, bytes.Equal(data, text))
			}
		}
	}
	r.quiet()
}

// A mistake in a batch is told before the library sees it.
func TestBadBatch(t *testing.T) {
	r := fakes(t, nvcomptest.Five)
	good := nvcomp.Batch{Sources: 1, SourceBytes: 2, Destinations: 3, DestinationBytes: 4, ActualBytes: 5, Statuses: 6, N: 1, Temp: 7, TempBytes: 8}
	for _, spoil := range []func(*nvcomp.Batch){
		func(b *nvcomp.Batch) { b.N = -1 },
		func(b *nvcomp.Batch) { b.TempBytes = -1 },
		func(b *nvcomp.Batch) { b.Temp = 0 },
		func(b *nvcomp.Batch) { b.Sources = 0 },
		func(b *nvcomp.Batch) { b.SourceBytes = 0 },
		func(b *nvcomp.Batch) { b.Destinations = 0 },
		func(b *nvcomp.Batch) { b.DestinationBytes = 0 },
		func(b *nvcomp.Batch) { b.ActualBytes = 0 },
		func(b *nvcomp.Batch) { b.Statuses = 0 },
	} {
		bad := good
		spoil(&bad)
		oneLine(t, r.lib.Decompress(nvcomp.Zstd, r.stream, bad), nd.ErrBug)
	}
	oneLine(t, r.lib.Decompress(1, r.stream, good), nd.ErrBug, "format 1")
	_, err := r.lib.TempBytes(nvcomp.Zstd, 1, -1, 0)
	oneLine(t, err, nd.ErrBug)
	ok(t, r.lib.Decompress(nvcomp.Zstd, r.stream, nvcomp.Batch{}))
	if n := r.fake.Calls(nvcomptest.Decompress); n != 0 {
		t.Errorf("the library was called %d times", n)
	}
	r.quiet()
	oneLine(t, r.lib.Decompress(nvcomp.Zstd, r.stream, good), nd.ErrBug, "invalid value (10)")
	if len(r.fake.Complaints()) == 0 {
		t.Error("addresses of no memory went unseen")
	}
}

// Errors of the library and of the driver keep their kinds, and the context is
// popped after each.
func TestFailures(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := fakes(t, nvcomptest.Six)
	b := r.prepare([][]byte{stored([]byte("x"))}, []int64{1})
	for status, kind := range map[int]error{10: nd.ErrBug, 11: nd.ErrUnsupported, 17: nd.ErrBug, 18: nd.ErrUnsupported, 21: nd.ErrUnsupported, 1000: nd.ErrDevice, 10000: nd.ErrDevice, 77: nd.ErrDevice} {
		for _, entry := range []string{nvcomptest.Alignments, nvcomptest.TempSize, nvcomptest.Decompress} {
			r.fake.Fail(entry, status)
		}
		text := nvcomp.StatusText(int32(status))
		_, _, _, err := r.lib.Alignments(nvcomp.Zstd)
		oneLine(t, err, kind, "the alignments 6.0.0 on GPU 0", text)
		_, err = r.lib.TempBytes(nvcomp.Zstd, 1, 1, 1)
		oneLine(t, err, kind, "the size of the scratch", text)
		oneLine(t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch), kind, "decoding with nvCOMP", text)
	}
	r.fake.Fail(nvcomptest.Decompress, 0)
	r.quiet()
	for _, entry := range []string{"cuCtxPushCurrent", "cuCtxPopCurrent"} {
		r.driver.Fail(entry, 1, 999)
		oneLine(t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch), nd.ErrDevice, "decoding with nvCOMP", "CUDA_ERROR_UNKNOWN")
	}
	r.collect(b)
	ok(t, r.stream.Close())
	oneLine(t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch), nd.ErrClosed)
}

// A stream of another GPU would run the work there.
func TestStreamOfAnotherGPU(t *testing.T) {
	r := fakes(t, nvcomptest.Five)
	driver, err := cuda.Load(r.driver.Path)
	ok(t, err)
	other, err := driver.Open(1)
	ok(t, err)
	t.Cleanup(func() { ok(t, other.Close()) })
	stream, err := other.NewStream(0)
	ok(t, err)
	b := nvcomp.Batch{Sources: 1, SourceBytes: 2, Destinations: 3, DestinationBytes: 4, ActualBytes: 5, Statuses: 6, N: 1}
	oneLine(t, r.lib.Decompress(nvcomp.Zstd, stream, b), nd.ErrBug, "another GPU")
}

// Concurrent readers have been seen to hang nvCOMP, so calls run one at a time.
func TestOneCallAtATime(t *testing.T) {
	r := fakes(t, nvcomptest.Five)
	b := r.prepare([][]byte{stored(noise(1 << 20))}, []int64{1 << 20})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if err := r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch); err != nil {
					t.Error(err)
				}
				if _, err := r.lib.TempBytes(nvcomp.Zstd, 1, 1, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if r.fake.Together() {
		t.Error("two calls ran at the same time")
	}
	if n := r.fake.Calls(nvcomptest.Decompress); n != 160 {
		t.Errorf("%d calls", n)
	}
	r.collect(b)
	r.quiet()
}
