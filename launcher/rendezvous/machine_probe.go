package rendezvous

import (
	"fmt"
	"slices"
)

// The master's address is dialled by every node before a worker starts: a name
// that resolves on its own host alone, or a firewall, is found here and not in a
// hanging init_process_group. Rank 0's node listens at the held master port for
// that long.

func (m *machine) startProbe() {
	m.phase = probing
	m.attempt++
	m.probing.since, m.probing.listening, m.probing.left = m.now, false, len(m.proposed.Members)
	for _, s := range m.members {
		s.probed = false
	}
	m.send(m.proposed.Members[:1], &message{Type: typeListen, Attempt: m.attempt})
}

// listening takes the master's answer, and has the nodes dial.
func (m *machine) listening(s *seat, msg *message) {
	if m.phase != probing || msg.Attempt != m.attempt || s.id != m.proposed.Members[0] {
		return
	}
	if msg.Reason != "" {
		m.stop(Event{Reason: fmt.Sprintf("%s cannot open the master port: %s", s.name(), msg.Reason)})
		return
	}
	m.probing.listening = true
	where := &agreed{Addr: m.proposed.Addr, Port: m.proposed.Port}
	m.send(m.proposed.Members, &message{Type: typeProbe, Attempt: m.attempt, Agreed: where})
}

// probed takes a node's answer; with the last one the round begins. Nodes that
// came meanwhile and find room are taken in first, at once.
func (m *machine) probed(s *seat, msg *message) {
	if m.phase != probing || msg.Attempt != m.attempt {
		return
	}
	if msg.Reason != "" {
		master := m.find(m.proposed.Members[0])
		m.stop(Event{Reason: fmt.Sprintf("%s cannot reach MASTER_ADDR, which is %s: %s", s.proposedName(m.proposed), master.proposedName(m.proposed), msg.Reason)})
		return
	}
	if s.probed || !slices.Contains(m.proposed.Members, s.id) {
		return
	}
	s.probed = true
	if m.probing.left--; m.probing.left > 0 {
		return
	}
	if m.room() {
		m.phase, m.gather.wait = gathering, false
		m.tryClose()
		return
	}
	m.begin()
}

// unprobed says who did not answer in time.
func (m *machine) unprobed() string {
	if !m.probing.listening {
		return m.find(m.proposed.Members[0]).proposedName(m.proposed) + " did not open the master port in time"
	}
	var silent []string
	for _, id := range m.proposed.Members {
		if s := m.find(id); !s.probed {
			silent = append(silent, s.proposedName(m.proposed))
		}
	}
	return fmt.Sprintf("%s did not say within %v whether it reaches MASTER_ADDR", few(silent), m.rules.probe)
}

// proposedName names a node by its rank in a round that has not begun.
func (s *seat) proposedName(a *agreed) string {
	named := *s
	for rank, id := range a.Members {
		if id == s.id {
			named.rank = rank
		}
	}
	return named.name()
}
