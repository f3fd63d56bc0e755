package loader_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// epoch takes all batches up to io.EOF.
func epoch(t *testing.T, l *loader.Loader) []served {
	t.Helper()
	all := []served{}
	for {
		b, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read(t, b))
	}
}

// Epochs follow each other, each with its own order and every sample once.
func TestEpochs(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	for _, tail := range []sampler.Tail{sampler.TailShort, sampler.TailDrop} {
		for _, shuffle := range []bool{true, false} {
			cfg.Tail, cfg.Shuffle = tail, shuffle
			l := open(t, rank.Single(), source, cfg)
			s := stream(source, cfg, 1)
			if l.Len() != s.Steps() || l.Fingerprint() != source.Fingerprint() {
				t.Errorf("Len %d, want %d", l.Len(), s.Steps())
			}
			for e := range int64(3) {
				if l.Epoch() != e {
					t.Errorf("epoch %d, want %d", l.Epoch(), e)
				}
				same(t, tail.String(), epoch(t, l), want(s, e, 0, 1))
			}
		}
	}
}

// The slices of all ranks together are the batches of one, for worlds that do not
// divide the batch and for those that are larger.
func TestWorlds(t *testing.T) {
	source, st := grid(t, 50), store.NewMemory(objects(50))
	for _, world := range []int{1, 2, 3, 8} {
		cfg := config(st)
		cfg.BatchSize, cfg.Global = 0, 7
		var ranks [][]served
		for r := range world {
			got := epoch(t, open(t, one(r, world), source, cfg))
			same(t, "a rank", got, want(stream(source, cfg, world), 0, r, world))
			ranks = append(ranks, got)
		}
		s := stream(source, cfg, world)
		for step := range s.Steps() {
			var joined []int64
			for _, list := range ranks {
				joined = append(joined, list[step].samples...)
			}
			if !slices.Equal(joined, s.Batch(0, step)) {
				t.Errorf("world %d, step %d: %v, want %v", world, step, joined, s.Batch(0, step))
			}
		}
	}
}

