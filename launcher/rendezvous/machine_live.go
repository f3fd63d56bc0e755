package rendezvous

import "slices"

// A live job has one round, which lasts as long as the job. Who is in the job is decided
// elsewhere: here nodes find their way into it. A node that is lost leaves its place, a node
// that stands by takes one, and nobody else is disturbed.

// fillUp gives nodes that stand by the places that are free.
func (m *machine) fillUp() {
	for _, s := range m.members {
		if s.ready && len(m.round()) < m.rules.job.Max {
			m.takeIn(s)
		}
	}
}

// takeIn puts a node into the round that runs, at the place of one that was lost, or behind
// the others.
func (m *machine) takeIn(s *seat) {
	a := m.changed()
	rank := slices.IndexFunc(a.Members, func(id memberID) bool { return m.find(id) == nil })
	if rank < 0 {
		rank = len(a.Members)
		a.Members, a.Nodes = append(a.Members, 0), append(a.Nodes, Node{})
	}
	node := s.join.Node
	if node.Addr == "" {
		node.Addr = s.sees
	}
	a.Members[rank], a.Nodes[rank] = s.id, node
	m.standby--
	s.inRound, s.ready, s.succeeded, s.rank = true, false, false, rank
	late := *a
	late.Late = true
	m.send([]memberID{s.id}, &message{Type: typeRound, Agreed: &late})
}

// loseLive takes a node out of the round that runs, and tells the others why.
func (m *machine) loseLive(s *seat, e Event) {
	if s.rank >= 0 {
		m.changed().Nodes[s.rank].Agent = 0 // nobody answers there
	}
	doc := &relayed{Round: m.number, From: s.rank, To: Everyone, Kind: LostDocument, Doc: []byte(e.Reason)}
	m.send(m.round(), &message{Type: typeRelay, Relay: doc})
	m.fillUp()
}

// changed is the round that runs, to be changed: what was sent of it stays as it is.
func (m *machine) changed() *agreed {
	a := *m.proposed
	a.Members, a.Nodes = slices.Clone(a.Members), slices.Clone(a.Nodes)
	m.proposed = &a
	return &a
}
