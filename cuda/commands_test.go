package cuda_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// scatter copies 1300 pieces of odd sizes, to places in reverse order, and checks
// every byte.
func (r *rig) scatter(s *cuda.Stream) {
	r.t.Helper()
	const count, step = 1300, 600
	mem, back, p := r.host(count*step), r.host(count*step), r.alloc(count*step)
	numbers(mem)
	var list []cuda.Piece
	want := make([]byte, len(mem))
	for i := range count {
		n, from, to := i%step, i*step, (count-1-i)*step
		list = append(list, cuda.Piece{Dst: p + cuda.Ptr(to), Src: cuda.Address(mem[from:]), N: uint64(n)})
		copy(want[to:to+n], mem[from:])
	}
	var c cuda.Commands
	c.Set(s, p, 0, count*step)
	c.CopyBatch(s, list)
	c.CopyBatch(s, list[:1]) // of no bytes
	c.Copy(s, cuda.Address(back), p, count*step)
	c.Record(s, r.event)
	ok(r.t, r.Run(&c))
	ok(r.t, r.event.Wait())
	if !bytes.Equal(back, want) {
		r.t.Error("the pieces are not where they belong")
	}
	ok(r.t, r.FreeHost(mem))
	ok(r.t, r.FreeHost(back))
	ok(r.t, r.Free(p))
	r.quiet()
}

func TestCopyBatch(t *testing.T) {
	r := open(t)
	r.scatter(r.stream)
	if r.fake != nil && r.fake.Calls("cuMemcpyBatchAsync") != 3 {
		t.Errorf("%d calls for 1300 pieces", r.fake.Calls("cuMemcpyBatchAsync"))
	}
}

// The batched call came with 12.8 and changed with 13.0; older drivers copy one by one.
func TestCopyBatchVersions(t *testing.T) {
	for version, calls := range map[int]int{12000: 0, 12070: 0, 12080: 3, 12090: 3, 13000: 3, 13010: 3} {
		r := open(t, func(f *cudatest.Fake) { f.Version(version) })
		if r.Info().BatchCopy != (calls > 0) {
			t.Errorf("version %d: batched copies %v", version, r.Info().BatchCopy)
		}
		r.scatter(r.stream)
		if got := r.fake.Calls("cuMemcpyBatchAsync"); got != calls {
			t.Errorf("version %d: %d batched calls, want %d", version, got, calls)
		}
	}
}

// The legacy default stream takes no batch, and a consumer's stream may be it.
func TestWrappedStreams(t *testing.T) {
	r := open(t)
	for _, handle := range []uintptr{0, 1, 2, r.stream.Handle()} {
		s := r.Wrap(handle)
		r.scatter(s)
		if s.Handle() != handle {
			t.Errorf("handle %d became %d", handle, s.Handle())
		}
		ok(t, s.Close())
	}
	r.scatter(r.stream) // closing a wrapped stream left it alone
}

// Work waits on the device for an event of another stream. In lazy mode the
// second stream is run first, if nothing says otherwise.
func TestAwait(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		var set []func(*cudatest.Fake)
		if lazy {
			set = append(set, func(f *cudatest.Fake) { f.Lazy(true) })
		}
		t.Run(map[bool]string{false: "eager", true: "lazy"}[lazy], func(t *testing.T) {
			r := open(t, set...)
			second := must(r.NewStream(-1))(t)
			between := must(r.NewEvent(false))(t)
			const n = 8 * mib
			mem, p, q := r.host(n), r.alloc(n), r.alloc(n)
			numbers(mem)
			var c cuda.Commands
			c.Copy(r.stream, p, cuda.Address(mem), n)
			c.Record(r.stream, between)
			c.Await(second, between)
			c.Copy(second, q, p, n)
			c.Record(second, r.event)
			ok(t, r.Run(&c))
			for done := false; !done; done = must(r.event.Done())(t) {
				runtime.Gosched()
			}
			if !bytes.Equal(r.read(q, n), mem) {
				t.Error("the second stream did not wait")
			}
			r.quiet()
		})
	}
}

// The fake driver's lazy mode does find a missing wait.
func TestLazyFindsMissingWait(t *testing.T) {
	r := open(t, func(f *cudatest.Fake) { f.Lazy(true) })
	second := must(r.NewStream(0))(t)
	mem, p, q := r.host(kib), r.alloc(kib), r.alloc(kib)
	numbers(mem)
	var c cuda.Commands
	c.Copy(r.stream, p, cuda.Address(mem), kib)
	c.Copy(second, q, p, kib)
	c.Record(second, r.event)
	ok(t, r.Run(&c))
	ok(t, r.event.Wait())
	if bytes.Equal(r.read(q, kib), mem) {
		t.Error("the second stream saw what nothing made it wait for")
	}
}

// An event that was never recorded has passed.
func TestEventBeforeRecord(t *testing.T) {
	r := open(t)
	ok(t, r.event.Wait())
	if !must(r.event.Done())(t) {
		t.Error("an event that was never recorded is pending")
	}
}

