package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// TestOpenSteps tells where the time of Open goes on a GPU whose context is there
// already, as in a trainer. It asserts nothing: figures are for people.
func TestOpenSteps(t *testing.T) {
	if !strings.HasPrefix(*testDevice, "cuda:") {
		t.Skip("it times a GPU: -device cuda:N")
	}
	driver, err := cuda.Load("")
	if err != nil {
		t.Fatal(err)
	}
	first, err := driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close() //nolint:errcheck // the test is over
	began := time.Now()
	lap := func(what string) {
		t.Logf("%-28s %6.1f ms", what, float64(time.Since(began).Microseconds())/1e3)
		began = time.Now()
	}
	gpu, err := driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close() //nolint:errcheck // the test is over
	lap("context")
	for range 2 {
		if _, err := gpu.LoadModule(kernels.Images()); err != nil {
			t.Fatal(err)
		}
		lap("module")
	}
	mem, err := gpu.AllocHost(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	lap("1 GiB of pinned memory")
	if err := gpu.FreeHost(mem); err != nil {
		t.Fatal(err)
	}
	lap("its end")
	mem, err = allocate(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	if err := gpu.Register(mem, false); err != nil {
		t.Fatal(err)
	}
	lap("1 GiB registered")
	if _, err := gpu.Alloc(4 << 30); err != nil {
		t.Fatal(err)
	}
	lap("4 GiB of device memory")
	c := newCube(t)
	c.cfg.Device = Device(*testDevice)
	for range 2 {
		p, err := Open(t.Context(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		lap("Open with default budgets")
		push(t, p, grid(4)...)
		release(t, next(t, p))
		lap("first batch")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		lap("Close")
	}
}
