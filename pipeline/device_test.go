package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/nvcomp/nvcomptest"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// The tests of this package run on the host. With -device fake they all run on the
// backend for GPUs over a driver that keeps the device's memory on the host, with
// -device lazy on one that puts work off until it is awaited, with -device nvcomp
// with a fake of that library too, and with -device cuda:0 on a GPU.
var testDevice = flag.String("device", "", "where the tests run: empty for the host, fake, lazy, nvcomp, or cuda:N")

// onDevice is the config for the device that the tests run on.
func onDevice(t testing.TB, cfg Config) Config {
	switch *testDevice {
	case "":
		return cfg
	case "fake", "lazy":
		fakeDevice(t, &cfg).Lazy(*testDevice == "lazy")
	case "nvcomp":
		cfg.Decoder = fakeLibrary(t, fakeDevice(t, &cfg))
	default:
		cfg.Device = Device(*testDevice)
		smallBudget(&cfg)
	}
	return cfg
}

// ownDevice is for tests that choose their device: the run without -device has them.
func ownDevice(t testing.TB) {
	if *testDevice != "" {
		t.Skip("this test chooses its device; it runs where -device is not set")
	}
}

// onFake sets the config to a fake device of its own, whatever -device says.
func onFake(t testing.TB, cfg *Config) *cudatest.Fake {
	ownDevice(t)
	return fakeDevice(t, cfg)
}

func fakeDevice(t testing.TB, cfg *Config) *cudatest.Fake {
	fake := cudatest.New(t)
	t.Cleanup(func() {
		if c := fake.Complaints(); len(c) > 0 {
			t.Errorf("the driver complains: %q", c)
		}
	})
	cfg.Device, cfg.Driver = "cuda:0", fake.Path
	smallBudget(cfg)
	return fake
}

// withLibrary is onFake with a decoder library: it decodes what its encoder could
// not compress, and fails with the rest, which is then the host's.
func withLibrary(t testing.TB, cfg *Config) {
	cfg.Decoder = fakeLibrary(t, onFake(t, cfg))
}

func fakeLibrary(t testing.TB, fake *cudatest.Fake) string {
	return "nvcomp=" + nvcomptest.New(t, nvcomptest.Five, fake).Path
}

// allFrames gives the library few frames too.
func (p *Pipeline) allFrames() {
	if d, ok := p.backend.(*device); ok && d.frames != nil {
		d.frames.least = 1
	}
}

func smallBudget(cfg *Config) {
	if cfg.DeviceBytes == 0 {
		cfg.DeviceBytes = 192 * mib
	}
	if cfg.CompressedBytes == 0 {
		cfg.CompressedBytes = 8 << 10 // a few chunks of the tests: most must go again
	}
	cfg.HostBytes = max(cfg.HostBytes, 192*mib)
}

// bytesOf is field i of the batch, wherever it lies.
func bytesOf(t testing.TB, b *Batch, i int) []byte {
	t.Helper()
	data := make([]byte, b.Bytes(i))
	if err := b.CopyTo(data, i); err != nil {
		t.Fatal(err)
	}
	return data
}

// onDisk writes the array's files to a folder.
func (a *testArray) onDisk(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range a.files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A corrupt chunk fails the same samples with the same words on a device as on the
// host, which has the last word there too, and harms no other sample.
func TestDeviceFailsAsTheHost(t *testing.T) {
	for _, codec := range append([]string{""}, kernelForms...) {
		t.Run("codec "+codec, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(len(codec))))
			l := layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: nd.Bool, codec: codec}
			a := makeArray(t, r, l)
			damage(r, a)
			var samples []sampler.Sample
			for i := range 128 {
				y, x := 16*r.Int64N(4), 16*r.Int64N(4) // of two bad chunks either may fail a sample
				samples = append(samples, at(int64(i), y+r.Int64N(13), x+r.Int64N(13)))
			}
			cfg := Config{
				Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 8, OnError: Skip, Reuse: Reuse(r.IntN(4)),
				Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.F32}},
			}
			host := outcome(t, cfg, samples)
			onFake(t, &cfg)
			if got := outcome(t, cfg, samples); !slices.Equal(got, host) {
				for i := range host {
					if i >= len(got) || got[i] != host[i] {
						t.Fatalf("batch part %d: on the device %q, on the host %q", i, got[min(i, len(got)-1)], host[i])
					}
				}
			}
		})
	}
}

