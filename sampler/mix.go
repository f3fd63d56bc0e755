package sampler

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

const (
	maxCount = 1 << 62 // samples of an epoch

	// mixBits is the precision of weights; the sum of those of maxParts fits 63 bits.
	mixBits  = 52
	maxParts = 1 << 10
)

// MixPart is one source of a mix.
type MixPart struct {
	Source Source
	Weight float64 // its share of an epoch, relative to that of the others
}

// MixedSources are several sources in fixed proportions.
type MixedSources struct {
	Parts []MixPart

	// Count is the samples of an epoch; 0 is as many as the sources have together.
	Count int64
	Seed  uint64
}

// Mix is the source of MixedSources. In every epoch each part has exactly its
// share of the samples, the shares being rounded by largest remainder; if no part
// has a weight, they are the parts' lengths. The parts are spread evenly over the
// virtual index; the order of the epoch then shuffles it.
//
// Each part goes through its own samples again and again, every time in another
// order, and goes on in the next epoch where it was: over any number of epochs none
// of its samples comes more than once as often as another. The ID of a sample is
// its virtual index; Origin tells where it is from.
//
// Fingerprint: kind "mix", Seed, the number of parts, for each its fingerprint (a
// string) and its share of an epoch.
type Mix struct {
	parts  []Source
	shares []int64
	count  int64
	seed   uint64
	epoch  int64
	print  string
	passes []atomic.Pointer[pass] // per part, the last that was looked at
}

// pass is one run through a part.
type pass struct {
	number uint64
	order  *Order
	source Source
}

// NewMix checks the config. All parts must have crops for the same fields, of the
// same shapes.
func NewMix(config MixedSources) (*Mix, error) {
	if wrong := config.check(); len(wrong) > 0 {
		return nil, nd.Errorf(nd.ErrConfig, "mix: %s", strings.Join(wrong, "; "))
	}
	m := &Mix{count: config.Count, seed: config.Seed, passes: make([]atomic.Pointer[pass], len(config.Parts))}
	for _, p := range config.Parts {
		m.parts = append(m.parts, p.Source)
	}
	if err := m.apportion(config.Parts); err != nil {
		return nil, err
	}
	if err := m.checkParts(); err != nil {
		return nil, err
	}
	m.print = m.fingerprint()
	return m, nil
}

// apportion sets the shares, and the count if it is not set.
func (m *Mix) apportion(parts []MixPart) error {
	weights, lengths := make([]float64, len(parts)), make([]uint64, len(parts))
	var sum int64
	weighted := false
	for i, p := range parts {
		n := p.Source.Len()
		if n > maxCount-sum {
			return nd.Errorf(nd.ErrConfig, "mix: the parts have more than 2^62 samples")
		}
		sum += n
		weights[i], lengths[i] = p.Weight, uint64(n)
		weighted = weighted || p.Weight > 0
	}
	if m.count == 0 {
		m.count = sum
	}
	whole := lengths
	if weighted {
		var err error
		if whole, err = wholeWeights("mix", weights, mixBits); err != nil {
			return err
		}
	} else if sum == 0 {
		return nd.Errorf(nd.ErrConfig, "mix: no part has a sample")
	}
	m.shares = apportion(m.count, whole)
	return nil
}

func (c *MixedSources) check() (wrong []string) {
	if len(c.Parts) == 0 {
		wrong = append(wrong, "no part: name at least one")
	}
	if len(c.Parts) > maxParts {
		wrong = append(wrong, fmt.Sprintf("%d parts, at most %d", len(c.Parts), maxParts))
	}
	if c.Count < 0 || c.Count > maxCount {
		wrong = append(wrong, fmt.Sprintf("Count is %d, must be in 0 to 2^62", c.Count))
	}
	for i, p := range c.Parts {
		if p.Source == nil {
			wrong = append(wrong, fmt.Sprintf("part %d has no source", i))
			continue
		}
		if !(p.Weight >= 0) || math.IsInf(p.Weight, 1) {
			wrong = append(wrong, fmt.Sprintf("part %d: Weight is %v, must be a number of at least 0", i, p.Weight))
		}
	}
	return wrong
}

