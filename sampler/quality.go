package sampler

import "math"

// Quality says how well a stream shuffles, and what that costs: the figures are
// expectations over seeds, for blocks of about one size.
type Quality struct {
	Blocks        int64 `json:"blocks"` // of the epoch
	Windows       int64 `json:"windows"`
	WindowBlocks  int64 `json:"window_blocks"` // blocks that are read from at a time
	WindowSamples int64 `json:"window_samples"`

	// DistinctBlocks is how many blocks the samples of a full batch come from,
	// FullShuffle how many they would come from in a shuffle without windows. Where a
	// block is one class or one scan, it is the number of those in a batch.
	DistinctBlocks float64 `json:"distinct_blocks"`
	FullShuffle    float64 `json:"full_shuffle"`

	// Neighbours is the share of positions whose sample is of the same block as that
	// before, about one in WindowBlocks.
	Neighbours float64 `json:"neighbours"`
}

// Quality is the figures of a shuffled stream; without blocks each sample is a
// block of its own, in one window.
func (s Stream) Quality() Quality {
	blocks := s.blocks()
	if blocks == nil {
		blocks = equalBlocks(s.N, 1)
	}
	q := Quality{Blocks: blocks.Len()}
	if q.Blocks == 0 {
		return q
	}
	q.WindowBlocks = q.Blocks
	if s.blocks() != nil {
		q.WindowBlocks = min(int64(s.Window), q.Blocks)
	}
	q.Windows = (q.Blocks-1)/q.WindowBlocks + 1
	size := float64(s.N) / float64(q.Blocks)
	samples := size * float64(q.WindowBlocks)
	q.WindowSamples = int64(math.Round(samples))
	q.FullShuffle = distinct(float64(min(s.Global, s.N)), size, float64(s.N))
	q.Neighbours = max(0, size-1) / samples
	q.DistinctBlocks = s.met(size, samples)
	return q
}

// met is the mean over the first full batches of the blocks they come from. A
// batch may begin within a window and go on in others.
func (s Stream) met(size, window float64) float64 {
	const enough = 256
	steps := max(1, min(enough, s.N/s.Global))
	var sum float64
	for step := range steps {
		span := s.Span(step)
		draw := float64(span.Len())
		first := min(draw, window-math.Mod(float64(span.Start), window))
		whole := math.Floor((draw - first) / window)
		sum += distinct(first, size, window) + whole*window/size + distinct(draw-first-whole*window, size, window)
	}
	return sum / float64(steps)
}

// distinct is how many blocks of a size are met by a draw of so many samples of a
// total, none twice. A block is missed by all of the draw, or all of the block is
// missed by the draw: taking either as independent gives too high a chance of a
// miss, so the higher chance of a hit is nearer.
func distinct(draw, size, total float64) float64 {
	return total / size * max(hit(draw/total, size), hit(size/total, draw))
}

// hit is 1-(1-p)^n, exact for a p that is lost beside 1.
func hit(p, n float64) float64 {
	switch {
	case n == 0:
		return 0
	case p >= 1:
		return 1
	}
	return -math.Expm1(n * math.Log1p(-p))
}