// damage spoils half of the array's chunks, each in another way.
func damage(r *rand.Rand, a *testArray) {
	names := []string{}
	for name := range a.files {
		if filepath.Base(name) != "zarr.json" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		data := slices.Clone(a.files[name])
		switch i % 6 {
		case 0:
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		case 1:
			data = data[:r.IntN(len(data))]
		case 2:
			for range 10 {
				data[r.IntN(len(data))] = byte(r.Uint32())
			}
		}
		a.files[name] = data
	}
}

// Chunks that the device has no decoder for, though the array's metadata say that it
// has, are decoded by the host: also for the waves that were under way already and
// took the kept chunk for good.
func TestChunksLeftToTheHost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: nd.Bool, codec: "blosc"})
	zstd, err := codec.New("blosc", json.RawMessage(`{"cname":"zstd","clevel":3,"shuffle":"shuffle","typesize":1,"blocksize":0}`))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := codec.New("blosc", nil)
	if err != nil {
		t.Fatal(err)
	}
	scratch := codec.NewScratch()
	defer scratch.Close()
	for name, data := range a.files {
		if name == "zarr.json" || name == "c/0/0" {
			continue
		}
		raw, err := plain.Decode(make([]byte, 16*16), data, scratch)
		if err != nil {
			t.Fatal(err)
		}
		if a.files[name], err = zstd.Encode(nil, raw); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 4, Lookahead: 64,
		Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.F32}},
	}
	onFake(t, &cfg)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.capacity.decoded = 1 // a use a wave
	samples := []sampler.Sample{at(0, 1, 2), at(1, 17, 18), at(2, 19, 17), at(3, 18, 20)}
	for i := range 60 {
		samples = append(samples, at(int64(4+i), r.Int64N(61), r.Int64N(61)))
	}
	// The settler stops after the first wave, until the third, which reads what the
	// second decodes, was issued.
	d := p.backend.(*device)
	d.events.mu.Lock()
	go func() {
		defer d.events.mu.Unlock()
		for len(d.issued) < 2 {
			runtime.Gosched()
		}
	}()
	compare(t, p, &cfg, []*testArray{a}, samples)
	if d.again.Load() == 0 {
		t.Error("no wave met a chunk that was repaired behind its back: the test shows nothing")
	}
	checkIdle(t, p)
}

// Frames go to the library where the config names one; what it refuses, or decodes
// to another length, the host decodes.
func TestFramesOfALibrary(t *testing.T) {
	for _, dtype := range []nd.DType{nd.U16, nd.Bool} { // incompressible, and compressible
		t.Run(dtype.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 1))
			a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: dtype, codec: "zstd"})
			cfg := Config{
				Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 4,
				Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.F32}},
			}
			withLibrary(t, &cfg)
			p, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			p.allFrames()
			var samples []sampler.Sample
			for i := range 64 {
				samples = append(samples, at(int64(i), r.Int64N(61), r.Int64N(61)))
			}
			compare(t, p, &cfg, []*testArray{a}, samples)
			byLibrary := p.counts.framed.Load()
			if (byLibrary > 0) != (dtype == nd.U16) {
				t.Errorf("the library decoded %d chunks of %s", byLibrary, dtype)
			}
			checkIdle(t, p)
		})
	}
}

