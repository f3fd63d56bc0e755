package coord

// Brief is what the machine's state means to an agent that knows it up to a stamp.
func (m *Machine) Brief(to ID, known Stamp) *Brief {
	b := &Brief{
		Known: m.Stamp(), Cut: m.view.Cut, Horizon: m.Horizon(), Step: m.step, Open: m.open, Halted: m.halted, Redos: m.redos, By: m.by, Reach: m.reach, Turn: m.turn, Over: m.Over(),
		Epoch: m.epoch, Committed: m.done.count(), Closed: m.closed,
	}
	var ok bool
	if b.Deltas, ok = m.since(known.View); !ok || known.Index == 0 || known.Founder != m.founder {
		v := m.view
		b.View, b.Deltas = &v, nil
	}
	if i := m.view.Index(to); i >= 0 && len(m.lanes) > 0 {
		first := m.view.First(i)
		for k := range m.view.Members[i].Ranks {
			b.Lanes = append(b.Lanes, m.Lane(first+k))
		}
	}
	b.Seq, b.Verdicts = m.Decided(to)
	return b
}

// Stamp is the machine's place in the log.
func (m *Machine) Stamp() Stamp { return Stamp{m.founder, m.view.Number, m.index} }
