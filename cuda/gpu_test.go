package cuda_test

import (
	"flag"
	"os"
	"syscall"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// The tests of this package run on the fake driver, or on a GPU:
//
//	go test -c -o cuda.test ./cuda && ./cuda.test -cuda.driver=real
//
// The binary needs nothing else. Tests of what only a switch can bring about are
// skipped on the real driver.
var driverFlag = flag.String("cuda.driver", "fake", "fake, real, or the path of a libcuda")

const (
	kib = 1 << 10
	mib = 1 << 20
)

// rig is an open device with what most tests need.
type rig struct {
	*cuda.Device
	t      testing.TB
	fake   *cudatest.Fake // nil on the real driver
	driver *cuda.Driver
	stream *cuda.Stream
	event  *cuda.Event
}

// load loads the driver that the flag names; set prepares a fake one.
func load(t testing.TB, set ...func(*cudatest.Fake)) (*cuda.Driver, *cudatest.Fake) {
	t.Helper()
	var fake *cudatest.Fake
	path := ""
	switch *driverFlag {
	case "real":
		if len(set) > 0 {
			t.Skip("only the fake driver has the switches of this test")
		}
	case "fake":
		fake = cudatest.New(t)
		path = fake.Path
		for _, f := range set {
			f(fake)
		}
	default:
		path = *driverFlag
	}
	driver, err := cuda.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return driver, fake
}

// open opens device 0; at the end of the test it is closed, and a fake driver must
// then hold nothing and have had nothing to complain of.
func open(t testing.TB, set ...func(*cudatest.Fake)) *rig {
	t.Helper()
	driver, fake := load(t, set...)
	device, err := driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Device: device, t: t, fake: fake, driver: driver}
	t.Cleanup(func() {
		if err := device.Close(); err != nil && !device.Broken() {
			t.Errorf("closing the device: %v", err)
		}
		if fake == nil || device.Broken() {
			return
		}
		if live := fake.Live(); live != (cudatest.Live{}) {
			t.Errorf("the driver still holds %+v", live)
		}
	})
	r.stream = must(r.NewStream(0))(t)
	r.event = must(r.NewEvent(false))(t)
	return r
}

// second opens another device beside the rig's.
func (r *rig) second(ordinal int) *cuda.Device {
	r.t.Helper()
	device := must(r.driver.Open(ordinal))(r.t)
	r.t.Cleanup(func() { ok(r.t, device.Close()) })
	return device
}

// needFake skips a test that only the fake driver can run.
func needFake(*cudatest.Fake) {}

// must unwraps a result of which the test wants no error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (r *rig) alloc(n int64) cuda.Ptr { r.t.Helper(); return must(r.Alloc(n))(r.t) }

func (r *rig) host(n int64) []byte { r.t.Helper(); return must(r.AllocHost(n))(r.t) }

// finish runs the commands, waits for them and empties the list.
func (r *rig) finish(c *cuda.Commands) {
	r.t.Helper()
	c.Record(r.stream, r.event)
	ok(r.t, r.Run(c))
	ok(r.t, r.event.Wait())
	c.Reset()
}

// read copies device memory to a Go slice.
func (r *rig) read(p cuda.Ptr, n int64) []byte {
	r.t.Helper()
	mem := r.host(n)
	defer func() { ok(r.t, r.FreeHost(mem)) }()
	var c cuda.Commands
	c.Copy(r.stream, cuda.Address(mem), p, n)
	r.finish(&c)
	return append([]byte(nil), mem...)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet checks that the fake driver, if it is one, found nothing wrong.
func (r *rig) quiet() {
	r.t.Helper()
	if r.fake == nil {
		return
	}
	for _, line := range r.fake.Complaints() {
		r.t.Errorf("the driver complains: %s", line)
	}
}

// numbers is memory whose bytes tell their place.
func numbers(mem []byte) {
	for i := range mem {
		mem[i] = byte(i*7 + i>>8)
	}
}

// mapFile maps a new file of n bytes, whose bytes are numbers, for reading only.
func mapFile(t testing.TB, n int) []byte {
	t.Helper()
	f, err := os.Create(t.TempDir() + "/shard")
	ok(t, err)
	defer func() { _ = f.Close() }()
	content := make([]byte, n)
	numbers(content)
	_, err = f.Write(content)
	ok(t, err)
	mem, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_SHARED)
	ok(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return mem
}

// kinds of errors, for tables.
var (
	closed = nd.ErrClosed
	bug    = nd.ErrBug
)
