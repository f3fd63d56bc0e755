package rendezvous

import (
	"fmt"
	"slices"
)

// outcome takes how a node's workers ended.
func (m *machine) outcome(s *seat, o *Outcome) {
	current := m.phase == running && s.inRound && o.Round == m.number
	switch {
	case o.Kind == Signalled && m.phase == running && !s.inRound: // the job goes on without it
		e := Event{Kind: Stop, Round: m.number, Signal: o.Signal, Reason: fmt.Sprintf("this node was stopped by signal %d", o.Signal)}
		m.send([]memberID{s.id}, &message{Type: typeEvent, Event: &e})
		m.lose(s, "it left")
	case o.Kind == Left:
		m.lose(s, "it left")
	case o.Kind == Signalled:
		m.stop(Event{Signal: o.Signal, Reason: fmt.Sprintf("%s was stopped by signal %d", s.name(), o.Signal)})
	case o.Kind == Succeeded && current:
		m.succeed(s)
	case o.Kind == Failed && current:
		m.fail(Event{Cause: o.Cause, Reason: s.name() + ": " + o.Cause.text()})
	}
}

func (m *machine) succeed(s *seat) {
	s.succeeded = true
	if m.exitAt == 0 {
		m.exitAt = m.now + m.rules.exit
	}
	m.tryFinish()
}

// tryFinish ends the job once every node of the round has succeeded.
func (m *machine) tryFinish() {
	for _, s := range m.members {
		if s.inRound && !s.succeeded {
			return
		}
	}
	m.end(Event{Kind: Done})
}

// fail restarts the job as its budget allows, and stops it otherwise.
func (m *machine) fail(e Event) {
	if m.rules.job.Live || m.restarts >= m.rules.job.MaxRestarts || m.rules.job.Static && m.departed {
		m.stop(e)
		return
	}
	m.restarts++
	m.restart(e, true)
}

// restart has every node of the round end its workers and come back.
func (m *machine) restart(e Event, charged bool) {
	e.Kind, e.Round = Restart, m.number
	m.phase = gathering
	m.gather.since, m.gather.minAt, m.gather.wait, m.gather.charged = m.now, -1, false, charged
	m.send(m.round(), &message{Type: typeEvent, Event: &e})
}

func (m *machine) stop(e Event) {
	e.Kind = Stop
	m.end(e)
}

// end tells everyone that the job is over. Spares, which the running round did
// without, have nothing to stop.
func (m *machine) end(e Event) {
	e.Round = m.number
	var concerned, spare []memberID
	for _, s := range m.members {
		if m.phase == running && !s.inRound {
			spare = append(spare, s.id)
		} else {
			concerned = append(concerned, s.id)
		}
	}
	m.phase = ended
	m.send(concerned, &message{Type: typeEvent, Event: &e})
	m.send(spare, &message{Type: typeEvent, Event: &Event{Kind: Done, Round: m.number}})
	m.out = append(m.out, effect{kind: finish})
}

// lose takes the loss of a node.
func (m *machine) lose(s *seat, why string) {
	m.members = slices.DeleteFunc(m.members, func(o *seat) bool { return o == s })
	if s.ready {
		m.standby--
	}
	if s.rank >= 0 {
		m.left = append(m.left, vacancy{s.identity(), s.rank})
		m.left = m.left[max(0, len(m.left)-m.rules.job.Max):]
	}
	e := Event{Reason: s.name() + " was lost: " + why}
	switch {
	case m.phase == ended:
	case s.local:
		m.stop(e)
	case m.phase == running:
		m.loseRunning(s, e)
	default:
		m.loseWaiting(s, e)
	}
}

func (m *machine) loseRunning(s *seat, e Event) {
	switch {
	case !s.inRound:
	case m.rules.job.Live:
		m.loseLive(s, e)
	case s.succeeded:
		m.departed = true
		m.tryFinish()
	case m.rules.job.Static:
		m.stop(e)
	default:
		m.fail(e)
		m.gather.wait = true // its successor may be on the way
		if m.phase == gathering {
			m.tryClose()
		}
	}
}

// loseWaiting takes a loss between two rounds. The budget pays for it once, also
// where the restart was free because a node came: nodes that come and go for ever
// must not restart the job for ever. Before the first round, losses are free.
func (m *machine) loseWaiting(s *seat, e Event) {
	if m.phase == probing {
		m.phase = gathering
	}
	needed := s.inRound || len(m.members) < m.rules.job.Max
	if m.number >= 0 && needed {
		if m.rules.job.Static || !m.gather.charged && m.restarts >= m.rules.job.MaxRestarts {
			m.stop(e)
			return
		}
		if !m.gather.charged {
			m.gather.charged = true
			m.restarts++
		}
		m.gather.wait = true
	}
	m.tryClose()
}
