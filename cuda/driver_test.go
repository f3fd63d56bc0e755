package cuda_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// oneLine checks the kind of an error and that it is one line with these words.
func oneLine(t testing.TB, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want an error of kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// A machine without a driver, or with one that is of no use, gets one line.
func TestLoadWithoutDriver(t *testing.T) {
	_, err := cuda.Load(filepath.Join(t.TempDir(), "libcuda.so.1"))
	oneLine(t, err, nd.ErrDevice, "no NVIDIA driver")
}

func TestLoadUnusable(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*cudatest.Fake)
		says string
	}{
		"old":        {func(f *cudatest.Fake) { f.Version(11080) }, "too old: it is of CUDA 11.8"},
		"incomplete": {func(f *cudatest.Fake) { f.Hide("cuMemHostRegister") }, "has no cuMemHostRegister"},
		"no GPU":     {func(f *cudatest.Fake) { f.Fail("cuInit", 0, 100) }, "sees no GPU"},
		"none":       {func(f *cudatest.Fake) { f.Devices(0) }, "sees no GPU"},
		"mismatch":   {func(f *cudatest.Fake) { f.Fail("cuInit", 1, 803) }, "different versions"},
		"unknown":    {func(f *cudatest.Fake) { f.Fail("cuInit", 1, 999) }, "CUDA error 999"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := cudatest.New(t)
			c.set(fake)
			_, err := cuda.Load(fake.Path)
			oneLine(t, err, nd.ErrDevice, c.says)
		})
	}
}

// Loading again gives a second driver on the same library, and both work.
func TestLoadTwice(t *testing.T) {
	r := open(t, needFake)
	again := must(cuda.Load(r.fake.Path))(t)
	second := must(again.Open(0))(t)
	if live := r.fake.Live(); live.Contexts != 2 {
		t.Errorf("two opened devices hold %d contexts", live.Contexts)
	}
	ok(t, second.Close())
}

func TestDescribe(t *testing.T) {
	driver, fake := load(t)
	if driver.Version() < 12000 {
		t.Errorf("version %d", driver.Version())
	}
	count := must(driver.Count())(t)
	for i := range count {
		info := must(driver.Describe(i))(t)
		t.Logf("%+v", info)
		if info.Ordinal != i || info.Name == "" || len(info.UUID) != 40 || info.BusID == "" || info.Major < 5 || info.SMs < 1 || info.Memory < 1<<30 || info.SharedMemory < 48*kib {
			t.Errorf("device %d: %+v", i, info)
		}
		if info.BatchCopy != (driver.Version() >= 12080) {
			t.Errorf("version %d, batched copies %v", driver.Version(), info.BatchCopy)
		}
	}
	if fake != nil && fake.Live() != (cudatest.Live{}) {
		t.Errorf("describing made %+v", fake.Live())
	}
	_, err := driver.Describe(count)
	oneLine(t, err, nd.ErrDevice, "CUDA_ERROR_INVALID_DEVICE (101)")
	_, err = driver.Open(count)
	oneLine(t, err, nd.ErrDevice, "CUDA_ERROR_INVALID_DEVICE (101)")
}
