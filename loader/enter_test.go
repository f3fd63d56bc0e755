package loader_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// A loader that enters another world goes on with that world's part of the same global
// batches, in larger batches where its part is larger, and its report counts each step as
// it was returned last.
func TestEnter(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.BatchSize, cfg.Global = 0, 7
	l := open(t, one(1, 3), source, cfg)
	s := stream(source, cfg, 3)
	for range 4 {
		next(t, l)
	}
	place := agentapi.Place{View: 5, Rank: 0, World: 1, Epoch: 0, Step: 2}
	if err := l.Enter(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	if id := l.Identity(); id.Rank != 0 || id.World != 1 || *id.View != 5 {
		t.Errorf("identity %+v", id)
	}
	b, err := l.Next(t.Context())
	if err != nil || b.Meta().View != 5 || l.Weight(b) != 1 {
		t.Fatalf("%v %+v", err, b)
	}
	same(t, "the step", []served{read(t, b)}, want(s, 0, 0, 1)[2:3])
	same(t, "the rest", epoch(t, l), want(s, 0, 0, 1)[3:])
	e := s.Epoch(0)
	expected := e.Digest(s.Slice(0, 1, 3)).Merge(e.Digest(s.Slice(1, 1, 3))).Merge(e.Digest(nd.Span{Start: 14, Stop: s.N}))
	if r, _ := l.Report(0); r.Coverage != expected {
		t.Errorf("report %+v, want %+v", r.Coverage, expected)
	}

	// Back into the epoch before, which is further than Redo goes.
	place.Rank, place.World, place.Step = 2, 4, 5
	if err := l.Enter(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	same(t, "of four", epoch(t, l), want(s, 0, 2, 4)[5:])
}

// The end of an epoch is told once, also where a view begins with the next epoch.
func TestEnterAtTheSeam(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	l := open(t, one(0, 1), source, cfg)
	for range l.Len() {
		next(t, l)
	}
	for range 2 { // before the end was told, and after it
		if err := l.Enter(t.Context(), agentapi.Place{World: 1, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(t.Context()); l.Epoch() == 1 && errors.Is(err, io.EOF) {
			continue
		} else if err == nil {
			return
		} else {
			t.Fatal(err)
		}
	}
	t.Error("the end was told twice")
}

// Places that cannot be are refused, and the loader stays what it was.
func TestEnterNowhere(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	cfg.Replicas = 2
	l := open(t, one(0, 2), source, cfg)
	for _, p := range []agentapi.Place{{Rank: -1, World: 2}, {Rank: 2, World: 2}, {World: 3}, {World: 2, Step: 11}, {World: 2, Step: -1}, {World: 2, Epoch: -1}} {
		if err := l.Enter(t.Context(), p); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	same(t, "all", epoch(t, l), want(stream(source, cfg, 1), 0, 0, 1))
}

// refusing refuses steps from one on with a ViewError.
type refusing struct{ from int64 }

func (f *refusing) Lease(_ context.Context, _, step int64) error {
	if step >= f.from {
		return &agentapi.ViewError{View: 3, World: 2}
	}
	return nil
}
func (*refusing) Delivered(int64, int64) {}

// What a Fence says comes out of Next as it is, and nothing is lost by it.
func TestViewErrorComesOutOfNext(t *testing.T) {
	source, cfg := grid(t, 50), config(store.NewMemory(objects(50)))
	f := &refusing{from: 3}
	cfg.Fence = f
	l := open(t, one(0, 1), source, cfg)
	for range 3 {
		next(t, l)
	}
	for range 2 {
		var view *agentapi.ViewError
		if _, err := l.Next(t.Context()); !errors.As(err, &view) || view.View != 3 || !errors.Is(err, agentapi.ErrView) {
			t.Errorf("%v", err)
		}
	}
	f.from = 100
	same(t, "the rest", epoch(t, l), want(stream(source, cfg, 1), 0, 0, 1)[3:])
}
