package launcher

import (
	"time"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// live is the supervisor's policy for --live: a worker that fails is started again alone,
// while the node's budget lasts, and the others are not told. The zero value of the pointer
// is the other policy, in which a failure ends the round.
type live struct {
	most, used int    // restarts of this node's workers
	restarts   []int  // by local rank
	pending    []bool // those that will be started again
	waiting    int    // how many
	well       int    // that exited 0
	first      *rendezvous.Failure
}

// The pause before a worker is started again: a worker that cannot live does not spin.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 30 * time.Second
)

// pause doubles with each restart of one local rank.
func pause(restarts int) time.Duration {
	return min(firstPause<<min(restarts-1, 16), mostPause)
}

// beginLive is a round's begin.
func (s *supervisor) beginLive() {
	s.live.restarts, s.live.pending = make([]int, s.workers), make([]bool, s.workers)
}

// endedLive is the death of a worker.
func (s *supervisor) endedLive(local int, f *rendezvous.Failure) (out []effect) {
	l := s.live
	switch {
	case f == nil:
		l.well++
	case s.phase != running:
		s.failures = append(s.failures, *f)
	case f.PID != 0 && l.used < l.most: // one that could not be started will not be the next time
		s.failures = append(s.failures, *f)
		l.used++
		l.restarts[local]++
		l.pending[local] = true
		l.waiting++
		out = append(out, effect{kind: again, local: local, restarts: l.restarts[local], failure: f, after: pause(l.restarts[local])})
	default:
		s.failures = append(s.failures, *f)
		if l.first == nil {
			l.first = f
		}
		out = append(out, effect{kind: lost, local: local, failure: f})
	}
	if s.left == 0 && l.waiting == 0 {
		out = append(out, s.clear()...)
	}
	return out
}

// startAgain is due: the pause of a worker is over.
func (s *supervisor) startAgain(local int) []effect {
	l := s.live
	if s.phase != running || l == nil || !l.pending[local] {
		return nil
	}
	l.pending[local] = false
	l.waiting--
	s.alive[local] = true
	s.left++
	return []effect{{kind: respawn, local: local, restarts: l.restarts[local]}}
}

// calm forgets who was to be started again.
func (l *live) calm() {
	if l != nil {
		clear(l.pending)
		l.waiting = 0
	}
}

// reportLive tells how this node's workers have ended: well, if one of them has.
func (s *supervisor) reportLive() []effect {
	if s.live.well == 0 && s.live.first != nil {
		return s.report(rendezvous.Outcome{Kind: rendezvous.Failed, Cause: s.live.first})
	}
	return s.report(rendezvous.Outcome{Kind: rendezvous.Succeeded})
}
