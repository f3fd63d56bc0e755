package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a fake GPU with a stream.
type rig struct {
	*cuda.Device
	fake   *cudatest.Fake
	stream *cuda.Stream
}

func open(t *testing.T) *rig {
	t.Helper()
	fake := cudatest.New(t)
	device := must(must(cuda.Load(fake.Path))(t).Open(0))(t)
	r := &rig{device, fake, must(device.NewStream(0))(t)}
	t.Cleanup(func() {
		ok(t, r.stream.Close())
		ok(t, r.Close())
		if live := fake.Live(); live != (cudatest.Live{}) {
			t.Errorf("not given back: %+v", live)
		}
		for _, c := range fake.Complaints() {
			t.Error(c)
		}
	})
	return r
}

// upload places bytes in device memory, or room for n of them.
func (r *rig) upload(t *testing.T, data []byte, n int) cuda.Ptr {
	t.Helper()
	p := must(r.Alloc(int64(n) + 32))(t)
	t.Cleanup(func() { ok(t, r.Free(p)) })
	if len(data) > 0 {
		r.copy(t, data, p, true)
	}
	return p
}

func (r *rig) copy(t *testing.T, data []byte, p cuda.Ptr, in bool) {
	t.Helper()
	host := must(r.AllocHost(int64(len(data))))(t)
	copy(host, data)
	var c cuda.Commands
	if in {
		c.Copy(r.stream, p, cuda.Address(host), int64(len(data)))
	} else {
		c.Copy(r.stream, cuda.Address(host), p, int64(len(data)))
	}
	ok(t, r.Run(&c))
	ok(t, r.stream.Drain())
	copy(data, host)
	ok(t, r.FreeHost(host))
}

func (r *rig) chunk(t *testing.T, frame []byte, n int) decode.Chunk {
	t.Helper()
	return decode.Chunk{Src: r.upload(t, frame, len(frame)), Dst: r.upload(t, nil, n), SrcBytes: len(frame), DstBytes: n, Method: kernels.Zstd}
}

func encode(t *testing.T, data []byte) []byte {
	return encodeBy(t, data, "zstd", `{"level":3,"checksum":true}`)
}

func encodeBy(t *testing.T, data []byte, name, config string) []byte {
	t.Helper()
	c := must(codec.New(name, json.RawMessage(config)))(t)
	return must(c.Encode(nil, data))(t)
}

func words(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, 0, n+32)
	for len(out) < n {
		out = append(out, "the quick brown fox jumps over the lazy dog "[r.IntN(20):][:1+r.IntN(20)]...)
	}
	return out[:n]
}

// Each chunk of a batch is decoded or has its own error, and the memory can be used
// again and again, on all of the device or on a part of one multiprocessor.
func TestDecoder(t *testing.T) {
	for _, sms := range []float64{0, 0.001} {
		testDecoder(t, sms)
	}
}

func testDecoder(t *testing.T, sms float64) {
	r := open(t)
	data := words(100_000)
	frame := encode(t, data)
	torn, wrongSum := frame[:len(frame)-9], bytes.Clone(frame)
	wrongSum[len(wrongSum)-1]++
	dictionary := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x21, 7, 0, 1, 0, 0}
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 6, Bytes: 600_000, SMs: sms}))(t)
	unchecked := r.chunk(t, wrongSum, len(data))
	unchecked.Unchecked = true
	chunks := []decode.Chunk{
		r.chunk(t, frame, len(data)), r.chunk(t, torn, len(data)), r.chunk(t, frame, len(data)-1), r.chunk(t, wrongSum, len(data)), unchecked,
		r.chunk(t, dictionary, 10),
	}
	for range 3 {
		ok(t, d.Start(r.stream, chunks))
		errs := must(d.Wait(nil))(t)
		for i, want := range []error{nil, nd.ErrCorrupt, nd.ErrCorrupt, nd.ErrCorrupt, nil, nd.ErrUnsupported} {
			if !errors.Is(errs[i], want) {
				t.Errorf("chunk %d: %v, expected %v", i, errs[i], want)
			}
			got := make([]byte, chunks[i].DstBytes)
			r.copy(t, got, chunks[i].Dst, false)
			if want == nil && !bytes.Equal(got, data) {
				t.Errorf("chunk %d: other bytes", i)
			}
			if want != nil && !bytes.Equal(got, make([]byte, len(got))) {
				t.Errorf("chunk %d was refused and is not zero", i)
			}
		}
	}
	ok(t, d.Start(r.stream, nil))
	ok(t, d.Close())
}

