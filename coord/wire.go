package coord

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/nd"
)

// writer appends fields: numbers as varints, texts and lists behind their length.
type writer struct{ bytes []byte }

func (w *writer) number(n uint64)  { w.bytes = binary.AppendUvarint(w.bytes, n) }
func (w *writer) count(n int)      { w.number(uint64(n)) }
func (w *writer) position(n int64) { w.number(uint64(n)) }
func (w *writer) id(id ID)         { w.bytes = append(w.bytes, id[:]...) }

// founder is a number that is drawn at random, for which a varint is too long.
func (w *writer) founder(n uint64) { w.bytes = binary.BigEndian.AppendUint64(w.bytes, n) }

func (w *writer) text(s string) {
	w.count(len(s))
	w.bytes = append(w.bytes, s...)
}

// reason writes a text for people, which may quote what others have said: one that is too long
// is cut, for half of it is better than a message that nobody can read.
func (w *writer) reason(s string) { w.text(s[:min(len(s), maxReason)]) }

// data is the last field: its length is what is left.
func (w *writer) data(b []byte) { w.bytes = append(w.bytes, b...) }

func (w *writer) flag(v bool) {
	n := 0
	if v {
		n = 1
	}
	w.count(n)
}

func (w *writer) digest(d [2]uint64) {
	w.bytes = binary.BigEndian.AppendUint64(w.bytes, d[0])
	w.bytes = binary.BigEndian.AppendUint64(w.bytes, d[1])
}

func (w *writer) span(s nd.Span) {
	w.position(s.Start)
	w.position(s.Stop - s.Start)
}

func (w *writer) spans(list []nd.Span) {
	w.count(len(list))
	for _, s := range list {
		w.span(s)
	}
}

func (w *writer) ids(list []ID) {
	w.count(len(list))
	for _, id := range list {
		w.id(id)
	}
}

func (w *writer) member(m *Member) {
	w.id(m.ID)
	w.text(m.Name)
	w.text(m.Rack)
	w.text(m.Address)
	w.ranks(m.Ranks)
}

// ranks are written as the gaps between them, so that they are always in order.
func (w *writer) ranks(list []int) {
	w.count(len(list))
	next := 0
	for _, local := range list {
		w.count(local - next)
		next = local + 1
	}
}

// parts are ranks of several members.
func (w *writer) parts(list []Ranks) {
	w.count(len(list))
	for i := range list {
		w.id(list[i].ID)
		w.ranks(list[i].Ranks)
	}
}

func (w *writer) members(list []Member) {
	w.count(len(list))
	for i := range list {
		w.member(&list[i])
	}
}

func (w *writer) admission(a *Admission) {
	w.member(&a.Member)
	w.count(a.Version)
	w.text(a.Job)
	w.text(a.Plan)
}

func (w *writer) view(v *View) {
	w.number(v.Number)
	w.members(v.Members)
	w.ids(v.Voters)
	w.position(v.Cut)
}

func (w *writer) job(j *Job) {
	w.text(j.Name)
	w.text(j.Plan)
	w.count(int(j.Mode))
	for _, n := range []int64{j.N, j.Steps, j.Epochs, int64(j.Voters), int64(j.Expect), j.Lease, j.Ahead, j.Reserve} {
		w.position(n)
	}
}

func (w *writer) progress(p *Progress) {
	w.position(p.Epoch)
	w.position(p.Step)
	w.spans(p.Done)
	w.digest(p.Digest)
}

// reader reads what a writer wrote. After something that cannot be, all fields are
// zero and end tells.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = nd.Errorf(nd.ErrCorrupt, "%s", what)
	}
	r.data = nil
}

// end reports what was wrong, or that something is left over.
func (r *reader) end() error {
	if r.err == nil && len(r.data) > 0 {
		r.fail("bytes are left over")
	}
	return r.err
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail("a number is cut off or too large")
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) count(most int) int {
	n := r.number()
	if n > uint64(most) {
		r.fail("a count is beyond its limit")
		return 0
	}
	return int(n)
}

// length is the length of a list whose items have at least so many bytes.
func (r *reader) length(most, bytes int) int {
	n := r.count(most)
	if n*bytes > len(r.data) {
		r.fail("a list is cut off")
		return 0
	}
	return n
}

func (r *reader) position() int64 {
	n := r.number()
	if n > math.MaxInt64 {
		r.fail("a position is beyond 2^63")
		return 0
	}
	return int64(n)
}

func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.fail("it is cut off")
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) rest() []byte { return r.take(len(r.data)) }

func (r *reader) flag() bool { return r.count(1) == 1 }

func (r *reader) id() (id ID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) text(most int) string { return string(r.take(r.count(most))) }

func (r *reader) digest() (d [2]uint64) {
	if b := r.take(16); b != nil {
		d[0], d[1] = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	}
	return d
}

func (r *reader) span() nd.Span {
	start, n := r.position(), r.position()
	if n > math.MaxInt64-start {
		r.fail("a span ends beyond 2^63")
		return nd.Span{}
	}
	return nd.Span{Start: start, Stop: start + n}
}

func (r *reader) spans() (list []nd.Span) {
	for range r.length(maxPieces, 2) {
		list = append(list, r.span())
	}
	return list
}

func (r *reader) ids(most int) (list []ID) {
	for range r.length(most, len(ID{})) {
		list = append(list, r.id())
	}
	return list
}

func (r *reader) member(m *Member) {
	m.ID = r.id()
	m.Name = r.text(MaxText)
	m.Rack = r.text(MaxText)
	m.Address = r.text(MaxText)
	m.Ranks = r.ranks()
}

func (r *reader) ranks() (list []int) {
	next := 0
	for range r.length(maxRanks, 1) {
		next += r.count(maxRanks)
		list = append(list, next)
		next++
	}
	return list
}

func (r *reader) parts() (list []Ranks) {
	for range r.length(maxMembers, len(ID{})+1) {
		list = append(list, Ranks{r.id(), r.ranks()})
	}
	return list
}

func (r *reader) founder() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) members() (list []Member) {
	for range r.length(maxMembers, len(ID{})+4) {
		list = append(list, Member{})
		r.member(&list[len(list)-1])
	}
	return list
}

func (r *reader) admission(a *Admission) {
	r.member(&a.Member)
	a.Version = r.count(1 << 30)
	a.Job = r.text(MaxText)
	a.Plan = r.text(MaxText)
}

func (r *reader) view(v *View) {
	v.Number = r.number()
	v.Members = r.members()
	v.Voters = r.ids(maxVoters)
	v.Cut = r.position()
}

func (r *reader) job(j *Job) {
	j.Name = r.text(MaxText)
	j.Plan = r.text(MaxText)
	j.Mode = Mode(r.count(math.MaxUint8))
	j.N, j.Steps, j.Epochs = r.position(), r.position(), r.position()
	j.Voters, j.Expect = r.count(math.MaxInt32), r.count(math.MaxInt32)
	j.Lease, j.Ahead, j.Reserve = r.position(), r.position(), r.position()
}

func (r *reader) progress(p *Progress) {
	p.Epoch = r.position()
	p.Step = r.position()
	p.Done = r.spans()
	p.Digest = r.digest()
}
