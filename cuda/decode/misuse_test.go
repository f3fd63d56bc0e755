package decode_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// A Start that fails partway has nothing in flight when it returns: the caller may use its memory
// again. Here that is filled, on another stream, by a device that puts off what nobody waits for.
func TestFailedStartIsDrained(t *testing.T) {
	data := words(5000)
	for _, c := range []struct {
		method uint8
		name   string
		entry  string
		nth    int
	}{
		{kernels.LZ4, "lz4", "cuEventRecord", 1},
		{kernels.LZ4, "lz4", "cuMemcpyAsync", 2},
		{kernels.Zstd, "zstd", "cuEventRecord", 3},
		{kernels.Zstd, "zstd", "cuStreamWaitEvent", 2}, // the side stream is not joined
		{kernels.Zstd, "zstd", "cuLaunchKernel", 6},
	} {
		r := open(t)
		chunk := r.chunk(t, encodeBy(t, data, c.name, ""), len(data))
		chunk.Method = c.method
		d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 20000}, c.method))(t)
		other := must(r.NewStream(0))(t)
		r.fake.Lazy(true)
		r.fake.Fail(c.entry, c.nth, 1)
		if err := d.Start(r.stream, []decode.Chunk{chunk}); !errors.Is(err, nd.ErrDevice) {
			t.Errorf("%s, call %d of %s fails: %v", c.name, c.nth, c.entry, err)
		}
		if errs := must(d.Wait(nil))(t); len(errs) != 0 {
			t.Errorf("a batch is in flight: %v", errs)
		}
		var fill cuda.Commands
		fill.Set(other, chunk.Dst, 7, int64(len(data)))
		ok(t, r.Run(&fill))
		ok(t, other.Drain())
		ok(t, r.stream.Drain())
		r.fake.Lazy(false)
		got := make([]byte, len(data))
		r.copy(t, got, chunk.Dst, false)
		if !bytes.Equal(got, bytes.Repeat([]byte{7}, len(got))) {
			t.Errorf("%s, call %d of %s failed: the batch wrote later", c.name, c.nth, c.entry)
		}
		ok(t, d.Start(r.stream, []decode.Chunk{chunk}))
		ok(t, must(d.Wait(nil))(t)[0])
		ok(t, d.Close())
		ok(t, other.Close())
	}
}

// If the stream cannot be drained either, every call but Close says so.
func TestFailedStartOnLostDevice(t *testing.T) {
	r := open(t)
	chunk := r.chunk(t, encode(t, words(100)), 100)
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 100}))(t)
	r.fake.Fail("cuEventRecord", 1, 1)
	r.fake.Fail("cuStreamSynchronize", 1, 1)
	first := d.Start(r.stream, []decode.Chunk{chunk})
	_, waited := d.Wait(nil)
	for _, err := range []error{first, waited, d.Start(r.stream, []decode.Chunk{chunk})} {
		if !errors.Is(err, nd.ErrDevice) {
			t.Errorf("%v", err)
		}
	}
	if err := d.Close(); !errors.Is(err, nd.ErrDevice) {
		t.Errorf("closed: %v", err)
	}
}

// Once the device failed, or is closed, Wait and what follows have its error.
func TestLostDevice(t *testing.T) {
	for name, want := range map[string]error{"lost": nd.ErrDevice, "closed": nd.ErrClosed} {
		fake := cudatest.New(t)
		device := must(must(cuda.Load(fake.Path))(t).Open(0))(t)
		r := &rig{device, fake, must(device.NewStream(0))(t)}
		frame := encode(t, words(100))
		src, dst := must(r.Alloc(200))(t), must(r.Alloc(100))(t)
		r.copy(t, frame, src, true)
		batch := []decode.Chunk{{Src: src, Dst: dst, SrcBytes: len(frame), DstBytes: 100, Method: kernels.Zstd}}
		d := must(decode.Open(device, decode.Limits{Chunks: 1, Bytes: 100}))(t)
		ok(t, d.Start(r.stream, batch))
		if name == "lost" {
			fake.Lose(0, 700)
		} else {
			ok(t, device.Close())
		}
		_, first := d.Wait(nil)
		_, second := d.Wait(nil)
		for _, err := range []error{first, d.Start(r.stream, batch), second, d.Start(r.stream, batch)} {
			if !errors.Is(err, want) || errors.Is(err, nd.ErrConfig) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := d.Close(); !errors.Is(err, want) {
			t.Errorf("%s: close: %v", name, err)
		}
		_ = device.Close() // the context is lost
	}
}

// A Wait that fails may be called again.
func TestWaitAgain(t *testing.T) {
	r := open(t)
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 100}))(t)
	batch := []decode.Chunk{r.chunk(t, encode(t, words(100)), 100)}
	ok(t, d.Start(r.stream, batch))
	r.fake.Fail("cuEventSynchronize", 1, 1)
	if _, err := d.Wait(nil); !errors.Is(err, nd.ErrDevice) {
		t.Errorf("%v", err)
	}
	if err := d.Start(r.stream, batch); !errors.Is(err, nd.ErrDevice) {
		t.Errorf("start: %v", err)
	}
	ok(t, must(d.Wait(nil))(t)[0])
	ok(t, d.Start(r.stream, batch))
	ok(t, must(d.Wait(nil))(t)[0])
	ok(t, d.Close())
}

