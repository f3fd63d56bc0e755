package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// No goroutine outlives its pipeline.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cube is a small array in 4x4 chunks with a pipeline over it.
type cube struct {
	array *testArray
	cfg   Config
}

func newCube(t testing.TB) *cube {
	l := layout{shape: []int64{16, 16}, chunk: []int64{4, 4}, dtype: nd.U16, codec: "zstd"}
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	return &cube{a, Config{
		Arrays:    []ArrayRef{{URI: "cube", Store: a.stored("cube")}},
		Fields:    []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.U16}},
		BatchSize: 4,
	}}
}

// at is a sample of the 4x4 box whose corner is (y, x).
func at(id, y, x int64) sampler.Sample {
	return sampler.Sample{ID: id, Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 4}, {Start: x, Stop: x + 4}}}}}
}

func grid(n int) []sampler.Sample {
	var list []sampler.Sample
	for i := range n {
		list = append(list, at(int64(i), int64(i%4)*4, int64(i/4%4)*4))
	}
	return list
}

func mustOpen(t testing.TB, cfg Config) *Pipeline {
	t.Helper()
	p, err := Open(context.Background(), onDevice(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	p.allFrames()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func push(t testing.TB, p *Pipeline, s ...sampler.Sample) {
	t.Helper()
	if err := p.Push(context.Background(), s...); err != nil {
		t.Fatal(err)
	}
}

// pushBatch pushes all samples or none: what happens to the first cannot fail it.
func pushBatch(t testing.TB, p *Pipeline, s ...sampler.Sample) {
	t.Helper()
	if err := p.PushBatch(context.Background(), Meta{}, s); err != nil {
		t.Fatal(err)
	}
}

func next(t testing.TB, p *Pipeline) *Batch {
	t.Helper()
	b, err := p.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func release(t testing.TB, b *Batch) {
	t.Helper()
	if err := b.Release(nil); err != nil {
		t.Fatal(err)
	}
}

// check compares every sample of a batch with the plain values.
func (c *cube) check(t testing.TB, b *Batch) {
	t.Helper()
	data := bytesOf(t, b, 0)
	for i, s := range b.Samples() {
		want := expect(c.array, &c.cfg.Fields[0], 0, &s.Crops[0])
		if got := data[i*len(want) : (i+1)*len(want)]; string(got) != string(want) {
			t.Fatalf("sample %d: got %x, want %x", s.ID, got, want)
		}
	}
}

// wantEOF and later wantIDs say what must come next.
func wantEOF(t testing.TB, p *Pipeline) {
	t.Helper()
	if b, err := p.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Fatalf("got batch %v, error %v, want io.EOF", b, err)
	}
}

func wantIDs(t testing.TB, b *Batch, ids ...int64) {
	t.Helper()
	var got []int64
	for _, s := range b.Samples() {
		got = append(got, s.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Fatalf("batch holds samples %v, want %v", got, ids)
	}
	if n := b.Tensor("x").Shape[0]; n != int64(len(ids)) {
		t.Fatalf("tensor holds %d samples, want %d", n, len(ids))
	}
}

// Finish makes the last batch short, gives io.EOF once, and leaves the pipeline
// usable.
func TestFinishEndsWithShortBatch(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	for range 2 {
		push(t, p, grid(6)...)
		p.Finish()
		for _, ids := range [][]int64{{0, 1, 2, 3}, {4, 5}} {
			b := next(t, p)
			wantIDs(t, b, ids...)
			c.check(t, b)
			release(t, b)
		}
		wantEOF(t, p)
	}
}

// PushBatch gives exactly the batch asked for, of 0 to BatchSize samples, with
// its meta; a batch that Push has begun ends short before it.
func TestPushBatchIsExact(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	ctx := context.Background()
	push(t, p, grid(1)...)
	for step, n := range []int{0, 3, 4, 0} {
		if err := p.PushBatch(ctx, Meta{Epoch: 7, Step: int64(step), View: 2}, grid(n)); err != nil {
			t.Fatal(err)
		}
	}
	b := next(t, p)
	wantIDs(t, b, 0)
	release(t, b)
	for step, n := range []int{0, 3, 4, 0} {
		b := next(t, p)
		if m := b.Meta(); m != (Meta{7, int64(step), 2, 0}) || len(b.Samples()) != n {
			t.Fatalf("step %d: meta %+v, %d samples", step, m, len(b.Samples()))
		}
		c.check(t, b)
		release(t, b)
	}
	if err := p.PushBatch(ctx, Meta{}, grid(5)); !errors.Is(err, nd.ErrShape) {
		t.Fatalf("a batch beyond BatchSize: %v", err)
	}
}

// Empty batches are bounded too: without a consumer PushBatch blocks.
func TestEmptyBatchesAreBounded(t *testing.T) {
	c := newCube(t)
	c.cfg.Lookahead = 4
	p := mustOpen(t, c.cfg)
	for range p.cfg.room() {
		if err := p.PushBatch(context.Background(), Meta{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.PushBatch(ctx, Meta{}, nil) }()
	waitFor(t, func() bool { p.inbox.mu.Lock(); defer p.inbox.mu.Unlock(); return p.inbox.waiting == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	release(t, next(t, p))
	if err := p.PushBatch(context.Background(), Meta{}, nil); err != nil {
		t.Fatal(err)
	}
}

// Samples beyond the look-ahead are taken but not planned: the look-ahead is what
// bounds the plans and the chunks that wait for a second use.
func TestPlansAreBoundedByTheLookahead(t *testing.T) {
	c := newCube(t)
	c.cfg.BatchSize, c.cfg.Lookahead, c.cfg.Slots = 2, 4, 1
	p := mustOpen(t, c.cfg)
	if err := p.Push(context.Background(), grid(8)...); err != nil {
		t.Fatal(err)
	}
	b := next(t, p)
	waitFor(t, func() bool { return p.Stats().Samples >= 2+4 })
	if n := p.Stats().Samples; n != 2+4 {
		t.Errorf("%d samples planned with a batch of 2 dispatched, a look-ahead of 4 and no free slot", n)
	}
	release(t, b)
	release(t, next(t, p))
	waitFor(t, func() bool { return p.Stats().Samples == 8 })
}

// waitFor polls a condition that other goroutines bring about; it yields, it does
// not sleep.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for i := 0; !ok(); i++ {
		if i > 1<<24 {
			t.Fatal("waited too long")
		}
		runtime.Gosched()
	}
}

// A slot is not written again before its last reference is gone: a held batch
// keeps its bytes while others pass.
func TestHeldBatchKeepsItsBytes(t *testing.T) {
	c := newCube(t)
	c.cfg.Slots = 2
	p := mustOpen(t, c.cfg)
	go func() {
		p.Push(context.Background(), grid(64)...) //nolint:errcheck // its batches are awaited below
		p.Finish()
	}()
	held := next(t, p)
	held.Retain()
	release(t, held)
	for range 15 {
		b := next(t, p)
		c.check(t, b)
		release(t, b)
	}
	c.check(t, held)
	release(t, held)
	if err := held.Release(nil); !errors.Is(err, nd.ErrClosed) {
		t.Fatalf("release beyond the last: %v", err)
	}
	wantEOF(t, p)
}

// With every slot held nothing more is made, and nothing is lost.
func TestSlotsBoundTheBatches(t *testing.T) {
	c := newCube(t)
	c.cfg.Slots = 2
	p := mustOpen(t, c.cfg)
	go func() {
		p.Push(context.Background(), grid(16)...) //nolint:errcheck // its batches are awaited below
		p.Finish()
	}()
	a, b := next(t, p), next(t, p)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a third batch came with both slots held: %v", err)
	}
	release(t, a)
	release(t, b)
	wantIDs(t, next(t, p), 8, 9, 10, 11)
}

// Memory of a batch that is held when the pipeline closes stays valid until its
// last Release.
func TestBatchOutlivesPipeline(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	push(t, p, grid(4)...)
	b := next(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	c.check(t, b)
	release(t, b)
	if b.slot.mem != nil {
		t.Fatal("the slot's memory was not freed with the last Release")
	}
}

// Close wakes blocked calls and every call after it is nd.ErrClosed.
func TestCloseWakesEveryone(t *testing.T) {
	c := newCube(t)
	c.cfg.Lookahead = 4
	c.cfg.Slots = 1
	p := mustOpen(t, c.cfg)
	push(t, p, grid(4)...)
	held := next(t, p)
	errs := make(chan error, 2)
	go func() { errs <- p.Push(context.Background(), grid(64)...) }()
	go func() { _, err := p.Next(context.Background()); errs <- err }()
	waitFor(t, func() bool { p.inbox.mu.Lock(); defer p.inbox.mu.Unlock(); return p.inbox.waiting == 1 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, nd.ErrClosed) {
			t.Fatalf("blocked call woke with %v", err)
		}
	}
	if err := p.Push(context.Background(), grid(1)...); !errors.Is(err, nd.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := p.Next(context.Background()); !errors.Is(err, nd.ErrClosed) {
		t.Fatal(err)
	}
	if err := p.Discard(context.Background()); !errors.Is(err, nd.ErrClosed) {
		t.Fatal(err)
	}
	p.Finish()
	release(t, held)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// Discard drops what was not delivered and nothing of what comes after it.
func TestDiscardDropsOnlyTheUndelivered(t *testing.T) {
	for _, reuse := range []Reuse{ReuseNone, ReuseBatch, ReuseWindow, ReuseCache} {
		t.Run(reuse.String(), func(t *testing.T) {
			c := newCube(t)
			c.cfg.Reuse = reuse
			p := mustOpen(t, c.cfg)
			held := (*Batch)(nil)
			for round := range 20 {
				push(t, p, grid(round%16)...)
				if held == nil && round%16 >= 4 {
					held = next(t, p)
				}
				if err := p.Discard(context.Background()); err != nil {
					t.Fatal(err)
				}
				push(t, p, at(100, 8, 8), at(101, 0, 3))
				p.Finish()
				b := next(t, p)
				wantIDs(t, b, 100, 101)
				c.check(t, b)
				release(t, b)
				wantEOF(t, p)
			}
			c.check(t, held)
			release(t, held)
		})
	}
}

// A sample of the wrong form is refused by Push, with no sample of the call taken.
func TestPushRefusesWrongForms(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	wrong := map[string]sampler.Sample{
		"no crop":       {ID: 1},
		"array":         {ID: 1, Crops: []sampler.Crop{{Array: 1, Box: nd.Box{{Stop: 4}, {Stop: 4}}}}},
		"rank":          {ID: 1, Crops: []sampler.Crop{{Box: nd.Box{{Stop: 4}}}}},
		"extent":        {ID: 1, Crops: []sampler.Crop{{Box: nd.Box{{Stop: 4}, {Stop: 5}}}}},
		"flip":          {ID: 1, Crops: []sampler.Crop{{Box: nd.Box{{Stop: 4}, {Stop: 4}}, Flip: 4}}},
		"far away":      {ID: 1, Crops: []sampler.Crop{{Box: nd.Box{{Stop: 4}, {Start: 1<<63 - 5, Stop: 1<<63 - 1}}}}},
		"reversed span": {ID: 1, Crops: []sampler.Crop{{Box: nd.Box{{Stop: 4}, {Start: 4, Stop: 0}}}}},
	}
	for name, s := range wrong {
		if err := p.Push(context.Background(), at(0, 0, 0), s); !errors.Is(err, nd.ErrShape) || !strings.Contains(err.Error(), "sample 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Finish()
	wantEOF(t, p)
}

// corrupt gives the cube's chunk (1, 1) bytes that no decoder accepts.
func (c *cube) corrupt() {
	c.array.files["c/1/1"] = []byte("this is no zstd frame, whatever else it may be")
	c.cfg.Arrays[0].Store = c.array.stored("cube")
}

// A bad chunk fails the samples that need it and nothing else. Under Raise Next
// gives an error in place of their batch and goes on with the next.
func TestRaise(t *testing.T) {
	c := newCube(t)
	c.corrupt()
	p := mustOpen(t, c.cfg)
	push(t, p, at(0, 0, 0), at(1, 2, 2), at(2, 8, 8), at(3, 4, 4))
	push(t, p, at(4, 0, 0), at(5, 8, 0), at(6, 0, 8), at(7, 12, 12))
	_, err := p.Next(context.Background())
	var be *BatchError
	if !errors.As(err, &be) || !errors.Is(err, nd.ErrCorrupt) || len(be.Samples) != 2 || be.Samples[0].ID != 1 || be.Samples[1].ID != 3 {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"sample 1", "array cube", "chunk 1/1", "file cube/c/1/1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
	b := next(t, p)
	wantIDs(t, b, 4, 5, 6, 7)
	c.check(t, b)
	release(t, b)
}

// Under Skip the bad samples are left out and the others close up; a batch of bad
// samples alone is empty.
func TestSkip(t *testing.T) {
	c := newCube(t)
	c.corrupt()
	c.cfg.OnError = Skip
	p := mustOpen(t, c.cfg)
	push(t, p, at(0, 4, 4), at(1, 0, 0), at(2, 5, 5), at(3, 8, 8))
	push(t, p, at(4, 4, 4), at(5, 4, 5), at(6, 5, 4), at(7, 7, 7))
	push(t, p, at(8, 0, 0), at(9, 8, 0), at(10, 0, 8), at(11, 3, 3))
	for _, ids := range [][]int64{{1, 3}, {}, {8, 9, 10}} {
		b := next(t, p)
		wantIDs(t, b, ids...)
		c.check(t, b)
		if len(b.Errs()) != 4-len(ids) {
			t.Fatalf("%d errors for %d samples", len(b.Errs()), len(ids))
		}
		release(t, b)
	}
	if s := p.Stats(); s.SamplesFailed != 7 {
		t.Fatalf("%d samples failed, want 7", s.SamplesFailed)
	}
}

// Under Fill a bad sample becomes the array's fill value, scaled like data.
func TestFill(t *testing.T) {
	l := layout{shape: []int64{16, 16}, chunk: []int64{4, 4}, dtype: nd.U16, codec: "zstd", fill: 3}
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	a.files["c/1/1"] = nil
	p := mustOpen(t, Config{
		Arrays:    []ArrayRef{{URI: "cube", Store: a.stored("cube")}},
		Fields:    []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.U8, Scale: []float64{2}, Offset: []float64{1}}},
		BatchSize: 2, OnError: Fill,
	})
	push(t, p, at(0, 0, 0), at(1, 4, 4))
	b := next(t, p)
	wantIDs(t, b, 0, 1)
	for i, v := range bytesOf(t, b, 0)[16:] {
		if v != 7 {
			t.Fatalf("element %d of the filled sample is %d, want 3*2+1", i, v)
		}
	}
	if len(b.Errs()) != 1 || !errors.Is(b.Errs()[0], nd.ErrCorrupt) {
		t.Fatalf("errors %v", b.Errs())
	}
	release(t, b)
}

// A box outside the array is an error of its sample where no padding is chosen.
func TestOutsideWithoutPadding(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	push(t, p, at(0, 0, 0), at(1, 14, 0), at(2, 0, 0), at(3, 0, 0))
	if _, err := p.Next(context.Background()); !errors.Is(err, nd.ErrShape) || !strings.Contains(err.Error(), "padding") {
		t.Fatal(err)
	}
}

// The listener hears of every bad sample, every batch and both ends of every wave.
func TestListener(t *testing.T) {
	c := newCube(t)
	c.corrupt()
	var mu sync.Mutex
	var failed, ready, begun, ended int
	count := func(n *int) { mu.Lock(); *n++; mu.Unlock() }
	c.cfg.OnError = Skip
	c.cfg.Listener = &Listener{
		SampleFailed: func(SampleFailed) { count(&failed) },
		BatchReady:   func(BatchReady) { count(&ready) },
		WaveBegin:    func(WaveInfo) { count(&begun) },
		WaveEnd:      func(WaveInfo) { count(&ended) },
	}
	p := mustOpen(t, c.cfg)
	push(t, p, at(0, 4, 4), at(1, 0, 0), at(2, 5, 5), at(3, 8, 8))
	release(t, next(t, p))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if failed != 2 || ready != 1 || begun == 0 || begun != ended {
		t.Fatalf("failed %d, ready %d, waves %d begun %d ended", failed, ready, begun, ended)
	}
}

// A Retain after the last Release must not bring the batch back: its slot belongs
// to another batch by then, and would be given away twice.
func TestRetainAfterReleaseDoesNothing(t *testing.T) {
	c := newCube(t)
	c.cfg.Slots = 1
	p := mustOpen(t, c.cfg)
	push(t, p, grid(8)...)
	b := next(t, p)
	release(t, b)
	b.Retain()
	if err := b.Release(nil); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Release after the last: %v, want nd.ErrClosed", err)
	}
	release(t, next(t, p))
	if n := len(p.slots.idle); n != 1 {
		t.Errorf("%d free slots of 1", n)
	}
}

// gate is an event that somebody waits for, once, until it is opened.
type gate struct{ waited, opened chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) Wait() error {
	close(g.waited)
	<-g.opened
	return nil
}

// A slot is not written again before the events of all releases have happened,
// that of the last as well as those before it.
func TestSlotWaitsForEveryConsumer(t *testing.T) {
	c := newCube(t)
	c.cfg.Slots = 1
	p := mustOpen(t, c.cfg)
	pushBatch(t, p, grid(4)...)
	b := next(t, p)
	before := slices.Clone(bytesOf(t, b, 0))
	gates := []gate{newGate(), newGate(), newGate()}
	b.Retain()
	b.Retain()
	for _, g := range []Event{gates[0], nil, gates[1]} {
		if err := b.Release(g); err != nil {
			t.Fatal(err)
		}
	}
	slot := p.slots.idle[0]
	untouched := func() bool {
		now := slot.mem
		if d, ok := p.backend.(*device); ok {
			now = make([]byte, len(before))
			if err := d.fetch(now, slot.addr); err != nil {
				t.Fatal(err)
			}
		}
		return bytes.Equal(now[:len(before)], before)
	}
	pushBatch(t, p, at(4, 7, 9), at(5, 8, 9), at(6, 9, 9), at(7, 10, 9))
	for _, g := range gates[:2] {
		<-g.waited
		if n := p.counts.batches.Load(); n != 1 || !untouched() {
			t.Errorf("%d batches, or the memory was written, before a consumer's event", n)
		}
		close(g.opened)
	}
	b = next(t, p)
	c.check(t, b)
	// After Close the memory is given back when the last event has happened.
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	slot, freed := b.slot, make(chan error)
	go func() { freed <- b.Release(gates[2]) }()
	<-gates[2].waited
	close(gates[2].opened)
	if err := <-freed; err != nil || slot.mem != nil {
		t.Errorf("released after Close: %v, memory %d bytes", err, len(slot.mem))
	}
}

// panicking is a store that panics where chunks are read.
type panicking struct{ store.Store }

func (s panicking) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	if strings.Contains(key, "/c/") {
		panic("boom")
	}
	return s.Store.ReadAt(ctx, key, p, off)
}

// A panic on the only reader leaves nobody to take its tasks, of which there are
// many: that must not keep the scheduler from ending the pipeline.
func TestPanicOfAReader(t *testing.T) {
	c := newCube(t)
	c.cfg.Arrays[0].Store = panicking{c.cfg.Arrays[0].Store}
	c.cfg.Readers, c.cfg.BatchSize = 1, 16
	p := mustOpen(t, c.cfg)
	pushBatch(t, p, grid(16)...)
	if _, err := p.Next(context.Background()); !errors.Is(err, nd.ErrBug) {
		t.Fatalf("Next: %v, want nd.ErrBug", err)
	}
}

// A panic inside the engine is nd.ErrBug for every call from then on, and Close
// still works.
func TestPanicEndsThePipeline(t *testing.T) {
	c := newCube(t)
	c.cfg.Listener = &Listener{WaveEnd: func(WaveInfo) { panic("boom") }}
	p := mustOpen(t, c.cfg)
	pushBatch(t, p, grid(4)...)
	if _, err := p.Next(context.Background()); !errors.Is(err, nd.ErrBug) || !strings.Contains(err.Error(), "boom") {
		t.Fatal(err)
	}
	if err := p.Push(context.Background(), grid(1)...); !errors.Is(err, nd.ErrBug) {
		t.Fatal(err)
	}
}

// Every impossible value of a config is reported at once, by name.
func TestValidateReportsEverything(t *testing.T) {
	err := (&Config{
		Fields:    []Field{{Shape: []int{0}, Axes: []int{1}, Scale: []float64{1, 2}}, {}},
		BatchSize: -1, Readers: -1, HostBytes: -1, Lookahead: -5, Device: "tpu", Reader: "magic", Decoder: "x",
	}).Validate()
	if !errors.Is(err, nd.ErrConfig) {
		t.Fatal(err)
	}
	for _, field := range []string{"Arrays", "Fields[0].Name", "Fields[0].Shape[0]", "Fields[0].Axes", "Fields[0].Scale", "Fields[1].Name", "BatchSize", "Readers", "HostBytes", "Lookahead", "Device", "Reader", "Decoder"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

// A decoder on a GPU without a device is not unknown: the device is missing.
func TestDecoderNeedsDevice(t *testing.T) {
	for decoder, want := range map[string]string{"nvcomp": "--device cuda:0", "nvcomp=x": "--device cuda:0", "x": "unknown"} {
		if err := (&Config{Decoder: decoder}).Validate(); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", decoder, err)
		}
	}
}

// A budget that cannot work fails at Open with the numbers and what to change.
func TestBudgetTooSmall(t *testing.T) {
	c := newCube(t)
	c.cfg.HostBytes = 1 << 20
	_, err := Open(context.Background(), c.cfg)
	if !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "HostBytes") {
		t.Fatal(err)
	}
}

// Sizes that no machine has, from the config or from metadata of others, are
// refused at Open with the number, not wrapped around or asked of the system.
func TestImpossibleSizes(t *testing.T) {
	c := newCube(t)
	// 2^41 elements of 2 bytes, 2^22 times: 2^64 bytes, which is 0.
	c.cfg.Fields[0] = Field{Name: "x", Shape: []int{1 << 20, 1 << 21}, DType: nd.U16, Pad: PadFill}
	c.cfg.BatchSize, c.cfg.HostBytes = 1<<22, 1<<30
	if _, err := Open(t.Context(), c.cfg); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "BatchSize") {
		t.Errorf("a batch of 2^64 bytes: %v", err)
	}
	// The metadata alone would make a reader ask for 2^36 bytes.
	l := layout{shape: []int64{1 << 33}, chunk: []int64{1}, shard: []int64{1 << 32}, dtype: nd.U8, codec: "zstd"}
	st := store.NewMemory(map[string][]byte{"zarr.json": l.metadata()})
	cfg := Config{Arrays: []ArrayRef{{Store: st}}, Fields: []Field{{Name: "x", Shape: []int{1}}}, BatchSize: 1}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, nd.ErrUnsupported) || !strings.Contains(err.Error(), "index") {
		t.Errorf("an index of 2^36 bytes: %v", err)
	}
	// Beside two batches it would wrap, and there be room for no sample.
	c = newCube(t)
	c.cfg.Lookahead = math.MaxInt
	if _, err := Open(t.Context(), c.cfg); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "Lookahead") {
		t.Errorf("a look-ahead of 2^63 samples: %v", err)
	}
}

// The memory that Open reports is within HostBytes, and all of it is used for
// what was asked.
func TestBudgetIsKept(t *testing.T) {
	c := newCube(t)
	c.cfg.HostBytes = 64 << 20
	p := mustOpen(t, c.cfg)
	if s, limit := p.Stats(), p.Config().HostBytes; s.HostBytes > limit || s.HostBytes < limit/2 && *testDevice == "" {
		t.Fatalf("took %d of %d bytes", s.HostBytes, limit)
	}
}

// Each way of reuse decodes as often as it says: none for every use, batch for
// every distinct chunk of a batch, window and cache once.
func TestReuseCounts(t *testing.T) {
	want := map[Reuse]int64{ReuseNone: 32, ReuseBatch: 4, ReuseWindow: 1, ReuseCache: 1}
	for reuse, n := range want {
		t.Run(reuse.String(), func(t *testing.T) {
			c := newCube(t)
			c.cfg.Reuse = reuse
			c.cfg.BatchSize, c.cfg.Lookahead, c.cfg.Slots = 8, 32, 1
			p := mustOpen(t, c.cfg)
			samples := make([]sampler.Sample, 40)
			for i := range samples {
				samples[i] = at(int64(i), 0, 0)
			}
			for i := range samples[:8] {
				samples[i] = at(int64(i), 4, 4)
			}
			// The first batch, of another chunk, has the only slot until all others
			// are in the window.
			push(t, p, samples[:8]...)
			b := next(t, p)
			before := p.Stats()
			push(t, p, samples[8:]...)
			release(t, b)
			for range 4 {
				b := next(t, p)
				c.check(t, b)
				release(t, b)
			}
			s := p.Stats()
			if decoded, uses := s.ChunksDecoded-before.ChunksDecoded, s.ChunkUses-before.ChunkUses; decoded != n || uses != 32 {
				t.Fatalf("%d uses, %d decoded, want %d", uses, decoded, n)
			}
		})
	}
}

// A chunk without codecs may be larger than the ring: it is read in parts.
func TestRawChunkLargerThanTheRing(t *testing.T) {
	const n = 10 << 20
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), layout{shape: []int64{n}, chunk: []int64{n}, dtype: nd.U8})
	p := mustOpen(t, Config{
		Arrays: []ArrayRef{{URI: "big", Store: a.stored("big")}}, Fields: []Field{{Name: "x", Shape: []int{n}}},
		BatchSize: 1, Slots: 1, Workers: 1, HostBytes: 24 << 20, DeviceBytes: 128 << 20,
	})
	if p.limits.slabs >= n {
		t.Fatalf("a ring of %d bytes holds the chunk", p.limits.slabs)
	}
	for flip := range uint32(2) {
		push(t, p, sampler.Sample{Crops: []sampler.Crop{{Box: nd.Box{{Stop: n}}, Flip: flip}}})
		b := next(t, p)
		got := slices.Clone(bytesOf(t, b, 0))
		if flip == 1 {
			slices.Reverse(got)
		}
		if !bytes.Equal(got, a.values) {
			t.Errorf("flip %d: other bytes", flip)
		}
		release(t, b)
	}
}

// An array without an element can be opened; no crop of it exists.
func TestZeroLengthAxis(t *testing.T) {
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), layout{shape: []int64{0, 4}, chunk: []int64{2, 2}, dtype: nd.U8})
	cfg := Config{
		Arrays:    []ArrayRef{{URI: "empty", Store: a.stored("empty")}},
		Fields:    []Field{{Name: "x", Shape: []int{1, 4}, DType: nd.U8, Pad: PadFill, PadValue: 9}},
		BatchSize: 1,
	}
	p := mustOpen(t, cfg)
	push(t, p, sampler.Sample{Crops: []sampler.Crop{{Box: nd.Box{{Stop: 1}, {Stop: 4}}}}})
	b := next(t, p)
	if d := bytesOf(t, b, 0); string(d) != "\x09\x09\x09\x09" {
		t.Fatalf("padding of an empty array is %v", d)
	}
	release(t, b)
	cfg.Fields[0].Pad = PadEdge
	q := mustOpen(t, cfg)
	push(t, q, sampler.Sample{Crops: []sampler.Crop{{Box: nd.Box{{Stop: 1}, {Stop: 4}}}}})
	if _, err := q.Next(context.Background()); !errors.Is(err, nd.ErrShape) {
		t.Fatalf("nothing to repeat, got %v", err)
	}
}

