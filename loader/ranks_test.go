package loader_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// With TailMask every batch of every rank has one shape, all ranks have the same
// number of batches, and each sample comes once: the other rows are padding, with the
// values of a real crop.
func TestMask(t *testing.T) {
	source, st := grid(t, 50), store.NewMemory(objects(50)) // 48 samples
	for _, c := range []struct{ global, world, rows int }{{10, 1, 10}, {7, 2, 4}, {20, 3, 7}, {3, 8, 1}} {
		seen := make([]int, source.Len())
		weights := make([]float64, source.Len()) // by step, over the ranks
		for r := range c.world {
			cfg := config(st)
			cfg.BatchSize, cfg.Global, cfg.Tail = 0, int64(c.global), sampler.TailMask
			l := open(t, one(r, c.world), source, cfg)
			steps := int64(0)
			for b, err := l.Next(t.Context()); err == nil; b, err = l.Next(t.Context()) {
				weights[steps] += l.Weight(b)
				steps++
				if len(b.Samples()) != c.rows {
					t.Fatalf("%+v: %d rows", c, len(b.Samples()))
				}
				for _, s := range b.Samples() {
					if s.ID != loader.Padding {
						seen[s.ID]++
					}
				}
				for i, v := range b.Tensor("x").Data {
					if i%4 == 1 && v < 3 { // elements are 1000 and more
						t.Fatalf("%+v: a row that nothing was written to", c)
					}
				}
				if err := b.Release(nil); err != nil {
					t.Error(err)
				}
			}
			if steps != l.Len() || l.Len() != (source.Len()-1)/int64(c.global)+1 {
				t.Errorf("%+v: rank %d made %d steps, Len %d", c, r, steps, l.Len())
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%+v: sample %d came %d times", c, id, n)
			}
		}
		for step := range (int(source.Len())-1)/c.global + 1 {
			if mean := weights[step] / float64(c.world); math.Abs(mean-1) > 1e-9 {
				t.Errorf("%+v: step %d: the weights' mean over ranks is %v", c, step, mean)
			}
		}
	}
}

// The ranks of a replica group get the same batches; the groups are a world of their
// own.
func TestReplicas(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.BatchSize, cfg.Global, cfg.Replicas = 0, 7, 2
	for r := range 6 {
		l := open(t, one(r, 6), source, cfg)
		same(t, "a rank of a group", epoch(t, l), want(stream(source, cfg, 6), 0, r/2, 3))
	}
	if _, err := loader.New(t.Context(), one(0, 5), source, cfg); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("2 replicas of 5 ranks: %v", err)
	}
}

