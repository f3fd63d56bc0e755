package pipeline

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store/storetest"
)

// Whatever order Push, PushBatch, Finish, Discard and Next come in, with contexts
// that end and reads that fail, batches hold the right bytes, the pipeline works
// on, and nothing is left behind: room of the look-ahead, space in the ring, uses
// and pins of chunks.
func TestAnyInterleaving(t *testing.T) {
	c := shardCube(t)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 99))
		cfg := c.cfg
		cfg.BatchSize, cfg.Slots = 1+r.IntN(5), 1+r.IntN(3)
		cfg.Lookahead = cfg.BatchSize + r.IntN(20)
		cfg.Readers, cfg.Workers = 1+r.IntN(3), 1+r.IntN(3)
		cfg.Reuse, cfg.OnError, cfg.DecodedBytes = Reuse(r.IntN(4)), Policy(r.IntN(3)), 1+int64(r.IntN(300))
		cfg.Arrays = []ArrayRef{{URI: "cube", Store: storetest.NewFault(
			&storetest.Latency{Store: c.array.stored("cube"), Delay: storetest.Jitter(seed, 100*time.Microsecond)},
			storetest.Rule{Key: "cube/c/...", From: 1 + r.IntN(30), Count: 1 + r.IntN(4)})}}
		p := mustOpen(t, cfg)
		c.interleave(t, p, seed)
		c.worksOn(t, p)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p.leftNothing(t, seed)
	}
}

// interleave pushes on one goroutine and takes on another; both discard.
func (c *cube) interleave(t *testing.T, p *Pipeline, seed uint64) {
	ctx, pushed := context.WithCancel(context.Background())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var both sync.WaitGroup
	both.Go(func() {
		defer pushed()
		r := rand.New(rand.NewPCG(seed, 1))
		for range 60 {
			if err := p.anyPush(r, ended); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	})
	both.Go(func() {
		r := rand.New(rand.NewPCG(seed, 2))
		for ctx.Err() == nil {
			b, err := p.Next(ctx)
			switch {
			case err == nil:
				if len(b.Errs()) == 0 || p.cfg.OnError == Skip {
					c.check(t, b)
				}
				release(t, b)
			case !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) && !errors.Is(err, nd.ErrIO):
				t.Errorf("seed %d: %v", seed, err)
			}
			if r.IntN(20) == 0 {
				_ = p.Discard(ended) // begun, not waited for
			}
		}
	})
	both.Wait()
}

func (p *Pipeline) anyPush(r *rand.Rand, ended context.Context) error {
	ctx := context.Background()
	if r.IntN(4) == 0 {
		ctx = ended
	}
	list := make([]sampler.Sample, r.IntN(p.cfg.BatchSize+1))
	for i := range list {
		list[i] = at(int64(i), r.Int64N(13), r.Int64N(13))
	}
	switch r.IntN(10) {
	case 0:
		p.Finish()
		return nil
	case 1:
		return p.Discard(ctx)
	case 2, 3, 4:
		return p.PushBatch(ctx, Meta{}, list)
	}
	return p.Push(ctx, list...)
}

// worksOn drops what is left and streams one more batch. The faults are over.
func (c *cube) worksOn(t *testing.T, p *Pipeline) {
	t.Helper()
	if err := p.Discard(context.Background()); err != nil {
		t.Fatal(err)
	}
	pushBatch(t, p, at(7, 3, 5))
	p.Finish()
	b, err := p.Next(context.Background())
	for errors.Is(err, nd.ErrIO) || err == nil && len(b.Errs()) > 0 { // a fault was left over
		if err == nil {
			release(t, b)
		}
		wantEOF(t, p)
		pushBatch(t, p, at(7, 3, 5))
		p.Finish()
		b, err = p.Next(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, b, 7)
	c.check(t, b)
	release(t, b)
	wantEOF(t, p)
}

// leftNothing looks at what the scheduler holds after Close.
func (p *Pipeline) leftNothing(t *testing.T, seed uint64) {
	t.Helper()
	s := p.sched
	if room := p.inbox.room + s.freed; room != p.cfg.room() {
		t.Errorf("seed %d: room for %d samples of %d", seed, room, p.cfg.room())
	}
	if s.slabs.used != 0 || s.inflight != 0 || s.loading != 0 {
		t.Errorf("seed %d: %d bytes of the ring, %d waves, %d objects under way", seed, s.slabs.used, s.inflight, s.loading)
	}
	for e := range s.table.all() {
		if e.head != nil || e.pins != 0 || e.block == 0 {
			t.Errorf("seed %d: chunk %v is kept with uses, %d pins or no block %d", seed, e.key, e.pins, e.block)
		}
	}
	spare := map[*entry]bool{}
	for _, e := range s.table.spare {
		if spare[e] {
			t.Errorf("seed %d: an entry is spare twice", seed)
		}
		spare[e] = true
	}
	for key, o := range s.locator.objects {
		if leaf := o.key.level == int32(o.array.layout.holder); leaf && o.pins != 0 {
			t.Errorf("seed %d: object %v has %d pins", seed, key, o.pins)
		}
	}
}
