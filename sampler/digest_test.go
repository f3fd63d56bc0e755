package sampler_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// What the ranks add up in any order is what the plan says, at any world size.
func TestDigestIsOrderFreeAndMerges(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 30 {
		s := sampler.Stream{N: r.Int64N(700), Global: 1 + r.Int64N(40), Seed: r.Uint64(), Fingerprint: "f", Shuffle: true, Tail: sampler.Tail(r.IntN(3))}
		e, world := s.Epoch(3), 1+r.IntN(50)
		key := s.DigestKey(3)
		ranks := make([]sampler.Digest, world)
		for _, step := range r.Perm(int(s.Steps())) {
			for rank := range world {
				for _, p := range e.Positions(int64(step), rank, world) {
					key.Add(&ranks[rank], p, e.Order().At(p))
				}
			}
		}
		var got sampler.Digest
		for _, i := range r.Perm(world) {
			got = got.Merge(ranks[i])
		}
		if want := e.Digest(s.Delivered()); got != want || got.Count != s.Delivered().Stop {
			t.Fatalf("%+v world %d: %v of %d, want %v of %d", s, world, got, got.Count, want, want.Count)
		}
	}
}

// Everything that must not happen shows: a sample twice instead of another, a
// sample lost, two samples swapped, another epoch or seed.
func TestDigestTellsFaults(t *testing.T) {
	s := sampler.Stream{N: 50, Global: 10, Seed: 1, Fingerprint: "f", Shuffle: true}
	e := s.Epoch(0)
	seen := map[sampler.Digest]string{}
	note := func(name string, d sampler.Digest) {
		t.Helper()
		if other, twice := seen[d]; twice {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	digest := func(change func(samples []int64) []int64) (d sampler.Digest) {
		key := s.DigestKey(0)
		for p, sample := range change(s.Order(0).Samples(s.Delivered())) {
			key.Add(&d, int64(p), sample)
		}
		return d
	}
	if digest(func(s []int64) []int64 { return s }) != e.Digest(s.Delivered()) {
		t.Error("the plan's own samples have another digest than the plan")
	}
	note("the epoch", e.Digest(s.Delivered()))
	note("a sample twice", digest(func(s []int64) []int64 { s[7] = s[8]; return s }))
	note("a sample lost", digest(func(s []int64) []int64 { return s[:49] }))
	note("two swapped", digest(func(s []int64) []int64 { s[7], s[8] = s[8], s[7]; return s }))
	note("nothing", sampler.Digest{})
	note("the next epoch", s.Epoch(1).Digest(s.Delivered()))
	for what, change := range map[string]func(*sampler.Stream){
		"another seed":   func(s *sampler.Stream) { s.Seed++ },
		"another source": func(s *sampler.Stream) { s.Fingerprint = "g" },
		"in order":       func(s *sampler.Stream) { s.Shuffle = false },
	} {
		other := s
		change(&other)
		note(what, other.Epoch(0).Digest(other.Delivered()))
	}
}

func TestDataDigest(t *testing.T) {
	s := sampler.Stream{N: 3, Global: 1, Fingerprint: "f"}
	key := s.DigestKey(0)
	digest := func(contents ...uint64) (d sampler.DataDigest) {
		for p, c := range contents {
			var one sampler.DataDigest
			key.AddData(&one, int64(p), int64(p), c)
			d = one.Merge(d)
		}
		return d
	}
	a, b := []byte("image"), []byte("mask")
	seen := map[string]string{}
	for name, d := range map[string]sampler.DataDigest{
		"two fields":     digest(sampler.Content(a, b)),
		"fields swapped": digest(sampler.Content(b, a)),
		"fields joined":  digest(sampler.Content([]byte("imagemask"))),
		"a bit":          digest(sampler.Content([]byte("imagd"), b)),
		"an empty field": digest(sampler.Content(a, b, nil)),
		"no field":       digest(sampler.Content()),
		"one more":       digest(sampler.Content(a, b), sampler.Content(a, b)),
		"samples":        digest(sampler.Content(a), sampler.Content(b)),
		"swapped":        digest(sampler.Content(b), sampler.Content(a)),
	} {
		if other, twice := seen[d.String()]; twice {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d.String()] = name
	}
}

func TestParseDigest(t *testing.T) {
	d := sampler.Digest{Lanes: [2]uint64{1, 1<<64 - 2}, Count: 5}
	if got := d.String(); got != "0000000000000001fffffffffffffffe" {
		t.Errorf("it prints %s", got)
	}
	if back, err := sampler.ParseDigest(d.String(), 5); back != d || err != nil {
		t.Errorf("read as %+v %v", back, err)
	}
	for _, bad := range []string{"", "00", d.String() + "00", "x" + d.String()[1:]} {
		if _, err := sampler.ParseDigest(bad, 0); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDigestAllocatesNothing(t *testing.T) {
	s := sampler.Stream{N: 1 << 40, Global: 1, Shuffle: true}
	key := s.DigestKey(0)
	var d sampler.Digest
	if a := testing.AllocsPerRun(100, func() { key.Add(&d, 3, 4) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func BenchmarkDigestAdd(b *testing.B) {
	key := sampler.Stream{N: 10}.DigestKey(0)
	var d sampler.Digest
	for b.Loop() {
		key.Add(&d, d.Count, d.Count)
	}
}
