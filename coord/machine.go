package coord

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/nd"
)

// Machine is what the log of a job amounts to. It belongs to one goroutine. The zero
// value is that of an empty log.
type Machine struct {
	index   uint64 // of the last entry
	formed  bool
	founder uint64 // the number of the agent that formed the job
	job     Job
	view    View
	deltas  []Delta // the last changes of the view; not part of a snapshot
	retired []ID    // voters that vote no more, the last ones: see retire
	open    bool    // all ranks that were expected have been there: work is handed out

	// Progress.
	epoch   int64
	step    int64   // lockstep: what all ranks have done, counted through the job
	horizon int64   // lockstep: no step from here on was ever leased in this view
	halted  bool    // lockstep: a member is lost, and no Redo has said where to go on
	redos   uint64  // lockstep: how many Redos there were
	by      uint64  // lockstep: whose the last one was
	reach   int64   // lockstep: no step from here on was ever leased in any view
	turn    uint64  // lockstep: how often the ranks, or where they go on, were others
	settled bool    // lockstep: all ranks have begun the view
	fresh   []Ranks // lockstep: those that have had no step
	ended   bool    // lockstep: those that worked are done and have left

	done     spans // async: committed positions of the epoch, a set
	digest   [2]uint64
	closed   *Closed   // the last one
	lanes    []lane    // by rank
	sessions []session // by member

	faults faults // of tests
}

// session remembers what became of a member's last commit. An author has one under way
// at a time.
type session struct {
	author   ID
	seq      uint64
	verdicts []Verdict
}

// Effect is what an entry changed: *Installed, *Extended, *Redone, *Outcome,
// *Refused, *Rebalanced, *Closed or *Ignored.
type Effect any

type (
	// Installed: there is a new view.
	Installed struct {
		View    *View // the machine's: it is not changed afterwards
		Evicted []ID
		Reason  string
	}
	// Extended: the lease of a lockstep job ends at a later step.
	Extended struct{ Horizon, Done int64 }
	// Redone: all ranks go on from a step.
	Redone struct{ Step int64 }
	// Outcome is what became of a commit, part by part. Again: it was applied before.
	Outcome struct {
		Author   ID
		Seq      uint64
		Verdicts []Verdict
		Parts    []Part
		Again    bool
	}
	// Refused: a member was not admitted.
	Refused struct {
		ID     ID
		Reason string
	}
	// Rebalanced: so many positions are in the lane of another rank now.
	Rebalanced struct {
		From, To int
		Moved    int64
	}
	// Closed: an epoch is complete.
	Closed struct {
		Epoch  int64
		Count  int64
		Digest [2]uint64 // async
	}
	// Ignored: the entry did not fit here.
	Ignored struct{ Reason string }
)

// Verdict is what became of a part of a commit.
type Verdict uint8

const (
	// Effective: the positions are done, by this author.
	Effective Verdict = iota
	// VoidView: the author is not in the view, or the view was not its newest.
	VoidView
	// VoidLane: these are not the next positions of the author's lane.
	VoidLane
)

func (v Verdict) String() string {
	names := [...]string{"effective", "void: old view", "void: not in the lane"}
	if int(v) >= len(names) {
		return fmt.Sprintf("verdict %d", uint8(v))
	}
	return names[v]
}

// Apply applies the entry at a place of the log, which must be behind those applied
// before; one that is not changes nothing.
func (m *Machine) Apply(index uint64, e Entry) []Effect {
	if index <= m.index {
		return nil
	}
	m.index = index
	if f, ok := e.(*Form); ok {
		return m.form(f)
	}
	if !m.formed {
		return ignore("no job is formed")
	}
	switch e := e.(type) {
	case *Change:
		return m.change(e)
	case *Extend:
		return m.extend(e)
	case *Redo:
		return m.redo(e)
	case *Commit:
		return m.commit(e)
	case *Rebalance:
		return m.rebalance(e)
	case *Close:
		return m.close(e)
	}
	return ignore("unknown entry")
}

func ignore(format string, args ...any) []Effect {
	return []Effect{&Ignored{fmt.Sprintf(format, args...)}}
}

func (m *Machine) form(f *Form) []Effect {
	if m.formed {
		return ignore("the job is formed")
	}
	if err := f.check(); err != nil {
		return ignore("%v", err)
	}
	m.formed, m.job, m.founder = true, f.Job, f.Members[0].ID.Raft()
	m.epoch, m.step, m.digest = f.Start.Epoch, f.Start.Step, f.Start.Digest
	m.done = slices.Clone(f.Start.Done)
	m.view = View{Members: f.Members, Voters: chooseVoters(f.Members, []ID{f.Members[0].ID}, f.Job.Voters), Cut: m.step}
	m.view.Seal()
	for _, member := range f.Members {
		m.sessions = append(m.sessions, session{author: member.ID})
	}
	m.begin()
	return []Effect{m.installed(nil, "formed")}
}

