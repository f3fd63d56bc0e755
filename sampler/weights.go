package sampler

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/headrace/headrace/nd"
)

// wholeWeights turns weights into integers in the same proportions, the largest
// being 2^precision: what follows from them is then exact, and the same on every machine.
// A weight above 0 stays above 0.
func wholeWeights(what string, weights []float64, precision int) ([]uint64, error) {
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, nd.Errorf(nd.ErrConfig, "%s: weight %d is %v, must be a number of at least 0", what, i, w)
		}
	}
	largest := slices.Max(append([]float64{0}, weights...))
	if largest == 0 {
		return nil, nd.Errorf(nd.ErrConfig, "%s: no weight is above 0", what)
	}
	whole := make([]uint64, len(weights))
	for i, w := range weights {
		whole[i] = uint64(math.RoundToEven(math.Ldexp(w/largest, precision)))
		if w > 0 {
			whole[i] = max(1, whole[i])
		}
	}
	return whole, nil
}

// apportion shares count out in proportion to weights, by largest remainder: each
// share is its exact quota rounded down, and what is left goes, one each, to the
// largest remainders, the first of equals.
func apportion(count int64, weights []uint64) []int64 {
	var total uint64
	for _, w := range weights {
		total += w
	}
	shares, rest := make([]int64, len(weights)), make([]uint64, len(weights))
	left := count
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(count), w)
		q, r := bits.Div64(hi, lo, total) // hi < total, since w <= total
		shares[i], rest[i] = int64(q), r
		left -= shares[i]
	}
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return rest[order[a]] > rest[order[b]] })
	for _, i := range order[:left] {
		shares[i]++
	}
	return shares
}
