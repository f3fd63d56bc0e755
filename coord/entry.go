package coord

import "github.com/headrace/headrace/nd"

// Entry is one of the log: a *Form, *Change, *Extend, *Redo, *Commit, *Rebalance or
// *Close.
type Entry interface {
	kind() kind
	write(*writer)
	read(*reader)
}

type kind uint8

const (
	kindForm kind = 1 + iota
	kindChange
	kindExtend
	kindRedo
	kindCommit
	kindRebalance
	kindClose
)

// Form makes view 0. The first member is the one that formed the group.
type Form struct {
	Job     Job
	Members []Member
	Start   Progress
}

// Progress is how far a job is.
type Progress struct {
	Epoch  int64
	Step   int64     // lockstep: what all ranks have done, counted through the job
	Done   []nd.Span // async: positions of the epoch that are committed
	Digest [2]uint64 // of these
}

// Change makes the view after View.
type Change struct {
	View   uint64
	Evict  []ID
	Admit  []Admission
	Ranks  []Ranks
	Left   []Ranks // lockstep: those that are out now since they were done: see Report.Left
	Reason string  // for people
}

// Ranks are the local ranks that a member has from now on, in order.
type Ranks struct {
	ID    ID
	Ranks []int
}

// Admission is a member that wants to be in the job, and what it means by it.
type Admission struct {
	Member
	Version int    // of this package
	Job     string // Job.Name
	Plan    string // Job.Plan
}

// Extend leases steps of a lockstep job. Done is what all ranks have done since the last
// of so many Redos, and all of them know the view.
type Extend struct {
	View, Redos   uint64
	Horizon, Done int64
}

// Redo has all ranks go on from a step, counted through the job. Redos is how many there
// were before it, as far as who asks has seen: it answers that halt, and one that comes
// twice, or late, is none. By is drawn at random for each: who asks knows by it that it is
// its own redo that holds.
type Redo struct {
	View, Redos uint64
	Step        int64
	By          uint64
}

// Commit says what ranks of one member have done. Seq counts the commits of the author from 1:
// a commit is applied once, in that order, however often it was proposed.
type Commit struct {
	View   uint64
	Author ID
	Seq    uint64
	Parts  []Part
}

// Part is positions that a rank has done, the next ones of its lane, and their digest.
type Part struct {
	Local  int // rank within the author's
	Epoch  int64
	Span   nd.Span
	Digest [2]uint64
}

// Rebalance gives the tail half of what the rank From has left beyond the reserve to the
// rank To, which has nothing; or All of it, where From stands still. Ranks are those of the
// view.
type Rebalance struct {
	View     uint64
	From, To int
	All      bool
}

// Close ends an epoch that is complete.
type Close struct {
	Epoch int64
}

// Bounds of what one entry holds.
const (
	MaxParts  = 256
	maxReason = 1024
	maxPieces = 1 << 20 // spans of a Progress
)

func (*Form) kind() kind      { return kindForm }
func (*Change) kind() kind    { return kindChange }
func (*Extend) kind() kind    { return kindExtend }
func (*Redo) kind() kind      { return kindRedo }
func (*Commit) kind() kind    { return kindCommit }
func (*Rebalance) kind() kind { return kindRebalance }
func (*Close) kind() kind     { return kindClose }

// AppendEntry writes an entry as it stands in the log: its kind, then its fields.
func AppendEntry(dst []byte, e Entry) []byte {
	w := writer{append(dst, byte(e.kind()))}
	e.write(&w)
	return w.bytes
}

// ParseEntry reads what AppendEntry writes, all of it.
func ParseEntry(data []byte) (Entry, error) {
	if len(data) == 0 {
		return nil, nd.Errorf(nd.ErrCorrupt, "log entry of no bytes")
	}
	e := newEntry(kind(data[0]))
	if e == nil {
		return nil, nd.Errorf(nd.ErrUnsupported, "log entry of kind %d", data[0])
	}
	r := reader{data: data[1:]}
	e.read(&r)
	if err := r.end(); err != nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "log entry of kind %d: %w", data[0], err)
	}
	return e, nil
}

func newEntry(k kind) Entry {
	switch k {
	case kindForm:
		return &Form{}
	case kindChange:
		return &Change{}
	case kindExtend:
		return &Extend{}
	case kindRedo:
		return &Redo{}
	case kindCommit:
		return &Commit{}
	case kindRebalance:
		return &Rebalance{}
	case kindClose:
		return &Close{}
	}
	return nil
}

func (e *Form) write(w *writer) {
	w.job(&e.Job)
	w.members(e.Members)
	w.progress(&e.Start)
}

func (e *Form) read(r *reader) {
	r.job(&e.Job)
	e.Members = r.members()
	r.progress(&e.Start)
}

func (e *Change) write(w *writer) {
	w.number(e.View)
	w.ids(e.Evict)
	w.count(len(e.Admit))
	for i := range e.Admit {
		w.admission(&e.Admit[i])
	}
	w.parts(e.Ranks)
	w.parts(e.Left)
	w.reason(e.Reason)
}

func (e *Change) read(r *reader) {
	e.View = r.number()
	e.Evict = r.ids(maxMembers)
	e.Admit = make([]Admission, r.length(maxMembers, len(ID{})+7))
	for i := range e.Admit {
		r.admission(&e.Admit[i])
	}
	e.Ranks = r.parts()
	e.Left = r.parts()
	e.Reason = r.text(maxReason)
}

func (e *Extend) write(w *writer) {
	w.number(e.View)
	w.number(e.Redos)
	w.position(e.Horizon)
	w.position(e.Done)
}

func (e *Extend) read(r *reader) {
	e.View = r.number()
	e.Redos = r.number()
	e.Horizon = r.position()
	e.Done = r.position()
}

func (e *Redo) write(w *writer) {
	w.number(e.View)
	w.number(e.Redos)
	w.position(e.Step)
	w.founder(e.By)
}

func (e *Redo) read(r *reader) {
	e.View = r.number()
	e.Redos = r.number()
	e.Step = r.position()
	e.By = r.founder()
}

func (e *Commit) write(w *writer) {
	w.number(e.View)
	w.id(e.Author)
	w.number(e.Seq)
	w.count(len(e.Parts))
	for i := range e.Parts {
		p := &e.Parts[i]
		w.count(p.Local)
		w.position(p.Epoch)
		w.span(p.Span)
		w.digest(p.Digest)
	}
}

func (e *Commit) read(r *reader) {
	e.View = r.number()
	e.Author = r.id()
	e.Seq = r.number()
	e.Parts = make([]Part, r.length(MaxParts, 20))
	for i := range e.Parts {
		p := &e.Parts[i]
		p.Local = r.count(maxRanks)
		p.Epoch = r.position()
		p.Span = r.span()
		p.Digest = r.digest()
	}
}

func (e *Rebalance) write(w *writer) {
	w.number(e.View)
	w.count(e.From)
	w.count(e.To)
	w.flag(e.All)
}

func (e *Rebalance) read(r *reader) {
	e.View = r.number()
	e.From = r.count(maxRanks)
	e.To = r.count(maxRanks)
	e.All = r.flag()
}

func (e *Close) write(w *writer) { w.position(e.Epoch) }
func (e *Close) read(r *reader)  { e.Epoch = r.position() }
