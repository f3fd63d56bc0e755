package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// lanes is what a leader knows of how the ranks of an async job get on.
type lanes map[place]*work

// place is a rank, whatever its number.
type place struct {
	id    coord.ID
	local int
}

// work is how a rank gets on.
type work struct {
	committed time.Duration // when it last did; 0: never
	since     time.Duration // then, or when it was given its lane
	longest   time.Duration // between two commits, of late
	holds     bool          // it had positions when the leader last looked
	stood     int           // lanes that were taken from it since it has committed
	tries     int           // ranks that had its positions and did not commit
}

// of is a rank's work, which begins when this leader first looks.
func (l lanes) of(p place, now time.Duration) *work {
	w := l[p]
	if w == nil {
		w = &work{since: now}
		l[p] = w
	}
	return w
}

// patience is how long a rank may commit nothing. What takes longer than usual takes a rank that works
// no longer than twice its longest time of late; and as nobody knows whether a rank hangs or its
// positions take that long, each one that had them in vain gives the next one a Stall more.
func (w *work) patience(stall time.Duration) time.Duration {
	return max(stall, 2*w.longest) + time.Duration(w.tries)*stall
}

// outcome notes who gets on.
func (l lanes) outcome(o *coord.Outcome, now time.Duration) {
	for i, verdict := range o.Verdicts {
		if verdict != coord.Effective || o.Again {
			continue
		}
		w := l.of(place{o.Author, o.Parts[i].Local}, now)
		longest := max(now-w.since, w.longest/2)
		*w = work{committed: now, since: now, longest: longest, holds: w.holds}
	}
}

// dealt notes that lanes were dealt out, and forgets ranks that are not in the view. Who had one
// before has to get on with that one still.
func (l lanes) dealt(v *coord.View, now time.Duration) {
	for p, w := range l {
		if v.Rank(p.id, p.local) < 0 {
			delete(l, p)
		} else if !w.holds {
			w.since = now
		}
	}
}

// moved notes that a rank has the positions of another one.
func (l lanes) moved(e *coord.Rebalanced, all bool, v *coord.View, now time.Duration) {
	at := func(rank int) *work {
		id, local := v.Seat(rank)
		return l.of(place{id, local}, now)
	}
	from, to := at(e.From), at(e.To)
	to.since, to.holds = now, true
	if all {
		to.tries, from.tries = from.tries+1, 0
		from.holds = false
		from.stood++
	}
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
	places := placesOf(m.View())
	for rank := range m.Lanes() {
		left, w := m.Left(rank), l.lanes.of(places[rank], n.now)
		w.holds = left > 0
		switch {
		case !w.holds:
			idle = append(idle, rank)
		case left >= m.Job().Reserve+2:
			busy = append(busy, rank)
		case n.now-w.since >= w.patience(n.cfg.Stall):
			still = append(still, rank)
		}
	}
	slices.SortStableFunc(busy, func(a, b int) int { return cmp.Compare(m.Left(b), m.Left(a)) })
	l.lanes.sortIdle(idle, places)
	for i := range min(len(idle), len(busy)+len(still), mostMoves) {
		r := &coord.Rebalance{View: m.View().Number, To: idle[i]}
		if i < len(busy) {
			r.From = busy[i]
		} else {
			r.From, r.All = still[i-len(busy)], true
		}
		n.propose(r)
	}
}

// sortIdle puts those first who are likely to work: on nodes of which no rank stands still, then ranks
// that do not themselves, then who has worked last.
func (l lanes) sortIdle(idle []int, places []place) {
	node := map[coord.ID]int{}
	for p, w := range l {
		node[p.id] += w.stood
	}
	slices.SortStableFunc(idle, func(a, b int) int {
		x, y := l[places[a]], l[places[b]]
		return cmp.Or(
			cmp.Compare(node[places[a].id], node[places[b].id]),
			cmp.Compare(x.stood, y.stood),
			cmp.Compare(y.committed, x.committed),
		)
	})
}
