package coord

import "slices"

// The end of a lockstep job of which no number of epochs is known: those that have worked leave,
// each behind the last step of an epoch, and none is left but ranks that had nothing yet, since they
// came late. There is nothing for these to wait for, and nobody who could say where to go on.

// ends reports whether a lockstep job is over with the next view.
func (m *Machine) ends(next *View, left []Ranks) bool {
	if m.job.Mode != Lockstep || !m.open {
		return false
	}
	for i := range m.view.Members {
		o := &m.view.Members[i]
		for _, local := range o.Ranks {
			if next.Rank(o.ID, local) < 0 && !has(left, o.ID, local) {
				return false
			}
		}
	}
	for i := range next.Members {
		o := &next.Members[i]
		for _, local := range o.Ranks {
			if m.view.Rank(o.ID, local) >= 0 && !has(m.fresh, o.ID, local) {
				return false
			}
		}
	}
	return true
}

// freshen notes which ranks of the next view have had no step: those that come while the job
// goes on, until all have begun their view.
func (m *Machine) freshen(next *View) {
	if m.job.Mode != Lockstep || !m.open {
		m.fresh = nil
		return
	}
	var fresh []Ranks
	for i := range next.Members {
		o := &next.Members[i]
		var locals []int
		for _, local := range o.Ranks {
			if m.view.Rank(o.ID, local) < 0 || has(m.fresh, o.ID, local) {
				locals = append(locals, local)
			}
		}
		if locals != nil {
			fresh = append(fresh, Ranks{o.ID, locals})
		}
	}
	m.fresh = fresh
}

// Works reports whether a member's local rank is one of a lockstep job that has had steps, or may
// have.
func (m *Machine) Works(id ID, local int) bool { return !has(m.fresh, id, local) }

// has reports whether a list has a member's local rank.
func has(list []Ranks, id ID, local int) bool {
	return slices.ContainsFunc(list, func(r Ranks) bool { return r.ID == id && slices.Contains(r.Ranks, local) })
}
