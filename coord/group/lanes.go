package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// lanes is what a leader knows of how the ranks of an async job get on.
type lanes struct {
	work  map[place]*work
	stood map[coord.ID]int // lanes that were taken from a member's ranks since one of them has committed
	vain  int              // times that lanes were taken since anything was committed
}

// place is a rank, whatever its number.
type place struct {
	id    coord.ID
	local int
}

type work struct {
	committed time.Duration // when it last did; 0: never
	since     time.Duration // then, or when it was given its lane
	stood     int           // lanes that were taken from it since it has committed
}

func newLanes() lanes { return lanes{work: map[place]*work{}, stood: map[coord.ID]int{}} }

// of is a rank's work, which begins when this leader first looks.
func (l *lanes) of(p place, now time.Duration) *work {
	w := l.work[p]
	if w == nil {
		w = &work{since: now}
		l.work[p] = w
	}
	return w
}

// outcome notes who gets on.
func (l *lanes) outcome(o *coord.Outcome, now time.Duration) {
	for i, verdict := range o.Verdicts {
		if verdict == coord.Effective {
			*l.of(place{o.Author, o.Parts[i].Local}, now) = work{committed: now, since: now}
			delete(l.stood, o.Author)
			l.vain = 0
		}
	}
}

// dealt notes that the lanes of all ranks are others, and forgets ranks that are not in the view.
func (l *lanes) dealt(v *coord.View, now time.Duration) {
	l.vain = 0
	for p, w := range l.work {
		if w.since = now; v.Rank(p.id, p.local) < 0 {
			delete(l.work, p)
		}
	}
	for id := range l.stood {
		if v.Index(id) < 0 {
			delete(l.stood, id)
		}
	}
}

// mostMoves bounds the lanes that are shared at once: at the end of an epoch thousands of ranks
// may be idle, and each move is an entry of the log. The next ones follow a few beats later.
const mostMoves = 64

// rebalance gives idle ranks the tails of the slowest lanes; where no lane has one, all that is in
// the lanes of ranks that stand still.
func (l *leader) rebalance(n *Node, m *coord.Machine) {
	if m.Over() || !l.may(n, "rebalance") {
		return
	}
	var idle, busy, still []int
	patience := n.cfg.Stall << min(l.lanes.vain, mostDoubled)
	places := placesOf(m.View())
	for rank := range m.Lanes() {
		switch left := m.Left(rank); {
		case left == 0:
			idle = append(idle, rank)
		case left >= m.Job().Reserve+2:
			busy = append(busy, rank)
		case n.now-l.lanes.of(places[rank], n.now).since >= patience:
			still = append(still, rank)
		}
	}
	slices.SortStableFunc(busy, func(a, b int) int { return cmp.Compare(m.Left(b), m.Left(a)) })
	moves := min(len(idle), len(busy), mostMoves)
	for i := range moves {
		l.move(n, m, places, &coord.Rebalance{From: busy[i], To: idle[i]})
	}
	l.relieve(n, m, places, still, idle[moves:])
}

// placesOf lists the ranks of a view.
func placesOf(v *coord.View) []place {
	list := make([]place, 0, v.World())
	for i := range v.Members {
		for _, local := range v.Members[i].Ranks {
			list = append(list, place{v.Members[i].ID, local})
		}
	}
	return list
}

// mostDoubled bounds how often the patience is doubled: to some hours.
const mostDoubled = 10

// relieve gives the lanes of ranks that stand still to idle ones: to those that have worked of late,
// on nodes where none stands still, since some that are idle may do so too.
func (l *leader) relieve(n *Node, m *coord.Machine, places []place, still, idle []int) {
	moves := min(len(still), len(idle), mostMoves)
	if moves == 0 {
		return
	}
	l.lanes.vain++
	for _, from := range still[:moves] {
		l.lanes.stood[places[from].id]++
		l.lanes.of(places[from], n.now).stood++
	}
	slices.SortStableFunc(idle, func(a, b int) int {
		x, y := l.lanes.of(places[a], n.now), l.lanes.of(places[b], n.now)
		return cmp.Or(
			cmp.Compare(l.lanes.stood[places[a].id], l.lanes.stood[places[b].id]),
			cmp.Compare(x.stood, y.stood),
			cmp.Compare(y.committed, x.committed),
		)
	})
	for i := range moves {
		l.move(n, m, places, &coord.Rebalance{From: still[i], To: idle[i], All: true})
	}
}

// move gives a lane, or its tail, to another rank.
func (l *leader) move(n *Node, m *coord.Machine, places []place, r *coord.Rebalance) {
	r.View = m.View().Number
	l.lanes.of(places[r.To], n.now).since = n.now
	n.propose(r)
}
