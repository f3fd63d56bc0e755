package coord

import (
	"slices"

	"github.com/headrace/headrace/nd"
)

// Index is the place in the log of the last entry that was applied.
func (m *Machine) Index() uint64 { return m.index }

// Formed reports whether there is a job.
func (m *Machine) Formed() bool { return m.formed }

// Job is the job as it was formed.
func (m *Machine) Job() Job { return m.job }

// View is the newest view. The caller changes nothing in it.
func (m *Machine) View() *View { return &m.view }

// Horizon is where the lease of a lockstep job ends: steps below it, counted through
// the job, may be delivered. There are none while the job is halted.
func (m *Machine) Horizon() int64 {
	if m.halted {
		return 0
	}
	return m.horizon
}

// Halted reports that a lockstep job waits for a Redo, since a member was lost.
func (m *Machine) Halted() bool { return m.halted }

// Open reports that all ranks that are expected have been there: work is handed out.
func (m *Machine) Open() bool { return m.open }

// Redos counts the Redos of a lockstep job.
func (m *Machine) Redos() uint64 { return m.redos }

// Reach is where the furthest lease of a lockstep job ended, in whatever view: a Redo goes no
// further.
func (m *Machine) Reach() int64 { return m.reach }

// Turn changes with the ranks of a lockstep job, and with each Redo: the steps of a turn have
// the same ranks. Witnesses that come or go change the view, and not the turn.
func (m *Machine) Turn() uint64 { return m.turn }

// Settled reports that all ranks of a lockstep job have begun the view.
func (m *Machine) Settled() bool { return m.settled }

// Over reports that all epochs are closed, or that the ranks of a lockstep job are done and
// have left.
func (m *Machine) Over() bool {
	return m.ended || m.formed && m.job.Epochs > 0 && m.epoch >= m.job.Epochs
}

// Epoch is the one that is open.
func (m *Machine) Epoch() int64 { return m.epoch }

// Progress is how far the job is. The caller may keep it.
func (m *Machine) Progress() Progress {
	return Progress{Epoch: m.epoch, Step: m.step, Done: slices.Clone(m.done), Digest: m.digest}
}

// Committed is how many positions of the epoch are committed, async.
func (m *Machine) Committed() int64 { return m.done.count() }

// Closed is the last epoch that was closed, nil before there is one.
func (m *Machine) Closed() *Closed { return m.closed }

// Complete reports that the epoch can be closed.
func (m *Machine) Complete() bool {
	if !m.formed || m.Over() {
		return false
	}
	if m.job.Mode == Async {
		if m.faults.has(ClosesEarly) {
			return m.done.count() >= m.job.N/2
		}
		return m.done.count() == m.job.N
	}
	return m.step >= (m.epoch+1)*m.job.Steps
}

// Lanes is how many lanes there are, one for each rank of an async job.
func (m *Machine) Lanes() int { return len(m.lanes) }

// Lane is what a rank of an async job has to deliver, in this order. The caller may
// keep it.
func (m *Machine) Lane(rank int) []nd.Span { return slices.Clone(m.lanes[rank].rest) }

// Left is how many positions a lane has.
func (m *Machine) Left(rank int) int64 { return m.lanes[rank].rest.count() }

// Decided is a member's last commit that was applied, and what became of its parts.
func (m *Machine) Decided(author ID) (seq uint64, verdicts []Verdict) {
	for i := range m.sessions {
		if s := &m.sessions[i]; s.author == author {
			return s.seq, s.verdicts
		}
	}
	return 0, nil
}

// Snapshot writes all that the machine is, for Restore. Equal machines write
// equal bytes.
func (m *Machine) Snapshot() []byte {
	w := writer{[]byte{Version}}
	w.number(m.index)
	if !m.formed {
		w.count(0)
		return w.bytes
	}
	w.count(1)
	w.founder(m.founder)
	w.job(&m.job)
	w.view(&m.view)
	w.ids(m.retired)
	w.progress(&Progress{m.epoch, m.step, m.done, m.digest})
	w.position(m.horizon)
	w.flag(m.open)
	w.flag(m.halted)
	w.number(m.redos)
	w.founder(m.by)
	w.position(m.reach)
	w.number(m.turn)
	w.flag(m.settled)
	w.parts(m.fresh)
	w.flag(m.ended)
	w.closed(m.closed)
	for i := range m.lanes {
		w.spans(m.lanes[i].rest)
	}
	for i := range m.sessions {
		w.session(&m.sessions[i])
	}
	return w.bytes
}

// Restore makes the machine what a Snapshot says.
func (m *Machine) Restore(data []byte) error {
	r := reader{data: data}
	if v := r.take(1); v != nil && v[0] != Version {
		return nd.Errorf(nd.ErrUnsupported, "snapshot of version %d, not %d", v[0], Version)
	}
	n := Machine{faults: m.faults, index: r.number(), formed: r.flag()}
	if n.formed {
		n.read(&r)
	}
	if err := r.end(); err != nil {
		return nd.Errorf(nd.ErrCorrupt, "snapshot: %w", err)
	}
	*m = n
	return nil
}

func (m *Machine) read(r *reader) {
	if m.founder = r.founder(); m.founder == 0 {
		r.fail("nobody has formed the job")
	}
	r.job(&m.job)
	r.view(&m.view)
	m.view.Seal()
	m.retired = r.ids(mostRetired)
	var p Progress
	r.progress(&p)
	m.epoch, m.step, m.done, m.digest = p.Epoch, p.Step, p.Done, p.Digest
	m.horizon = r.position()
	m.open = r.flag()
	m.halted = r.flag()
	m.redos = r.number()
	m.by = r.founder()
	m.reach = r.position()
	m.turn = r.number()
	m.settled = r.flag()
	m.fresh = r.parts()
	m.ended = r.flag()
	m.closed = r.closed()
	if err := (&Form{Job: m.job, Members: m.view.Members, Start: p}).check(); err != nil {
		r.fail(err.Error())
		return
	}
	if m.job.Mode == Async && !m.Over() && m.open {
		m.lanes = m.emptyLanes()
	}
	for i := range m.lanes {
		m.lanes[i].rest = r.spans()
	}
	for range m.view.Members {
		m.sessions = append(m.sessions, r.session())
	}
}

func (w *writer) closed(c *Closed) {
	w.flag(c != nil)
	if c != nil {
		w.position(c.Epoch)
		w.position(c.Count)
		w.digest(c.Digest)
	}
}

func (r *reader) closed() *Closed {
	if !r.flag() {
		return nil
	}
	return &Closed{r.position(), r.position(), r.digest()}
}

func (w *writer) session(s *session) {
	w.id(s.author)
	w.number(s.seq)
	w.verdicts(s.verdicts)
}

func (r *reader) session() session {
	return session{r.id(), r.number(), r.verdicts()}
}

func (w *writer) verdicts(list []Verdict) {
	w.count(len(list))
	for _, v := range list {
		w.bytes = append(w.bytes, byte(v))
	}
}

func (r *reader) verdicts() (list []Verdict) {
	for _, v := range r.take(r.length(MaxParts, 1)) {
		if v > byte(VoidLane) {
			r.fail("an unknown verdict")
		}
		list = append(list, Verdict(v))
	}
	return list
}
