package probe

import (
	"cmp"
	_ "embed" // the rates
	"encoding/json"
	"math"
	"slices"

	"github.com/headrace/headrace/nd"
)

// Rates are measured rates of a GPU, each with the file that it comes from. The
// committed ones are rates.json, which ratesgen writes from bench/results.
type Rates struct {
	Sources  []Source       `json:"sources"`
	Copy     Rate           `json:"copy"`     // from the page cache to the GPU
	Assemble Rate           `json:"assemble"` // f32 out
	Sets     map[string]Set `json:"sets"`     // by name
	Calls    []Measured     `json:"calls"`
}

// Source is a file of bench/results.
type Source struct {
	File   string `json:"file"`
	GPU    string `json:"gpu"`
	Date   string `json:"date"`
	Commit string `json:"commit"`
}

// Rate is one figure.
type Rate struct {
	GBPerS float64 `json:"gb_per_s"`
	Row    string  `json:"row"`    // of the file
	Source int     `json:"source"` // index
}

// Set is data that a kernel was measured with.
type Set struct {
	Kernel     string   `json:"kernel"` // Method.Kernel
	ChunkBytes int64    `json:"chunk_bytes"`
	Features   Features `json:"features"`
}

// Measured is a call of the kernels: so many chunks of a set, and the time that it
// took, or that it took in the middle of several calls in flight at a time.
type Measured struct {
	Set      string  `json:"set"`
	Chunks   int     `json:"chunks"`
	InFlight int     `json:"in_flight"`
	MS       float64 `json:"ms"` // a call
	Source   int     `json:"source"`
}

// perGB is milliseconds a decoded GB.
func (m *Measured) perGB(s Set) float64 {
	return m.MS / (float64(m.Chunks) * float64(s.ChunkBytes) / 1e9)
}

//go:embed rates.json
var ratesJSON []byte

// Model predicts how long a GPU takes, from rates. It is immutable.
type Model struct {
	rates   Rates
	kernels map[string]kernelModel
}

// kernelModel is the model of one family of kernels.
type kernelModel struct {
	cost cost
	// fill is which part of the full rate the GPU reaches with so many chunks in flight,
	// a curve for each size of chunks that was measured, ascending.
	fill    []fillCurve
	sources []int
}

type fillCurve struct {
	chunkBytes int64
	points     []fillPoint // by chunks, ascending; the share never falls
}

type fillPoint struct{ chunks, share float64 }

// DefaultModel is the model of the committed rates.
func DefaultModel() (*Model, error) {
	var r Rates
	if err := json.Unmarshal(ratesJSON, &r); err != nil {
		return nil, nd.Errorf(nd.ErrBug, "rates.json: %w", err)
	}
	return NewModel(r)
}

// NewModel fits a model to rates.
func NewModel(r Rates) (*Model, error) {
	m := &Model{rates: r, kernels: map[string]kernelModel{}}
	full := map[string]float64{} // of each set, the least milliseconds a GB
	for _, c := range r.Calls {
		set, ok := r.Sets[c.Set]
		if !ok || c.MS <= 0 || c.Chunks < 1 || c.InFlight < 1 || set.ChunkBytes < 1 || c.Source < 0 || c.Source >= len(r.Sources) {
			return nil, nd.Errorf(nd.ErrConfig, "rates: a call of %d chunks of set %q makes no sense", c.Chunks, c.Set)
		}
		if per := c.perGB(set); full[c.Set] == 0 || per < full[c.Set] {
			full[c.Set] = per
		}
	}
	for name := range full {
		kernel := r.Sets[name].Kernel
		if _, done := m.kernels[kernel]; !done {
			m.kernels[kernel] = r.kernel(kernel, full)
		}
	}
	return m, nil
}