// A decoder that is closed, or was never opened, is so for each call. Closing again does nothing.
func TestClosedDecoder(t *testing.T) {
	r := open(t)
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 100}))(t)
	batch := []decode.Chunk{r.chunk(t, encode(t, words(100)), 100)}
	ok(t, d.Close())
	for name, d := range map[string]*decode.Decoder{"closed": d, "zero": {}, "nil": nil} {
		_, waited := d.Wait(nil)
		for _, err := range []error{d.Start(r.stream, batch), d.Start(r.stream, nil), waited} {
			if !errors.Is(err, nd.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ok(t, d.Close())
	}
}

// What is nil or of another device is refused, not followed.
func TestWrongArguments(t *testing.T) {
	r := open(t)
	if _, err := decode.Open(nil, decode.Limits{Chunks: 1, Bytes: 1}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("no device: %v", err)
	}
	if _, err := decode.NewZstd(nil, nil); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("no device: %v", err)
	}
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 100}))(t)
	batch := []decode.Chunk{r.chunk(t, encode(t, words(100)), 100)}
	elsewhere := must(must(cuda.Load(r.fake.Path))(t).Open(1))(t)
	theirs, closed := must(elsewhere.NewStream(0))(t), must(r.NewStream(0))(t)
	ok(t, closed.Close())
	for _, c := range []struct {
		stream *cuda.Stream
		want   error
	}{{nil, nd.ErrConfig}, {&cuda.Stream{}, nd.ErrConfig}, {theirs, nd.ErrConfig}, {closed, nd.ErrClosed}} {
		if err := d.Start(c.stream, batch); !errors.Is(err, c.want) {
			t.Errorf("%v, expected %v", err, c.want)
		}
	}
	ok(t, d.Start(nil, nil))
	ok(t, d.Start(r.stream, batch))
	ok(t, must(d.Wait(nil))(t)[0])
	ok(t, d.Close())
	ok(t, elsewhere.Close())
}

// Calls of any goroutines follow each other: each batch that was started is waited for once, and Close
// ends them all. (The race detector has something to say here if they do not.)
func TestCallsFollowEachOther(t *testing.T) {
	r := open(t)
	data := words(3000)
	const goroutines = 4
	var batches [goroutines][]decode.Chunk
	for g := range batches {
		batches[g] = []decode.Chunk{r.chunk(t, encode(t, data), len(data))}
	}
	for range 10 {
		d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: int64(len(data))}))(t)
		var wait sync.WaitGroup
		var mu sync.Mutex
		started, waited := 0, 0
		for g := range goroutines {
			wait.Go(func() {
				for range 5 {
					start := d.Start(r.stream, batches[g])
					errs, err := d.Wait(nil)
					mu.Lock()
					if start == nil {
						started++
					} else if !errors.Is(start, nd.ErrConfig) { // another batch is in flight
						t.Error(start)
					}
					if waited += len(errs); err != nil || errors.Join(errs...) != nil {
						t.Error(err, errs)
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		if started == 0 || waited != started {
			t.Errorf("%d batches started, %d waited for", started, waited)
		}
		for g := range goroutines {
			wait.Go(func() {
				if err := d.Start(r.stream, batches[g]); err != nil && !errors.Is(err, nd.ErrConfig) && !errors.Is(err, nd.ErrClosed) {
					t.Error(err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if _, err := d.Wait(nil); !errors.Is(err, nd.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
