package export

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Laid end to end, what the slabs hold after their skipped rows must be every
// element once, in C order, within the limit.
func TestSlabsCoverInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		shape, grain := make([]int64, r.IntN(5)), make([]int64, 5)
		for i := range shape {
			shape[i] = 1 + r.Int64N(7)
			grain[i] = 1 + r.Int64N(4)
		}
		const size = 4
		limit := size * (1 + r.Int64N(60))
		s := cut(shape, grain, size, limit)
		next, bad := int64(0), false
		for p := range s.all {
			n, _ := p.box.Elements()
			if n*size > limit || !p.box.Within(shape) {
				t.Fatalf("shape %v limit %d: slab %v", shape, limit, p.box)
			}
			seen := int64(0)
			rows := int64(1)
			if len(shape) > 0 {
				rows = p.box[s.axis].Len()
			}
			visit(p.box, func(at []int64) {
				seen++
				if seen <= p.skip*(n/rows) {
					return
				}
				if linear(shape, at) != next {
					bad = true
				}
				next++
			})
		}
		whole, _ := nd.Product(shape)
		if bad || next != whole {
			t.Fatalf("shape %v limit %d: %+v gives %d of %d elements, in order: %v", shape, limit, s, next, whole, !bad)
		}
	}
}

func visit(box nd.Box, f func(at []int64)) {
	n, _ := box.Elements()
	at := make([]int64, len(box))
	for k := range n {
		for i := len(box) - 1; i >= 0; i-- {
			at[i] = box[i].Start + k%box[i].Len()
			k /= box[i].Len()
		}
		f(at)
	}
}

func linear(shape, at []int64) (n int64) {
	for i, x := range at {
		n = n*shape[i] + x
	}
	return n
}

// Slabs end at chunk borders where they can, so that no chunk is decoded twice.
func TestSlabsKeepChunksWhole(t *testing.T) {
	s := cut([]int64{1000, 100}, []int64{64, 64}, 2, 30_000)
	if s.axis != 0 || s.rows != 128 {
		t.Errorf("got %+v, want 128 rows: two chunks of 64", s)
	}
}
