package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
)

// The cache of objects stays within its bytes whatever is asked of it, drops only
// what nobody needs, and never forgets a pinned object.
func TestLocatorKeepsItsBudget(t *testing.T) {
	x := newPlanned(t, layout{shape: []int64{1000, 1000}, chunk: []int64{10, 10}, dtype: nd.U8}, &fieldLayout{})
	var counts counters
	a := &boundArray{meta: x.layout.meta, layout: x.layout, counts: &counts}
	var asked []*object
	const limit = 50 * objectOverhead
	l := newLocator(limit, &counts, func(o *object) { asked = append(asked, o) })
	r := rand.New(rand.NewPCG(1, 1))
	pinned := map[*object]int{}
	for range 20000 {
		switch {
		case r.IntN(2) == 0 && len(pinned) < 20:
			o := l.pin(a, r.Int64N(400))
			pinned[o]++
		case len(asked) > 0 && r.IntN(2) == 0:
			o := asked[0]
			asked = asked[1:]
			o.outcome = objectLoaded
			if r.IntN(4) == 0 {
				o.outcome = objectFailed
			}
			l.finish(o)
		default:
			for o := range pinned {
				if pinned[o]--; pinned[o] == 0 {
					delete(pinned, o)
				}
				l.unpin(o)
				break
			}
		}
		for o := range pinned {
			if l.objects[o.key] != o {
				t.Fatal("a pinned object was dropped")
			}
		}
		if room := int64(len(pinned)) * objectOverhead; l.used > limit+room {
			t.Fatalf("%d bytes used, %d allowed, %d pinned", l.used, limit, room)
		}
	}
	if counts.indexHits.Load() == 0 || counts.indexMisses.Load() == 0 {
		t.Fatal("hits and misses are not counted")
	}
}
