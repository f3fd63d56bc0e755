package agentapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Compare checks the plans of all ranks of a world, in any order:
//
//   - there is one plan of each rank;
//   - all agree on everything but Rank and Own;
//   - ranks with the same positions come in groups of Replicas;
//   - the groups' positions cover the first batch, each position once.
//
// The error names two ranks and the field that differs, or the positions that two
// of them both load, or those that none does.
func Compare(plans []Plan) error {
	if len(plans) == 0 {
		return nd.Errorf(nd.ErrConfig, "no plans to compare")
	}
	sorted := slices.SortedFunc(slices.Values(plans), func(a, b Plan) int { return cmp.Compare(a.Rank, b.Rank) })
	for i := range sorted {
		if err := sorted[i].Validate(); err != nil {
			return err
		}
		sorted[i].Own = merge(sorted[i].Own)
		if err := agree(&sorted[0], &sorted[i]); err != nil {
			return err
		}
	}
	if err := complete(sorted); err != nil {
		return err
	}
	return partition(sorted)
}

// merge joins spans that meet, so that equal positions are equal lists.
func merge(spans []nd.Span) []nd.Span {
	var merged []nd.Span
	for _, s := range spans {
		if n := len(merged); n > 0 && merged[n-1].Stop == s.Start {
			merged[n-1].Stop = s.Stop
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// fields lists what must be equal, in the order in which a difference explains
// those after it.
func (p *Plan) fields() [][2]string {
	return [][2]string{
		{"check", p.Check},
		{"world", strconv.Itoa(p.World)},
		{"fingerprint", p.Fingerprint},
		{"n", strconv.FormatInt(p.N, 10)},
		{"global batch", strconv.FormatInt(p.Global, 10)},
		{"seed", strconv.FormatUint(p.Seed, 10)},
		{"epoch", strconv.FormatInt(p.Epoch, 10)},
		{"tail", p.Tail},
		{"block", strconv.FormatInt(p.Block, 10)},
		{"window", strconv.Itoa(p.Window)},
		{"replicas", strconv.Itoa(max(p.Replicas, 1))},
		{"shuffle or the blocks of the source (plan hash)", p.PlanHash}, // all else that is in it came before
		{"first batch", positions(p.Batch)},
	}
}

func agree(a, b *Plan) error {
	theirs := b.fields()
	for i, f := range a.fields() {
		if f[1] != theirs[i][1] {
			return nd.Errorf(nd.ErrConfig, "ranks %d and %d differ in %s: %s and %s", a.Rank, b.Rank, f[0], quote(f[1]), quote(theirs[i][1]))
		}
	}
	return nil
}

// quote shows an empty value as such.
func quote(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// complete checks that each rank of the world has one plan.
func complete(sorted []Plan) error {
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Rank == sorted[i-1].Rank {
			return nd.Errorf(nd.ErrConfig, "there are two plans of rank %d", sorted[i].Rank)
		}
	}
	if world := sorted[0].World; len(sorted) != world {
		have := func(rank int) bool {
			_, ok := slices.BinarySearchFunc(sorted, rank, func(p Plan, r int) int { return cmp.Compare(p.Rank, r) })
			return ok
		}
		return nd.Errorf(nd.ErrConfig, "no plan of %s", missing(world, have))
	}
	return nil
}

// missing names the ranks of a world that have not done something: the first few,
// and how many there are.
func missing(world int, have func(rank int) bool) string {
	const named = 8
	var names []string
	n := 0
	for rank := range world {
		if have(rank) {
			continue
		}
		if n++; n <= named {
			names = append(names, strconv.Itoa(rank))
		}
	}
	text := strings.Join(names, ", ")
	switch {
	case n == 1:
		return "rank " + text
	case n > named:
		return fmt.Sprintf("ranks %s, … (%d of %d)", text, n, world)
	}
	return "ranks " + text
}

// partition checks the positions. Replicas are found by what they load, not by
// their ranks, since any grouping is as good as another.
func partition(sorted []Plan) error {
	groups := slices.SortedStableFunc(slices.Values(sorted), func(a, b Plan) int { return slices.CompareFunc(a.Own, b.Own, compareSpans) })
	replicas := max(groups[0].Replicas, 1)
	var owned []owner
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && slices.Equal(groups[n].Own, groups[0].Own) {
			n++
		}
		if len(groups[0].Own) > 0 && n != replicas {
			return wrongGroup(groups[:n], replicas)
		}
		for _, s := range groups[0].Own {
			owned = append(owned, owner{s, groups[0].Rank})
		}
		groups = groups[n:]
	}
	return cover(sorted[0].Batch, owned)
}

func compareSpans(a, b nd.Span) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Stop, b.Stop))
}

func wrongGroup(group []Plan, replicas int) error {
	if len(group) == 1 {
		return nd.Errorf(nd.ErrConfig, "rank %d alone loads positions %s, with %d replicas %d ranks must", group[0].Rank, positions(group[0].Own[0]), replicas, replicas)
	}
	return nd.Errorf(nd.ErrConfig, "ranks %d and %d both load positions %s (%d ranks in all, with %d replicas)",
		group[0].Rank, group[1].Rank, positions(group[0].Own[0]), len(group), replicas)
}

type owner struct {
	nd.Span
	rank int
}

// cover checks that spans cover a batch, each position once.
func cover(batch nd.Span, owned []owner) error {
	slices.SortFunc(owned, func(a, b owner) int { return cmp.Or(compareSpans(a.Span, b.Span), cmp.Compare(a.rank, b.rank)) })
	last := owner{nd.Span{Start: batch.Start, Stop: batch.Start}, -1}
	for _, o := range owned {
		if o.Start < last.Stop {
			return nd.Errorf(nd.ErrConfig, "ranks %d and %d both load positions %s", last.rank, o.rank, positions(o.Intersect(last.Span)))
		}
		if o.Start > last.Stop {
			break
		}
		last = o
	}
	if last.Stop < batch.Stop {
		next := batch.Stop
		for _, o := range owned {
			if o.Start > last.Stop {
				next = min(next, o.Start)
			}
		}
		return nd.Errorf(nd.ErrConfig, "no rank loads positions %s of batch %s", positions(nd.Span{Start: last.Stop, Stop: next}), positions(batch))
	}
	return nil
}
