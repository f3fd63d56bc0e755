package probe

import (
	"math"
	"math/rand/v2"
	"testing"
)

func defaultModel(t testing.TB) *Model {
	t.Helper()
	m, err := DefaultModel()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The stated errors of the model: of a call of any size, and of a GPU that is full,
// which is what tables and advice are made of.
const (
	statedCall = 0.50
	statedFull = 0.20
)

// The model gives every measured call back within the stated errors.
func TestModelAgainstMeasurements(t *testing.T) {
	m := defaultModel(t)
	full := map[string]float64{} // decoded GB/s
	for _, c := range m.rates.Calls {
		s := m.rates.Sets[c.Set]
		measured := 1e3 / c.perGB(s)
		full[c.Set] = max(full[c.Set], measured)
		predicted := m.Predict(s.Kernel, s.Features, s.ChunkBytes, float64(c.Chunks*c.InFlight))
		if e := predicted/measured - 1; math.Abs(e) > statedCall {
			t.Errorf("%s, %d chunks, %d in flight: predicted %.1f GB/s, measured %.1f: %+.0f %%", c.Set, c.Chunks, c.InFlight, predicted, measured, e*100)
		}
	}
	if len(full) < 6 {
		t.Fatalf("only %d sets were measured", len(full))
	}
	for name, measured := range full {
		s := m.rates.Sets[name]
		predicted := 1e3 / m.kernels[s.Kernel].cost.of(s.Features)
		if e := predicted/measured - 1; math.Abs(e) > statedFull {
			t.Errorf("%s, a full GPU: predicted %.1f GB/s, measured %.1f: %+.1f %%", name, predicted, measured, e*100)
		}
	}
	if m.rates.Copy.GBPerS < 1 || m.rates.Assemble.GBPerS < 1 {
		t.Errorf("copy %v, assemble %v", m.rates.Copy, m.rates.Assemble)
	}
}

// More work never costs less, and more chunks in flight never decode slower.
func TestModelIsMonotone(t *testing.T) {
	m := defaultModel(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		kernel := []string{"zstd", "lz4"}[r.IntN(2)]
		f := Features{r.Float64() * 300, r.Float64()}
		size, n := int64(1)<<(10+r.IntN(17)), math.Exp(r.Float64()*10)
		rate := m.Predict(kernel, f, size, n)
		if !(rate > 0) || math.IsInf(rate, 0) {
			t.Fatalf("%s %+v, %.0f chunks of %d: %v GB/s", kernel, f, n, size, rate)
		}
		for what, other := range map[string]float64{
			"sequences": m.Predict(kernel, Features{f.SequencesPerKiB + r.Float64()*50, f.LiteralShare}, size, n),
			"literals":  m.Predict(kernel, Features{f.SequencesPerKiB, f.LiteralShare + r.Float64()*0.2}, size, n),
			"fewer":     m.Predict(kernel, f, size, n*r.Float64()),
		} {
			if other > rate*(1+1e-12) {
				t.Errorf("%s %+v, %.0f chunks of %d: %v GB/s, with more work or fewer in flight (%s) %v", kernel, f, n, size, rate, what, other)
			}
		}
	}
}

// Between two sizes of chunks that were measured lies what lies between.
func TestFillBetweenSizes(t *testing.T) {
	r := Rates{
		Sources: []Source{{File: "a"}},
		Sets:    map[string]Set{"small": {"zstd", 64 << 10, Features{}}, "large": {"zstd", 1 << 20, Features{}}},
		Calls: []Measured{
			{"small", 1000, 1, 100, 0}, {"small", 100, 1, 100, 0}, // a tenth of the rate
			{"large", 1000, 1, 1600, 0}, {"large", 100, 1, 320, 0}, // a half
		},
	}
	m, err := NewModel(r)
	if err != nil {
		t.Fatal(err)
	}
	k := m.kernels["zstd"]
	for size, want := range map[int64]float64{1: 0.1, 64 << 10: 0.1, 256 << 10: 0.3, 1 << 20: 0.5, 1 << 30: 0.5} {
		if got := k.share(100, size); math.Abs(got-want) > 1e-9 {
			t.Errorf("100 chunks of %d fill %.3f of the GPU, want %.3f", size, got, want)
		}
	}
	if got := k.share(50, 1<<20); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("half as many chunks as were measured fill %.3f", got)
	}
	for _, bad := range []Measured{{"none", 1, 1, 1, 0}, {"small", 0, 1, 1, 0}, {"small", 1, 1, 0, 0}, {"small", 1, 1, 1, 1}} {
		broken := r
		broken.Calls = []Measured{bad}
		if _, err := NewModel(broken); err == nil {
			t.Errorf("a model of %+v", bad)
		}
	}
}

// The fit finds parts that are there, and none that is below zero.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		want := cost{0.1 + r.Float64(), r.Float64() / 50, r.Float64() * 4}
		var seen []observation
		for range 3 + r.IntN(5) {
			f := Features{r.Float64() * 250, r.Float64()}
			seen = append(seen, observation{f, want.of(f)})
		}
		got := fit(seen)
		for _, o := range seen {
			if e := got.of(o.features)/o.ms - 1; math.Abs(e) > 1e-6 {
				t.Errorf("%+v is fitted as %+v: %.2g off", want, got, e)
			}
		}
	}
	// Data in which more literals seem to cost less give a part of zero.
	falling := fit([]observation{{Features{0, 0}, 4}, {Features{0, 0.5}, 3}, {Features{0, 1}, 2}, {Features{100, 0}, 6}})
	if falling.literals != 0 || falling.base <= 0 || falling.sequences < 0 {
		t.Errorf("a falling cost is fitted as %+v", falling)
	}
	// One point is a constant, two a line.
	if c := fit([]observation{{Features{50, 0.5}, 3}}); c != (cost{3, 0, 0}) {
		t.Errorf("one observation is fitted as %+v", c)
	}
}
