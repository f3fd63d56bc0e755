package coord

import (
	"crypto/sha256"
	"slices"
)

// Delta is what makes the next view of one: much less than a view, where there are
// thousands of members.
type Delta struct {
	Evict  []ID
	Admit  []Member
	Ranks  []Ranks // of members that stay
	Voters []ID
	Cut    int64
}

// After is the view after v. Members keep their order; those that come are last.
func (v *View) After(d *Delta) *View {
	n := &View{Number: v.Number + 1, Voters: d.Voters, Cut: d.Cut}
	n.Members = make([]Member, 0, len(v.Members)+len(d.Admit))
	for _, m := range v.Members {
		if slices.Contains(d.Evict, m.ID) {
			continue
		}
		if i := slices.IndexFunc(d.Ranks, func(r Ranks) bool { return r.ID == m.ID }); i >= 0 {
			m.Ranks = d.Ranks[i].Ranks
		}
		n.Members = append(n.Members, m)
	}
	n.Members = append(n.Members, d.Admit...)
	n.Seal()
	return n
}

// keepDeltas is how many changes a machine remembers, for agents that missed one.
const keepDeltas = 8

// since is what has happened to the view from one on, ok where that is remembered.
func (m *Machine) since(view uint64) (list []Delta, ok bool) {
	n := m.view.Number - view
	if view > m.view.Number || n > uint64(len(m.deltas)) {
		return nil, false
	}
	return m.deltas[uint64(len(m.deltas))-n:], true
}

// Views shares views among the nodes of one process, a simulation of many: what is equal is
// kept once. It belongs to one goroutine; nil shares nothing.
type Views struct {
	read map[[sha256.Size]byte]*View
	made map[making]*View
}

// making is a view and what was done to it.
type making struct {
	members *Member // the first one: views that share their members are equal but for the cut
	number  uint64
	delta   [sha256.Size]byte
}

// mostShared bounds what Views remembers.
const mostShared = 64

// NewViews makes one that shares.
func NewViews() *Views {
	return &Views{map[[sha256.Size]byte]*View{}, map[making]*View{}}
}

// After is v.After(d).
func (s *Views) After(v *View, d *Delta) *View {
	if s == nil || len(v.Members) == 0 {
		return v.After(d)
	}
	w := writer{}
	w.delta(d)
	key := making{&v.Members[0], v.Number, sha256.Sum256(w.bytes)}
	n := s.made[key]
	if n == nil {
		if len(s.made) >= mostShared {
			clear(s.made)
		}
		n = v.After(d)
		s.made[key] = n
	}
	return n
}

// parse reads a view.
func (s *Views) parse(r *reader) *View {
	n := r.length(MaxMessage, 1)
	own := reader{data: r.take(n)}
	var key [sha256.Size]byte
	if s != nil {
		key = sha256.Sum256(own.data)
		if v := s.read[key]; v != nil {
			return v
		}
	}
	v := &View{}
	own.view(v)
	if err := own.end(); err != nil {
		r.fail(err.Error())
		return v
	}
	if s != nil {
		if len(s.read) >= mostShared {
			clear(s.read)
		}
		v.Seal()
		s.read[key] = v
	}
	return v
}

func (w *writer) delta(d *Delta) {
	w.ids(d.Evict)
	w.members(d.Admit)
	w.count(len(d.Ranks))
	for i := range d.Ranks {
		w.id(d.Ranks[i].ID)
		w.ranks(d.Ranks[i].Ranks)
	}
	w.ids(d.Voters)
	w.position(d.Cut)
}

func (r *reader) delta() (d Delta) {
	d.Evict = r.ids(maxMembers)
	d.Admit = r.members()
	for range r.length(maxMembers, len(ID{})+1) {
		d.Ranks = append(d.Ranks, Ranks{r.id(), r.ranks()})
	}
	d.Voters = r.ids(maxVoters)
	d.Cut = r.position()
	return d
}
