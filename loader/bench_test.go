package loader_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// tiny is the number of samples of an epoch of the loaders here.
const tiny = 100_000

// tinyLoader is a loader of tiny samples from memory: its cost is what is not bytes.
func tinyLoader(tb testing.TB, change func(*loader.Config)) *loader.Loader {
	tb.Helper()
	source, err := sampler.NewRandom(sampler.RandomCrops{Fields: []sampler.Field{{
		Name: "x", Crop: []int64{crop}, Arrays: []sampler.Array{{Name: "a", Shape: []int64{tiny}}},
	}}, Count: tiny})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := config(store.NewMemory(objects(tiny)))
	change(&cfg)
	l, err := loader.New(tb.Context(), rank.Single(), source, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { shut(tb, l) })
	return l
}

// step is a trainer's step that does nothing with its batch. The end of an epoch is none.
func step(tb testing.TB, l *loader.Loader, commit bool) {
	b, err := l.Next(tb.Context())
	if errors.Is(err, io.EOF) {
		b, err = l.Next(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
	if commit {
		if ok, err := l.Commit(b); !ok || err != nil {
			tb.Fatal(ok, err)
		}
	}
	if err := b.Release(nil); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkNext is the cost of a batch.
func BenchmarkNext(b *testing.B) {
	l := tinyLoader(b, func(*loader.Config) {})
	b.ReportAllocs()
	for b.Loop() {
		step(b, l, false)
	}
}

// passing is a Fence that lets all steps through.
type passing struct{}

func (passing) Lease(context.Context, int64, int64) error { return nil }
func (passing) Delivered(int64, int64)                    {}

// endless is Lanes that hand out all positions in order, epoch after epoch. It allocates
// nothing, and says at once that what is finished counts.
type endless struct {
	mu      sync.Mutex
	epoch   int64
	next    int64
	settled [2][]agentapi.Decided // those to be told, and those that were
}

func (e *endless) TryTake(n int64) (int64, nd.Span, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next == tiny {
		e.epoch, e.next = e.epoch+1, 0
	}
	x := nd.Span{Start: e.next, Stop: min(e.next+n, tiny)}
	e.next = x.Stop
	return e.epoch, x, true
}

func (e *endless) Take(_ context.Context, n int64) (int64, nd.Span, error) {
	epoch, x, _ := e.TryTake(n)
	return epoch, x, nil
}

func (*endless) Holds(int64, nd.Span) bool { return true }

func (e *endless) Finish(epoch int64, x nd.Span, _ [2]uint64) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled[0] = append(e.settled[0], agentapi.Decided{Epoch: epoch, Span: agentapi.Span(x), Effective: true})
	return true, nil
}

func (e *endless) Settled() []agentapi.Decided {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled[0], e.settled[1] = e.settled[1][:0], e.settled[0]
	return e.settled[1]
}

func (*endless) Await(context.Context) error { return nil }

// inJob are the ways in which a loader may be in a job, the first in none.
var inJob = []struct {
	name   string
	change func(*loader.Config)
	commit bool
	lists  float64 // of a step's positions: in lockstep what is pushed and what is counted, none of a lane's
}{
	{"alone", func(*loader.Config) {}, false, 2},
	{"lockstep", func(c *loader.Config) { c.Fence = passing{} }, false, 2},
	{"async", func(c *loader.Config) { c.Lanes = &endless{} }, true, 0},
	{"async-on-release", func(c *loader.Config) { c.Lanes, c.CommitOnRelease = &endless{}, true }, false, 0},
}

// A job costs a step no allocation: Next has no more of them with a Fence, or with Lanes, than
// without.
func TestJobAllocatesNothing(t *testing.T) {
	const steps = 300
	var alone float64
	for i, way := range inJob {
		l := tinyLoader(t, way.change)
		some := func() {
			for range steps {
				step(t, l, way.commit)
			}
		}
		// The pipeline's goroutines allocate now and then, on a busy machine more: one more in each
		// step is a whole one.
		least := 1e9
		for n := 0; n < 5 || i > 0 && n < 25 && least > alone+0.5; n++ {
			least = min(least, testing.AllocsPerRun(1, some)/steps-way.lists)
		}
		if i == 0 {
			alone = least
		}
		if t.Logf("%s: %.2f allocations a step", way.name, least); least > alone+0.5 {
			t.Errorf("%s: %.2f allocations a step, want at most the %.2f of a loader in no job", way.name, least, alone)
		}
	}
}

// BenchmarkNextInJob is how much longer a step takes in a job than in none: the loaders take
// turns of a hundred steps, each first in its turn, so that what else the machine does meets all
// of them, and the figures are the medians of the rounds. A second loader in no job shows what
// the difference of two that are alike comes to.
func BenchmarkNextInJob(b *testing.B) {
	const turn = 100
	ways := append(slices.Clone(inJob), inJob[0])
	var loaders []*loader.Loader
	for _, way := range ways {
		loaders = append(loaders, tinyLoader(b, way.change))
	}
	took := make([][]float64, len(ways))
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			i = (i + round) % len(ways)
			begin := time.Now()
			for range turn {
				step(b, loaders[i], ways[i].commit)
			}
			took[i] = append(took[i], float64(time.Since(begin).Nanoseconds())/turn)
		}
	}
	b.ReportMetric(median(took[0]), "alone-ns/step")
	for i, way := range ways[1:] {
		more := slices.Clone(took[i+1])
		for round := range more {
			more[round] -= took[0][round]
		}
		b.ReportMetric(median(more), way.name+"-more-ns/step")
	}
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
