package rendezvous

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick acts on what time alone brings about.
func (m *machine) tick() {
	m.listen()
	switch m.phase {
	case gathering:
		if m.gather.minAt >= 0 && m.now >= m.gather.minAt+m.rules.lastCall {
			m.tryClose()
		}
		if m.phase == gathering && m.now >= m.gather.since+m.rules.join {
			m.stop(Event{Reason: m.incomplete()})
		}
	case probing:
		if m.now >= m.probing.since+m.rules.probe {
			m.stop(Event{Reason: m.unprobed()})
		}
	case running:
		// The barrier falls: those that are still at work go on alone.
		if m.exitAt > 0 && m.now >= m.exitAt {
			m.end(Event{Kind: Done})
		}
	}
}

// listen loses the nodes that have been silent for too long. After a pause of the
// coordinator's own process it says nothing that they were: their beats wait unread.
func (m *machine) listen() {
	paused := m.now-m.ticked > m.rules.lostAfter/2
	m.ticked = m.now
	for _, s := range slices.Clone(m.members) {
		switch {
		case paused:
			s.heard = m.now
		case !s.local && m.now-s.heard >= m.rules.lostAfter:
			m.out = append(m.out, effect{kind: cut, to: []memberID{s.id}})
			m.lose(s, fmt.Sprintf("no sign of life for %v", m.rules.lostAfter))
		}
	}
}

// wake is the next time at which tick has something to do, silence apart; false:
// none.
func (m *machine) wake() (time.Duration, bool) {
	switch m.phase {
	case gathering:
		at := m.gather.since + m.rules.join
		if m.gather.minAt >= 0 {
			if last := m.gather.minAt + m.rules.lastCall; last > m.now {
				at = min(at, last)
			}
		}
		return at, true
	case probing:
		return m.probing.since + m.rules.probe, true
	case running:
		return m.exitAt, m.exitAt > 0
	}
	return 0, false
}

// incomplete says who is missing when a round did not come together in time.
func (m *machine) incomplete() string {
	var busy []string
	have := map[int]bool{}
	n := 0
	for _, s := range m.members {
		switch {
		case s.ready:
			have[s.join.NodeRank] = true
			n++
		case s.inRound:
			busy = append(busy, s.name())
		}
	}
	switch job := &m.rules.job; {
	case len(busy) > 0:
		return fmt.Sprintf("%s did not end its workers within %v", few(busy), m.rules.join)
	case job.Static:
		var missing []string
		for rank := range job.Max {
			if !have[rank] {
				missing = append(missing, strconv.Itoa(rank))
			}
		}
		return fmt.Sprintf("%d of %d nodes joined within %v, missing: node rank %s", n, job.Max, m.rules.join, few(missing))
	default:
		return fmt.Sprintf("%d of at least %d nodes joined within %v", n, job.Min, m.rules.join)
	}
}

// few joins the first of many names.
func few(names []string) string {
	const shown = 8
	if len(names) > shown {
		return fmt.Sprintf("%s, … (%d in all)", strings.Join(names[:shown], ", "), len(names))
	}
	return strings.Join(names, ", ")
}
