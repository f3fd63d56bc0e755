package cuda_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// Whatever is used after Close says so.
func TestClosed(t *testing.T) {
	r := open(t)
	f := r.add()
	module := must(r.LoadModule([][]byte{[]byte(testPTX)}))(t)
	late := must(r.NewEvent(true))(t)
	gone := must(r.NewEvent(false))(t)
	ok(t, gone.Close())
	ok(t, gone.Close())
	oneLine(t, gone.Wait(), closed, "event of GPU 0")
	var c, onGone cuda.Commands
	c.Record(r.stream, r.event)
	onGone.Record(r.stream, gone)
	oneLine(t, r.Run(&onGone), closed)
	mem, p := r.host(8), r.alloc(8)
	ok(t, r.Close())
	for name, call := range map[string]func() error{
		"MemInfo":       func() error { _, _, err := r.MemInfo(); return err },
		"Alloc":         func() error { _, err := r.Alloc(8); return err },
		"Free":          func() error { return r.Free(p) },
		"AllocHost":     func() error { _, err := r.AllocHost(8); return err },
		"FreeHost":      func() error { return r.FreeHost(mem) },
		"Register":      func() error { return r.Register(mem, false) },
		"Unregister":    func() error { return r.Unregister(mem) },
		"NewStream":     func() error { _, err := r.NewStream(0); return err },
		"Drain":         func() error { return r.stream.Drain() },
		"Synchronize":   func() error { return r.Synchronize() },
		"Wrap":          func() error { return r.Wrap(0).Drain() },
		"NewEvent":      func() error { _, err := r.NewEvent(false); return err },
		"NewTimedEvent": func() error { _, err := r.NewTimedEvent(); return err },
		"Wait":          func() error { return r.event.Wait() },
		"Done":          func() error { _, err := r.event.Done(); return err },
		"Since":         func() error { _, err := late.Since(late); return err },
		"LoadModule":    func() error { _, err := r.LoadModule([][]byte{[]byte(testPTX)}); return err },
		"Function":      func() error { _, err := module.Function("hr_test_add"); return err },
		"Attributes":    func() error { _, err := f.Attributes(); return err },
		"BlocksPerSM":   func() error { _, err := f.BlocksPerSM(32, 0); return err },
		"AllowShared":   func() error { return f.AllowShared(1) },
		"Run":           func() error { return r.Run(&c) },
		"ExportMemory":  func() error { _, err := r.ExportMemory(p); return err },
		"ExportEvent":   func() error { _, err := r.ExportEvent(late); return err },
		"ImportMemory":  func() error { _, err := r.ImportMemory(cuda.IPCHandle{}); return err },
		"ImportEvent":   func() error { _, err := r.ImportEvent(cuda.IPCHandle{}); return err },
		"CloseMemory":   func() error { return r.CloseMemory(p) },
	} {
		if err := call(); !errors.Is(err, closed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	ok(t, module.Close())
}

// The caller's current context is the same after every call, also a failed one.
func TestCallersContext(t *testing.T) {
	r := open(t, needFake)
	r.second(1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.fake.Push(1)
	p := r.alloc(8)
	var c cuda.Commands
	c.Set(r.stream, p, 0, 8)
	r.finish(&c)
	c.Set(r.stream, p, 0, 9)
	if r.Run(&c) == nil {
		t.Error("a fill beyond the memory went well")
	}
	r.fake.Fail("cuStreamCreateWithPriority", 1, 999)
	if _, err := r.NewStream(0); err == nil {
		t.Error("a failing call went well")
	}
	ok(t, r.Free(p))
	if depth := r.fake.Depth(); depth != 1 {
		t.Errorf("%d contexts are pushed, want the caller's", depth)
	}
}

// Many goroutines use one device, its streams and one event each, and some close
// things that others use: nothing but ErrClosed comes of it.
func TestConcurrentUse(t *testing.T) {
	r := open(t)
	f := r.add()
	shared := must(r.NewEvent(false))(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			stream, event := must(r.NewStream(0))(t), must(r.NewEvent(false))(t)
			p := r.alloc(kib)
			mem := r.host(kib)
			var c cuda.Commands
			for round := range 50 {
				c.Reset()
				c.Set(stream, p, byte(i), kib)
				c.Launch(stream, f, 4, 256, 0, addParams(p, kib, uint32(round)))
				c.Copy(stream, cuda.Address(mem), p, kib)
				c.Record(stream, event)
				if err := errors.Join(r.Run(&c), event.Wait()); err != nil {
					t.Error(err)
				}
				if mem[0] != byte(i+round) || mem[kib-1] != byte(i+round) {
					t.Errorf("got %d, want %d", mem[0], byte(i+round))
				}
				if err := shared.Wait(); err != nil && !errors.Is(err, closed) {
					t.Error(err)
				}
				if round == 25 && i == 3 {
					if err := shared.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			if err := errors.Join(event.Close(), stream.Close(), r.Free(p), r.FreeHost(mem)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.quiet()
}

// Close may meet calls in flight on everything.
func TestCloseWhileUsed(t *testing.T) {
	r := open(t)
	p := r.alloc(kib)
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			var c cuda.Commands
			for n := 0; ; n++ {
				c.Reset()
				c.Set(r.stream, p, 1, kib)
				c.Record(r.stream, r.event)
				err := r.Run(&c)
				if err == nil {
					err = r.event.Wait()
				}
				if n == 0 {
					started <- struct{}{}
				}
				if err == nil {
					continue
				}
				if !errors.Is(err, closed) {
					t.Error(err)
				}
				return
			}
		})
	}
	for range 8 {
		<-started
	}
	ok(t, r.Close())
	wg.Wait()
	r.quiet()
}

var poisonFlag = flag.Bool("cuda.poison", false, "this process may lose its context: it is the child of TestBroken")

// A context that is lost while work runs: the wait says so, Broken stays, nothing
// hangs, and Close works. On a GPU this needs a process of its own.
func TestBroken(t *testing.T) {
	if *driverFlag == "fake" {
		r := open(t, func(f *cudatest.Fake) { f.Lazy(true) })
		r.poison()
		return
	}
	if *poisonFlag {
		open(t).poison()
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestBroken$", "-cuda.driver="+*driverFlag, "-cuda.poison")
	if said, err := child.CombinedOutput(); err != nil {
		t.Fatalf("the process that loses its context: %v\n%s", err, said)
	}
}

// poison writes to an address that is nobody's.
func (r *rig) poison() {
	t := r.t
	f, p := r.add(), r.alloc(8)
	var c cuda.Commands
	c.Launch(r.stream, f, 1, 32, 0, addParams(64, 1, 1))
	c.Record(r.stream, r.event)
	ok(t, r.Run(&c))
	if r.Broken() {
		t.Error("broken before anybody waited")
	}
	oneLine(t, r.event.Wait(), nd.ErrDevice, "waiting for an event", "CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	if !r.Broken() {
		t.Error("not broken after an illegal address")
	}
	_, err := r.Alloc(8)
	oneLine(t, err, nd.ErrDevice)
	_, err = r.event.Done()
	oneLine(t, err, nd.ErrDevice)
	oneLine(t, r.Run(&c), nd.ErrDevice)
	oneLine(t, r.Free(p), nd.ErrDevice)
	oneLine(t, r.Close(), nd.ErrDevice)
	oneLine(t, r.event.Wait(), closed)
	if !r.Broken() {
		t.Error("not broken after Close")
	}
}

func TestLost(t *testing.T) {
	r := open(t, needFake)
	r.fake.Lose(0, 719)
	_, _, err := r.MemInfo()
	oneLine(t, err, nd.ErrDevice, "CUDA_ERROR_LAUNCH_FAILED (719)")
	var status *cuda.DriverError
	if !errors.As(err, &status) || status.Code != 719 || !r.Broken() {
		t.Errorf("status %v, broken %v", status, r.Broken())
	}
}

// reopen opens the device once more, and closes that again.
func reopen(r *rig) error {
	second, err := r.driver.Open(0)
	if err == nil {
		err = second.Close()
	}
	return err
}

// Every entry may fail at any time; the error names the code and nothing is left.
func TestFaults(t *testing.T) {
	for entry, call := range map[string]func(*rig) error{
		"cuMemGetInfo":               func(r *rig) error { _, _, err := r.MemInfo(); return err },
		"cuMemAlloc":                 func(r *rig) error { _, err := r.Alloc(8); return err },
		"cuMemHostAlloc":             func(r *rig) error { _, err := r.AllocHost(8); return err },
		"cuStreamCreateWithPriority": func(r *rig) error { _, err := r.NewStream(0); return err },
		"cuEventCreate":              func(r *rig) error { _, err := r.NewEvent(false); return err },
		"cuEventSynchronize":         func(r *rig) error { return r.event.Wait() },
		"cuEventElapsedTime":         func(r *rig) error { return r.timeOfNothing() },
		"cuEventQuery":               func(r *rig) error { _, err := r.event.Done(); return err },
		"cuStreamSynchronize":        func(r *rig) error { return r.stream.Drain() },
		"cuCtxSynchronize":           func(r *rig) error { return r.Synchronize() },
		"cuModuleLoadDataEx":         func(r *rig) error { _, err := r.LoadModule([][]byte{[]byte(testPTX)}); return err },
		"cuIpcGetMemHandle":          func(r *rig) error { _, err := r.ExportMemory(r.alloc(8)); return err },
		"cuDeviceGetCount":           func(r *rig) error { _, err := r.driver.Count(); return err },
		"cuDeviceGetName":            reopen,
		"cuDevicePrimaryCtxRetain":   reopen,
		"cuCtxPushCurrent":           func(r *rig) error { _, err := r.NewEvent(false); return err },
		"cuCtxPopCurrent":            func(r *rig) error { return r.event.Wait() },
	} {
		t.Run(entry, func(t *testing.T) {
			r := open(t, needFake)
			r.fake.Fail(entry, 1, 999)
			oneLine(t, call(r), nd.ErrDevice, "CUDA_ERROR_UNKNOWN (999)")
			if err := call(r); err != nil {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}
