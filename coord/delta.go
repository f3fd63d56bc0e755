package coord

import "slices"

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
