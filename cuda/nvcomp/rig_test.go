package nvcomp_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/nvcomp"
	"github.com/headrace/headrace/cuda/nvcomp/nvcomptest"
)

// The tests run on fakes. Those of real_test.go run on a GPU with the library that
// the user has:
//
//	go test -c -o nvcomp.test ./cuda/nvcomp
//	./nvcomp.test -cuda.driver=real -nvcomp.library=PATH -test.run=Real
var (
	driverFlag  = flag.String("cuda.driver", "fake", "fake or real, for the tests called Real")
	libraryFlag = flag.String("nvcomp.library", "", "path of a real libnvcomp, for the tests called Real")
)

// rig is a GPU with nvCOMP, fakes or real ones.
type rig struct {
	*cuda.Device
	t      testing.TB
	driver *cudatest.Fake
	fake   *nvcomptest.Fake
	lib    *nvcomp.Library
	stream *cuda.Stream
	event  *cuda.Event
}

// device opens GPU 0 of a driver; it is closed at the end of the test.
func device(t testing.TB, path string) *cuda.Device {
	t.Helper()
	driver, err := cuda.Load(path)
	ok(t, err)
	d, err := driver.Open(0)
	ok(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !d.Broken() {
			t.Errorf("closing the device: %v", err)
		}
	})
	return d
}

// fakes opens a library of a form on a fake GPU; neither may complain unless the
// test says so.
func fakes(t testing.TB, form nvcomptest.Form) *rig {
	t.Helper()
	driver := cudatest.New(t)
	r := &rig{t: t, driver: driver, fake: nvcomptest.New(t, form, driver)}
	r.open(driver.Path, r.fake.Path)
	return r
}

func (r *rig) open(driver, library string) {
	r.t.Helper()
	r.Device = device(r.t, driver)
	var err error
	r.lib, err = nvcomp.Open(library, r.Device)
	ok(r.t, err)
	r.stream, err = r.NewStream(0)
	ok(r.t, err)
	r.event, err = r.NewEvent(false)
	ok(r.t, err)
}

// quiet checks that the fakes found nothing wrong.
func (r *rig) quiet() {
	r.t.Helper()
	for _, line := range append(r.driver.Complaints(), r.fake.Complaints()...) {
		r.t.Errorf("a fake complains: %s", line)
	}
	if n := r.driver.Depth(); n != 0 {
		r.t.Errorf("%d contexts are left on the thread", n)
	}
}

// load is a batch in memory: one pinned mirror and one device allocation with the
// arrays first, then the encoded chunks, the room for decoded ones, the scratch.
type load struct {
	nvcomp.Batch
	mirror  []byte
	base    cuda.Ptr
	outputs []int64 // offsets of decoded chunks
	sizes   []int64
}

const align = 16

func up(n int64) int64 { return (n + align - 1) / align * align }

// prepare lays a batch out and copies it to the GPU, on the rig's stream.
func (r *rig) prepare(chunks [][]byte, sizes []int64) *load {
	r.t.Helper()
	n := int64(len(chunks))
	at := up(44 * n)
	sources := make([]int64, n)
	for i, c := range chunks {
		sources[i] = at
		at = up(at + int64(len(c)))
	}
	encoded := at
	b := &load{sizes: sizes, outputs: make([]int64, n)}
	most, total := int64(0), int64(0)
	for i, size := range sizes {
		b.outputs[i] = at
		at = up(at + size)
		most, total = max(most, size), total+size
	}
	temp, err := r.lib.TempBytes(nvcomp.Zstd, int(n), most, total)
	ok(r.t, err)
	scratch := up(at)
	b.base, err = r.Alloc(scratch + temp)
	ok(r.t, err)
	b.mirror, err = r.AllocHost(at)
	ok(r.t, err)
	for i := range n {
		for k, v := range []int64{int64(b.base) + sources[i], int64(len(chunks[i])), int64(b.base) + b.outputs[i], sizes[i], -1} {
			binary.LittleEndian.PutUint64(b.mirror[(int64(k)*n+i)*8:], uint64(v))
		}
		binary.LittleEndian.PutUint32(b.mirror[40*n+4*i:], 0xffffffff)
		copy(b.mirror[sources[i]:], chunks[i])
	}
	array := func(k int64) cuda.Ptr { return b.base + cuda.Ptr(8*n*k) }
	b.Batch = nvcomp.Batch{
		Sources: array(0), SourceBytes: array(1), Destinations: array(2), DestinationBytes: array(3), ActualBytes: array(4),
		Statuses: array(5), N: int(n), Temp: b.base + cuda.Ptr(scratch), TempBytes: temp,
	}
	if temp == 0 {
		b.Temp = 0
	}
	var c cuda.Commands
	c.Copy(r.stream, b.base, cuda.Address(b.mirror), encoded)
	ok(r.t, r.Run(&c))
	return b
}

// collect copies the batch back, waits for it and frees it; the mirror stays.
func (r *rig) collect(b *load) {
	r.t.Helper()
	var c cuda.Commands
	c.Copy(r.stream, cuda.Address(b.mirror), b.base, int64(len(b.mirror)))
	c.Record(r.stream, r.event)
	ok(r.t, r.Run(&c))
	ok(r.t, r.event.Wait())
	ok(r.t, r.Free(b.base))
}

// chunk is what became of chunk i.
func (b *load) chunk(i int) (data []byte, actual int64, status int32) {
	n := b.N
	actual = int64(binary.LittleEndian.Uint64(b.mirror[(4*n+i)*8:]))
	status = int32(binary.LittleEndian.Uint32(b.mirror[40*n+4*i:]))
	return b.mirror[b.outputs[i]:][:b.sizes[i]], actual, status
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