// begin hands work out once all ranks that are expected have come.
func (m *Machine) begin() {
	if m.open || m.view.World() < max(1, m.job.Expect) {
		return
	}
	m.open = true
	m.lease(m.step + m.job.Lease)
	if m.job.Mode == Async && !m.Over() {
		m.openLanes()
	}
}

// check finds what makes the first view impossible.
func (f *Form) check() error {
	if err := f.Job.Validate(); err != nil {
		return err
	}
	ranks := 0
	for i, m := range f.Members {
		ranks += len(m.Ranks)
		if !slices.IsSorted(m.Ranks) || len(slices.Compact(slices.Clone(m.Ranks))) != len(m.Ranks) {
			return nd.Errorf(nd.ErrConfig, "local ranks %v of %s are not in order", m.Ranks, m.ID)
		}
		if m.ID.Raft() == 0 || slices.ContainsFunc(f.Members[:i], func(o Member) bool { return o.ID.Raft() == m.ID.Raft() }) {
			return nd.Errorf(nd.ErrConfig, "member %s is there twice, or has no number", m.ID)
		}
	}
	if len(f.Members) == 0 || ranks > maxRanks {
		return nd.Errorf(nd.ErrConfig, "%d members with %d ranks", len(f.Members), ranks)
	}
	at := int64(0)
	for _, s := range f.Start.Done {
		if s.Start < at || s.Stop <= s.Start || s.Stop > f.Job.N {
			return nd.Errorf(nd.ErrConfig, "positions %d to %d of %d are done", s.Start, s.Stop, f.Job.N)
		}
		at = s.Stop + 1
	}
	return nil
}

// installed copies the view, for the next Change makes another one in its place.
func (m *Machine) installed(evicted []ID, reason string) *Installed {
	v := m.view
	return &Installed{View: &v, Evicted: evicted, Reason: reason}
}

func (m *Machine) change(c *Change) []Effect {
	if c.View != m.view.Number {
		return ignore("a change of view %d in view %d", c.View, m.view.Number)
	}
	var out []Effect
	var evict []ID
	for _, id := range c.Evict {
		if m.view.Index(id) >= 0 && !slices.Contains(evict, id) {
			evict = append(evict, id)
		}
	}
	var admit []Member
	for i := range c.Admit {
		a := &c.Admit[i]
		if why := m.refuses(a, admit); why != "" {
			out = append(out, &Refused{a.ID, why})
			continue
		}
		admit = append(admit, a.Member)
	}
	ranks := slices.DeleteFunc(slices.Clone(c.Ranks), func(r Ranks) bool {
		i := m.view.Index(r.ID)
		return i < 0 || slices.Equal(m.view.Members[i].Ranks, r.Ranks)
	})
	if len(evict)+len(admit)+len(ranks) == 0 {
		return append(out, ignore("a change that changes nothing")...)
	}
	if len(evict) == len(m.view.Members) && len(admit) == 0 {
		return append(out, ignore("a change that evicts everyone")...)
	}
	if !m.enter(evict, admit, ranks, c.Left) {
		return append(out, ignore("ranks that come in view %d, which has not begun everywhere", c.View)...)
	}
	return append(out, m.installed(evict, c.Reason))
}

// Refuses says why an agent would not be admitted; empty: it would be.
func (m *Machine) Refuses(a *Admission) string { return m.refuses(a, nil) }

// refuses says why a member is not admitted, behind those that are; empty: it is.
func (m *Machine) refuses(a *Admission, admitted []Member) string {
	same := func(o Member) bool { return o.ID.Raft() == a.ID.Raft() }
	world := len(a.Ranks) + m.view.World()
	for _, o := range admitted {
		world += len(o.Ranks)
	}
	switch {
	case a.Version != Version:
		return fmt.Sprintf("it speaks version %d, the job version %d: install the same headrace everywhere", a.Version, Version)
	case a.Job != m.job.Name:
		return fmt.Sprintf("it belongs to job %q, this is %q", a.Job, m.job.Name)
	case a.Plan != m.job.Plan && len(a.Ranks) > 0:
		return PlanDiffers(a.Plan, m.job.Plan)
	case a.ID.Raft() == 0, slices.ContainsFunc(m.view.Members, same), slices.ContainsFunc(admitted, same):
		return "it is a member, or one has its number"
	case m.used(a.ID):
		return "its number is that of an agent that has voted: start it again"
	case world > maxRanks || len(m.view.Members)+len(admitted) >= maxMembers:
		return "the job is full"
	}
	return ""
}