// An error of Run names the command, and what came before it is enqueued.
func TestRunErrors(t *testing.T) {
	r := open(t, needFake)
	mem, p := r.host(4*kib), r.alloc(4*kib)
	pieces := []cuda.Piece{{Dst: p, Src: cuda.Address(mem), N: kib}, {Dst: p + 4*kib - 8, Src: cuda.Address(mem), N: 9}}
	outside := addParams(p+4*kib, 1, 1)
	f := r.add()
	for want, add := range map[string]func(*cuda.Commands){
		"command 1, a copy of 4097 bytes from": func(c *cuda.Commands) { c.Copy(r.stream, p, cuda.Address(mem), 4*kib+1) },
		"command 1, a copy of 8 bytes from":    func(c *cuda.Commands) { c.Copy(r.stream, p, cuda.Address(make([]byte, 8)), 8) },
		"command 1, a fill of 1 bytes at":      func(c *cuda.Commands) { c.Set(r.stream, p+4*kib, 0, 1) },
		"command 1, a copy of 2 pieces":        func(c *cuda.Commands) { c.CopyBatch(r.stream, pieces) },
		"command 1, a launch of hr_test_add on 1 blocks of 2048 threads": func(c *cuda.Commands) {
			c.Launch(r.stream, f, 1, 2048, 0, outside)
		},
		"command 1, a launch of hr_test_add on 1 blocks of 32 threads": func(c *cuda.Commands) {
			c.Launch(r.stream, f, 1, 32, 0, outside[:12])
		},
	} {
		var c cuda.Commands
		c.Set(r.stream, p, 1, 1)
		add(&c)
		before := r.fake.Calls("cuMemsetD8Async")
		oneLine(t, r.Run(&c), nd.ErrDevice, want, "GPU 0", "CUDA_ERROR_INVALID_VALUE (1)")
		if r.fake.Calls("cuMemsetD8Async") == before {
			t.Errorf("%s: the command before it was not run", want)
		}
	}
	if r.Broken() {
		t.Error("a refused command broke the device")
	}
}

// The 12.8 form of the batched copy tells which piece it refused.
func TestBatchErrorNamesPiece(t *testing.T) {
	r := open(t, func(f *cudatest.Fake) { f.Version(12080) })
	mem, p := r.host(4*kib), r.alloc(4*kib)
	var list []cuda.Piece
	for i := range 600 {
		list = append(list, cuda.Piece{Dst: p + cuda.Ptr(i), Src: cuda.Address(mem), N: 1})
	}
	list[555].N = 8 * kib
	var c cuda.Commands
	c.CopyBatch(r.stream, list)
	oneLine(t, r.Run(&c), nd.ErrDevice, "a copy of 600 pieces, piece 555, 8192 bytes from")
}

// A mistake in building the list comes out of Run, and Reset forgets it.
func TestMistakes(t *testing.T) {
	r := open(t)
	f := r.add()
	for _, add := range []func(*cuda.Commands){
		func(c *cuda.Commands) { c.Copy(r.stream, 0, 0, -1) },
		func(c *cuda.Commands) { c.Set(r.stream, 0, 0, -1) },
		func(c *cuda.Commands) { c.Launch(r.stream, cuda.Function{}, 1, 1, 0, nil) },
		func(c *cuda.Commands) { c.Launch(r.stream, f, -1, 1, 0, nil) },
		func(c *cuda.Commands) { c.Launch(r.stream, f, 1, 0, 0, nil) },
		func(c *cuda.Commands) { c.Launch(r.stream, f, 1, 1, 0, make([]byte, 5000)) },
	} {
		var c cuda.Commands
		add(&c)
		if err := r.Run(&c); !errors.Is(err, bug) {
			t.Errorf("got %v", err)
		}
		c.Reset()
		r.finish(&c)
	}
}

// A list may not mix devices.
func TestOtherDevice(t *testing.T) {
	r := open(t, needFake)
	other := r.second(1)
	var c cuda.Commands
	c.Record(r.stream, must(other.NewEvent(false))(t))
	oneLine(t, r.Run(&c), bug, "event of another GPU")
}

// A list that has been as long before costs nothing to fill and run.
func TestRunAllocatesNothing(t *testing.T) {
	r := open(t)
	f, mem, p := r.add(), r.host(64*kib), r.alloc(64*kib)
	second := must(r.NewStream(0))(t)
	list := make([]cuda.Piece, 700)
	for i := range list {
		list[i] = cuda.Piece{Dst: p + cuda.Ptr(64*i), Src: cuda.Address(mem[64*i:]), N: 64}
	}
	params := addParams(p, 100, 1)
	var c cuda.Commands
	got := testing.AllocsPerRun(20, func() {
		c.Reset()
		c.CopyBatch(r.stream, list)
		c.Set(r.stream, p, 0, 100)
		c.Launch(r.stream, f, 1, 128, 0, params)
		c.Copy(r.stream, p, cuda.Address(mem), 64)
		c.Record(r.stream, r.event)
		c.Await(second, r.event)
		c.Record(second, r.event)
		if r.Run(&c) != nil || r.event.Wait() != nil {
			t.Fatal("running failed")
		}
		if _, err := r.event.Done(); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations a run", got)
	}
}