// Stored bytes that are kept on the device are decoded again without a read, by a
// kernel or by the library; a file that was written meanwhile is read anew.
func TestStoredBytesAreKept(t *testing.T) {
	for _, codec := range []string{"blosc", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 1))
			l := layout{shape: []int64{64, 64}, chunk: []int64{8, 8}, shard: []int64{32, 32}, dtype: nd.U16, codec: codec}
			a := makeArray(t, r, l)
			root := a.onDisk(t)
			cfg := Config{
				Arrays: []ArrayRef{{URI: root}}, BatchSize: 4, Reuse: ReuseNone, Reader: "ring", CompressedBytes: mib,
				Fields: []Field{{Name: "x", Shape: []int{16, 16}, DType: nd.U16}},
			}
			withLibrary(t, &cfg)
			p, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			p.allFrames()
			for range 3 {
				p.corners(t, a, nil)
			}
			s := p.Stats()
			if first := s.ChunksDecoded / 3; s.CompressedHits != 2*first || first == 0 {
				t.Errorf("%d of %d decodes from kept bytes, two thirds were to be", s.CompressedHits, s.ChunksDecoded)
			}
			checkIdle(t, p)
		})
	}
}

// What is taken of the device is what Stats says, and never more than DeviceBytes;
// a budget that cannot work is refused with the numbers.
func TestDeviceBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	opened := 0
	for range 60 {
		c := newCube(t)
		c.cfg.DeviceBytes = 16 * mib << r.IntN(7)
		c.cfg.BatchSize = 1 << r.IntN(18)
		c.cfg.Reuse = Reuse(r.IntN(4))
		c.cfg.CompressedBytes = 1 + r.Int64N(c.cfg.DeviceBytes/2)
		if r.IntN(2) == 0 {
			c.cfg.DecodedBytes = 1 + r.Int64N(c.cfg.DeviceBytes/2)
		}
		fake := onFake(t, &c.cfg)
		if r.IntN(2) == 0 {
			c.cfg.Decoder = fakeLibrary(t, fake)
		}
		limit := c.cfg.DeviceBytes
		c.cfg.HostBytes = 1 << 30
		p, err := Open(t.Context(), c.cfg)
		if err != nil {
			if !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "DeviceBytes") {
				t.Errorf("%d MiB: %v", limit/mib, err)
			}
			continue
		}
		opened++
		if live, said := fake.Live().Bytes, p.Stats().DeviceBytes; live > limit || live > said || said > limit {
			t.Errorf("%d bytes are taken, Stats says %d, DeviceBytes %d (%+v)", live, said, limit, p.capacity)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if opened < 10 {
		t.Errorf("%d of 60 budgets work", opened)
	}
}

// Pipelines share a device, and a process several devices: each keeps to its own.
func TestPipelinesBesideEachOther(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	var running sync.WaitGroup
	for i, device := range []Device{"cuda:0", "GPU-0100", "cuda:1"} {
		cfg := c.cfg
		cfg.Device = device
		p, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(9, uint64(i)))
		running.Go(func() {
			var samples []sampler.Sample
			for id := range 100 {
				samples = append(samples, at(int64(id), r.Int64N(13), r.Int64N(13)))
			}
			compare(t, p, &cfg, []*testArray{c.array}, samples)
			checkIdle(t, p)
		})
	}
	running.Wait()
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("%+v is held", live)
	}
}

// outcome is what came out of a pipeline, in words: ids, errors and bytes.
func outcome(t *testing.T, cfg Config, samples []sampler.Sample) (parts []string) {
	t.Helper()
	p, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came out
	pushed := make(chan error, 1)
	go func() {
		err := p.Push(context.Background(), samples...)
		p.Finish()
		pushed <- err
	}()
	for {
		b, err := p.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Samples() {
			parts = append(parts, string(rune(s.ID)))
		}
		for _, err := range b.Errs() {
			parts = append(parts, err.Error())
		}
		if len(b.Samples()) > 0 {
			parts = append(parts, string(bytesOf(t, b, 0)))
		}
		release(t, b)
	}
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}
	return parts
}

// mappedCase is a pipeline over files of the page cache that has come to map them.
func mappedCase(t *testing.T, codec string) (p *Pipeline, a *testArray, root string) {
	t.Helper()
	l := layout{shape: []int64{64, 64}, chunk: []int64{8, 8}, shard: []int64{32, 32}, dtype: nd.U16, codec: codec}
	return mapAll(t, l, 4, func(cfg *Config) { onFake(t, cfg) })
}

