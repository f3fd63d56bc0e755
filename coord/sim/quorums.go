package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// quorums watches who decides. Changes of voters are entries of the log: it writes them down as the
// first replica applies each, and holds against them by whom an entry was found to be committed.
//
// An entry is committed by the voters that the leader has applied when it counts, and not by those
// of the entry's place in the log: the last change of voters before the entry may be in the same batch.
// It is never the one before that, for a leader makes a change once it has applied the last one, so that
// who has the later one in its log knows that the earlier one is committed, and does not stand before it
// is applied. The first replica to apply an entry is the leader that has counted, since it does so before
// it tells others of the commit; what it says of the voters is exact.
type quorums struct {
	w       *World
	changes []voters            // by index; the first one is the founder alone
	numbers map[uint64]coord.ID // who votes with a number, or did
}

// voters is who decides, both sets while they change, as of an index.
type voters struct {
	index, term   uint64
	now, outgoing []uint64
}

func (v *voters) equal(o *voters) bool {
	return slices.Equal(v.now, o.now) && slices.Equal(v.outgoing, o.outgoing)
}

func (v *voters) String() string {
	if len(v.outgoing) == 0 {
		return fmt.Sprintf("%x", v.now)
	}
	return fmt.Sprintf("%x with %x", v.now, v.outgoing)
}

func (q *quorums) init(w *World) { *q = quorums{w: w, numbers: map[uint64]coord.ID{}} }

// found is the first voter.
func (q *quorums) found(p *process) {
	q.changes = []voters{{now: []uint64{p.id.Raft()}}}
	q.numbers[p.id.Raft()] = p.id
}

// install is a view: its voters come to decide. A number that has voted stays that of one process, for
// another one has none of its promises.
func (q *quorums) install(p *process, v *coord.View) {
	for _, id := range v.Voters {
		if was, known := q.numbers[id.Raft()]; known && was != id {
			q.w.violate("I9", p.place, "%v votes in view %d with the number of another process that has voted", short(id), v.Number)
		}
		q.numbers[id.Raft()] = id
	}
}

// change is a replica that applies a change of voters: the same one as all others.
func (q *quorums) change(p *process, e *group.Event) {
	next := &voters{e.Index, e.Term, e.NewVoters, e.NewOutgoing}
	i, again := slices.BinarySearchFunc(q.changes, e.Index, func(v voters, index uint64) int { return cmp.Compare(v.index, index) })
	switch {
	case again:
		if was := &q.changes[i]; was.term != next.term || !was.equal(next) {
			q.w.violate("log", p.place, "index %d of term %d has %v vote here, and of term %d %v elsewhere", e.Index, e.Term, next, was.term, was)
		}
		return
	case i < len(q.changes) || e.Index <= q.w.log.last:
		q.w.violate("log", p.place, "index %d has a change of voters here, and more was reached elsewhere without one", e.Index)
		return
	}
	q.hold(p, e)
	if last := &q.changes[i-1]; !last.precedes(next) {
		q.w.violate("I2", p.place, "index %d has %v vote behind %v: majorities of the two may have no voter in common", e.Index, next, last)
	}
	q.changes = append(q.changes, *next)
}

// precedes reports whether each majority of v and of next have a voter in common: one voter comes or
// goes, or the old voters decide with the new ones, or do so no more.
func (v *voters) precedes(next *voters) bool {
	switch {
	case len(next.now) == 0:
		return false
	case len(v.outgoing) > 0:
		return len(next.outgoing) == 0 && slices.Equal(next.now, v.now)
	case len(next.outgoing) > 0:
		return slices.Equal(next.outgoing, v.now)
	}
	return beyond(v.now, next.now)+beyond(next.now, v.now) == 1
}

// beyond counts who is in a list and not in another.
func beyond(list, of []uint64) (n int) {
	for _, id := range list {
		if !slices.Contains(of, id) {
			n++
		}
	}
	return n
}

// hold checks an entry that nobody has applied before: by those who have found that it is committed,
// who must be voters by the log, it is held by a majority, of both sets while they change.
func (q *quorums) hold(p *process, e *group.Event) {
	by := &voters{now: e.Voters, outgoing: e.Outgoing}
	if n := len(q.changes); !slices.ContainsFunc(q.changes[max(0, n-2):], func(v voters) bool { return v.equal(by) }) {
		q.w.violate("I2", p.place, "index %d is decided by %v, and by the log those who vote are %v", e.Index, by, &q.changes[n-1])
		return
	}
	for _, set := range [][]uint64{by.now, by.outgoing} {
		have := 0
		for _, number := range set {
			if q.has(number, e) {
				have++
			}
		}
		if len(set) > 0 && have <= len(set)/2 {
			what := "a change of voters"
			if e.Entry != nil {
				what = fmt.Sprintf("%T", e.Entry)
			}
			q.w.violate("I2", p.place, "index %d (%s) is applied, and %d of %d voters have it", e.Index, what, have, len(set))
			return
		}
	}
}

// has reports whether a voter has an entry, dead or alive: it keeps it until a snapshot takes its place.
func (q *quorums) has(number uint64, e *group.Event) bool {
	o := q.w.procs[q.numbers[number]]
	if o == nil {
		return false
	}
	term, ok := o.node.Term(e.Index)
	return ok && (term == e.Term || term == 0)
}
