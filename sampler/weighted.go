package sampler

import (
	"math/bits"
	"sort"

	"github.com/headrace/headrace/nd"
)

// WeightedSamples are a source's samples, each as often as its weight says.
type WeightedSamples struct {
	Source  Source
	Weights []float64 // of each sample

	// Count is the samples of an epoch; 0 is as many as the source has.
	Count int64
	Seed  uint64
}

// Weighted is the source of WeightedSamples, by systematic sampling: a sample of
// the share w of all weights comes floor or ceil of Count·w times in every epoch,
// and on average over epochs exactly Count·w times. The virtual index has all of
// a sample's turns side by side; the order of the epoch shuffles them. The ID of a
// sample is its virtual index; Origin tells where it is from.
//
// Fingerprint: kind "weighted", Seed, Count, the source's fingerprint (a string),
// and the weights as integers (a list).
type Weighted struct {
	base   Source
	source Source   // base in this epoch
	ends   []uint64 // running sum of the weights as integers
	count  int64
	seed   uint64
	offset uint64 // of this epoch, below the sum of weights
	print  string
}

// NewWeighted checks the config.
func NewWeighted(config WeightedSamples) (*Weighted, error) {
	s, n := config.Source, config.Count
	if s == nil || s.Len() != int64(len(config.Weights)) || s.Len() == 0 {
		length := int64(0)
		if s != nil {
			length = s.Len()
		}
		return nil, nd.Errorf(nd.ErrConfig, "weighted: %d weights for a source of %d samples: one each is wanted, and at least one", len(config.Weights), length)
	}
	if n == 0 {
		n = s.Len()
	}
	if n < 0 || n > maxCount {
		return nil, nd.Errorf(nd.ErrConfig, "weighted: Count is %d, must be in 0 to 2^62", n)
	}
	if len(config.Weights) > 1<<30 { // their sum as integers of 32 bits fits 63
		return nil, nd.Errorf(nd.ErrBudget, "weighted: %d weights, at most 2^30", len(config.Weights))
	}
	whole, err := wholeWeights("weighted", config.Weights, 32)
	if err != nil {
		return nil, err
	}
	h := newFingerprint("weighted")
	h.word(config.Seed)
	h.number(n)
	h.text(s.Fingerprint())
	h.number(int64(len(whole)))
	w := &Weighted{base: s, ends: make([]uint64, len(whole)), count: n, seed: config.Seed}
	var sum uint64
	for i, x := range whole {
		h.word(x)
		sum += x
		w.ends[i] = sum
	}
	w.print = h.fingerprint()
	return w.at(0), nil
}

// at is the source of an epoch.
func (w *Weighted) at(epoch int64) *Weighted {
	e := *w
	key := subKey("headrace/weighted/1", EpochKey(w.print, w.count, w.seed, epoch))
	e.offset = below(newWords(key).next, w.ends[len(w.ends)-1])
	e.source = InEpoch(w.base, epoch)
	return &e
}

// InEpoch implements PerEpoch.
func (w *Weighted) InEpoch(number int64) Source { return w.at(max(0, number)) }

// Len implements Source.
func (w *Weighted) Len() int64 { return w.count }

// Fingerprint implements Source.
func (w *Weighted) Fingerprint() string { return w.print }

// Sample implements Source.
func (w *Weighted) Sample(i int64) Sample {
	origin := w.Origin(i)
	if origin < 0 {
		return Sample{ID: i}
	}
	return Sample{ID: i, Crops: w.source.Sample(origin).Crops}
}

// Origin is the sample of the source that sample i is, -1 if there is no sample i.
func (w *Weighted) Origin(i int64) int64 {
	if i < 0 || i >= w.count {
		return -1
	}
	// Points lie Count to the whole of the weights, the first at offset/Count.
	hi, lo := bits.Mul64(uint64(i), w.ends[len(w.ends)-1])
	lo, carry := bits.Add64(lo, w.offset, 0)
	point, _ := bits.Div64(hi+carry, lo, uint64(w.count))
	return int64(sort.Search(len(w.ends), func(k int) bool { return w.ends[k] > point }))
}