// Arrays can be added to a running pipeline; one whose chunks do not fit the
// memory that Open divided is refused by name.
func TestAddArray(t *testing.T) {
	c := newCube(t)
	p := mustOpen(t, c.cfg)
	push(t, p, at(0, 0, 0))
	r := rand.New(rand.NewPCG(9, 9))
	more := makeArray(t, r, layout{shape: []int64{8, 8}, chunk: []int64{8, 8}, dtype: nd.U16, codec: "gzip"})
	i, err := p.AddArray(context.Background(), ArrayRef{URI: "more", Store: more.stored("more")})
	if err != nil || i != 1 || len(p.Arrays()) != 2 {
		t.Fatalf("array %d, %d arrays, %v", i, len(p.Arrays()), err)
	}
	s := at(1, 2, 3)
	s.Crops[0].Array = i
	push(t, p, s)
	p.Finish()
	b := next(t, p)
	wantIDs(t, b, 0, 1)
	if want := expect(more, &c.cfg.Fields[0], i, &s.Crops[0]); string(bytesOf(t, b, 0)[32:]) != string(want) {
		t.Fatal("the added array's crop is wrong")
	}
	release(t, b)
	big := layout{shape: []int64{4, 4}, chunk: []int64{4096, 4096}, dtype: nd.U16, codec: "gzip"}
	files := testArray{files: map[string][]byte{"zarr.json": big.metadata()}}
	if _, err := p.AddArray(context.Background(), ArrayRef{URI: "big", Store: files.stored("big")}); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "Config.Arrays") {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddArray(context.Background(), ArrayRef{URI: "more", Store: more.stored("more")}); !errors.Is(err, nd.ErrClosed) {
		t.Fatal(err)
	}
}