func TestSetEpoch(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l, s := open(t, rank.Single(), source, cfg), stream(source, cfg, 1)
	set := func(e int64) {
		t.Helper()
		if err := l.SetEpoch(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	set(7)
	next(t, l)
	next(t, l)
	set(7) // changes nothing
	same(t, "the rest of epoch 7", epoch(t, l), want(s, 7, 0, 1)[2:])
	set(7) // again, from its start
	same(t, "epoch 7 again", epoch(t, l), want(s, 7, 0, 1))
	next(t, l)
	set(3) // what was pushed for epoch 8 is dropped
	same(t, "epoch 3", epoch(t, l), want(s, 3, 0, 1))
	for _, e := range []int64{-1, math.MaxInt64} { // the last has none after it
		if err := l.SetEpoch(t.Context(), e); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("epoch %d: %v", e, err)
		}
	}
}

// An epoch without batches ends at once, again and again.
func TestEmptyEpochs(t *testing.T) {
	source, err := sampler.NewRandom(sampler.RandomCrops{Fields: []sampler.Field{{
		Name: "x", Crop: []int64{crop}, Arrays: []sampler.Array{{Name: "a", Shape: []int64{50}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, rank.Single(), source, config(store.NewMemory(objects(50))))
	for e := range int64(3) {
		if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) || l.Epoch() != e+1 {
			t.Errorf("epoch %d: %v, then epoch %d", e, err, l.Epoch())
		}
	}
}

// counted counts the samples that were asked for.
type counted struct {
	sampler.Source
	made atomic.Int64
}

func (c *counted) Sample(i int64) sampler.Sample {
	c.made.Add(1)
	return c.Source.Sample(i)
}

// The look-ahead is full after the first batch, although nothing but Next pushes,
// and samples are made once.
func TestPushesAhead(t *testing.T) {
	source := &counted{Source: grid(t, 500)}
	cfg := config(store.NewMemory(objects(500)))
	cfg.Pipeline.Lookahead = 40
	l := open(t, rank.Single(), source, cfg)
	source.made.Store(0) // New looked at one
	next(t, l)
	if n := source.made.Load(); n < 40 || n > 40+5*6 {
		t.Errorf("%d samples were pushed, want the look-ahead of 40 and what was dispatched of it", n)
	}
	epoch(t, l)
	for e := range int64(2) {
		if e > 0 {
			epoch(t, l)
		}
		if n := source.made.Load() - (e+1)*source.Len(); n < 40 || n > 40+5*6 {
			t.Errorf("after epoch %d, %d samples of the next were pushed, want the look-ahead of 40 and what was dispatched of it", e, n)
		}
	}
}

// An epoch that SetEpoch chose instead of the one that was begun ahead is served
// whole, and nothing of the other.
func TestSetEpochAtTheSeam(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.Shuffle = true
	l := open(t, rank.Single(), source, cfg)
	s := stream(source, cfg, 1)
	same(t, "first", epoch(t, l), want(s, 0, 0, 1))
	for _, e := range []int64{7, 0, 1} {
		if err := l.SetEpoch(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		same(t, "chosen", epoch(t, l), want(s, e, 0, 1))
	}
}

// A batch with an unreadable chunk is an error in its place under Raise, and the
// batches around it are served.
func TestBadSampleFailsItsBatchOnly(t *testing.T) {
	st := storetest.NewFault(store.NewMemory(objects(50)), storetest.Rule{Key: "c/5"}) // elements 20 to 23
	source, cfg := grid(t, 50), config(st)
	cfg.Shuffle, cfg.BatchSize = false, 4
	l := open(t, rank.Single(), source, cfg)
	var failed []int64
	for step := range l.Len() {
		b, err := l.Next(t.Context())
		var bad *pipeline.BatchError
		switch {
		case errors.As(err, &bad) && errors.Is(err, nd.ErrIO):
			failed = append(failed, bad.Meta.Step)
		case err != nil:
			t.Fatal(err)
		default:
			if got := read(t, b); got.step != step {
				t.Errorf("step %d, want %d", got.step, step)
			}
		}
	}
	// Samples 18 to 23 touch the chunk; batches are of 4.
	if !slices.Equal(failed, []int64{4, 5}) {
		t.Errorf("steps %v failed, want 4 and 5", failed)
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// A sample that does not fit its field fails its own batch too, in its place.
func TestUnfitSampleFailsItsBatchOnly(t *testing.T) {
	samples := make([][]sampler.Crop, 20)
	for i := range samples {
		samples[i] = []sampler.Crop{{Box: nd.Box{{Start: int64(i), Stop: int64(i) + crop}}}}
	}
	list, err := sampler.NewList(sampler.CropList{Arrays: []sampler.Array{{Name: "a", Shape: []int64{50}}}, Samples: samples})
	if err != nil {
		t.Fatal(err)
	}
	samples[9] = []sampler.Crop{{Array: 1, Box: samples[9][0].Box}} // there is no such array
	cfg := config(store.NewMemory(objects(50)))
	cfg.Shuffle = false
	l := open(t, rank.Single(), list, cfg)
	for step := range int64(4) {
		b, err := l.Next(t.Context())
		if step == 1 {
			if !errors.Is(err, nd.ErrShape) {
				t.Errorf("step 1: %v, want ErrShape", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, b); got.step != step {
			t.Errorf("step %d, want %d", got.step, step)
		}
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// blocked makes a loader whose chunks are read only when the gate opens.
func blocked(t *testing.T) (l *loader.Loader, s sampler.Stream, gate chan struct{}) {
	t.Helper()
	gate = make(chan struct{})
	st := &storetest.Latency{
		Store: store.NewMemory(objects(50)),
		Delay: func(op storetest.Op, key string, _ int64, _ int) time.Duration {
			if op != storetest.OpRead || !strings.HasPrefix(key, "c/") {
				return 0 // New looks at metadata, and for the first chunk
			}
			return 1
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			if d == 0 {
				return nil
			}
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	source, cfg := grid(t, 50), config(st)
	return open(t, rank.Single(), source, cfg), stream(source, cfg, 1), gate
}

// A context that ends while Next waits costs no batch.
func TestCancelledNextLosesNothing(t *testing.T) {
	l, s, gate := blocked(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.Next(ctx)
			failed <- err
		}()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	close(gate)
	same(t, "after three cancelled calls", epoch(t, l), want(s, 0, 0, 1))
}

// A SetEpoch whose context has ended leaves the loader where it is, whether or
// not the pipeline has dropped what was under way.
func TestCancelledSetEpochChangesNothing(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l, s := open(t, rank.Single(), source, cfg), stream(source, cfg, 1)
	next(t, l)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.SetEpoch(ended, 5); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	} else if err == nil {
		same(t, "epoch 5", epoch(t, l), want(s, 5, 0, 1))
		return
	}
	same(t, "the rest of epoch 0", epoch(t, l), want(s, 0, 0, 1)[1:])
}

func TestCloseWakesNext(t *testing.T) {
	l, _, _ := blocked(t)
	failed := make(chan error)
	go func() {
		_, err := l.Next(context.Background())
		failed <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Next: %v", err)
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	if err := l.SetEpoch(t.Context(), 3); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("SetEpoch after Close: %v", err)
	}
	if err := l.Load(t.Context(), l.State(), false); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Load after Close: %v", err)
	}
}

func TestRefusedConfigs(t *testing.T) {
	source, st := grid(t, 50), store.NewMemory(objects(50))
	f := func(kind error, id rank.Identity, change func(*loader.Config), says ...string) {
		t.Helper()
		cfg := config(st)
		change(&cfg)
		l, err := loader.New(t.Context(), id, source, cfg)
		if err == nil {
			shut(t, l)
		}
		if !errors.Is(err, kind) {
			t.Errorf("got %v, want %v", err, kind)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v\ndoes not say %q", err, s)
			}
		}
	}
	f(nd.ErrConfig, rank.Single(), func(c *loader.Config) {
		c.BatchSize, c.Tail, c.Pipeline.BatchSize, c.Pipeline.Readers = 0, 9, 3, -1
	}, "BatchSize and Global", "Tail", "Pipeline.BatchSize", "Readers")
	f(nd.ErrConfig, rank.Single(), func(c *loader.Config) { c.BatchSize = -1 }, "BatchSize is -1")
	f(nd.ErrConfig, rank.Single(), func(c *loader.Config) { c.Global = 8 }, "give one of them")
	f(nd.ErrConfig, rank.Single(), func(c *loader.Config) { c.BatchSize, c.Global = 0, 1<<40 }, "2^31")
	f(nd.ErrConfig, rank.Identity{World: 2, Rank: 2}, func(*loader.Config) {}, "RANK")
	f(nd.ErrConfig, rank.Single(), func(c *loader.Config) { c.Pipeline.Lookahead = 4 }, "Lookahead")
	f(nd.ErrShape, rank.Single(), func(c *loader.Config) { c.Pipeline.Fields[0].Shape = []int{4} }, `"x"`, "[3]", "[4]")
	f(nd.ErrShape, rank.Single(), func(c *loader.Config) {
		c.Pipeline.Fields = append(c.Pipeline.Fields, pipeline.Field{Name: "y", Shape: []int{3}})
	}, "1 crops", "2 fields")
}
