package coord

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Spans that are put into a set in any order are in order, do not touch, and have the positions
// that were put in: those of a plain list of which position is there.
func TestSpansAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const n = 60
		var pieces []nd.Span
		for at := int64(0); at < n; {
			stop := min(n, at+1+r.Int64N(7))
			pieces = append(pieces, nd.Span{Start: at, Stop: stop})
			at = stop
		}
		r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		var set spans
		var there [n]bool
		for _, x := range pieces {
			set.add(x)
			for p := x.Start; p < x.Stop; p++ {
				there[p] = true
			}
			var want spans
			for p := range int64(n) {
				switch {
				case !there[p]:
				case len(want) > 0 && want[len(want)-1].Stop == p:
					want[len(want)-1].Stop = p + 1
				default:
					want = append(want, nd.Span{Start: p, Stop: p + 1})
				}
			}
			if !slices.Equal(set, want) {
				t.Fatalf("with %v: %v, want %v", x, set, want)
			}
		}
	}
}
