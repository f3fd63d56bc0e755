package loader_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// save passes a state through its JSON, as a checkpoint does.
func save(t *testing.T, l *loader.Loader) sampler.State {
	t.Helper()
	doc, err := json.Marshal(l.State())
	if err != nil {
		t.Fatal(err)
	}
	s, err := sampler.ParseState(doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Stopped after any batch and loaded elsewhere, the sequence goes on as if nothing
// had been.
func TestResumeAnywhere(t *testing.T) {
	source, cfg := grid(t, 40), config(store.NewMemory(objects(40)))
	s := stream(source, cfg, 1)
	whole := append(want(s, 0, 0, 1), want(s, 1, 0, 1)...)
	other := cfg
	other.Seed, other.BatchSize = 99, 2 // the state's own count
	for stop := range len(whole) + 1 {
		l := open(t, rank.Single(), source, cfg)
		got := []served{}
		for len(got) < stop {
			b, err := l.Next(t.Context())
			if err == nil {
				got = append(got, read(t, b))
			}
		}
		resumed := open(t, rank.Single(), source, other)
		next(t, resumed) // Load drops what is under way
		state := save(t, l)
		if err := resumed.Load(t.Context(), state, false); err != nil {
			t.Fatal(err)
		}
		if back := resumed.State(); back != state {
			t.Errorf("loaded %+v, state is %+v", state, back)
		}
		for len(got) < len(whole) {
			if b, err := resumed.Next(t.Context()); err == nil {
				got = append(got, read(t, b))
			}
		}
		same(t, "stopped and resumed", got, whole)
	}
}

// A state fits any number of ranks: it is the same on all of them, and its global
// batch stays.
func TestResumeAtAnotherWorld(t *testing.T) {
	source, cfg := grid(t, 60), config(store.NewMemory(objects(60)))
	s := stream(source, cfg, 4) // batches of 20
	var state sampler.State
	for r := range 4 {
		l := open(t, one(r, 4), source, cfg)
		next(t, l)
		if r > 0 && l.State() != state {
			t.Errorf("rank %d has state %+v, rank 0 %+v", r, l.State(), state)
		}
		state = save(t, l)
	}
	for _, world := range []int{1, 3, 30} {
		for r := range min(world, 3) {
			l := open(t, one(r, world), source, cfg)
			if err := l.Load(t.Context(), state, false); err != nil {
				t.Fatal(err)
			}
			same(t, "the rest", epoch(t, l), want(s, 0, r, world)[1:])
			same(t, "the next epoch", epoch(t, l), want(s, 1, r, world))
		}
	}
}

// The end of an epoch is a place of its own: its io.EOF is still to come.
func TestResumeAtTheEnd(t *testing.T) {
	source, cfg := grid(t, 14), config(store.NewMemory(objects(14))) // 12 samples, 3 batches
	l := open(t, rank.Single(), source, cfg)
	for range 3 {
		next(t, l)
	}
	state := save(t, l)
	if state.Epoch != 0 || state.NextPosition != 12 {
		t.Errorf("state %+v, want position 12 of epoch 0", state)
	}
	resumed := open(t, rank.Single(), source, cfg)
	if err := resumed.Load(t.Context(), state, false); err != nil {
		t.Fatal(err)
	}
	if rest := epoch(t, resumed); len(rest) != 0 {
		t.Errorf("%d batches are left, want none", len(rest))
	}
	if at := resumed.State(); at.Epoch != 1 || at.NextPosition != 0 {
		t.Errorf("then %+v, want the start of epoch 1", at)
	}
}

func TestRefusedStates(t *testing.T) {
	source, cfg := grid(t, 40), config(store.NewMemory(objects(40)))
	l := open(t, rank.Single(), source, cfg)
	next(t, l)
	before := l.State()
	for what, change := range map[string]func(*sampler.State){
		"format":      func(s *sampler.State) { s.Format = 2 },
		"fingerprint": func(s *sampler.State) { s.Fingerprint = grid(t, 41).Fingerprint() },
		"epoch":       func(s *sampler.State) { s.Epoch = -1 },
		"last epoch":  func(s *sampler.State) { s.Epoch = math.MaxInt64 },
		"global":      func(s *sampler.State) { s.Global = 0 },
		"position":    func(s *sampler.State) { s.NextPosition = 39 },
		"negative":    func(s *sampler.State) { s.NextPosition = -5 },
		"plan":        func(s *sampler.State) { s.Global = 6 }, // edited
		"slice":       func(s *sampler.State) { *s = huge(l, 1<<40) },
	} {
		state := before
		change(&state)
		if err := l.Load(t.Context(), state, false); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", what, err)
		}
	}
	if l.State() != before {
		t.Errorf("a refused state moved the loader from %+v to %+v", before, l.State())
	}
	next(t, l)
	for _, doc := range []string{"", "[]", `{"seed": -1}`, `{"epoch": "x"}`} {
		if _, err := sampler.ParseState([]byte(doc)); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%q: %v, want ErrConfig", doc, err)
		}
	}
}

// A global batch that the memory cannot hold ends the loader with the numbers.
func TestLoadThatCannotOpen(t *testing.T) {
	source, cfg := grid(t, 40), config(store.NewMemory(objects(40)))
	cfg.Pipeline.HostBytes = 256 << 20
	l := open(t, rank.Single(), source, cfg)
	state := huge(l, 1<<30)
	if err := l.Load(t.Context(), state, false); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("got %v", err)
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("Next after it: %v, want ErrClosed", err)
	}
}

// huge is the start of the loader's stream with another global batch.
func huge(l *loader.Loader, global int64) sampler.State {
	stream := l.Stream()
	stream.Global = global
	return stream.State(0, 0)
}

// A state of another order is taken where its drift is accepted: the position stays,
// and the rest of a batch that was begun comes first, as a batch of its own.
func TestAcceptedDrift(t *testing.T) {
	cfg := config(store.NewMemory(objects(50)))
	other := stream(grid(t, 40), cfg, 1)
	other.Global = 7
	for world := 1; world <= 3; world++ {
		state := other.State(2, 2)
		state.NextPosition = 17
		for r := range world {
			source := grid(t, 50)
			l := open(t, one(r, world), source, cfg)
			if err := l.Load(t.Context(), state, false); !errors.Is(err, nd.ErrConfig) {
				t.Errorf("without consent: %v", err)
			}
			if err := l.Load(t.Context(), state, true); err != nil {
				t.Fatal(err)
			}
			if at := l.State(); at.NextPosition != 17 || at.Epoch != 2 || at.Global != 7 {
				t.Errorf("state %+v", at)
			}
			s := l.Stream()
			all := want(s, 2, r, world)[2:]
			all[0].samples = s.Order(2).Samples(s.Split(nd.Span{Start: 17, Stop: 21}, r, world))
			same(t, "the rest", epoch(t, l), all)
		}
	}
}
