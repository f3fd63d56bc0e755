package sim

import (
	"slices"

	"github.com/headrace/headrace/coord"
)

// shared are the views that nodes know, by number, each once: those of thousands of nodes with
// thousands of members would not fit into memory. Views of one number that differ, as no job
// ever should have, are kept apart.
type shared map[uint64][]*coord.View

// mostShared bounds how many numbers are remembered.
const mostShared = 64

// of is the view that is equal to one, or that one.
func (s shared) of(v *coord.View) *coord.View {
	for _, o := range s[v.Number] {
		if equal(o, v) {
			return o
		}
	}
	if len(s) >= mostShared {
		clear(s)
	}
	v.Seal()
	s[v.Number] = append(s[v.Number], v)
	return v
}

func equal(a, b *coord.View) bool {
	return a.Cut == b.Cut && slices.Equal(a.Voters, b.Voters) && slices.EqualFunc(a.Members, b.Members, func(x, y coord.Member) bool {
		return x.ID == y.ID && slices.Equal(x.Ranks, y.Ranks) && x.Address == y.Address && x.Name == y.Name && x.Rack == y.Rack
	})
}
