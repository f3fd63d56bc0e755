package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Forming takes no room in the ring or the arena and reads nothing, puts each use of a
// chunk into one wave, and keeps waves within their bounds; formed waves that are
// dropped leave nothing, and the same samples form the same waves.
func TestForming(t *testing.T) {
	for _, reuse := range []Reuse{ReuseNone, ReuseBatch, ReuseWindow, ReuseCache} {
		t.Run(reuse.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(reuse)))
			a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{8, 8}, shard: []int64{32, 32}, dtype: nd.U16, codec: "lz4"})
			cfg := Config{
				Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 4, Lookahead: 64, Slots: 16, Reuse: reuse,
				Fields: []Field{{Name: "x", Shape: []int{20, 20}, DType: nd.U16}},
			}
			cfg.setDefaults()
			p, err := open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer p.free() //nolint:errcheck // the test is about what came before
			defer p.cancel()
			p.capacity.chunks, p.capacity.batches = 20, 2
			var samples []sampler.Sample
			for i := range 32 {
				y, x := r.Int64N(45), r.Int64N(45)
				samples = append(samples, sampler.Sample{ID: int64(i), Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 20}, {Start: x, Stop: x + 20}}}}})
			}
			first := p.formAll(t, samples)
			if second := p.formAll(t, samples); !slices.EqualFunc(first, second, slices.Equal) {
				t.Errorf("waves of the leaves %v, then %v", first, second)
			}
		})
	}
}

// planAll plans the samples, in the place of the scheduler and the reader of indexes.
func (p *Pipeline) planAll(samples []sampler.Sample) {
	s := p.sched
	var b *batchState
	for i := range samples {
		if i%p.cfg.BatchSize == 0 {
			b = &batchState{}
			s.order = append(s.order, b)
		}
		s.queue = append(s.queue, &sampleState{batch: b, index: int32(i % p.cfg.BatchSize), sample: samples[i]})
	}
	s.planAhead()
	for s.loading > 0 {
		task, _ := p.tasks.take()
		task.object.load(p.ctx, nil, true)
		s.loading--
		s.locator.finish(task.object)
	}
}

// formAll forms waves of the samples and drops them; it gives the leaves of each.
func (p *Pipeline) formAll(t *testing.T, samples []sampler.Sample) (leaves [][]int64) {
	t.Helper()
	p.planAll(samples)
	s := p.sched
	jobs, planned := 0, s.planned
	for w := s.form(); w != nil; w = s.form() {
		if s.slabs.used != 0 || s.table.arena.used != 0 || len(w.reads) != 0 {
			t.Errorf("%d bytes of the ring, %d of the arena, %d reads", s.slabs.used, s.table.arena.used, len(w.reads))
		}
		var list []int64
		for i := range w.chunks {
			c := &w.chunks[i]
			list = append(list, c.leaf)
			for j := c.firstJob; j >= 0; j = w.jobs[j].next {
				jobs++
			}
		}
		if len(list) > p.capacity.chunks || p.cfg.Reuse == ReuseBatch && len(w.touched) > 1 || len(w.touched) > p.capacity.batches {
			t.Errorf("a wave of %d chunks for %d batches", len(list), len(w.touched))
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(list))); p.cfg.Reuse != ReuseNone && len(distinct) != len(list) {
			t.Errorf("chunks twice in a wave: %v", list)
		}
		leaves = append(leaves, list)
		s.retire(w)
	}
	if jobs != planned || s.planned != 0 || len(leaves) < 2 {
		t.Errorf("%d of %d jobs in %d waves, %d not formed", jobs, planned, len(leaves), s.planned)
	}
	s.discard()
	for e := range s.table.all() {
		t.Errorf("chunk %v is left with %d pins", e.key, e.pins)
	}
	return leaves
}

// Small batches do not all go into one wave of a device: with three slots, while the
// consumer holds a batch, the next wave is formed beside the one in flight.
func TestWavesLeaveSlots(t *testing.T) {
	for slots, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 8: 3} {
		if got := waveBatches(slots); got != want {
			t.Errorf("%d slots: %d batches a wave, want %d", slots, got, want)
		}
	}
	for slots, want := range map[int]int{3: 1, 7: 3} {
		c := newCube(t)
		c.cfg.Slots, c.cfg.Lookahead = slots, 8*slots
		onFake(t, &c.cfg)
		c.cfg.setDefaults()
		p, err := open(t.Context(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		var samples []sampler.Sample
		for range 2 * slots {
			samples = append(samples, grid(4)...)
		}
		p.planAll(samples)
		most, batches := 0, map[*batchState]bool{}
		for w := p.sched.form(); w != nil; w = p.sched.form() {
			most = max(most, len(w.touched))
			for _, b := range w.touched {
				batches[b] = true
			}
		}
		if most != want || len(batches) != slots {
			t.Errorf("%d slots: waves of up to %d batches, want %d; %d batches got one", slots, most, want, len(batches))
		}
		p.cancel()
		if err := p.free(); err != nil {
			t.Fatal(err)
		}
	}
}
