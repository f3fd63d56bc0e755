package sampler_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// part is a source of n samples.
func part(t *testing.T, n int64) sampler.Source {
	t.Helper()
	return mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{field("a", int(n), []int64{2}, []int64{50})}, Count: n})
}

func weighing(s sampler.Source, weight float64) sampler.MixPart {
	return sampler.MixPart{Source: s, Weight: weight}
}

func mustMix(t *testing.T, c sampler.MixedSources) *sampler.Mix {
	t.Helper()
	m, err := sampler.NewMix(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// In every epoch each part has exactly its share, spread evenly: of any run of
// indices it has its proportion, to within a few. Over epochs no sample of a part
// comes more than once as often as another.
func TestMixIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for range 40 {
		c := sampler.MixedSources{Seed: r.Uint64(), Count: 1 + r.Int64N(400)}
		for range 1 + r.IntN(6) {
			c.Parts = append(c.Parts, sampler.MixPart{Source: part(t, 1+r.Int64N(60)), Weight: r.Float64()})
		}
		m := mustMix(t, c)
		var total, sum float64
		var shares int64
		for k, p := range c.Parts {
			total += p.Weight
			shares += m.Shares()[k]
		}
		if shares != c.Count || m.Len() != c.Count {
			t.Fatalf("%v: the shares come to %d, want %d", m.Shares(), shares, c.Count)
		}
		for k, p := range c.Parts {
			if quota := float64(c.Count) * p.Weight / total; math.Abs(float64(m.Shares()[k])-quota) >= 1 {
				t.Fatalf("part %d has %d samples, its quota is %v", k, m.Shares()[k], quota)
			}
			sum += p.Weight
		}
		uses := make([][]int, len(c.Parts))
		for k, p := range c.Parts {
			uses[k] = make([]int, p.Source.Len())
		}
		for epoch := range int64(5) {
			e := m.InEpoch(epoch).(*sampler.Mix)
			counts := make([]int64, len(c.Parts))
			for i := range c.Count {
				k, sample := e.Origin(i)
				counts[k]++
				uses[k][sample]++
				crops := e.Sample(i)
				if want := c.Parts[k].Source.Sample(sample).Crops[0]; crops.ID != i || crops.Crops[0].Array != want.Array || crops.Crops[0].Box.String() != want.Box.String() {
					t.Fatalf("sample %d is %+v, its origin %+v", i, crops, want)
				}
				for k, n := range counts {
					if want := float64(i+1) * float64(m.Shares()[k]) / float64(c.Count); math.Abs(float64(n)-want) > 3 {
						t.Fatalf("shares %v: of the first %d samples part %d has %d, want about %.1f", m.Shares(), i+1, k, n, want)
					}
				}
			}
			for k, n := range counts {
				if n != m.Shares()[k] {
					t.Fatalf("epoch %d: part %d came %d times, want %d", epoch, k, n, m.Shares()[k])
				}
			}
		}
		for k, u := range uses {
			least, most := math.MaxInt, 0
			for _, n := range u {
				least, most = min(least, n), max(most, n)
			}
			if most-least > 1 {
				t.Fatalf("part %d: samples came %d to %d times", k, least, most)
			}
		}
	}
}

// Without weights and count a mix is its parts, each sample once an epoch.
func TestMixWithoutWeights(t *testing.T) {
	m := mustMix(t, sampler.MixedSources{Parts: []sampler.MixPart{{Source: part(t, 7)}, {Source: part(t, 0)}, {Source: part(t, 2000)}}})
	seen := map[[2]int64]bool{}
	for i := range m.Len() {
		k, sample := m.Origin(i)
		seen[[2]int64{int64(k), sample}] = true
	}
	if m.Len() != 2007 || len(seen) != 2007 {
		t.Errorf("%d different samples of %d, want 2007", len(seen), m.Len())
	}
	if m.Sample(-1).Crops != nil || m.Sample(2007).Crops != nil {
		t.Error("samples that are not there have crops")
	}
	if k, s := m.Origin(2007); k != -1 || s != -1 {
		t.Errorf("sample 2007 is from %d %d", k, s)
	}
}

// The order over a mix delivers every index once, so the proportions hold in every
// epoch at any world size; the shares of round weights are what anyone expects.
func TestMixUnderAStream(t *testing.T) {
	m := mustMix(t, sampler.MixedSources{Count: 1000, Parts: []sampler.MixPart{weighing(part(t, 500), 0.1), weighing(part(t, 5000), 0.7), weighing(part(t, 90), 0.2)}})
	s := sampler.Stream{N: m.Len(), Global: 64, Fingerprint: m.Fingerprint(), Shuffle: true}
	for epoch := range int64(3) {
		e, source := s.Epoch(epoch), sampler.InEpoch(m, epoch)
		counts := map[int]int{}
		for step := range s.Steps() {
			for rank := range 5 {
				for _, p := range e.Positions(step, rank, 5) {
					k, _ := source.(*sampler.Mix).Origin(e.Order().At(p))
					counts[k]++
				}
			}
		}
		if counts[0] != 100 || counts[1] != 700 || counts[2] != 200 {
			t.Errorf("epoch %d: %v, want 100, 700 and 200", epoch, counts)
		}
	}
	if plain := part(t, 3); sampler.InEpoch(plain, 4) != plain {
		t.Error("a source that is the same in all epochs is not itself")
	}
}

// Large numbers: the place of a part in a far epoch does not overflow.
func TestMixAtTheEdge(t *testing.T) {
	m := mustMix(t, sampler.MixedSources{Count: 1 << 62, Parts: []sampler.MixPart{weighing(part(t, 3), 1), weighing(part(t, 1<<40), 2)}})
	e := m.InEpoch(math.MaxInt64).(*sampler.Mix)
	for _, i := range []int64{0, 1, 2, 1 << 61, 1<<62 - 1} {
		if k, s := e.Origin(i); k < 0 || s < 0 || k == 0 && s >= 3 {
			t.Errorf("index %d is sample %d of part %d", i, s, k)
		}
	}
}

func TestRefusedMixes(t *testing.T) {
	two := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{field("a", 0, []int64{2}, []int64{9}), field("b", 1, []int64{2}, []int64{9})}, Count: 4})
	wide := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{field("a", 0, []int64{4}, []int64{9})}, Count: 4})
	f := func(kind error, words string, count int64, parts ...sampler.MixPart) {
		t.Helper()
		if _, err := sampler.NewMix(sampler.MixedSources{Parts: parts, Count: count}); !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %v with %q", err, kind, words)
		}
	}
	f(nd.ErrConfig, "no part", 0)
	f(nd.ErrConfig, "part 0 has no source", 0, sampler.MixPart{})
	f(nd.ErrConfig, "part 1: Weight is -1", -1, weighing(part(t, 3), 1), weighing(part(t, 3), -1))
	f(nd.ErrConfig, "Weight is NaN", 0, weighing(part(t, 3), math.NaN()))
	f(nd.ErrConfig, "no part has a sample", 0, weighing(part(t, 0), 0))
	f(nd.ErrConfig, "part 1 has a share of 5 and no sample", 10, weighing(part(t, 3), 1), weighing(part(t, 0), 1))
	f(nd.ErrConfig, "more than 2^62", 0, weighing(part(t, 1<<61), 1), weighing(part(t, 1<<62), 1))
	f(nd.ErrShape, "has 2 crops", 10, weighing(part(t, 3), 1), weighing(two, 1))
	f(nd.ErrShape, "crop 0 of part 1 has shape [4]", 10, weighing(part(t, 3), 1), weighing(wide, 1))
}

