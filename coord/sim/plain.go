package sim

import (
	"slices"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// plain is the job as its rules say in prose, step by step and position by position. It
// shares no code with the machine, and says what the machine must never do.
type plain struct {
	w       *World
	formed  bool
	job     coord.Job
	view    uint64
	members []coord.Member
	epoch   int64
	open    bool // all ranks that are expected have been there

	// Lockstep.
	step, horizon, cut int64
	halted, settled    bool
	turn               uint64
	plans              map[uint64][]stretch // by turn: who delivers which steps
	granted            map[uint64]int64     // by turn: the highest horizon

	// Async.
	done    []bool
	authors [][]coord.ID // of what is effective, by epoch and position
	count   int64
	digest  [2]uint64
	seqs    map[coord.ID]uint64
	lanes   int // entries until lanes are looked at again
}

// stretch is which ranks deliver the steps from a cut on.
type stretch struct {
	cut   int64
	ranks []seat
}

type seat struct {
	id    coord.ID
	local int
}

func (m *plain) init(w *World) {
	*m = plain{w: w, plans: map[uint64][]stretch{}, granted: map[uint64]int64{}, seqs: map[coord.ID]uint64{}}
}

// before is what the machine says, before a commit, of the lanes of its author, by local rank.
func (m *plain) before(x *coord.Machine, e coord.Entry) map[int][]nd.Span {
	c, is := e.(*coord.Commit)
	if !is || !m.formed {
		return nil
	}
	lanes := map[int][]nd.Span{}
	rank := 0
	for _, o := range m.members {
		for _, local := range o.Ranks {
			if o.ID == c.Author && rank < x.Lanes() {
				lanes[local] = x.Lane(rank)
			}
			rank++
		}
	}
	return lanes
}

// seats lists the ranks of members.
func seats(members []coord.Member) (list []seat) {
	for _, m := range members {
		for _, local := range m.Ranks {
			list = append(list, seat{m.ID, local})
		}
	}
	return list
}

func (m *plain) apply(p *process, lanes map[int][]nd.Span, e coord.Entry, effects []coord.Effect, x *coord.Machine) {
	bad := func(invariant, format string, args ...any) { m.w.violate(invariant, p.place, format, args...) }
	ignored := len(effects) > 0
	for _, effect := range effects {
		if _, is := effect.(*coord.Ignored); !is {
			ignored = false
		}
	}
	for _, effect := range effects {
		switch f := effect.(type) {
		case *coord.Installed:
			if form, is := e.(*coord.Form); is {
				m.form(form, f)
			} else {
				m.change(f, bad)
			}
		case *coord.Outcome:
			m.outcome(e.(*coord.Commit), f, lanes, bad)
		case *coord.Redone:
			m.redo(e.(*coord.Redo), bad)
		case *coord.Closed:
			m.close(f, bad)
		}
	}
	if x, is := e.(*coord.Extend); is && !ignored {
		m.extend(x, bad)
	}
	m.compare(x, bad)
}

func (m *plain) form(f *coord.Form, i *coord.Installed) {
	m.formed, m.job, m.members = true, f.Job, i.View.Members
	m.epoch, m.step, m.cut = f.Start.Epoch, f.Start.Step, f.Start.Step
	m.plans[0] = []stretch{{m.cut, seats(m.members)}}
	m.begin()
	m.openEpoch()
}

// begin hands work out once the ranks are there that are expected.
func (m *plain) begin() {
	if len(seats(m.members)) >= max(1, m.job.Expect) {
		m.open = true
		m.horizon = m.end(m.step + m.job.Lease)
		m.grant()
	}
}

// openEpoch begins an epoch.
func (m *plain) openEpoch() {
	if m.job.Mode == coord.Async {
		m.done = make([]bool, m.job.N)
		m.authors = append(m.authors, make([]coord.ID, m.job.N))
	}
	m.count, m.digest = 0, [2]uint64{}
}

// end is a lease within the job.
func (m *plain) end(step int64) int64 {
	if m.job.Mode == coord.Async {
		return 0
	}
	if m.job.Epochs > 0 {
		return min(step, m.job.Epochs*m.job.Steps)
	}
	return step
}

func (m *plain) grant() { m.granted[m.turn] = max(m.granted[m.turn], m.horizon) }

// seats are who delivers a step in a turn.
func (m *plain) seats(turn uint64, step int64) (list []seat) {
	for _, s := range m.plans[turn] {
		if s.cut <= step {
			list = s.ranks
		}
	}
	return list
}

// change is a new view.
func (m *plain) change(i *coord.Installed, bad func(string, string, ...any)) {
	v := i.View
	if v.Number != m.view+1 {
		bad("I1", "view %d after %d", v.Number, m.view)
	}
	old, fresh := seats(m.members), seats(v.Members)
	lost := slices.ContainsFunc(old, func(s seat) bool { return !slices.Contains(fresh, s) })
	for _, o := range v.Members {
		if !slices.ContainsFunc(m.members, func(b coord.Member) bool { return b.ID == o.ID }) {
			delete(m.seqs, o.ID)
			m.newcomer(o, bad)
		}
	}
	m.view, m.members = v.Number, v.Members
	if m.job.Mode == coord.Async {
		if !m.open {
			m.begin()
		}
		return
	}
	switch {
	case !m.open:
		m.cut, m.settled = m.step, false
		m.plans[m.turn] = []stretch{{m.cut, fresh}}
		m.begin()
	case lost && len(fresh) == 0:
		m.reopen()
	case lost || m.halted:
		m.halted = m.halted || lost
		m.cut, m.settled = m.step, false
	case len(fresh) > len(old):
		m.cut, m.settled = m.horizon, false
		if reached := m.w.steps.reached(m.turn); v.Cut < reached {
			bad("I7", "view %d begins at step %d, and step %d was delivered", v.Number, v.Cut, reached-1)
		}
		m.plans[m.turn] = append(m.plans[m.turn], stretch{v.Cut, fresh})
		m.horizon = m.end(m.cut + m.job.Lease)
		m.grant()
	}
	if v.Cut != m.cut {
		bad("I8", "view %d begins at step %d, not %d", v.Number, v.Cut, m.cut)
	}
}

// reopen has the job wait for its ranks as at its begin: the last one is lost, and where
// they come again is where all had been.
func (m *plain) reopen() {
	m.open, m.halted, m.settled = false, false, false
	m.turn++
	m.cut, m.horizon = m.step, m.step
	m.grant()
	m.w.steps.undo(m.step)
	m.plans[m.turn] = []stretch{{m.cut, nil}}
}

// newcomer is admitted: it must mean this job, and be new.
func (m *plain) newcomer(o coord.Member, bad func(string, string, ...any)) {
	p := m.w.procs[o.ID]
	if p == nil || p.foreign == alien {
		bad("admission", "%v is admitted, which means another job", short(o.ID))
	}
	for _, b := range m.members {
		if b.ID.Raft() == o.ID.Raft() {
			bad("I9", "%v is admitted beside a member of the same number", short(o.ID))
		}
	}
}

// extend leases steps.
func (m *plain) extend(e *coord.Extend, bad func(string, string, ...any)) {
	if e.View != m.view || e.Redos != m.turn || m.halted || !m.open {
		bad("I7", "a lease for view %d, turn %d is taken in view %d, turn %d, halted %v", e.View, e.Redos, m.view, m.turn, m.halted)
	}
	if e.Done > m.step {
		for _, s := range seats(m.members) {
			if at, ok := m.w.steps.where(s, m.turn); !ok || at < e.Done {
				bad("I4", "steps below %d count as done, and local rank %d of %v is at %d (in the turn: %v)", e.Done, s.local, short(s.id), at, ok)
			}
		}
		m.step = e.Done
	}
	m.settled = m.settled || e.Done >= m.cut
	m.horizon = max(m.horizon, m.end(min(e.Horizon, m.step+2*m.job.Lease)))
	m.grant()
}

func (m *plain) redo(e *coord.Redo, bad func(string, string, ...any)) {
	if !m.open {
		bad("I7", "a redo is taken while ranks that are expected are missing")
	}
	if e.View != m.view || e.Redos != m.turn {
		bad("I8", "a redo of view %d, turn %d is taken in view %d, turn %d", e.View, e.Redos, m.view, m.turn)
	}
	m.turn++
	m.step, m.cut = e.Step, e.Step
	m.horizon = m.end(e.Step + m.job.Lease)
	m.halted, m.settled = false, false
	m.grant()
	m.w.steps.undo(e.Step)
	if m.job.Steps > 0 {
		m.epoch = e.Step / m.job.Steps
	}
	m.plans[m.turn] = []stretch{{e.Step, seats(m.members)}}
}

// outcome judges each part of a commit again.
func (m *plain) outcome(c *coord.Commit, o *coord.Outcome, lanes map[int][]nd.Span, bad func(string, string, ...any)) {
	author := slices.IndexFunc(m.members, func(x coord.Member) bool { return x.ID == c.Author })
	if o.Again {
		return
	}
	if author >= 0 && c.Seq <= m.seqs[c.Author] {
		bad("I5", "commit %d of %v is judged again after commit %d", c.Seq, short(c.Author), m.seqs[c.Author])
	}
	effective := false
	for k, p := range c.Parts {
		if o.Verdicts[k] != coord.Effective {
			continue
		}
		effective = true
		switch {
		case author < 0:
			bad("I3", "a commit of %v, which is not in view %d, is effective", short(c.Author), m.view)
			return
		case c.View != m.view:
			bad("I3", "a commit of view %d is effective in view %d", c.View, m.view)
		case p.Epoch != m.epoch:
			bad("I3", "a commit of epoch %d is effective in epoch %d", p.Epoch, m.epoch)
		}
		if !startsWith(lanes[p.Local], p.Span, c.Parts[:k], p.Local) {
			bad("I3", "positions %v are effective, and not the next of local rank %d of %v", p.Span, p.Local, short(c.Author))
		}
		m.commit(c.Author, p, bad)
	}
	if effective && c.Seq != m.seqs[c.Author]+1 {
		bad("I5", "commit %d of %v is effective after commit %d", c.Seq, short(c.Author), m.seqs[c.Author])
	}
	m.seqs[c.Author] = c.Seq
}

// startsWith reports whether a span is what a lane has next, behind the parts before it.
func startsWith(lane []nd.Span, x nd.Span, before []coord.Part, local int) bool {
	for _, s := range lane {
		for _, b := range before {
			if b.Local == local && b.Span.Start == s.Start {
				s.Start = b.Span.Stop
			}
		}
		if s.Start < s.Stop {
			return s.Start == x.Start && x.Stop <= s.Stop
		}
	}
	return false
}

func (m *plain) commit(author coord.ID, p coord.Part, bad func(string, string, ...any)) {
	for at := p.Span.Start; at < p.Span.Stop; at++ {
		if at < 0 || at >= m.job.N || m.done[at] {
			bad("I5", "position %d of %d is effective twice, or none", at, m.job.N)
			return
		}
		m.done[at] = true
		m.authors[m.epoch][at] = author
		m.count++
	}
	m.digest[0] += p.Digest[0]
	m.digest[1] += p.Digest[1]
}

// close is the end of an epoch.
func (m *plain) close(c *coord.Closed, bad func(string, string, ...any)) {
	if c.Epoch != m.epoch {
		bad("I8", "epoch %d closes after %d", c.Epoch, m.epoch-1)
	}
	if m.job.Mode == coord.Async {
		want := digestOf(nd.Span{Stop: m.job.N})
		if m.count != m.job.N || c.Count != m.job.N || c.Digest != want || m.digest != want {
			bad("I4", "epoch %d closes with %d (%d) of %d positions, digest %x, not %x", c.Epoch, c.Count, m.count, m.job.N, c.Digest, want)
		}
	} else {
		for s := c.Epoch * m.job.Steps; s < (c.Epoch+1)*m.job.Steps; s++ {
			if !m.w.steps.done[s] {
				bad("I4", "epoch %d closes, and step %d was never done by all ranks", c.Epoch, s)
				return
			}
		}
	}
	m.w.epochs++
	m.epoch++
	m.openEpoch()
}

// compare holds the machine against the model.
func (m *plain) compare(x *coord.Machine, bad func(string, string, ...any)) {
	if !m.formed {
		return
	}
	if x.View().Number != m.view || x.Epoch() != m.epoch {
		bad("I8", "view %d, epoch %d, by the rules %d and %d", x.View().Number, x.Epoch(), m.view, m.epoch)
	}
	if x.Open() != m.open {
		bad("I7", "work is handed out: %v, by the rules %v", x.Open(), m.open)
	}
	over := m.job.Epochs > 0 && m.epoch >= m.job.Epochs
	if x.Over() != over {
		bad("I4", "the job is over: %v, by the rules %v", x.Over(), over)
	}
	if m.job.Mode == coord.Async {
		m.compareLanes(x, over, bad)
		return
	}
	horizon := m.horizon
	if m.halted {
		horizon = 0
	}
	if x.Horizon() != horizon || x.Halted() != m.halted || x.Progress().Step != m.step || x.Redos() != m.turn {
		bad("I7", "lease to %d, halted %v, step %d, turn %d; by the rules %d, %v, %d, %d", x.Horizon(), x.Halted(), x.Progress().Step, x.Redos(), horizon, m.halted, m.step, m.turn)
	}
}

// compareLanes checks that each position is committed or in one lane.
func (m *plain) compareLanes(x *coord.Machine, over bool, bad func(string, string, ...any)) {
	if x.Committed() != m.count {
		bad("I5", "%d positions are committed, by the rules %d", x.Committed(), m.count)
	}
	world := len(seats(m.members))
	if over || world == 0 || !m.open {
		return
	}
	if x.Lanes() != world {
		bad("I5", "%d lanes for %d ranks", x.Lanes(), world)
		return
	}
	if m.lanes++; m.job.N > 1<<14 && m.lanes%64 != 0 {
		return
	}
	seen := slices.Clone(m.done)
	all := m.count
	for rank := range world {
		for _, s := range x.Lane(rank) {
			for at := s.Start; at < s.Stop; at++ {
				if at >= m.job.N || seen[at] {
					bad("I5", "position %d is in the lane of rank %d, and committed or in another lane too", at, rank)
					return
				}
				seen[at] = true
				all++
			}
		}
	}
	if all != m.job.N {
		bad("I4", "%d of %d positions are committed or in a lane", all, m.job.N)
	}
}