// mapAll is mappedCase for an array of so many files, on a device of the caller's.
func mapAll(t *testing.T, l layout, files int, device func(*Config)) (p *Pipeline, a *testArray, root string) {
	t.Helper()
	a = makeArray(t, rand.New(rand.NewPCG(5, 6)), l)
	root = a.onDisk(t)
	cfg := Config{
		Arrays: []ArrayRef{{URI: root}}, BatchSize: 4, Reuse: ReuseNone, Reader: "mapped", MappedBytes: int64(files) * mapWindow, OnError: Skip,
		Fields: []Field{{Name: "x", Shape: []int{16, 16}, DType: nd.U16}},
	}
	device(&cfg)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 200 { // until every shard is mapped: readers do that on the side
		p.corners(t, a, nil)
		if n := p.Stats().MappedBytes; n > 0 && p.sched.mappings.settled(files) {
			return p, a, root
		}
	}
	t.Fatalf("%d bytes mapped: %+v", p.Stats().MappedBytes, p.sched.mappings.list)
	return nil, nil, ""
}

// settled reports whether n mappings are there. The test's own calls are the only
// work of the pipeline, and it is at rest between them.
func (m *mappings) settled(n int) bool {
	there := 0
	for _, g := range m.list {
		if g.state == mappingThere {
			there++
		}
	}
	return there == n
}

// corners streams one batch with a sample of each shard and checks its bytes; bad
// is called with the errors of samples that are left out.
func (p *Pipeline) corners(t *testing.T, a *testArray, bad func(error)) {
	t.Helper()
	box := func(id, y, x int64) sampler.Sample {
		return sampler.Sample{ID: id, Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 16}, {Start: x, Stop: x + 16}}}}}
	}
	samples := []sampler.Sample{box(0, 3, 5), box(1, 3, 40), box(2, 44, 5), box(3, 44, 40)}
	push(t, p, samples...)
	b := next(t, p)
	got := bytesOf(t, b, 0)
	for i, s := range b.Samples() {
		want := expect(a, &p.cfg.Fields[0], 0, &samples[s.ID].Crops[0])
		if !bytes.Equal(got[i*len(want):(i+1)*len(want)], want) {
			t.Fatalf("sample %d differs", s.ID)
		}
	}
	for _, err := range b.Errs() {
		bad(err)
	}
	release(t, b)
}

// Files of the page cache are mapped and copied from there, without a read.
func TestMappedFilesAreNotRead(t *testing.T) {
	for _, codec := range []string{"", "blosc", "lz4"} {
		t.Run("codec "+codec, func(t *testing.T) {
			p, a, _ := mappedCase(t, codec)
			before := p.Stats().Read.Count
			for range 5 {
				p.corners(t, a, nil)
			}
			if n := p.Stats().Read.Count - before; n != 0 {
				t.Errorf("%d reads of files that are mapped", n)
			}
		})
	}
}

// A file that is cut short, written or replaced while it is mapped is an I/O error
// of the samples that need it, or gives its old bytes: never others.
func TestMappedFileChanges(t *testing.T) {
	change := map[string]func(path string, data []byte) error{
		"cut short": func(path string, _ []byte) error { return os.Truncate(path, 10) },
		"written":   func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o644) },
		"replaced": func(path string, data []byte) error {
			return errors.Join(os.WriteFile(path+".new", make([]byte, len(data)), 0o644), os.Rename(path+".new", path))
		},
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			p, a, root := mappedCase(t, "")
			path := filepath.Join(root, "c", "0", "0")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(path, data); err != nil {
				t.Fatal(err)
			}
			failed := 0
			p.corners(t, a, func(err error) {
				if failed++; !errors.Is(err, nd.ErrIO) {
					t.Errorf("not an I/O error: %v", err)
				}
			})
			if name != "replaced" && failed != 1 {
				t.Errorf("%d samples failed, 1 lies in the file", failed)
			}
		})
	}
}

