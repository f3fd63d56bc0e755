package coord

import "slices"

// mostRetired bounds how many voters that vote no more are remembered, the last ones: a voter that
// lags behind would have to have missed that all of them were replaced more than a hundred times.
const mostRetired = 1024

// retire remembers the voters of the view that are none of the next one. What such a one has promised
// to Raft, an agent that comes with its number does not know, and it would be taken for it by voters
// that lag behind, or that still count what the first one acknowledged. So a number that has voted is
// refused to any other agent. Numbers are drawn at random: chance does not bring one again.
func (m *Machine) retire(next []ID) {
	for _, id := range m.view.Voters {
		if !slices.Contains(next, id) && !slices.Contains(m.retired, id) {
			m.retired = append(m.retired, id)
		}
	}
	if n := len(m.retired) - mostRetired; n > 0 {
		m.retired = slices.Delete(m.retired, 0, n)
	}
}

// used reports whether the number of an agent is that of another one, which voted and votes no more. An
// agent that was evicted before it knew of any view with it may come again: it has kept its promises.
func (m *Machine) used(id ID) bool {
	return slices.ContainsFunc(m.retired, func(o ID) bool { return o.Raft() == id.Raft() && o != id }) && !m.faults.has(NumberAgain)
}
