package probe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
)

// onFake are options for the fake GPU: its rates mean nothing, but its kernels run.
func onFake(fake *cudatest.Fake, uri string) Options {
	o := quick(uri)
	o.Device, o.Driver, o.calls = "cuda:0", fake.Path, []int{2, 30, 100}
	return o
}

// small chunks, since the fake GPU is one processor.
func small(t *testing.T, codecs string) string {
	return write(t, dataset.Array{Shape: []int64{4, 8, 32}, Chunk: []int64{4, 4, 16}}, codecs)
}

// On a GPU the copies and the chunks as they are stored are measured, for every method
// that has kernels, and nothing stays on it.
func TestGPU(t *testing.T) {
	fake := cudatest.New(t)
	for codecs, method := range map[string]Method{
		`"zstd"`: Zstd, `["shuffle","zstd"]`: Zstd, `"lz4"`: LZ4, `["shuffle","lz4"]`: LZ4, `"blosc-lz4"`: BloscLZ4, `"blosc-zstd"`: BloscZstd, `"blosc-blosclz"`: BloscLZ,
		`"gzip"`: Gzip, `["shuffle","zlib"]`: Zlib, `"blosc-zlib"`: BloscZlib, `"shuffle"`: Shuffle,
		`["zstd","crc32c"]`: Zstd, `["shuffle","lz4","crc32c"]`: LZ4,
	} {
		r := run(t, onFake(fake, small(t, codecs)))
		g := r.GPU
		if r.Method != method || g.From != Here || len(g.Waves) != 3 || g.GBPerS <= 0 || g.CopyFrom != Here || !strings.Contains(g.Name, "fake") && g.Name == "" {
			t.Errorf("%s: %s, %+v", codecs, r.Method, g)
		}
		for i, w := range g.Waves {
			if w.Chunks != []int{2, 30, 100}[i] || w.From != Here || w.MS <= 0 {
				t.Errorf("%s: %+v", codecs, w)
			}
		}
		if r.Target != "gpu" || r.Bound == "" {
			t.Errorf("%s: to the %s, bound by %s", codecs, r.Target, r.Bound)
		}
	}
	// What has no kernels is the host's.
	if r := run(t, onFake(fake, small(t, `["zstd","gzip"]`))); r.GPU.From != ByHost || r.GPU.CopyFrom != Here {
		t.Errorf("zstd in gzip: %+v", r.GPU)
	}
	// Candidates are measured on it too.
	o := onFake(fake, small(t, `["zstd","gzip"]`))
	o.OnlyStored, o.Codecs = false, []string{"zstd", "none", "zlib"}
	from := map[string]string{}
	for _, c := range run(t, o).Table {
		from[c.Codec] = c.GPUFrom
		if (c.GPUGBPerS > 0) != (c.Codec != "none") {
			t.Errorf("%s: %v GB/s", c.Codec, c.GPUGBPerS)
		}
	}
	if from["zstd"] != Here || from["none"] != Predicted || from["zlib"] != Here || from["as stored"] != ByHost {
		t.Errorf("candidates: %v", from)
	}
	clean(t, fake)
}

func clean(t *testing.T, fake *cudatest.Fake) {
	t.Helper()
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("not given back: %+v", live)
	}
	for _, c := range fake.Complaints() {
		t.Error(c)
	}
}

// A GPU that has no room for thousands of chunks is asked for fewer at a time.
func TestLittleMemory(t *testing.T) {
	fake := cudatest.New(t)
	fake.Memory(130 << 20)
	o := onFake(fake, small(t, `"lz4"`))
	o.calls = []int{64, 512, 1 << 20}
	r := run(t, o)
	if len(r.GPU.Waves) != 2 || r.GPU.From != Here || r.GPU.GBPerS <= 0 {
		t.Errorf("%+v", r.GPU)
	}
	clean(t, fake)
}

// Without being asked for, a GPU that is not there is no error: its rates are predicted.
// A device that fails on the way is one, and leaves nothing behind.
func TestGPUFailures(t *testing.T) {
	o := quick(small(t, `"zstd"`))
	o.Device, o.Driver = "", "/absent/libcuda.so"
	if r := run(t, o); r.GPU.From != Predicted || r.Target != "gpu" {
		t.Errorf("no driver: %+v", r.GPU)
	} else if len(r.Notes) > 0 {
		t.Errorf("no driver is worth a word: %q", r.Notes)
	}
	fake := cudatest.New(t)
	o.Driver = fake.Path
	fake.Fail("cuDevicePrimaryCtxRetain", 0, 2)
	if r := run(t, o); r.GPU.From != Predicted || !strings.Contains(strings.Join(r.Notes, ""), "no GPU is measured") {
		t.Errorf("a GPU that cannot be opened: %+v %q", r.GPU, r.Notes)
	}
	fake.Fail("cuDevicePrimaryCtxRetain", 0, 0)
	for _, entry := range []string{"cuMemAlloc", "cuMemHostAlloc"} {
		for nth := 1; nth <= 3; nth++ {
			fake.Fail(entry, nth, 2)
			if _, err := Run(context.Background(), onFake(fake, o.URI)); !errors.Is(err, nd.ErrBudget) {
				t.Errorf("call %d of %s failed: %v", nth, entry, err)
			}
			fake.Fail(entry, 0, 0)
		}
	}
	clean(t, fake)
	// Of a lost context nothing can be freed.
	fake.Fail("cuLaunchKernel", 1, 719)
	if _, err := Run(context.Background(), onFake(fake, o.URI)); !errors.Is(err, nd.ErrDevice) {
		t.Errorf("a launch failed: %v", err)
	}
}