// In every epoch a sample comes floor or ceil of its expected number of times, and
// over many epochs that number on average.
func TestWeightedIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for range 20 {
		weights := make([]float64, 1+r.IntN(30))
		var sum float64
		for i := range weights {
			if r.IntN(4) > 0 {
				weights[i] = r.Float64()
			}
			sum += weights[i]
		}
		if sum == 0 {
			continue
		}
		n := int64(len(weights))
		w, err := sampler.NewWeighted(sampler.WeightedSamples{Source: part(t, n), Weights: weights, Count: 1 + r.Int64N(200), Seed: r.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		const epochs = 400
		mean := make([]float64, n)
		for epoch := range int64(epochs) {
			e := w.InEpoch(epoch).(*sampler.Weighted)
			counts := make([]float64, n)
			for i := range w.Len() {
				counts[e.Origin(i)]++
			}
			for i, got := range counts {
				if want := float64(w.Len()) * weights[i] / sum; math.Abs(got-want) >= 1+1e-6 {
					t.Fatalf("%v: sample %d came %v times, want %v", weights, i, got, want)
				}
				mean[i] += got / epochs
			}
		}
		for i, got := range mean {
			if want := float64(w.Len()) * weights[i] / sum; math.Abs(got-want) > 0.13 { // 5 standard deviations of at most 0.5/sqrt(epochs)
				t.Errorf("%v: sample %d came %.3f times on average, want %.3f", weights, i, got, want)
			}
		}
	}
}

func TestWeightedSamples(t *testing.T) {
	source := part(t, 4)
	w, err := sampler.NewWeighted(sampler.WeightedSamples{Source: source, Weights: []float64{1, 0, 2, 1}})
	if err != nil || w.Len() != 4 {
		t.Fatalf("%v %v", w, err)
	}
	for i := range w.Len() {
		if s, want := w.Sample(i), source.Sample(w.Origin(i)); s.ID != i || s.Crops[0].Box.String() != want.Crops[0].Box.String() || w.Origin(i) == 1 {
			t.Errorf("sample %d is %+v, of %d", i, s, w.Origin(i))
		}
	}
	if w.Sample(4).Crops != nil || w.Origin(-1) != -1 {
		t.Error("samples that are not there have crops")
	}
	// What lies below a weighted source goes on by epochs too.
	inner := mustMix(t, sampler.MixedSources{Count: 4, Parts: []sampler.MixPart{weighing(part(t, 100), 1)}})
	over, err := sampler.NewWeighted(sampler.WeightedSamples{Source: inner, Weights: []float64{1, 1, 1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := over.InEpoch(7).Sample(2), inner.InEpoch(7).Sample(2); a.Crops[0].Box.String() != b.Crops[0].Box.String() {
		t.Errorf("epoch 7: %+v, want %+v", a, b)
	}
}

func TestRefusedWeights(t *testing.T) {
	f := func(words string, c sampler.WeightedSamples) {
		t.Helper()
		if _, err := sampler.NewWeighted(c); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %q", err, words)
		}
	}
	f("0 weights for a source of 0", sampler.WeightedSamples{})
	f("1 weights for a source of 2", sampler.WeightedSamples{Source: part(t, 2), Weights: []float64{1}})
	f("no weight is above 0", sampler.WeightedSamples{Source: part(t, 2), Weights: []float64{0, 0}})
	f("weight 1 is -1", sampler.WeightedSamples{Source: part(t, 2), Weights: []float64{0, -1}})
	f("weight 0 is +Inf", sampler.WeightedSamples{Source: part(t, 2), Weights: []float64{math.Inf(1), 1}})
	f("Count is -1", sampler.WeightedSamples{Source: part(t, 1), Weights: []float64{1}, Count: -1})
}
