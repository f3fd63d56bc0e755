package cuda_test

import (
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// What is lent are live handles of the device; the driver's status that comes back
// is an error of the usual kind; nothing is lent once the stream or the GPU is gone.
func TestLend(t *testing.T) {
	r := open(t)
	calls := 0
	lend := func(s *cuda.Stream, status int) error {
		return r.Lend(s, "another library", func(l cuda.Lent) int {
			calls++
			if l.Push == 0 || l.Pop == 0 || l.Push == l.Pop || l.Context == 0 || l.Stream != s.Handle() {
				t.Errorf("lent %+v", l)
			}
			return status
		})
	}
	ok(t, lend(r.stream, 0))
	oneLine(t, lend(r.stream, 999), nd.ErrDevice, "GPU 0: another library", "CUDA_ERROR_UNKNOWN (999)")
	stream := must(r.NewStream(0))(t)
	ok(t, stream.Close())
	oneLine(t, lend(stream, 0), closed)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

func TestLendToAnotherGPU(t *testing.T) {
	r := open(t, needFake)
	stream := must(r.second(1).NewStream(0))(t)
	oneLine(t, r.Lend(stream, "another library", func(cuda.Lent) int { t.Error("called"); return 0 }), bug)
}