// A batch beyond what the decoder was opened for is refused as a whole.
func TestLimits(t *testing.T) {
	r := open(t)
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 2, Bytes: 1000}))(t)
	frame := encode(t, words(500))
	c := r.chunk(t, frame, 500)
	for name, chunks := range map[string][]decode.Chunk{
		"chunks": {c, c, c}, "bytes": {c, {Src: c.Src, SrcBytes: c.SrcBytes, Dst: c.Dst, DstBytes: 501, Method: kernels.Zstd}},
	} {
		if err := d.Start(r.stream, chunks); !errors.Is(err, nd.ErrBudget) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	for name, change := range map[string]struct {
		of   func(*decode.Chunk)
		want error
	}{
		"a destination at a multiple of 8": {func(c *decode.Chunk) { c.Dst += 8 }, nd.ErrConfig},
		"elements of 256 bytes":            {func(c *decode.Chunk) { c.Typesize = 256 }, nd.ErrConfig},
		"less than no bytes":               {func(c *decode.Chunk) { c.SrcBytes = -1 }, nd.ErrConfig},
		"the host's method":                {func(c *decode.Chunk) { c.Method = kernels.Host }, nd.ErrUnsupported},
		"no method":                        {func(c *decode.Chunk) { c.Method = 99 }, nd.ErrUnsupported},
	} {
		wrong := c
		change.of(&wrong)
		if err := d.Start(r.stream, []decode.Chunk{wrong}); !errors.Is(err, change.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok(t, d.Start(r.stream, []decode.Chunk{c}))
	if err := d.Start(r.stream, []decode.Chunk{c}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a second batch: %v", err)
	}
	ok(t, d.Close())
	for _, l := range []decode.Limits{{}, {Chunks: 1}, {Bytes: 1}, {Chunks: 1, Bytes: 1, Arena: -1}, {Chunks: 1, Bytes: 1, SMs: -1}, {Chunks: 1, Bytes: 1, Blocks: -1}} {
		if _, err := decode.Open(r.Device, l); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// The scratch memory is what the package promises, for batches as the engine has them.
func TestScratch(t *testing.T) {
	const chunk = 256 << 10
	for _, n := range []int{64, 512, 4096, 8192} {
		bytes := int64(n) * chunk
		got := must(decode.Limits{Chunks: n, Bytes: bytes}.Scratch())(t)
		if limit := bytes*19/10 + 1<<20; got > limit {
			t.Errorf("%d chunks: %d bytes of scratch, %.3f a decoded byte", n, got, float64(got)/float64(bytes))
		}
	}
}

// Memory is taken for the methods that a decoder is opened for, and what they do not need is
// refused.
func TestMethods(t *testing.T) {
	r := open(t)
	data := words(1000)
	lz4 := r.chunk(t, encodeBy(t, data, "lz4", ""), len(data))
	lz4.Method = kernels.LZ4
	zstd := r.chunk(t, encode(t, data), len(data))
	apart := lz4
	apart.Typesize = 2
	before := r.fake.Live().Bytes
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 2, Bytes: 100_000, Shuffled: -1}, kernels.LZ4, kernels.Copy))(t)
	if more := r.fake.Live().Bytes - before; more > 1000 {
		t.Errorf("%d bytes of device memory for chunks that need none", more)
	}
	if err := d.Start(r.stream, []decode.Chunk{zstd}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("zstd: %v", err)
	}
	if err := d.Start(r.stream, []decode.Chunk{apart}); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("shuffled: %v", err)
	}
	ok(t, d.Start(r.stream, []decode.Chunk{lz4}))
	ok(t, must(d.Wait(nil))(t)[0])
	ok(t, d.Close())
	if _, err := decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 1}, kernels.Host); !errors.Is(err, nd.ErrUnsupported) {
		t.Errorf("opened for what no kernel decodes: %v", err)
	}
}

