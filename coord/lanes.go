package coord

import "github.com/headrace/headrace/nd"

// A lane is what a rank of an async job still has to deliver and commit.
type lane struct {
	owner ID
	local int // rank within the owner's
	rest  spans
}

// mostPieces bounds the spans of all lanes for each rank. Changes cut lanes into
// pieces; beyond this they are dealt out afresh.
const mostPieces = 16

// laneOf finds the lane of a member's rank, nil if there is none.
func (m *Machine) laneOf(owner ID, local int) *lane {
	if rank := m.view.Rank(owner, local); rank >= 0 && rank < len(m.lanes) {
		return &m.lanes[rank]
	}
	return nil
}

// openLanes gives each rank of the view a lane and shares all out that is not done.
func (m *Machine) openLanes() {
	m.lanes = m.emptyLanes()
	m.deal(m.done.missing(m.job.N))
}

func (m *Machine) emptyLanes() []lane {
	lanes := make([]lane, 0, m.view.World())
	for _, member := range m.view.Members {
		for _, local := range member.Ranks {
			lanes = append(lanes, lane{owner: member.ID, local: local})
		}
	}
	return lanes
}

// changeLanes takes the lanes over to a new view: those of the members that stay keep
// what they have, as far as that is no more than their share and the reserve, and the
// rest is dealt out.
func (m *Machine) changeLanes() {
	before := m.lanes
	m.lanes = m.emptyLanes()
	type rank struct {
		owner ID
		local int
	}
	at := map[rank]int{}
	for i := range m.lanes {
		at[rank{m.lanes[i].owner, m.lanes[i].local}] = i
	}
	var pool spans
	pieces := 0
	for i := range before {
		b := &before[i]
		if i, stays := at[rank{b.owner, b.local}]; stays {
			m.lanes[i].rest = b.rest
			pieces += len(b.rest)
		} else {
			pool = append(pool, b.rest...)
		}
	}
	if m.faults.has(LostLaneForgotten) {
		pool = nil
	}
	if pieces+len(pool) > mostPieces*(len(m.lanes)+1) {
		m.openLanes()
		return
	}
	if len(m.lanes) == 0 {
		return // there are only witnesses: what is missing is dealt out when a rank comes
	}
	if len(before) == 0 {
		pool = m.done.missing(m.job.N)
	}
	m.deal(m.level(pool))
}

// share is how much a lane should have, of so much in all.
func (m *Machine) share(lane int, all int64) int64 {
	n := int64(len(m.lanes))
	share := all / n
	if int64(lane) < all%n {
		share++
	}
	return share
}

func (m *Machine) undone() (n int64) {
	for i := range m.lanes {
		n += m.lanes[i].rest.count()
	}
	return n
}

// level takes the tails of lanes that have more than their share and the reserve.
func (m *Machine) level(pool spans) spans {
	all := pool.count() + m.undone()
	for i := range m.lanes {
		l, share := &m.lanes[i], m.share(i, all)
		if n := l.rest.count(); n > share+m.job.Reserve {
			pool = append(pool, l.rest.tail(n-share)...)
		}
	}
	return pool
}

// deal gives the pool to the lanes that have less than their share, in order. What they
// lack together is at least the pool.
func (m *Machine) deal(pool spans) {
	if len(m.lanes) == 0 {
		return
	}
	all := pool.count() + m.undone()
	for i := range m.lanes {
		l := &m.lanes[i]
		if want := m.share(i, all) - l.rest.count(); want > 0 {
			for _, x := range pool.head(want) {
				l.rest.give(x)
			}
		}
	}
}

// steal gives the tail half of a lane to another one, or all of it. It returns how much
// that was.
func (m *Machine) steal(from, to *lane, all bool) int64 {
	n := (from.rest.count() - m.job.Reserve) / 2
	if all {
		n = from.rest.count()
	}
	if n < 1 || to.rest.count() > 0 {
		return 0
	}
	moved := from.rest.tail(n)
	if m.faults.has(StealKeeps) {
		from.rest = append(from.rest, moved...)
	}
	for _, x := range moved {
		to.rest.give(x)
	}
	return n
}

// finish takes the lane's next positions off it, if they are these.
func (l *lane) finish(x nd.Span) bool {
	if len(l.rest) == 0 || l.rest[0].Start != x.Start || l.rest[0].Stop < x.Stop {
		return false
	}
	l.rest.head(x.Stop - x.Start)
	return true
}
