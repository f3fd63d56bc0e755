package coord

import "github.com/headrace/headrace/nd"

// Message is what agents say to each other, whom it comes from, and whom it is for.
type Message struct {
	From Source
	// To is the agent that is meant; zero where only an address is known. Another one may
	// listen there by now.
	To ID
	// Stamp is the newest that the sender knows: whoever sees a higher one of its job than its
	// own asks a voter.
	Stamp Stamp
	Body  Body
}

// Source is an agent and where it listens.
type Source struct {
	ID      ID
	Address string
}

// Stamp orders what agents know of a job: by view, then by place in the log. Founder is the
// number of the agent that formed the job. It tells the job from others of its name and key: one
// of an earlier run, or one that another agent has formed. It is 0 where no job is known.
type Stamp struct{ Founder, View, Index uint64 }

// Foreign reports whether two stamps are of different jobs, which are never compared.
func (s Stamp) Foreign(o Stamp) bool {
	return s.Founder != o.Founder && s.Founder != 0 && o.Founder != 0
}

// Newer reports whether s is behind o in the log of one job. Any job is newer than none.
func (s Stamp) Newer(o Stamp) bool {
	if s.Founder != o.Founder {
		return o.Founder == 0
	}
	return s.View > o.View || s.View == o.View && s.Index > o.Index
}

// Body is a *Raft, *Join, *Follow, *Brief, *Ask, *Report or *Gone.
type Body interface {
	body() bodyKind
	write(*writer)
	read(*reader)
}

type bodyKind uint8

const (
	bodyRaft bodyKind = 1 + iota
	bodyJoin
	bodyFollow
	bodyBrief
	bodyAsk
	bodyReport
	bodyGone
)

// Raft is a message of the group that decides, in its own encoding, between two voters.
type Raft struct{ Data []byte }

// Join asks to be admitted. Whoever is no voter passes it on to one, and that to the
// leader; Hops counts how often.
type Join struct {
	Admission
	Hops int
}

// Follow asks a voter for briefs, from now on and for a while. Brief is the newest that
// the sender has.
type Follow struct {
	Known Stamp
	Seq   uint64 // of the last commit whose outcome it knows
}

// Brief is what an agent needs to know of the job: the state of a voter's machine as far as
// it concerns that agent.
type Brief struct {
	Known   Stamp // of the machine
	View    *View // nil: the receiver has it, or the one to which Deltas are to be added
	Deltas  []Delta
	Hint    bool // from one that is no voter: View says who are, nothing else is meant
	Leader  ID   // zero: not known
	Refused string

	Cut           int64 // of the view
	Horizon, Step int64 // lockstep
	Open          bool  // all ranks that are expected have been there
	Halted, Over  bool
	Redos         uint64 // lockstep: how often there was a Redo
	By            uint64 // lockstep: Redo.By of the last one
	Reach         int64  // lockstep: no step from here on was ever leased
	Turn          uint64 // lockstep: how often the ranks, or where they go on, were others
	Epoch         int64
	Committed     int64   // positions of the epoch, async
	Closed        *Closed // the last epoch that was closed, nil before there is one

	Lanes    [][]nd.Span // of the receiver's ranks, async
	Seq      uint64      // of its last commit that was applied
	Verdicts []Verdict   // of that
}

// Ask wants an entry of the author's in the log.
type Ask struct{ Entry Entry }

// Report says how far an agent's ranks are, about once a tick. Voters pass it on to the
// leader; the author is the agent.
type Report struct {
	Author ID
	View   uint64 // the newest that they have entered
	Redos  uint64 // lockstep: in which they are that far
	Ranks  []int  // local ranks that are there
	Done   int64  // lockstep: steps below it are done by all of them
	Used   int64  // lockstep: steps below it are delivered to one of them
	Left   []int  // lockstep: local ranks that have left behind the last step of an epoch
}

// Gone says that an agent is gone for certain: it leaves, or its process has ended. Hops
// counts how often it was passed on.
type Gone struct {
	ID     ID
	Reason string
	Hops   int
}

// MaxHops is how often a message is passed on: to a voter, and to the leader.
const MaxHops = 3

// MaxMessage is how many bytes a message may have: a view of 65536 members with long names.
const MaxMessage = 64 << 20

func (*Raft) body() bodyKind   { return bodyRaft }
func (*Join) body() bodyKind   { return bodyJoin }
func (*Follow) body() bodyKind { return bodyFollow }
func (*Brief) body() bodyKind  { return bodyBrief }
func (*Ask) body() bodyKind    { return bodyAsk }
func (*Report) body() bodyKind { return bodyReport }
func (*Gone) body() bodyKind   { return bodyGone }

// AppendMessage writes a message: the version, the kind of its body, sender and stamp,
// and the body.
func AppendMessage(dst []byte, m *Message) []byte {
	w := writer{append(dst, Version, byte(m.Body.body()))}
	w.id(m.From.ID)
	w.text(m.From.Address)
	w.id(m.To)
	w.stamp(m.Stamp)
	m.Body.write(&w)
	return w.bytes
}