// A device that is out of memory, or lost, leaves nothing behind but its error.
func TestFailures(t *testing.T) {
	r := open(t)
	limits := decode.Limits{Chunks: 2, Bytes: 100_000}
	for entry, want := range map[string]error{"cuMemAlloc": nd.ErrBudget, "cuMemHostAlloc": nd.ErrBudget} {
		for nth := 1; nth <= 2; nth++ {
			r.fake.Fail(entry, nth, 2)
			if d, err := decode.Open(r.Device, limits); !errors.Is(err, want) {
				if err == nil {
					ok(t, d.Close())
				}
				if entry != "cuMemHostAlloc" || nth == 1 {
					t.Errorf("%s failed: %v", entry, err)
				}
			}
			r.fake.Fail(entry, 0, 0)
		}
	}
}

// Nothing is allocated for a batch once there was one as long.
func TestStartAllocatesNothing(t *testing.T) {
	r := open(t)
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 2, Bytes: 1000}))(t)
	chunks := []decode.Chunk{r.chunk(t, encode(t, words(500)), 500)}
	errs := make([]error, 0, 1)
	run := func() {
		ok(t, d.Start(r.stream, chunks))
		errs = must(d.Wait(errs[:0]))(t)
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 1 { // the closure of must
		t.Errorf("%v allocations a batch", n)
	}
	ok(t, errs[0])
	ok(t, d.Close())
}

// A call of the driver that fails in the middle of a batch leaves nothing in flight: the next
// batch is decoded. Where the device is lost, every call says so, and Close gives back what can
// be given back.
func TestStartFails(t *testing.T) {
	r := open(t)
	data := words(70_000)
	chunk := r.chunk(t, encode(t, data), len(data))
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 2, Bytes: 1 << 20}))(t)
	defer func() { ok(t, d.Close()) }()
	for _, entry := range []string{"cuMemcpyAsync", "cuLaunchKernel", "cuEventRecord"} {
		for nth := 1; nth <= 2; nth++ {
			for _, lazy := range []bool{false, true} {
				r.fake.Lazy(lazy)
				r.fake.Fail(entry, nth, 2)
				first := d.Start(r.stream, []decode.Chunk{chunk})
				r.fake.Fail(entry, 0, 0)
				if first == nil {
					t.Errorf("call %d of %s failed, and Start did not", nth, entry)
				} else if errs, err := d.Wait(nil); err != nil || len(errs) > 0 {
					t.Errorf("call %d of %s failed: a batch is in flight, %v %v", nth, entry, errs, err)
				}
				ok(t, d.Start(r.stream, []decode.Chunk{chunk}))
				if errs, err := d.Wait(nil); err != nil || len(errs) != 1 || errs[0] != nil {
					t.Fatalf("after call %d of %s failed: %v %v", nth, entry, errs, err)
				}
				got := make([]byte, len(data))
				r.copy(t, got, chunk.Dst, false)
				if !bytes.Equal(got, data) {
					t.Fatalf("after call %d of %s failed: other bytes", nth, entry)
				}
			}
		}
	}
}

// Of a lost device every call but Close says so.
func TestDeviceIsLost(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		fake := cudatest.New(t)
		device := must(must(cuda.Load(fake.Path))(t).Open(0))(t)
		r := &rig{device, fake, must(device.NewStream(0))(t)}
		data := words(5000)
		src, dst := must(r.Alloc(1<<16))(t), must(r.Alloc(1<<16))(t)
		frame := encode(t, data)
		r.copy(t, frame, src, true)
		chunk := decode.Chunk{Src: src, Dst: dst, SrcBytes: len(frame), DstBytes: len(data), Method: kernels.Zstd}
		d := must(decode.Open(device, decode.Limits{Chunks: 2, Bytes: 1 << 20}))(t)
		if inFlight {
			ok(t, d.Start(r.stream, []decode.Chunk{chunk}))
			fake.Lose(0, 719)
		} else {
			fake.Lose(0, 719)
			if err := d.Start(r.stream, []decode.Chunk{chunk}); !errors.Is(err, nd.ErrDevice) {
				t.Errorf("Start on a lost device: %v", err)
			}
		}
		for range 2 {
			if errs, err := d.Wait(nil); !errors.Is(err, nd.ErrDevice) || len(errs) > 0 {
				t.Errorf("Wait on a lost device: %v %v", errs, err)
			}
			if err := d.Start(r.stream, []decode.Chunk{chunk}); !errors.Is(err, nd.ErrDevice) {
				t.Errorf("Start on a lost device: %v", err)
			}
		}
		_ = d.Close()
		_ = r.stream.Close()
		_ = device.Close()
	}
}
