package sampler_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// save passes a state through its JSON, as a checkpoint does.
func save(t *testing.T, s sampler.State) sampler.State {
	t.Helper()
	doc, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	back, err := sampler.ParseState(doc)
	if err != nil || back != s {
		t.Fatalf("%s is read as %+v %v", doc, back, err)
	}
	return back
}

// left is the samples that come from a place to the end of its epoch.
func left(t *testing.T, r sampler.Resume, world int) (samples []int64) {
	t.Helper()
	e := r.Stream.Epoch(r.Epoch)
	for step := r.Step; step < r.Stream.Steps(); step++ {
		span := r.Stream.Span(step)
		if step == r.Step {
			span = r.Rest()
		}
		for rank := range world {
			for _, p := range e.Part(span, rank, world) {
				samples = append(samples, e.Order().At(p))
			}
		}
	}
	return samples
}

// Resumed before any step (the first, and the end of the epoch, included), at any
// world size and whatever batch the new run is configured for, the rest of the
// epoch is what would have come.
func TestResumeAtEveryStep(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 40 {
		s := sampler.Stream{N: r.Int64N(400), Global: 1 + r.Int64N(50), Seed: r.Uint64(), Fingerprint: "f", Shuffle: true, Tail: sampler.Tail(r.IntN(3))}
		epoch := r.Int64N(9)
		whole := left(t, sampler.Resume{Stream: s, Epoch: epoch}, 1)
		for step := range s.Steps() + 1 {
			other := s
			other.Seed, other.Global, other.Replicas = 0, 7, 2
			at, err := save(t, s.State(epoch, step)).Check(other, false)
			if err != nil {
				t.Fatal(err)
			}
			if at.Step != step || at.Skip != 0 || at.Epoch != epoch || at.Stream.Global != s.Global {
				t.Fatalf("%+v step %d: resumes at %+v", s, step, at)
			}
			at.Stream.Replicas = 0
			world := 1 + r.IntN(64)
			delivered := min(step*s.Global, int64(len(whole)))
			if got := left(t, at, world); !slices.Equal(got, whole[delivered:]) {
				t.Fatalf("%+v step %d world %d: %v, want %v", s, step, world, got, whole[delivered:])
			}
		}
	}
}

// A position within a batch, which another program may have written, resumes too:
// with what is left of that batch.
func TestResumeAtEveryPosition(t *testing.T) {
	s := sampler.Stream{N: 61, Global: 8, Seed: 3, Fingerprint: "f", Shuffle: true}
	whole := left(t, sampler.Resume{Stream: s, Epoch: 1}, 1)
	for p := range s.N + 1 {
		state := s.State(1, 0)
		state.NextPosition = p
		at, err := state.Check(s, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, world := range []int{1, 3, 64} {
			if got := left(t, at, world); !slices.Equal(got, whole[p:]) {
				t.Fatalf("position %d world %d: %v, want %v", p, world, got, whole[p:])
			}
		}
	}
}

func TestDriftIsRefusedByName(t *testing.T) {
	s := sampler.Stream{N: 100, Global: 8, Seed: 3, Fingerprint: "f", Shuffle: true}
	state := s.State(4, 5)
	f := func(word string, change func(*sampler.Stream)) {
		t.Helper()
		here := s
		change(&here)
		_, err := state.Check(here, false)
		if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "accept the drift") {
			t.Errorf("%s: %v", word, err)
		}
		at, err := state.Check(here, true)
		if err != nil || at.Epoch != 4 || at.Step*8+at.Skip != 40 && at.Step != at.Stream.Steps() {
			t.Errorf("%s with drift: %+v %v", word, at, err)
		}
		if at.Stream.Seed != 3 || at.Stream.Fingerprint != here.Fingerprint || at.Stream.N != here.N {
			t.Errorf("%s with drift goes on with %+v", word, at.Stream)
		}
	}
	f("fingerprint is f in the state, g here", func(s *sampler.Stream) { s.Fingerprint = "g" })
	f("n is 100 in the state, 101 here", func(s *sampler.Stream) { s.N = 101 })
	f("n is 100 in the state, 30 here", func(s *sampler.Stream) { s.N = 30 }) // less than was delivered: the end
	f("shuffle is true in the state, false here", func(s *sampler.Stream) { s.Shuffle = false })
	f("tail is short in the state, drop here", func(s *sampler.Stream) { s.Tail = sampler.TailDrop })
	f("n is 100 in the state, 99 here; shuffle", func(s *sampler.Stream) { s.N, s.Shuffle = 99, false })

	edited := state
	edited.Seed++
	if _, err := edited.Check(s, false); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "plan is") {
		t.Errorf("an edited state: %v", err)
	}
	same := s
	same.Replicas = 8
	if _, err := state.Check(same, false); err != nil {
		t.Errorf("who reads what may change: %v", err)
	}
}