// checkParts compares the first samples of the parts that are taken from.
func (m *Mix) checkParts() error {
	var first []Crop
	for i, s := range m.parts {
		if m.shares[i] == 0 {
			continue
		}
		if s.Len() < 1 {
			return nd.Errorf(nd.ErrConfig, "mix: part %d has a share of %d and no sample", i, m.shares[i])
		}
		crops := s.Sample(0).Crops
		if first == nil {
			first = crops
		}
		if len(crops) != len(first) {
			return nd.Errorf(nd.ErrShape, "mix: a sample of part %d has %d crops, the first part's have %d: one per field is wanted", i, len(crops), len(first))
		}
		for k, c := range crops {
			if a, b := fmt.Sprint(c.Box.Shape()), fmt.Sprint(first[k].Box.Shape()); a != b {
				return nd.Errorf(nd.ErrShape, "mix: crop %d of part %d has shape %s, that of the first part %s", k, i, a, b)
			}
		}
	}
	return nil
}

func (m *Mix) fingerprint() string {
	h := newFingerprint("mix")
	h.word(m.seed)
	h.number(int64(len(m.parts)))
	for i, s := range m.parts {
		h.text(s.Fingerprint())
		h.number(m.shares[i])
	}
	return h.fingerprint()
}

// Len implements Source.
func (m *Mix) Len() int64 { return m.count }

// Fingerprint implements Source.
func (m *Mix) Fingerprint() string { return m.print }

// Shares is the number of samples that each part has in an epoch. It must not be
// changed.
func (m *Mix) Shares() []int64 { return m.shares }

// InEpoch implements PerEpoch.
func (m *Mix) InEpoch(number int64) Source {
	e := *m
	e.epoch, e.passes = max(0, number), make([]atomic.Pointer[pass], len(m.parts))
	return &e
}

// Sample implements Source.
func (m *Mix) Sample(i int64) Sample {
	if i < 0 || i >= m.count {
		return Sample{ID: i}
	}
	_, source, index := m.find(i)
	return Sample{ID: i, Crops: source.Sample(index).Crops}
}

// Origin is the part that sample i is from, and which of its samples it is; -1 if
// there is no sample i.
func (m *Mix) Origin(i int64) (part int, sample int64) {
	if i < 0 || i >= m.count {
		return -1, -1
	}
	part, _, sample = m.find(i)
	return part, sample
}

// find is the part of sample i, the part's source in the pass that it is in, and
// the index there.
func (m *Mix) find(i int64) (part int, source Source, index int64) {
	part, turn := interleave(m.shares, m.count, i)
	n := uint64(m.parts[part].Len())
	hi, lo := bits.Mul64(uint64(m.epoch), uint64(m.shares[part]))
	lo, carry := bits.Add64(lo, uint64(turn), 0)
	number, place := bits.Div64((hi+carry)%n, lo, n) // passes count modulo 2^64
	p := m.passes[part].Load()
	if p == nil || p.number != number {
		p = m.pass(part, number)
		m.passes[part].Store(p)
	}
	return part, p.source, p.order.At(int64(place))
}

func (m *Mix) pass(part int, number uint64) *pass {
	s := m.parts[part]
	key := subKey("headrace/mix/1", EpochKey(s.Fingerprint(), s.Len(), m.seed, int64(number)), uint64(part))
	return &pass{number: number, order: New(s.Len(), key), source: InEpoch(s, int64(number&math.MaxInt64))}
}

// interleave spreads parts of the given sizes, n in all, over the indices 0 … n-1:
// the part that index i belongs to, and how many of that part come before it. The
// parts are halved until one is left; two halves of a and b are spread so that of
// the first j indices floor(j·b/(a+b)) belong to the second.
func interleave(sizes []int64, n, i int64) (part int, turn int64) {
	for len(sizes) > 1 {
		half := len(sizes) / 2
		var a int64
		for _, size := range sizes[:half] {
			a += size
		}
		before, after := floorMulDiv(i, n-a, n), floorMulDiv(i+1, n-a, n)
		if after > before {
			part, sizes, n, i = part+half, sizes[half:], n-a, before
		} else {
			sizes, n, i = sizes[:half], a, i-before
		}
	}
	return part, i
}

// floorMulDiv is floor(a·b/c) for 0 <= a, b <= c, c > 0.
func floorMulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