// enter makes the next view. In lockstep ranks that come must wait until all have begun the
// view that there is, or a member is lost: so a rank never has to know more than two views,
// the one it is in and the next.
func (m *Machine) enter(evict []ID, admit []Member, ranks, left []Ranks) bool {
	d := Delta{Evict: evict, Admit: admit, Ranks: ranks}
	next := m.view.After(&d)
	next.Seal()
	next.Voters = chooseVoters(next.Members, m.view.Voters, m.job.Voters)
	lost := m.view.loses(next)
	grows := next.World() != m.view.World()
	if m.job.Mode == Lockstep && m.open && grows && !lost && !m.halted && !m.settled && m.view.World() > 0 && !m.Over() {
		return false
	}
	m.settled = m.settled && !lost && !grows
	if m.job.Mode == Lockstep && (lost || grows) {
		m.turn++
	}
	m.retire(next.Voters)
	if m.faults.has(ViewNotCounted) {
		next.Number = m.view.Number
	}
	next.Cut = m.cut(lost, grows)
	m.ended = m.ended || lost && m.ends(next, left)
	m.freshen(next)
	d.Voters, d.Cut = next.Voters, next.Cut
	m.deltas = append(slices.Clone(m.deltas[max(0, len(m.deltas)-keepDeltas+1):]), d)
	m.view = *next
	m.sessions = slices.DeleteFunc(m.sessions, func(s session) bool {
		return slices.Contains(evict, s.author) && !m.faults.has(SessionKept)
	})
	for _, member := range admit {
		m.sessions = append(m.sessions, session{author: member.ID})
	}
	switch {
	case !m.open:
		m.begin()
		return true
	case m.job.Mode == Async:
		if !m.Over() {
			m.changeLanes()
		}
		return true
	}
	switch {
	case m.ended:
		m.halted = false
	case lost && m.view.World() == 0:
		// Nobody is left who could say where to go on: the job waits for its ranks as at
		// its begin, and goes on where all had been: a redo to there, for a rank that was
		// only taken for lost may be beyond.
		m.open, m.halted, m.horizon = false, false, m.step
		m.redos++
		m.by = 0
	case lost:
		m.halted = !m.faults.has(LeaseSurvivesLoss)
	case !m.halted:
		m.lease(m.view.Cut + m.job.Lease)
	}
	return true
}

// cut is where the next view of a lockstep job begins: where all were when a rank is
// lost, else where no rank can be yet.
func (m *Machine) cut(lost, ranks bool) int64 {
	switch {
	case m.job.Mode == Async:
		return 0
	case lost || m.halted || !m.open:
		return m.step
	case !ranks:
		return m.view.Cut // witnesses came or went: ranks do not notice
	case m.faults.has(CutTooEarly):
		return m.step
	}
	return m.horizon
}

// lease extends the lease up to a step, if that is more.
func (m *Machine) lease(horizon int64) {
	if m.job.Mode == Lockstep {
		m.horizon = max(m.horizon, min(horizon, m.job.last()))
		m.reach = max(m.reach, m.horizon)
	}
}

func (m *Machine) extend(e *Extend) []Effect {
	switch {
	case m.job.Mode != Lockstep:
		return ignore("a lease of steps in an async job")
	case e.View != m.view.Number || e.Redos != m.redos:
		return ignore("a lease for view %d after %d redos, in view %d after %d", e.View, e.Redos, m.view.Number, m.redos)
	case e.Done > m.horizon:
		return ignore("step %d is done, and the lease ends at %d", e.Done, m.horizon)
	}
	if !m.open {
		return ignore("%d of %d ranks are there", m.view.World(), m.job.Expect)
	}
	if m.halted {
		return ignore("a member is lost: a redo must say where to go on")
	}
	if m.ended {
		return ignore("the job is over: its ranks are done and have left")
	}
	m.step = max(m.step, e.Done)
	m.settled = m.settled || e.Done >= m.view.Cut
	if m.settled {
		m.fresh = nil
	}
	m.lease(min(e.Horizon, m.step+2*m.job.Lease))
	return []Effect{&Extended{m.Horizon(), m.step}}
}

func (m *Machine) redo(r *Redo) []Effect {
	switch {
	case m.job.Mode != Lockstep:
		return ignore("a redo in an async job")
	case (r.View != m.view.Number || r.Redos != m.redos) && !m.faults.has(OldRedo):
		return ignore("a redo of view %d after %d others, in view %d after %d", r.View, r.Redos, m.view.Number, m.redos)
	case m.ended:
		return ignore("a redo in a job that is over")
	case !m.open:
		return ignore("a redo while %d of %d ranks are there", m.view.World(), m.job.Expect)
	case r.Step > m.reach:
		return ignore("a redo of step %d, which nobody can have reached: no lease went beyond %d", r.Step, m.reach)
	}
	m.step, m.epoch = r.Step, m.epochOf(r.Step)
	m.view.Cut = r.Step
	m.halted, m.settled, m.horizon = false, false, 0
	m.redos++
	m.by = r.By
	m.turn++
	m.lease(r.Step + m.job.Lease)
	return []Effect{&Redone{r.Step}, &Extended{m.Horizon(), m.step}}
}

