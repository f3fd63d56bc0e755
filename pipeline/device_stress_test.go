package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// Whatever call fails at whatever time, the pipeline ends, Close returns and nothing
// is held.
func TestAnyCallFails(t *testing.T) {
	ownDevice(t)
	entries := []string{"cuMemcpyAsync", "cuMemcpyBatchAsync", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize", "cuEventCreate", "cuEventElapsedTime", "cuMemsetD8Async", "lose"}
	kinds := map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newCube(t)
		codecs := []string{"gzip", "zstd", "blosc", ""}
		c.array = makeArray(t, r, layout{shape: []int64{16, 16}, chunk: []int64{4, 4}, dtype: nd.U16, codec: codecs[r.IntN(4)]})
		c.cfg.Arrays[0].Store = c.array.stored("cube")
		c.cfg.OnError = Skip
		fake := cudatest.New(t)
		c.cfg.Device, c.cfg.Driver = "cuda:0", fake.Path
		smallBudget(&c.cfg)
		fake.Lazy(r.IntN(2) == 0)
		p, err := Open(t.Context(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		entry, code := entries[r.IntN(len(entries))], []int{2, 719, 700, 1}[r.IntN(4)]
		what := fmt.Sprintf("seed %d %s %d", seed, entry, code)
		watch := time.AfterFunc(20*time.Second, func() {
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) //nolint:errcheck // for people
			panic("hang: " + what)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		go func() {
			for range 30 {
				if p.Push(ctx, grid(4)...) != nil {
					return
				}
			}
		}()
		if entry == "lose" {
			time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, func() { fake.Lose(0, 719) })
		} else {
			fake.Fail(entry, 1+r.IntN(20), code)
		}
		discard := r.IntN(30)
		for i := range 30 {
			if i == discard {
				p.Discard(ctx) //nolint:errcheck // any call may fail here
			}
			patience := 5 * time.Second // where a batch or an error must come, on a busy machine too
			if i >= discard {
				patience = 50 * time.Millisecond // where nothing may have been left: most of the 60 wait that long
			}
			bctx, bcancel := context.WithTimeout(ctx, patience)
			b, err := p.Next(bctx)
			bcancel()
			if err != nil {
				if errors.Is(err, context.DeadlineExceeded) && discard > i {
					t.Errorf("%s: Next hangs", what)
				}
				if e, ok := errors.AsType[*nd.Error](err); ok {
					kinds[fmt.Sprint(entry, " ", code, " ", e.Kind)]++
				}
				break
			}
			if r.IntN(2) == 0 {
				b.ReleaseOn(0) //nolint:errcheck // what it leaves behind is the test
			} else {
				b.Release(nil) //nolint:errcheck // any call may fail here
			}
		}
		cancel()
		p.Close() //nolint:errcheck // any call may fail here
		watch.Stop()
		if live := fake.Live(); live != (cudatest.Live{}) && entry != "lose" && code < 700 {
			t.Errorf("%s: %+v is held", what, live)
		} else if live.Contexts != 0 {
			t.Errorf("%s: a context is held", what)
		}
	}
	t.Log(kinds)
}
