package loader_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
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

// launcher serves the ranks of one node, as a launcher does.
func launcher(t *testing.T, world int) (*agentapi.Server, string) {
	t.Helper()
	return patient(t, world, 20*time.Second)
}

func patient(t *testing.T, world int, timeout time.Duration) (*agentapi.Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	l, err := agentapi.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := agentapi.Serve(l, agentapi.Options{RunID: "job", PlanTimeout: timeout})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Begin(agentapi.Round{World: world})
	return s, path
}

func member(r, world int, agent string) rank.Identity {
	id := one(r, world)
	id.RunID, id.Agent = "job", agent
	return id
}

// together takes one batch on every rank at a time, and gives their errors.
func together(t *testing.T, ranks []*loader.Loader) []error {
	t.Helper()
	errs := make([]error, len(ranks))
	var all sync.WaitGroup
	for i, l := range ranks {
		all.Go(func() {
			b, err := l.Next(t.Context())
			if err == nil {
				err = b.Release(nil)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errs
}

// Ranks whose plans fit go on; the plans are compared again when all of them load a
// state.
func TestPlansThatFit(t *testing.T) {
	_, path := launcher(t, 3)
	source := grid(t, 50)
	var ranks []*loader.Loader
	for r := range 3 {
		cfg := config(store.NewMemory(objects(50)))
		cfg.BatchSize, cfg.Global = 0, 7
		l := open(t, member(r, 3, path), source, cfg)
		if !l.Checks() || l.Note() != "" {
			t.Fatalf("no agent: %q", l.Note())
		}
		ranks = append(ranks, l)
	}
	for range 2 {
		for r, err := range together(t, ranks) {
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	}
	state := ranks[0].State()
	for _, l := range ranks {
		if err := l.Load(t.Context(), state, false); err != nil {
			t.Fatal(err)
		}
	}
	for r, err := range together(t, ranks) {
		if err != nil {
			t.Errorf("rank %d after Load: %v", r, err)
		}
	}
}

// A rank with another plan is found before the first batch: the error names two ranks
// and what differs, on all of them, and stays. The same where one rank alone loaded a
// state.
func TestPlansThatDiffer(t *testing.T) {
	source := grid(t, 50)
	f := func(change func(*loader.Config), load bool, says ...string) {
		t.Helper()
		_, path := launcher(t, 2)
		var ranks []*loader.Loader
		for r := range 2 {
			cfg := config(store.NewMemory(objects(50)))
			if r == 1 {
				change(&cfg)
			}
			l := open(t, member(r, 2, path), source, cfg)
			if load && r == 1 {
				if err := l.Load(t.Context(), l.Stream().State(0, 2), false); err != nil {
					t.Fatal(err)
				}
			}
			ranks = append(ranks, l)
		}
		for range 2 {
			for r, err := range together(t, ranks) {
				if !errors.Is(err, nd.ErrConfig) {
					t.Errorf("rank %d: %v", r, err)
					continue
				}
				for _, s := range says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("rank %d: %v\ndoes not say %q", r, err, s)
					}
				}
			}
		}
	}
	same := func(*loader.Config) {}
	f(func(c *loader.Config) { c.Seed++ }, false, "ranks 0 and 1", "seed", "11", "12")
	f(func(c *loader.Config) { c.Tail = sampler.TailDrop }, false, "ranks 0 and 1", "tail")
	f(func(c *loader.Config) { c.BatchSize = 4 }, false, "ranks 0 and 1", "global batch")
	f(same, true, "ranks 0 and 1", "first batch")
}

// A context that ends while the others' plans are awaited costs no batch, and Close
// wakes who waits.
func TestWaitingForPlans(t *testing.T) {
	_, path := launcher(t, 2)
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	first, second := open(t, member(0, 2, path), source, cfg), open(t, member(1, 2, path), source, cfg)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := first.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	for r, err := range together(t, []*loader.Loader{first, second}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	alone := open(t, member(0, 2, path), source, cfg)
	failed := make(chan error)
	go func() {
		_, err := alone.Next(context.Background())
		failed <- err
	}()
	shut(t, alone)
	if err := <-failed; !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Next of a loader that was closed: %v", err)
	}
}

// A loader that one rank alone opens names the ranks that are missing, and the way out.
func TestPlansThatNeverCome(t *testing.T) {
	_, path := patient(t, 3, 10*time.Millisecond)
	l := open(t, member(1, 3, path), grid(t, 50), config(store.NewMemory(objects(50))))
	_, err := l.Next(t.Context())
	if !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "ranks 0, 2") || !strings.Contains(err.Error(), "NoCheck") {
		t.Errorf("got %v", err)
	}
}

// The numbers reach the launcher without the trainer's doing, and the last of them at
// the latest with Close.
func TestStatsReachTheAgent(t *testing.T) {
	s, path := launcher(t, 1)
	l := open(t, member(0, 1, path), grid(t, 50), config(store.NewMemory(objects(50))))
	next(t, l)
	next(t, l)
	shut(t, l)
	deadline := time.Now().Add(10 * time.Second)
	for {
		if got := s.Stats(); len(got) == 1 && got[0].Stats["samples_total"] == 10 && got[0].Stats["batches_total"] == 2 && got[0].Stats["steps"] == 10 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v", s.Stats())
		}
		time.Sleep(time.Millisecond)
	}
}

// A launcher that is not there, or is another job's, is done without and named; one
// that goes away while the plans wait takes no rank with it.
func TestWithoutTheAgent(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l := open(t, member(0, 2, filepath.Join(t.TempDir(), "nobody")), source, cfg)
	if l.Checks() || !strings.Contains(l.Note(), "nobody") {
		t.Errorf("note %q", l.Note())
	}
	next(t, l)
	_, path := launcher(t, 2)
	id := member(0, 2, path)
	id.RunID = "another"
	if l := open(t, id, source, cfg); l.Checks() || l.Note() == "" {
		t.Error("attached to the launcher of another job")
	}
	quiet := cfg
	quiet.NoCheck = true
	if l := open(t, member(0, 2, path), source, quiet); l.Checks() {
		t.Error("a check that was to be left out")
	} else {
		next(t, l)
	}
	server, path := launcher(t, 2)
	l = open(t, member(0, 2, path), source, cfg)
	taken := make(chan error)
	go func() {
		b, err := l.Next(t.Context())
		if err == nil {
			err = b.Release(nil)
		}
		taken <- err
	}()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Errorf("with a launcher that died: %v", err)
	}
}