func (m *Machine) epochOf(step int64) int64 {
	if m.job.Steps == 0 {
		return m.epoch
	}
	return step / m.job.Steps
}

func (m *Machine) commit(c *Commit) []Effect {
	if m.job.Mode != Async {
		return ignore("a commit in a lockstep job")
	}
	i := slices.IndexFunc(m.sessions, func(s session) bool { return s.author == c.Author })
	if i < 0 && !m.faults.has(EvictedCommits) {
		return []Effect{&Outcome{Author: c.Author, Seq: c.Seq, Parts: c.Parts, Verdicts: all(VoidView, len(c.Parts))}}
	}
	if i < 0 {
		return []Effect{m.decide(c)}
	}
	s := &m.sessions[i]
	switch {
	case c.Seq > s.seq+1:
		return ignore("commit %d of %s before %d", c.Seq, c.Author, s.seq+1)
	case c.Seq < s.seq:
		return ignore("commit %d of %s is long decided", c.Seq, c.Author)
	case c.Seq == s.seq && !m.faults.has(CommitTwice):
		return []Effect{&Outcome{Author: c.Author, Seq: c.Seq, Parts: c.Parts, Verdicts: s.verdicts, Again: true}}
	}
	o := m.decide(c)
	s.seq, s.verdicts = c.Seq, o.Verdicts
	return []Effect{o}
}

func all(v Verdict, n int) []Verdict { return slices.Repeat([]Verdict{v}, n) }

// decide judges the parts of a commit, and does what they say.
func (m *Machine) decide(c *Commit) *Outcome {
	o := &Outcome{Author: c.Author, Seq: c.Seq, Parts: c.Parts, Verdicts: all(Effective, len(c.Parts))}
	for i := range c.Parts {
		o.Verdicts[i] = m.part(c, &c.Parts[i])
	}
	return o
}

func (m *Machine) part(c *Commit, p *Part) Verdict {
	evicted := m.faults.has(EvictedCommits) && m.view.Index(c.Author) < 0
	if c.View != m.view.Number && !m.faults.has(OldViewCommits) && !evicted {
		return VoidView
	}
	l := m.laneOf(c.Author, p.Local)
	n := p.Span.Stop - p.Span.Start
	switch {
	case (m.faults.has(AnyLane) || evicted) && n > 0:
	case l == nil || p.Epoch != m.epoch || n < 1 || !l.finish(p.Span):
		return VoidLane
	}
	m.done.add(p.Span)
	m.digest[0] += p.Digest[0]
	m.digest[1] += p.Digest[1]
	return Effective
}

func (m *Machine) rebalance(r *Rebalance) []Effect {
	switch {
	case m.job.Mode != Async:
		return ignore("lanes of a lockstep job")
	case r.View != m.view.Number:
		return ignore("lanes of view %d in view %d", r.View, m.view.Number)
	case r.From >= len(m.lanes) || r.To >= len(m.lanes) || r.From == r.To:
		return ignore("from lane %d to %d of %d", r.From, r.To, len(m.lanes))
	}
	moved := m.steal(&m.lanes[r.From], &m.lanes[r.To], r.All)
	if moved == 0 {
		return ignore("lane %d has too little, or %d has work", r.From, r.To)
	}
	return []Effect{&Rebalanced{r.From, r.To, moved}}
}

func (m *Machine) close(c *Close) []Effect {
	switch {
	case c.Epoch != m.epoch:
		return ignore("the end of epoch %d in epoch %d", c.Epoch, m.epoch)
	case m.job.Mode == Lockstep && m.step < (c.Epoch+1)*m.job.Steps:
		return ignore("the end of epoch %d at step %d", c.Epoch, m.step)
	case m.job.Mode == Async && m.done.count() < m.job.N && !m.faults.has(ClosesEarly):
		return ignore("the end of epoch %d with %d of %d positions", c.Epoch, m.done.count(), m.job.N)
	case m.Over():
		return ignore("the job is over")
	}
	out := &Closed{Epoch: c.Epoch, Count: m.job.N}
	if m.job.Mode == Async {
		out.Count, out.Digest = m.done.count(), m.digest
	}
	m.closed = out
	m.epoch++
	m.done, m.digest = nil, [2]uint64{}
	m.lanes = nil
	if m.job.Mode == Async && !m.Over() && m.open {
		m.openLanes()
	}
	return []Effect{out}
}