func TestImpossibleStates(t *testing.T) {
	s := sampler.Stream{N: 100, Global: 8, Fingerprint: "f"}
	f := func(word string, change func(*sampler.State)) {
		t.Helper()
		state := s.State(0, 1)
		change(&state)
		for _, drift := range []bool{false, true} {
			if _, err := state.Check(s, drift); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v", word, err)
			}
		}
	}
	f("format 2", func(s *sampler.State) { s.Format = 2 })
	f("format 0", func(s *sampler.State) { *s = sampler.State{} })
	f("epoch -1", func(s *sampler.State) { s.Epoch = -1 })
	f("global 0", func(s *sampler.State) { s.Global = 0 })
	f("next_position -1", func(s *sampler.State) { s.NextPosition = -1 })
	f("next_position 101", func(s *sampler.State) { s.NextPosition = 101 })
}

// The JSON is what checkpoints hold.
func TestStateJSON(t *testing.T) {
	s := sampler.Stream{N: 1_000_000, Global: 512, Seed: 1<<64 - 1, Fingerprint: strings.Repeat("0f", 16), Shuffle: true}
	doc, err := json.Marshal(s.State(3, 1000))
	want := `{"format":1,"fingerprint":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f","seed":18446744073709551615,"epoch":3,"next_position":512000,` +
		`"global":512,"n":1000000,"shuffle":true,"tail":"short","block":0,"window":0,"plan":"` + s.PlanHash() + `"}`
	if err != nil || string(doc) != want {
		t.Errorf("%s %v, want %s", doc, err, want)
	}
	if len(doc) > 256 {
		t.Errorf("%d bytes, a state is small", len(doc))
	}
	for _, bad := range []string{"", "[]", "{", `{"seed": -1}`, `{"epoch": "x"}`, `{"later": 1}`, `{} {}`, "{}" + strings.Repeat(" ", 5000)} {
		if _, err := sampler.ParseState([]byte(bad)); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%.20q: %v, want ErrConfig", bad, err)
		}
	}
	for old, changed := range map[string]string{
		`"next_position":512000,`: "", `"next_position":512000`: `"next_position":null`, `"epoch"`: `"Epoch"`, `"n":`: `"epoch":4,"n":`, `"shuffle":true`: `"Shuffle":false,"shuffle":true`, `"seed":18446744073709551615,`: "", `"shuffle":true,`: "",
	} {
		bad := strings.Replace(want, old, changed, 1)
		if _, err := sampler.ParseState([]byte(bad)); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%s with %q for %q: %v, want ErrConfig", want, changed, old, err)
		}
	}
}

// No document makes reading or checking a state panic, and one that is accepted
// leads to a place in the epoch.
func FuzzState(f *testing.F) {
	s := sampler.Stream{N: 100, Global: 8, Fingerprint: "f", Shuffle: true}
	doc, err := json.Marshal(s.State(1, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add([]byte(`{"format":1,"global":9223372036854775807,"n":9223372036854775807,"next_position":9223372036854775806}`))
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		state, err := sampler.ParseState(doc)
		if err != nil {
			return
		}
		for _, drift := range []bool{false, true} {
			at, err := state.Check(s, drift)
			if err != nil {
				continue
			}
			rest := at.Rest()
			if at.Step < 0 || at.Step > at.Stream.Steps() || rest.Len() == 0 != (at.Step == at.Stream.Steps()) || rest.Stop > s.N {
				t.Fatalf("%s: %+v, rest %v", doc, at, rest)
			}
		}
	})
}