// ParseMessage reads what AppendMessage writes. An agent of another version is told
// apart from broken bytes.
func ParseMessage(data []byte) (*Message, error) {
	if len(data) < 2 || len(data) > MaxMessage {
		return nil, nd.Errorf(nd.ErrCorrupt, "agent's message of %d bytes", len(data))
	}
	if data[0] != Version {
		return nil, nd.Errorf(nd.ErrUnsupported, "an agent speaks version %d, this one %d: install the same headrace everywhere", data[0], Version)
	}
	m := &Message{Body: newBody(bodyKind(data[1]))}
	if m.Body == nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "agent's message of kind %d", data[1])
	}
	r := reader{data: data[2:]}
	m.From = Source{r.id(), r.text(MaxText)}
	m.To = r.id()
	m.Stamp = r.stamp()
	m.Body.read(&r)
	if err := r.end(); err != nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "agent's message of kind %d: %w", data[1], err)
	}
	return m, nil
}

func newBody(k bodyKind) Body {
	switch k {
	case bodyRaft:
		return &Raft{}
	case bodyJoin:
		return &Join{}
	case bodyFollow:
		return &Follow{}
	case bodyBrief:
		return &Brief{}
	case bodyAsk:
		return &Ask{}
	case bodyReport:
		return &Report{}
	case bodyGone:
		return &Gone{}
	}
	return nil
}

func (w *writer) stamp(s Stamp) {
	w.founder(s.Founder)
	w.number(s.View)
	w.number(s.Index)
}

func (r *reader) stamp() Stamp { return Stamp{r.founder(), r.number(), r.number()} }

func (b *Raft) write(w *writer) { w.data(b.Data) }
func (b *Raft) read(r *reader)  { b.Data = r.rest() }

func (b *Join) write(w *writer) {
	w.admission(&b.Admission)
	w.count(b.Hops)
}

func (b *Join) read(r *reader) {
	r.admission(&b.Admission)
	b.Hops = r.count(MaxHops)
}

func (b *Follow) write(w *writer) {
	w.stamp(b.Known)
	w.number(b.Seq)
}

func (b *Follow) read(r *reader) {
	b.Known = r.stamp()
	b.Seq = r.number()
}

func (b *Brief) write(w *writer) {
	w.stamp(b.Known)
	w.flag(b.View != nil)
	if b.View != nil {
		w.view(b.View)
	}
	w.count(len(b.Deltas))
	for i := range b.Deltas {
		w.delta(&b.Deltas[i])
	}
	w.flag(b.Hint)
	w.id(b.Leader)
	w.reason(b.Refused)
	for _, n := range []int64{b.Cut, b.Horizon, b.Step} {
		w.position(n)
	}
	w.flag(b.Open)
	w.flag(b.Halted)
	w.flag(b.Over)
	w.number(b.Redos)
	w.founder(b.By)
	w.position(b.Reach)
	w.number(b.Turn)
	w.position(b.Epoch)
	w.position(b.Committed)
	w.closed(b.Closed)
	w.count(len(b.Lanes))
	for _, l := range b.Lanes {
		w.spans(l)
	}
	w.number(b.Seq)
	w.verdicts(b.Verdicts)
}

func (b *Brief) read(r *reader) {
	b.Known = r.stamp()
	if r.flag() {
		b.View = &View{}
		r.view(b.View)
	}
	for range r.length(keepDeltas, 1) {
		b.Deltas = append(b.Deltas, r.delta())
	}
	b.Hint = r.flag()
	b.Leader = r.id()
	b.Refused = r.text(maxReason)
	b.Cut, b.Horizon, b.Step = r.position(), r.position(), r.position()
	b.Open, b.Halted, b.Over = r.flag(), r.flag(), r.flag()
	b.Redos = r.number()
	b.By = r.founder()
	b.Reach = r.position()
	b.Turn = r.number()
	b.Epoch, b.Committed = r.position(), r.position()
	b.Closed = r.closed()
	for range r.length(maxRanks, 1) {
		b.Lanes = append(b.Lanes, r.spans())
	}
	b.Seq = r.number()
	b.Verdicts = r.verdicts()
}

func (b *Ask) write(w *writer) { w.data(AppendEntry(nil, b.Entry)) }

func (b *Ask) read(r *reader) {
	e, err := ParseEntry(r.rest())
	if err != nil {
		r.fail(err.Error())
		return
	}
	b.Entry = e
}

func (b *Report) write(w *writer) {
	w.id(b.Author)
	w.number(b.View)
	w.number(b.Redos)
	w.ranks(b.Ranks)
	w.position(b.Done)
	w.position(b.Used)
	w.ranks(b.Left)
}

func (b *Report) read(r *reader) {
	b.Author = r.id()
	b.View, b.Redos = r.number(), r.number()
	b.Ranks = r.ranks()
	b.Done, b.Used = r.position(), r.position()
	b.Left = r.ranks()
}

func (b *Gone) write(w *writer) {
	w.id(b.ID)
	w.reason(b.Reason)
	w.count(b.Hops)
}

func (b *Gone) read(r *reader) {
	b.ID = r.id()
	b.Reason = r.text(maxReason)
	b.Hops = r.count(MaxHops)
}