// kernel fits one family.
func (r *Rates) kernel(kernel string, full map[string]float64) kernelModel {
	var k kernelModel
	var seen []observation
	for _, name := range r.names() {
		if s := r.Sets[name]; s.Kernel == kernel && full[name] > 0 {
			seen = append(seen, observation{s.Features, full[name]})
		}
	}
	k.cost = fit(seen)
	shares := map[int64]map[int][]float64{} // by size of chunks and chunks in flight
	for _, c := range r.Calls {
		s := r.Sets[c.Set]
		if s.Kernel != kernel {
			continue
		}
		if shares[s.ChunkBytes] == nil {
			shares[s.ChunkBytes] = map[int][]float64{}
		}
		n := c.Chunks * c.InFlight
		shares[s.ChunkBytes][n] = append(shares[s.ChunkBytes][n], full[c.Set]/c.perGB(s))
		if !slices.Contains(k.sources, c.Source) {
			k.sources = append(k.sources, c.Source)
		}
	}
	for size, byChunks := range shares {
		k.fill = append(k.fill, newFillCurve(size, byChunks))
	}
	slices.SortFunc(k.fill, func(a, b fillCurve) int { return cmp.Compare(a.chunkBytes, b.chunkBytes) })
	return k
}

// names lists the sets in one order, so that sums of floats are the same in every run.
func (r *Rates) names() []string {
	var names []string
	for name := range r.Sets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// newFillCurve takes the mean over the sets. More chunks in flight never fill the GPU
// less: where a measurement says so, the larger one before it counts.
func newFillCurve(size int64, byChunks map[int][]float64) fillCurve {
	c := fillCurve{chunkBytes: size}
	for n, shares := range byChunks {
		slices.Sort(shares)
		sum := 0.0
		for _, s := range shares {
			sum += s
		}
		c.points = append(c.points, fillPoint{float64(n), sum / float64(len(shares))})
	}
	slices.SortFunc(c.points, func(a, b fillPoint) int { return cmp.Compare(a.chunks, b.chunks) })
	for i := range c.points[1:] {
		c.points[i+1].share = max(c.points[i+1].share, c.points[i].share)
	}
	return c
}

// share is the curve at n chunks: straight between the points over the logarithm of n,
// in proportion to n before the first.
func (c *fillCurve) share(n float64) float64 {
	first, last := c.points[0], c.points[len(c.points)-1]
	if n <= first.chunks {
		return first.share * n / first.chunks
	}
	for i, b := range c.points[1:] {
		if a := c.points[i]; n <= b.chunks {
			t := math.Log(n/a.chunks) / math.Log(b.chunks/a.chunks)
			return a.share + t*(b.share-a.share)
		}
	}
	return last.share
}

// share is the part of the full rate with n chunks of a size in flight, between the
// two nearest sizes that were measured.
func (k *kernelModel) share(n float64, chunkBytes int64) float64 {
	i, exact := slices.BinarySearchFunc(k.fill, chunkBytes, func(c fillCurve, size int64) int { return cmp.Compare(c.chunkBytes, size) })
	switch {
	case exact || i == 0:
		return k.fill[i].share(n)
	case i == len(k.fill):
		return k.fill[i-1].share(n)
	}
	a, b := &k.fill[i-1], &k.fill[i]
	t := math.Log(float64(chunkBytes)/float64(a.chunkBytes)) / math.Log(float64(b.chunkBytes)/float64(a.chunkBytes))
	return a.share(n) + t*(b.share(n)-a.share(n))
}

// Knows reports whether there are rates for a family of kernels.
func (m *Model) Knows(kernel string) bool { _, ok := m.kernels[kernel]; return ok && kernel != "" }

// Predict is the rate in decoded GB/s of a family of kernels that the model knows, with
// so many chunks in flight.
func (m *Model) Predict(kernel string, f Features, chunkBytes int64, chunks float64) float64 {
	k := m.kernels[kernel]
	return 1e3 / k.cost.of(f) * k.share(chunks, chunkBytes)
}

// SourcesOf lists where the rates of a family come from.
func (m *Model) SourcesOf(kernel string) (list []Source) {
	for _, i := range m.kernels[kernel].sources {
		list = append(list, m.rates.Sources[i])
	}
	return list
}

// Waves of the engine that a GPU decodes at a time: deviceWave and deviceCalls of package
// pipeline.
const (
	waveBytes     = 512 << 20
	wavesInFlight = 3
)

// inFlight is how many chunks of a size the engine has in flight; one a wave at least.
func inFlight(chunkBytes int64) float64 {
	return wavesInFlight * max(1, math.Floor(waveBytes/float64(chunkBytes)))
}
