package loader_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// script is Lanes whose lane the test writes.
type script struct {
	mu       sync.Mutex
	epoch    int64
	lane     []nd.Span
	taken    []nd.Span
	finished []nd.Span
	digest   sampler.Digest
	settled  []agentapi.Decided
	open     bool                // what was finished is not decided
	void     []agentapi.Decided  // that is, and was not told
	dry      func(*script) error // called with mu held where Take finds nothing
}

func (s *script) Take(ctx context.Context, n int64) (int64, nd.Span, error) {
	for ctx.Err() == nil {
		if e, x, ok := s.TryTake(n); ok {
			return e, x, nil
		}
		s.mu.Lock()
		err := s.dry(s)
		s.mu.Unlock()
		if err != nil {
			return 0, nd.Span{}, err
		}
	}
	return 0, nd.Span{}, ctx.Err()
}

func (s *script) TryTake(n int64) (int64, nd.Span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lane) == 0 {
		return 0, nd.Span{}, false
	}
	x := s.lane[0]
	x.Stop = min(x.Stop, x.Start+n)
	if s.lane[0].Start = x.Stop; s.lane[0].Len() == 0 {
		s.lane = s.lane[1:]
	}
	s.taken = append(s.taken, x)
	return s.epoch, x, true
}

func (s *script) Holds(epoch int64, x nd.Span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return epoch == s.epoch && slices.Contains(s.taken, x)
}

func (s *script) Finish(epoch int64, x nd.Span, digest [2]uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken, x)
	if i < 0 || epoch != s.epoch {
		s.void = append(s.void, agentapi.Decided{Epoch: epoch, Span: agentapi.Span(x), Reason: "void: not in the lane"})
		return false, nil
	}
	s.taken = slices.Delete(s.taken, i, i+1)
	s.finished = append(s.finished, x)
	s.digest = s.digest.Merge(sampler.Digest{Lanes: digest, Count: x.Len()})
	s.settled = append(s.settled, agentapi.Decided{Epoch: epoch, Span: agentapi.Span(x), Effective: true})
	return true, nil
}

func (s *script) Settled() []agentapi.Decided {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.settled
	s.settled = nil
	return list
}

func (s *script) Await(ctx context.Context) error {
	for {
		s.mu.Lock()
		void, open := s.void, s.open
		if !open {
			s.void = nil
		}
		s.mu.Unlock()
		switch {
		case !open && void != nil:
			return &agentapi.VoidError{Parts: void}
		case !open:
			return nil
		case ctx.Err() != nil:
			return &agentapi.WaitError{What: "a verdict", Reason: "no majority", Err: ctx.Err()}
		}
	}
}

// over ends the job once all that was taken is finished.
func over(s *script) error {
	if len(s.taken) > 0 {
		return errors.New("a wait for what is not committed")
	}
	return io.EOF
}

