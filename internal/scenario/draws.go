package scenario

import "github.com/headrace/headrace/nd"

// Draws is damacy's generator of crops: xorshift64*, one stream for the warm-up
// and the timed batches. The sequence depends on nothing but the seed and the
// shapes.
type Draws struct{ state uint64 }

// NewDraws starts a sequence. The generator has no zero state, so seed 0 stands
// for 0xdeadbeef.
func NewDraws(seed uint64) *Draws {
	if seed == 0 {
		seed = 0xdeadbeef
	}
	return &Draws{seed}
}

func (d *Draws) next() uint64 {
	x := d.state
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	d.state = x
	return x * 2685821657736338717
}

// below is a draw in [0, n); below(0) is 0 and takes nothing from the sequence.
func (d *Draws) below(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return d.next() % n
}

// Crop draws the next sample: an array, then the first coordinate of each axis.
// Every shape has the crop's rank and room for it.
func (d *Draws) Crop(shapes [][]int64, crop []int64) (array int, box nd.Box) {
	array = int(d.below(uint64(len(shapes))))
	box = make(nd.Box, len(crop))
	for i, extent := range crop {
		start := int64(d.below(uint64(shapes[array][i] - extent + 1)))
		box[i] = nd.Span{Start: start, Stop: start + extent}
	}
	return array, box
}
