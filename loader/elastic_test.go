package loader_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// node is a real agent on loopback, and the socket of its ranks.
func node(t *testing.T, name string, change func(*agent.Config)) (a *agent.Agent, socket string) {
	t.Helper()
	cfg := agent.Config{Job: "job", Name: name, Profile: "fast", Key: []byte("0123456789abcdef")}
	cfg.Listener.Event = func(e agent.Event) { t.Logf("%s: %s %s", name, e.Kind, e.Text) }
	change(&cfg)
	a, err := agent.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "s")
	l, err := agentapi.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := agentapi.Serve(l, agentapi.Options{Coordinator: a})
	server.Begin(agentapi.Round{})
	t.Cleanup(func() {
		_ = a.Close()
		_ = server.Close()
	})
	return a, socket
}

// nodes are the sockets of four ranks, two on each of two nodes.
func nodes(t *testing.T, expect int) []string {
	t.Helper()
	first, a := node(t, "a", func(c *agent.Config) { c.Form, c.Expect = true, expect })
	_, b := node(t, "b", func(c *agent.Config) { c.Contacts = []string{first.Address()} })
	return []string{a, a, b, b}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// local is the identity of a rank before it knows its place.
func local(i int, socket string) rank.Identity {
	return rank.Identity{RunID: "job", Rank: i, World: 4, LocalRank: i % 2, LocalWorld: 2, Node: i / 2, Nodes: 2, Agent: socket}
}

// deliveries is what the ranks of a job were given: by step, view and rank.
type deliveries struct {
	mu    sync.Mutex
	steps map[int64]map[int64]map[int][]int64
	most  map[int]int64 // by number of the process: steps below it were returned
}

func (d *deliveries) add(process, r int, b *pipeline.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := b.Meta()
	if d.steps[m.Step] == nil {
		d.steps[m.Step] = map[int64]map[int][]int64{}
	}
	if d.steps[m.Step][m.View] == nil {
		d.steps[m.Step][m.View] = map[int][]int64{}
	}
	ids := []int64{}
	for _, s := range b.Samples() {
		ids = append(ids, s.ID)
	}
	d.steps[m.Step][m.View][r] = ids
	d.most[process] = m.Step + 1
}

// all is the step below which all ranks were given all: there their models are alike.
func (d *deliveries) all() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	least := d.most[0]
	for _, n := range d.most {
		least = min(least, n)
	}
	return least
}

// batch is a global batch as the newest view was given it, in the order of its ranks.
func (d *deliveries) batch(step int64) (ids []int64, ranks int) {
	newest := int64(-1)
	for view := range d.steps[step] {
		newest = max(newest, view)
	}
	parts := d.steps[step][newest]
	for r := range len(parts) {
		ids = append(ids, parts[r]...)
	}
	return ids, len(parts)
}

// interrupted is a collective that waits for a lost rank, until it is aborted.
func interrupted(ctx context.Context, f *fence.Fence) {
	for {
		changed := f.Changed()
		if f.Interrupted() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Three ranks on two agents train in lockstep, and one leaves in the middle: the others go back to a
// step that all had done, and the global batches are those of the plan throughout, in the
// new world as in the old one.
func TestLockstepOverALoss(t *testing.T) {
	ctx := bounded(t)
	sockets := nodes(t, 3)
	source := grid(t, 2000)
	d := &deliveries{steps: map[int64]map[int64]map[int][]int64{}, most: map[int]int64{0: 0, 1: 0, 2: 0}}
	var stream sampler.Stream
	var ranks, end sync.WaitGroup
	end.Add(3)
	const dies, diesAt = 1, 100
	for i, socket := range sockets[:3] {
		cfg := config(store.NewMemory(objects(2000)))
		cfg.BatchSize, cfg.Global, cfg.NoCheck = 0, 7, true
		id := local(i, socket)
		s, err := cfg.Stream(source, id)
		if err != nil {
			t.Fatal(err)
		}
		stream = s
		ranks.Go(func() {
			over := sync.OnceFunc(end.Done)
			defer over()
			f, err := fence.Dial(ctx, id, agentapi.Attach{Plan: s.PlanHash(), Mode: "lockstep", N: s.N, Steps: s.Steps()})
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			cfg.Fence = f
			l, err := loader.New(ctx, id, source, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer shut(t, l)
			if err := l.Enter(ctx, f.Place()); err != nil {
				t.Error(err)
				return
			}
			alive, kill := context.WithCancel(ctx)
			defer kill()
			train := func(b *pipeline.Batch) error {
				d.add(i, l.Identity().Rank, b)
				if i == dies && b.Meta().Step == diesAt {
					kill()
				}
				if i != dies && b.Meta().Step > diesAt && l.Identity().World == 3 {
					interrupted(ctx, f)
				}
				return nil
			}
			err = trainEpoch(alive, f, l, train, func() (int64, int64) { return 0, d.all() })
			if i != dies && err != nil || i == dies && alive.Err() == nil {
				t.Errorf("rank %d: %v", i, err)
			}
			if over(); i != dies {
				end.Wait() // as the last collective does: who leaves earlier is lost to the others
			}
		})
	}
	ranks.Wait()
	worlds := map[int]bool{}
	for step := range stream.Steps() {
		ids, n := d.batch(step)
		worlds[n] = true
		if want := stream.Batch(0, step); !slices.Equal(ids, want) && !t.Failed() {
			t.Fatalf("step %d, of %d ranks: %v, want %v", step, n, ids, want)
		}
	}
	if len(worlds) != 2 || !worlds[2] || !worlds[3] {
		t.Errorf("worlds %v, want 3 and then 2", worlds)
	}
}
