package cuda_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

func TestAlloc(t *testing.T) {
	r := open(t)
	free, total, err := r.MemInfo()
	ok(t, err)
	p := r.alloc(64 * mib)
	after, _, err := r.MemInfo()
	ok(t, err)
	if p%256 != 0 || total < free || after > free-64*mib {
		t.Errorf("address %#x, free %d then %d of %d", p, free, after, total)
	}
	ok(t, r.Free(p))
	oneLine(t, r.Free(p), bug, "freed twice")
	oneLine(t, r.FreeHost(make([]byte, 8)), bug)
	oneLine(t, r.Unregister(make([]byte, 8)), bug)
	_, err = r.Alloc(0)
	oneLine(t, err, bug)
	r.quiet()
}

// Too much is a budget error that tells what was asked for and what there is.
func TestAllocTooMuch(t *testing.T) {
	r := open(t)
	_, total, err := r.MemInfo()
	ok(t, err)
	_, err = r.Alloc(total + mib)
	oneLine(t, err, nd.ErrBudget, fmt.Sprint(total+mib), fmt.Sprintf("of %d are free", total), "CUDA_ERROR_OUT_OF_MEMORY (2)")
	if r.Broken() {
		t.Error("out of memory broke the device")
	}
	ok(t, r.Free(r.alloc(mib)))
}

func TestAllocHostTooMuch(t *testing.T) {
	r := open(t, func(f *cudatest.Fake) { f.Fail("cuMemHostAlloc", 1, 2) })
	_, err := r.AllocHost(mib)
	oneLine(t, err, nd.ErrBudget, "1048576 bytes of pinned host memory")
}

// A mapping of a file that may only be read is pinned in place, and copies come
// straight from it.
func TestRegister(t *testing.T) {
	r := open(t)
	if !r.Info().ReadOnlyRegister {
		t.Skip("this driver cannot pin read-only mappings")
	}
	const n = 3*mib + 4096
	mem := mapFile(t, n)
	ok(t, r.Register(mem, true))
	p := r.alloc(n)
	var c cuda.Commands
	c.Copy(r.stream, p, cuda.Address(mem), n)
	r.finish(&c)
	if got := r.read(p, n); !bytes.Equal(got, mem) {
		t.Error("the copy differs from the file")
	}
	r.quiet()
	err := r.Register(mem[:4096], true)
	oneLine(t, err, nd.ErrDevice, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)", "4096 bytes")
	ok(t, r.Unregister(mem))
	oneLine(t, r.Unregister(mem), bug)
	oneLine(t, r.Register(nil, true), bug)
	if r.Broken() {
		t.Error("a refused registration broke the device")
	}
}

// What the driver cannot pin it refuses, with an error that lets the caller go on.
func TestRegisterRefused(t *testing.T) {
	r := open(t, needFake)
	oneLine(t, r.Register(mapFile(t, 4096), false), nd.ErrDevice, "CUDA_ERROR_INVALID_VALUE (1)")
	other := open(t, func(f *cudatest.Fake) { f.ReadOnlyRegister(false) })
	oneLine(t, other.Register(mapFile(t, 4096), true), nd.ErrUnsupported)
}

// Close gives everything back that was not given back before: open's cleanup looks.
func TestCloseFreesAll(t *testing.T) {
	r := open(t)
	r.alloc(mib)
	r.host(mib)
	must(r.NewStream(cuda.LowPriority))(t)
	must(r.NewStream(-100))(t)
	must(r.NewEvent(true))(t)
	must(r.LoadModule([][]byte{[]byte(testPTX)}))(t)
	if r.Info().ReadOnlyRegister {
		ok(t, r.Register(mapFile(t, 4096), true))
	}
	if r.fake != nil {
		want := cudatest.Live{Contexts: 1, Device: 1, Bytes: mib, Pinned: 1, Registered: 1, Streams: 3, Events: 2, Modules: 1}
		if live := r.fake.Live(); live != want {
			t.Errorf("live %+v, want %+v", live, want)
		}
	}
	ok(t, r.Close())
	ok(t, r.Close())
	ok(t, r.stream.Close())
	ok(t, r.event.Close())
	r.quiet()
}

// The host's memory stays unfreed only as long as the device needs it: Close waits
// for what is enqueued before it frees.
func TestCloseDrains(t *testing.T) {
	r := open(t, func(f *cudatest.Fake) { f.Lazy(true) })
	mem, p := r.host(mib), r.alloc(mib)
	numbers(mem)
	var c cuda.Commands
	c.Copy(r.stream, p, cuda.Address(mem), mib)
	ok(t, r.Run(&c))
	ok(t, r.Close())
	r.quiet()
}