// A lost device ends the pipeline: the next call says so, none hangs, and Close
// still ends.
func TestLostDevice(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	push(t, p, grid(4)...)
	release(t, next(t, p))
	const launchFailed = 719
	fake.Lose(0, launchFailed)
	for range 3 {
		push4(p)
		if _, err := p.Next(t.Context()); !errors.Is(err, nd.ErrDevice) {
			t.Fatalf("Next: %v", err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	fake.Complaints() // of a context that is lost there may be some
}

func push4(p *Pipeline) { _ = p.Push(context.Background(), grid(4)...) }

// Whatever happens at Open, nothing is held afterwards, nor given back twice: each driver
// call fails once, and that is all that the error tells.
func TestOpenGivesEverythingBack(t *testing.T) {
	for _, entry := range []string{"cuDevicePrimaryCtxRetain", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuStreamCreateWithPriority", "cuMemAlloc", "cuMemHostAlloc", "cuEventCreate"} {
		for nth := 1; ; nth++ {
			c := newCube(t)
			fake := onFake(t, &c.cfg)
			fake.Fail(entry, nth, 2) // out of memory
			p, err := Open(t.Context(), c.cfg)
			if err == nil {
				if nth == 1 {
					t.Errorf("%s was not called, or its failure not seen", entry)
				}
				p.Close() //nolint:errcheck // it is the count below that tells
			} else if !errors.Is(err, nd.ErrBudget) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s fails the %d. time: %v", entry, nth, err)
			}
			if live := fake.Live(); live != (cudatest.Live{}) {
				t.Fatalf("%s fails the %d. time: %+v is held (%v)", entry, nth, live, err)
			}
			if err == nil {
				break
			}
		}
	}
}

// A consumer's stream that was not done with a batch at its Release keeps the slot
// from being written: the device waits, not the host. The driver here does nothing
// before somebody waits for it, so an event that is left out shows.
func TestReleaseOnAStream(t *testing.T) {
	const invalidHandle = 400
	for name, release := range map[string]func(*cudatest.Fake, *Batch, uintptr) error{
		"known": func(_ *cudatest.Fake, b *Batch, stream uintptr) error { return b.ReleaseOn(stream) },
		"gone": func(fake *cudatest.Fake, b *Batch, _ uintptr) error { // and another one uses the batch
			fake.Fail("cuEventRecord", 1, invalidHandle)
			return b.ReleaseOn(4711)
		},
		"unknown": func(_ *cudatest.Fake, b *Batch, _ uintptr) error { return b.ReleaseAfterAll() },
	} {
		t.Run(name, func(t *testing.T) { releaseOnAStream(t, release) })
	}
}

func releaseOnAStream(t *testing.T, releaseBatch func(*cudatest.Fake, *Batch, uintptr) error) {
	c := newCube(t)
	c.cfg.Slots = 1
	fake := onFake(t, &c.cfg)
	fake.Lazy(true)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := p.backend.(*device)
	stream, err := d.gpu.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	push(t, p, grid(4)...)
	b := next(t, p)
	want := bytesOf(t, b, 0)
	kept, err := d.gpu.Alloc(int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	var cmds cuda.Commands
	cmds.Copy(stream, kept, cuda.Ptr(b.TensorAt(0).Address), int64(len(want)))
	if err := d.gpu.Run(&cmds); err != nil {
		t.Fatal(err)
	}
	if err := releaseBatch(fake, b, stream.Handle()); err != nil {
		t.Fatal(err)
	}
	push(t, p, at(4, 7, 9), at(5, 8, 9), at(6, 9, 9), at(7, 10, 9))
	second := next(t, p)
	c.check(t, second)
	got := make([]byte, len(want))
	if err := d.fetch(got, kept); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the slot was written before its consumer's stream had passed")
	}
	release(t, second)
	if err := errors.Join(d.gpu.Free(kept), stream.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
}

var _ store.Mapper = (*store.File)(nil)
