package rendezvous

import (
	"cmp"
	"slices"
	"strings"
)

// vacancy is the rank that a node had when it was lost.
type vacancy struct {
	identity string
	rank     int
}

// identity tells whether a node is one that was here before. A host that was
// started anew is another: what it had cached is gone.
func (s *seat) identity() string {
	return s.join.Node.Host + "\x00" + s.join.Node.Boot
}

// choose picks the nodes of a round: those that stand by, at most Max. Who was in
// the round before comes first, then who asked for a rank, then who came first.
func (m *machine) choose() []*seat {
	var chosen []*seat
	for _, s := range m.members {
		if s.ready {
			chosen = append(chosen, s)
		}
	}
	seniority := func(s *seat) int {
		switch {
		case s.local:
			return 0
		case s.inRound:
			return 1
		case s.join.NodeRank >= 0:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(chosen, func(a, b *seat) int { return cmp.Compare(seniority(a), seniority(b)) })
	return chosen[:min(len(chosen), m.rules.job.Max)]
}

// assign gives each of n nodes one of the ranks 0 … n-1, in one pass over the
// nodes for each rule and a sort:
//
//  1. a node that asked for a rank has it (no two ask for the same);
//  2. a node that had a rank keeps it;
//  3. a node that comes back gets the rank that it had;
//  4. the others fill the holes: the coordinator's node first, so that it is rank 0
//     unless others asked, then those whose asked rank is n or more, then by host
//     name (node2 before node10) and age.
//
// Rules 2 to 4 take only what the rules before left. The result is by rank.
func assign(seats []*seat, left []vacancy) []*seat {
	ranked := make([]*seat, len(seats))
	place := func(s *seat, rank int) bool {
		if rank < 0 || rank >= len(ranked) || ranked[rank] != nil {
			return false
		}
		ranked[rank] = s
		return true
	}
	rest := slices.DeleteFunc(slices.Clone(seats), func(s *seat) bool { return place(s, s.join.NodeRank) })
	rest = slices.DeleteFunc(rest, func(s *seat) bool { return place(s, s.rank) })
	vacant := map[string][]int{}
	for _, v := range left {
		vacant[v.identity] = append(vacant[v.identity], v.rank)
	}
	rest = slices.DeleteFunc(rest, func(s *seat) bool {
		ranks := vacant[s.identity()]
		for len(ranks) > 0 && s.rank < 0 {
			newest := ranks[len(ranks)-1]
			ranks = ranks[:len(ranks)-1]
			vacant[s.identity()] = ranks
			if place(s, newest) {
				return true
			}
		}
		return false
	})
	slices.SortStableFunc(rest, byAge)
	hole := 0
	for _, s := range rest {
		for ranked[hole] != nil {
			hole++
		}
		ranked[hole] = s
	}
	return ranked
}

// byAge orders the nodes that fill holes.
func byAge(a, b *seat) int {
	switch {
	case a.local != b.local:
		if a.local {
			return -1
		}
		return 1
	case (a.join.NodeRank >= 0) != (b.join.NodeRank >= 0):
		return cmp.Compare(b.join.NodeRank, a.join.NodeRank)
	}
	return cmp.Or(
		cmp.Compare(a.join.NodeRank, b.join.NodeRank),
		compareNatural(a.join.Node.Host, b.join.Node.Host),
		cmp.Compare(a.id, b.id),
	)
}

// compareNatural compares names, runs of digits by their value.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is the length of the digits at the start.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