// What was redone is served again and counted once.
func TestRedo(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l, s := open(t, rank.Single(), source, cfg), stream(source, cfg, 1)
	for range 6 {
		next(t, l)
	}
	redo := func(step int64) {
		t.Helper()
		if err := l.Redo(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	redo(6) // the next one: nothing changes
	redo(2)
	if at := l.State(); at.NextPosition != 10 {
		t.Errorf("state %+v", at)
	}
	same(t, "again from step 2", epoch(t, l), want(s, 0, 0, 1)[2:])
	if r, ok := l.Report(0); !ok || r.Delivered != source.Len() || r.Coverage != l.Expected(0) {
		t.Errorf("the report %+v, want %v", r, l.Expected(0))
	}
	for _, step := range []int64{-1, 1, 4} { // the next epoch has begun
		if err := l.Redo(t.Context(), step); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("step %d of an epoch that has none: %v", step, err)
		}
	}
	same(t, "the next epoch", epoch(t, l), want(s, 1, 0, 1))
}

// A restart drops what was returned and what is under way.
func TestRestart(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l, s := open(t, rank.Single(), source, cfg), stream(source, cfg, 1)
	for _, taken := range []int{0, 3, int(s.Steps())} {
		for range taken {
			next(t, l)
		}
		if err := l.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "the epoch", epoch(t, l), want(s, 0, 0, 1))
	if r, _ := l.Report(0); r.Coverage != l.Expected(0) {
		t.Errorf("the report %+v", r)
	}
}

// The report counts what was returned: nothing under way, what a policy left out as
// skipped, and with TailMask such samples as padding.
func TestReport(t *testing.T) {
	source := grid(t, 50)
	for _, c := range []struct {
		policy                     pipeline.Policy
		tail                       sampler.Tail
		delivered, skipped, filled int64
	}{
		{pipeline.Raise, sampler.TailShort, 40, 8, 0}, // two batches of 4
		{pipeline.Skip, sampler.TailShort, 42, 6, 0},
		{pipeline.Fill, sampler.TailShort, 48, 0, 6},
		{pipeline.Skip, sampler.TailMask, 42, 6, 0},
		{pipeline.Fill, sampler.TailMask, 48, 0, 6},
	} {
		st := storetest.NewFault(store.NewMemory(objects(50)), storetest.Rule{Key: "c/5"}) // samples 18 to 23
		cfg := config(st)
		cfg.Shuffle, cfg.BatchSize, cfg.Pipeline.OnError, cfg.Tail = false, 4, c.policy, c.tail
		l := open(t, rank.Single(), source, cfg)
		if r, ok := l.Report(0); ok && r.Delivered != 0 {
			t.Errorf("before the first batch: %+v", r)
		}
		var rows []int
		for range l.Len() {
			if b, err := l.Next(t.Context()); err == nil {
				rows = append(rows, len(b.Samples()))
				if err := b.Release(nil); err != nil {
					t.Error(err)
				}
			}
		}
		r, _ := l.Report(0)
		if r.Delivered != c.delivered || r.Skipped != c.skipped || r.Filled != c.filled {
			t.Errorf("%v %v: %+v", c.policy, c.tail, r)
		}
		if c.tail == sampler.TailMask && slices.Min(rows) != 4 {
			t.Errorf("%v %v: rows %v", c.policy, c.tail, rows)
		}
		if r.Coverage != l.Expected(0) || !r.Complete() { // a skipped position is done with
			t.Errorf("%v %v: coverage %v, want %v", c.policy, c.tail, r.Coverage, l.Expected(0))
		}
		if _, ok := l.Report(7); ok {
			t.Error("a report of an epoch that was not")
		}
	}
}

// An epoch that four ranks began and three went on with, from a state, is covered
// exactly: the merged reports have the digest that the plan alone gives, and the bytes
// are those that one rank delivers.
func TestDigestOfAnEpoch(t *testing.T) {
	source := grid(t, 60)
	for _, tail := range []sampler.Tail{sampler.TailShort, sampler.TailDrop, sampler.TailMask} {
		cfg := config(store.NewMemory(objects(60)))
		cfg.BatchSize, cfg.Global, cfg.Tail, cfg.DataDigest = 0, 9, tail, true
		alone := open(t, rank.Single(), source, cfg)
		epoch(t, alone)
		whole, _ := alone.Report(0)

		var parts []loader.Report
		var state sampler.State
		for r := range 4 {
			l := open(t, one(r, 4), source, cfg)
			next(t, l)
			next(t, l)
			state = save(t, l)
			part, _ := l.Report(0)
			parts = append(parts, part)
		}
		for r := range 3 {
			l := open(t, one(r, 3), source, cfg)
			if err := l.Load(t.Context(), state, false); err != nil {
				t.Fatal(err)
			}
			epoch(t, l)
			part, ok := l.Report(0)
			if doc, err := json.Marshal(part); err != nil || json.Unmarshal(doc, &part) != nil {
				t.Fatalf("%s %v", doc, err)
			}
			parts = append(parts, part)
			if !ok || part.Complete() {
				t.Errorf("one of three ranks: %+v", part)
			}
		}
		sum, err := loader.Merge(parts...)
		if err != nil || sum.Coverage != alone.Expected(0) || sum != whole || !sum.Complete() {
			t.Errorf("%v: merged %+v %v\nwant %+v, expected %v", tail, sum, err, whole, alone.Expected(0))
		}
		if sum.Data.Count != whole.Delivered || sum.Data == (sampler.DataDigest{}) {
			t.Errorf("%v: data digest %+v", tail, sum.Data)
		}
		if lost, err := loader.Merge(parts[1:]...); err != nil || lost.Coverage == whole.Coverage {
			t.Error("the loss of a rank is not seen")
		}
	}
	if _, err := loader.Merge(loader.Report{Epoch: 1}, loader.Report{Epoch: 2}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("two epochs: %v", err)
	}
}

// Replicas deliver the same samples, which count once.
func TestReportsOfReplicas(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.Replicas = 2
	var parts []loader.Report
	var want sampler.Digest
	for r := range 4 {
		l := open(t, one(r, 4), source, cfg)
		epoch(t, l)
		part, _ := l.Report(0)
		parts, want = append(parts, part), l.Expected(0)
	}
	sum, err := loader.Merge(parts...)
	if err != nil || sum.Coverage != want || sum.Delivered != source.Len() {
		t.Errorf("%+v %v, want %v", sum, err, want)
	}
}

// gate is a Fence that has a lease for some steps only.
type gate struct {
	until     int64
	delivered []int64
}

var errFenced = errors.New("no lease")

func (g *gate) Lease(_ context.Context, _, step int64) error {
	if step >= g.until {
		return errFenced
	}
	return nil
}

func (g *gate) Delivered(_, step int64) { g.delivered = append(g.delivered, step) }

// A step without a lease is not returned, and lost by no refusal.
func TestFence(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	g := &gate{until: 2}
	cfg.Fence = g
	l, s := open(t, rank.Single(), source, cfg), stream(source, cfg, 1)
	next(t, l)
	next(t, l)
	for range 2 {
		if _, err := l.Next(t.Context()); !errors.Is(err, errFenced) {
			t.Fatalf("step 2: %v", err)
		}
	}
	g.until = 100
	same(t, "with a lease", epoch(t, l), want(s, 0, 0, 1)[2:])
	if len(g.delivered) != int(l.Len()) || g.delivered[2] != 2 {
		t.Errorf("delivered %v", g.delivered)
	}
}

// Blocks of a size, and those of the source, make another order with the same samples;
// a state of one is none of the other, and all ranks agree on it.
func TestBlocks(t *testing.T) {
	arrays := []sampler.Array{{Name: "a", Shape: []int64{50}, Shard: []int64{4}}}
	byShard, err := sampler.NewGrid(sampler.GridCrops{
		Fields: []sampler.Field{{Name: "x", Crop: []int64{crop}, Arrays: arrays}}, Stride: []int64{1}, ByShard: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	st := store.NewMemory(objects(50))
	for _, c := range []struct {
		source        sampler.Source
		block         int64
		window, wants int
	}{{grid(t, 50), 6, 2, 2}, {grid(t, 50), 6, 0, sampler.DefaultWindow}, {byShard, 0, 3, 3}} {
		cfg := config(st)
		cfg.Block, cfg.Window = c.block, c.window
		var s sampler.Stream
		for r := range 2 {
			l := open(t, one(r, 2), c.source, cfg)
			s = l.Stream()
			if s.Window != c.wants {
				t.Errorf("window %d, want %d", s.Window, c.wants)
			}
			same(t, "by blocks", epoch(t, l), want(s, 0, r, 2))
		}
		plain := open(t, rank.Single(), c.source, config(st))
		if err := plain.Load(t.Context(), s.State(0, 1), false); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "window") {
			t.Errorf("a state of another shuffle: %v", err)
		}
	}
	cfg := config(st)
	cfg.Window = 3
	if _, err := loader.New(t.Context(), rank.Single(), grid(t, 50), cfg); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("blocks of a source without: %v", err)
	}
}

// Ranks on several nodes share a batch by its blocks' homes: other positions than
// slices, but each once, and the ranks agree that it is so.
func TestLocality(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.BatchSize, cfg.Global, cfg.Block, cfg.Window, cfg.Locality, cfg.DataDigest = 0, 16, 2, 8, true, true
	var parts []loader.Report
	var plans []agentapi.Plan
	var expected sampler.Digest
	for r := range 4 {
		id := rank.Identity{Rank: r, World: 4, LocalRank: r % 2, LocalWorld: 2, Node: r / 2, Nodes: 2}
		l := open(t, id, source, cfg)
		plans = append(plans, l.Plan())
		epoch(t, l)
		part, _ := l.Report(0)
		parts, expected = append(parts, part), l.Expected(0)
	}
	whole, err := loader.Merge(parts...)
	if err != nil || whole.Coverage != expected || whole.Data.Count != source.Len() {
		t.Errorf("%+v %v, want %v", whole, err, expected)
	}
	if err := agentapi.Compare(plans); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(plans, func(p agentapi.Plan) bool { return len(p.Own) > 1 }) {
		t.Errorf("all ranks read slices: %+v", plans)
	}
	apart := rank.Identity{Rank: 1, World: 4, LocalWorld: 2, LocalRank: 1, Node: 1, Nodes: 2}
	if _, err := loader.New(t.Context(), apart, source, cfg); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "in a row") {
		t.Errorf("ranks that are dealt out to the nodes in turn: %v", err)
	}
}

// turns is a source that is another one in every epoch.
type turns struct{ sampler.Source }

func (s turns) InEpoch(number int64) sampler.Source { return shifted{s.Source, number} }

type shifted struct {
	sampler.Source
	by int64
}

func (s shifted) Sample(i int64) sampler.Sample {
	crops := s.Source.Sample((i + s.by) % s.Len()).Crops
	return sampler.Sample{ID: i, Crops: crops}
}

// A source that changes from epoch to epoch is asked for the epoch that is pushed.
func TestSourcePerEpoch(t *testing.T) {
	cfg := config(store.NewMemory(objects(50)))
	cfg.Shuffle = false
	l := open(t, rank.Single(), turns{grid(t, 50)}, cfg)
	for e := range int64(3) {
		for step := range l.Len() {
			b, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range b.Samples() {
				got := int64(binary.LittleEndian.Uint32(b.Tensor("x").Data[4*crop*i:]))
				if want := 1000 + (s.ID+e)%48; got != want {
					t.Errorf("epoch %d step %d: sample %d begins with %d, want %d", e, step, s.ID, got, want)
				}
			}
			if err := b.Release(nil); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatalf("the end of epoch %d: %v", e, err)
		}
	}
}