// A rank's batches are the positions of its lane, cut to the batch size; released ones are
// committed with the digest of their samples, the last too, and the report is the epoch.
func TestLanes(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50))) // 48 samples
	s := &script{lane: []nd.Span{{Start: 20, Stop: 48}, {Start: 0, Stop: 20}}}
	s.dry = over
	cfg.Lanes, cfg.CommitOnRelease = s, true
	l := open(t, one(1, 2), source, cfg)
	if l.Len() != 5 {
		t.Errorf("Len %d, want a half of 10 batches", l.Len())
	}
	order := l.Stream().Order(0)
	var last *pipeline.Batch
	for step := int64(0); ; step++ {
		b, err := l.Next(t.Context())
		if last != nil { // as a loop's variable does
			if err := last.Release(nil); err != nil {
				t.Error(err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start := 20 + 5*step
		if step > 5 {
			start = 5 * (step - 6)
		}
		var ids []int64
		for _, sample := range b.Samples() {
			ids = append(ids, sample.ID)
		}
		if want := order.Samples(nd.Span{Start: start, Stop: min(start+5, 48)}); step < 5 && !slices.Equal(ids, want) || b.Meta().Step != step {
			t.Errorf("step %d: %v, want %v", step, ids, want)
		}
		last = b
	}
	if s.digest != l.Expected(0) {
		t.Errorf("committed %+v, want %+v", s.digest, l.Expected(0))
	}
	if r, _ := l.Report(0); r.Coverage != l.Expected(0) || r.Delivered != 48 || !r.Complete() {
		t.Errorf("report %+v", r)
	}
}

// What became void before it is delivered is never delivered; what became void after it is
// told at its commit. Neither counts.
func TestVoidPositions(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	s := &script{lane: []nd.Span{{Start: 0, Stop: 20}}, dry: func(*script) error { return io.EOF }}
	cfg.Lanes = s
	l := open(t, rank.Single(), source, cfg)
	a, err := l.Next(t.Context()) // the others are taken ahead
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.taken = slices.DeleteFunc(s.taken, func(x nd.Span) bool { return x.Start == 0 || x.Start == 10 })
	s.mu.Unlock()
	if ok, err := l.Commit(a); ok || err != nil {
		t.Errorf("a void batch: %v, %v", ok, err)
	}
	batches := []*pipeline.Batch{a}
	var steps []int64
	for {
		b, err := l.Next(t.Context())
		if err != nil {
			break
		}
		steps = append(steps, b.Meta().Step)
		batches = append(batches, b)
		for range 2 { // committed once
			if ok, err := l.Commit(b); !ok || err != nil {
				t.Errorf("step %d: %v, %v", b.Meta().Step, ok, err)
			}
		}
		if len(batches) == 2 { // there are three slots
			err = batches[0].Release(nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, b := range batches[1:] {
		if err := b.Release(nil); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(steps, []int64{1, 3}) || len(s.finished) != 2 {
		t.Errorf("steps %v, finished %v", steps, s.finished)
	}
	if r, _ := l.Report(0); r.Coverage.Count != 10 {
		t.Errorf("report %+v", r)
	}
}

// After a Flush that returned nil all that was committed counts; what does not is told with its
// positions, once, and a wait that ends says for what it was.
func TestFlush(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	s := &script{lane: []nd.Span{{Start: 0, Stop: 20}}, dry: func(*script) error { return io.EOF }, open: true}
	cfg.Lanes = s
	l := open(t, rank.Single(), source, cfg)
	var held [2]*pipeline.Batch
	for i := range held {
		var err error
		if held[i], err = l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer held[i].Release(nil) //nolint:errcheck // of host memory
	}
	a, b := held[0], held[1]
	s.mu.Lock()
	s.taken = slices.DeleteFunc(s.taken, func(x nd.Span) bool { return x.Start == 0 })
	s.mu.Unlock()
	if ok, err := l.Commit(a); ok || err != nil {
		t.Errorf("a void batch: %v, %v", ok, err)
	}
	if ok, err := l.Commit(b); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var void *agentapi.VoidError
	err := l.Flush(short)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no majority") || errors.Is(err, agentapi.ErrVoid) {
		t.Errorf("nothing is decided: %v", err)
	}
	s.mu.Lock()
	s.open, s.void = false, append(s.void, agentapi.Decided{Span: agentapi.Span{Start: 5, Stop: 10}, Reason: "void: old view"})
	s.mu.Unlock()
	if err := l.Flush(t.Context()); !errors.As(err, &void) || len(void.Parts) != 2 || void.Parts[0].Span.Start != 0 || void.Parts[1].Span.Start != 5 || !errors.Is(err, agentapi.ErrVoid) {
		t.Errorf("two parts are void: %v", err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Errorf("then: %v", err)
	}
}

// A bad batch is an error in its place. Its positions are done with once the caller has gone
// on, and not before: a caller that gives up leaves them to others.
func TestBadBatchOfALane(t *testing.T) {
	st := storetest.NewFault(store.NewMemory(objects(50)), storetest.Rule{Key: "c/1"}) // elements 4 to 7
	source, cfg := grid(t, 50), config(st)
	s := &script{lane: []nd.Span{{Start: 0, Stop: 20}}, dry: over}
	cfg.Lanes, cfg.CommitOnRelease, cfg.Shuffle = s, true, false
	l := open(t, rank.Single(), source, cfg)
	var bad *pipeline.BatchError
	for i := range 2 { // samples 2 to 7 touch the chunk
		if _, err := l.Next(t.Context()); !errors.As(err, &bad) || len(s.finished) != i {
			t.Fatalf("%v, finished %v", err, s.finished)
		}
	}
	for range 2 {
		next(t, l)
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if r, _ := l.Report(0); r.Skipped != 10 || r.Delivered != 10 || r.Coverage.Count != 20 {
		t.Errorf("report %+v", r)
	}
}

// Epochs end once; what is left of the one before is dropped.
func TestEpochsOfLanes(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	s := &script{epoch: 3, lane: []nd.Span{{Start: 0, Stop: 10}}}
	s.dry = func(s *script) error {
		if s.epoch == 4 {
			return io.EOF
		}
		s.epoch, s.lane, s.taken = 4, []nd.Span{{Start: 10, Stop: 15}}, nil
		return nil
	}
	cfg.Lanes, cfg.CommitOnRelease = s, true
	l := open(t, rank.Single(), source, cfg)
	var got []int64
	for range 6 {
		b, err := l.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			got = append(got, -1)
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, b.Meta().Epoch, b.Meta().Step)
			if err := b.Release(nil); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []int64{3, 0, 3, 1, -1, 4, 0, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, err := range map[string]error{
		"Redo": l.Redo(t.Context(), 0), "SetEpoch": l.SetEpoch(t.Context(), 0), "Restart": l.Restart(t.Context()),
		"Load": l.Load(t.Context(), l.State(), false), "Enter": l.Enter(t.Context(), agentapi.Place{World: 1}),
	} {
		if !errors.Is(err, nd.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// How much may be under way follows from the pipeline; what does not go with lanes is refused by name.
func TestLanesConfig(t *testing.T) {
	source := grid(t, 50)
	for slots, want := range map[int]int64{0: 45, 7: 65} { // batches of 5: a look-ahead of four, two, three slots
		cfg := config(store.NewMemory(objects(50)))
		cfg.Lanes, cfg.Pipeline.Slots = &script{}, slots
		if got := open(t, one(0, 2), source, cfg).Ahead(); got != want {
			t.Errorf("%d slots: Ahead %d, want %d", slots, got, want)
		}
	}
	for name, change := range map[string]func(*loader.Config){
		"Global":     func(c *loader.Config) { c.BatchSize, c.Global = 0, 5 },
		"Fence":      func(c *loader.Config) { c.Fence = &refusing{} },
		"Replicas":   func(c *loader.Config) { c.Replicas = 2 },
		"Tail":       func(c *loader.Config) { c.Tail = sampler.TailMask },
		"DataDigest": func(c *loader.Config) { c.DataDigest = true },
		"Commit":     func(c *loader.Config) { c.Lanes, c.CommitOnRelease = nil, true },
	} {
		cfg := config(store.NewMemory(objects(50)))
		cfg.Lanes = &script{}
		change(&cfg)
		if _, err := loader.New(t.Context(), one(0, 2), source, cfg); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Four ranks on two agents evaluate an epoch, and one leaves with batches that it has not
// committed: the coordinator says that every position is done, with the digest that
// follows from the plan, and the ranks that are left have what was not committed.
func TestAsyncOverALoss(t *testing.T) {
	ctx := bounded(t)
	sockets := nodes(t, 4)
	source := grid(t, 2000)
	const dies = 2
	var mu sync.Mutex
	times := map[int64]int{} // committed in time, by sample
	var sum []loader.Report
	var ranks sync.WaitGroup
	for i, socket := range sockets {
		cfg := config(store.NewMemory(objects(2000)))
		cfg.NoCheck = true
		id := local(i, socket)
		ranks.Go(func() {
			s, err := cfg.Stream(source, rank.Single()) // the plan is the same for any world
			if err != nil {
				t.Error(err)
				return
			}
			f, err := fence.Dial(ctx, id, agentapi.Attach{Plan: s.PlanHash(), Mode: "async", N: s.N, Steps: s.Steps(), Epochs: 1, Ahead: 60})
			if err != nil {
				t.Error(err)
				return
			}
			cfg.Lanes = f
			l, err := loader.New(ctx, id, source, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer shut(t, l)
			defer f.Close()
			for n := 0; i != dies || n < 7; n++ {
				b, err := l.Next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				var ids []int64
				for _, s := range b.Samples() {
					ids = append(ids, s.ID)
				}
				ok := false
				if i != dies || n < 3 {
					if ok, err = l.Commit(b); err != nil {
						t.Error(err)
					}
				}
				if ok {
					mu.Lock()
					for _, id := range ids {
						times[id]++
					}
					mu.Unlock()
				}
				if err := b.Release(nil); err != nil {
					t.Error(err)
				}
			}
			if i == dies {
				return
			}
			r, _ := l.Report(0)
			mu.Lock()
			defer mu.Unlock()
			sum = append(sum, r)
			expected := l.Expected(0)
			if closed, ok := f.Closed(); !ok || closed.Count != s.N || closed.Digest != expected.String() {
				t.Errorf("rank %d: closed %+v %v, want %v of %s", i, closed, ok, s.N, expected)
			}
		})
	}
	ranks.Wait()
	for id := range source.Len() {
		if times[id] == 0 {
			t.Errorf("sample %d was never committed", id)
		}
	}
	total, err := loader.Merge(sum...)
	if err != nil || total.Coverage.Count > source.Len() || total.Coverage.Count < source.Len()-15 {
		t.Errorf("reports of those that are left: %+v, %v", total, err)
	}
}

// What a rank takes is counted by storage blocks: the first sample of each is read anew, those
// after it in the epoch are not. Lanes that are cut across blocks show as less.
func TestLocalityOfLanes(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	s := &script{lane: []nd.Span{{Start: 0, Stop: 20}, {Start: 30, Stop: 32}}}
	s.dry = func(s *script) error {
		if s.epoch == 1 {
			return io.EOF
		}
		s.epoch, s.lane, s.taken = 1, []nd.Span{{Start: 0, Stop: 5}}, nil
		return nil
	}
	cfg.Lanes, cfg.CommitOnRelease, cfg.Shuffle, cfg.Block = s, true, false, 8
	l := open(t, rank.Single(), source, cfg)
	for ends := 0; ends < 2; {
		b, err := l.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			ends++
		case err != nil:
			t.Fatal(err)
		default:
			if err := b.Release(nil); err != nil {
				t.Error(err)
			}
		}
	}
	// Blocks 0 to 2 and 3, and in the next epoch block 0.
	if got, ok := l.Locality(); !ok || got != (loader.Locality{Samples: 27, Again: 22}) || got.Share() < 0.8 {
		t.Errorf("%+v %v", got, ok)
	}
	cfg.Block, cfg.Lanes = 0, &script{}
	if got, ok := open(t, rank.Single(), source, cfg).Locality(); ok {
		t.Errorf("without blocks: %+v", got)
	}
}
