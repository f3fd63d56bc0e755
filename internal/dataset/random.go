package dataset

// stream is the SplitMix64 generator addressed by position: at(i) is output i
// (from 0) of the generator seeded with the stream's value. Any position costs
// the same, which is what makes elements independent of each other.
type stream uint64

func (s stream) at(i uint64) uint64 {
	z := uint64(s) + (i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// sub is another stream for each n.
func (s stream) sub(n uint64) stream { return stream(s.at(n)) }

// unit is uniform in [0, 1), with 53 bits.
func (s stream) unit(i uint64) float64 { return float64(s.at(i)>>11) / (1 << 53) }

// signed is uniform in [-1, 1).
func (s stream) signed(i uint64) float64 { return 2*s.unit(i) - 1 }

// between is uniform in [lo, hi).
func (s stream) between(i uint64, lo, hi float64) float64 {
	return lo + float64(s.unit(i)*(hi-lo))
}

// normal is close to normally distributed with mean 0 and deviation 1: the sum
// of six uniform numbers, which needs no logarithm and is thus the same on every
// machine. It stays within ±4.3.
func (s stream) normal(i uint64) float64 {
	const piece = 1<<21 - 1
	a, b := s.at(2*i), s.at(2*i+1)
	sum := a&piece + a>>21&piece + a>>42&piece + b&piece + b>>21&piece + b>>42&piece
	const sqrt2 = 1.4142135623730951
	return (float64(sum)/piece - 3) * sqrt2
}
