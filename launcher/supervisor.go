package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// phase is where a node is within a round.
type phase uint8

const (
	joining  phase = iota // the group is asked for the next round; no worker is there
	running               // workers run
	stopping              // workers were told to end, or were killed, and some are left
	sweeping              // no worker is left; what they started is killed, pipes are drained
	waiting               // nothing is left; the group has not yet said what comes next
	over                  // the verdict is out
)

// event is what the supervisor is told. Exactly one field group is set, by kind.
type event struct {
	kind    eventKind
	round   rendezvous.Round    // roundAgreed
	group   rendezvous.Event    // groupSpoke, joinStopped
	code    int                 // groupSpoke: the exit code, where it is not the cause's; 0: it is
	local   int                 // workerEnded, pauseOver
	failure *rendezvous.Failure // workerEnded: nil for exit code 0 and for one that never ran
	signal  syscall.Signal      // signalCame
	timer   int                 // timerFired
	stuck   []int               // swept: pids that outlived SIGKILL
	verdict verdict             // joinFailed
	call    func()              // called
}

type eventKind uint8

const (
	roundAgreed eventKind = iota
	joinStopped
	joinFailed
	workerEnded
	groupSpoke
	signalCame
	timerFired
	swept
	pauseOver    // of a worker that is to be started again
	contextEnded // the caller of Run wants an end
	called       // not for the supervisor: the shell has something to do
)

// effect is what the shell has to do, in the order given.
type effect struct {
	kind     effectKind
	round    rendezvous.Round    // spawn
	signal   syscall.Signal      // tell
	timer    int                 // startTimer: the number that timerFired brings back
	after    time.Duration       // startTimer, again
	local    int                 // again, respawn, lost
	restarts int                 // again, respawn: of this local rank
	failure  *rendezvous.Failure // again, lost
	outcome  rendezvous.Outcome  // report
	verdict  verdict             // finish
}

type effectKind uint8

const (
	join effectKind = iota
	spawn
	tell // the process groups of the workers
	pass // the workers, not what they started: a notice
	kill // the same, by SIGKILL, and all that they started
	startTimer
	sweep
	report
	again   // --live: start the worker again, after a pause
	respawn // --live: start it
	lost    // --live: it will not be started again
	finish
)

// supervisor decides. It has no goroutine, clock, randomness or I/O.
type supervisor struct {
	workers int
	grace   time.Duration // from the stop signal to SIGKILL
	bound   time.Duration // from SIGKILL to giving a process up (it waits in the kernel)

	phase    phase
	round    rendezvous.Round
	alive    []bool
	left     int // workers that are alive
	failures []rendezvous.Failure
	told     *rendezvous.Event // what the group said of this round
	early    *rendezvous.Event // what it said while a round was awaited: perhaps of that one
	reported bool
	signal   syscall.Signal // stops the job
	timer    int            // number of the newest timer; older ones are void
	killed   bool
	stuck    []int
	stops    []syscall.Signal // signals that stop the job
	live     *live            // nil: a failure ends the round
	code     int              // of what the group said
}

func newSupervisor(s *Spec, bound time.Duration) *supervisor {
	sup := &supervisor{workers: s.Workers, grace: s.ShutdownTimeout, bound: bound, stops: s.Signals}
	if s.Live {
		sup.live = &live{most: s.MaxRestarts}
	}
	return sup
}

// start is the first effect.
func (s *supervisor) start() []effect { return []effect{{kind: join}} }

// step takes one event. Events that come too late are ignored.
func (s *supervisor) step(e event) []effect {
	if s.phase == over {
		return nil
	}
	switch e.kind {
	case roundAgreed:
		return s.begin(e.round)
	case joinStopped:
		s.told = &e.group
		return s.conclude()
	case joinFailed:
		return s.end(e.verdict)
	case workerEnded:
		return s.ended(e.local, e.failure)
	case groupSpoke:
		return s.heard(e.group, e.code)
	case pauseOver:
		return s.startAgain(e.local)
	case signalCame:
		return s.signalled(e.signal)
	case contextEnded:
		return s.halt(syscall.SIGTERM)
	case timerFired:
		return s.fired(e.timer)
	case swept:
		return s.swept(e.stuck)
	}
	return nil
}

func (s *supervisor) begin(r rendezvous.Round) []effect {
	if s.phase != joining {
		return nil
	}
	s.phase, s.round, s.left = running, r, s.workers
	s.alive = slices.Repeat([]bool{true}, s.workers)
	s.failures, s.told, s.reported, s.killed, s.stuck = nil, nil, false, false, nil
	out := []effect{{kind: spawn, round: r}}
	if s.live != nil {
		s.beginLive()
	}
	if e := s.early; e != nil {
		s.early = nil
		out = append(out, s.heard(*e, 0)...)
	}
	return out
}

// ended is the death of a worker. The first failure is told to the group at once,
// and the others are told to end.
func (s *supervisor) ended(local int, f *rendezvous.Failure) (out []effect) {
	if s.phase != running && s.phase != stopping || !s.alive[local] {
		return nil
	}
	s.alive[local] = false
	s.left--
	if s.live != nil {
		return s.endedLive(local, f)
	}
	if f != nil {
		s.failures = append(s.failures, *f)
		if s.phase == running {
			out = append(out, s.report(rendezvous.Outcome{Kind: rendezvous.Failed, Cause: f})...)
			out = append(out, s.stop(syscall.SIGTERM)...)
		}
	}
	if s.left == 0 {
		out = append(out, s.clear()...)
	}
	return out
}

// heard takes the group's word on the round. It comes by another way than the round
// itself and may overtake it: another node's worker has failed at once. The group says
// it once, so it is kept.
func (s *supervisor) heard(e rendezvous.Event, code int) []effect {
	if s.phase == joining {
		s.early = &e
		return nil
	}
	if e.Round != s.round.Number || s.told != nil {
		return nil
	}
	s.told, s.code = &e, code
	switch s.phase {
	case running:
		if e.Signal != 0 {
			return s.stop(syscall.Signal(e.Signal))
		}
		return s.stop(syscall.SIGTERM)
	case waiting:
		return s.conclude()
	}
	return nil
}

// signalled is a signal to the launcher. One that stops the job is passed on as it
// is, and told to the group; a second SIGINT is a user who will not wait.
func (s *supervisor) signalled(n syscall.Signal) []effect {
	if !slices.Contains(s.stops, n) {
		if s.left == 0 {
			return nil
		}
		return []effect{{kind: pass, signal: n}}
	}
	return s.halt(n)
}

// halt stops the job for a signal.
func (s *supervisor) halt(n syscall.Signal) []effect {
	again := s.signal != 0
	impatient := s.signal == syscall.SIGINT && n == syscall.SIGINT
	if !again {
		s.signal = n
	}
	var out []effect
	if !again {
		out = append(out, effect{kind: report, outcome: rendezvous.Outcome{Round: s.round.Number, Kind: rendezvous.Signalled, Signal: int(n)}})
	}
	switch s.phase {
	case joining, waiting:
		return append(out, s.conclude()...)
	case running:
		return append(out, s.stop(n)...)
	case stopping:
		if impatient {
			return append(out, s.kill()...)
		}
		return append(out, effect{kind: tell, signal: n})
	}
	return out
}

// stop tells the workers to end and gives them the grace time.
func (s *supervisor) stop(n syscall.Signal) []effect {
	s.live.calm()
	if s.left == 0 && s.live != nil && s.phase == running { // all of them wait to be started again
		return s.clear()
	}
	if s.left == 0 {
		return nil
	}
	s.phase = stopping
	return append([]effect{{kind: tell, signal: n}}, s.startTimer(s.grace))
}

func (s *supervisor) startTimer(after time.Duration) effect {
	s.timer++
	return effect{kind: startTimer, timer: s.timer, after: after}
}

// kill ends the workers by force and bounds the wait for them.
func (s *supervisor) kill() []effect {
	if s.killed {
		return nil
	}
	s.killed = true
	return append([]effect{{kind: kill}}, s.startTimer(s.bound))
}

func (s *supervisor) fired(timer int) []effect {
	if timer != s.timer || s.phase != stopping {
		return nil
	}
	if !s.killed {
		return s.kill()
	}
	return s.clear() // what is left waits in the kernel and cannot be killed
}

// clear begins the end of the round on this node.
func (s *supervisor) clear() []effect {
	s.phase = sweeping
	return []effect{{kind: sweep}}
}

// swept is the end of the round on this node: nothing of it is left.
func (s *supervisor) swept(stuck []int) []effect {
	if s.phase != sweeping {
		return nil
	}
	s.phase, s.stuck, s.left = waiting, stuck, 0
	if s.told != nil || s.signal != 0 {
		return s.conclude()
	}
	if s.live != nil {
		return s.reportLive()
	}
	if len(s.failures) == 0 {
		return s.report(rendezvous.Outcome{Kind: rendezvous.Succeeded})
	}
	return nil
}

// report tells the group of this round's outcome, once.
func (s *supervisor) report(o rendezvous.Outcome) []effect {
	if s.reported || s.told != nil {
		return nil
	}
	s.reported = true
	o.Round = s.round.Number
	return []effect{{kind: report, outcome: o}}
}

// conclude goes on to the next round, or ends.
func (s *supervisor) conclude() []effect {
	v := verdict{failures: s.failures, stuck: s.stuck}
	switch {
	case s.told != nil && s.told.Kind == rendezvous.Done:
		if s.live != nil && s.live.well == 0 && s.live.first != nil { // the others have done it without this node
			v.root = s.live.first
			v.code, v.text = failureVerdict(v.root, "")
		}
	case s.told != nil && s.told.Kind == rendezvous.Stop && s.told.Signal == 0 && (s.told.Cause != nil || s.signal == 0):
		if s.told.Cause != nil { // else what failed here was told to end
			v.root = s.rootCause(s.told)
		}
		v.code, v.text = failureVerdict(v.root, s.told.Reason)
		v.code = cmp.Or(s.code, v.code)
	case s.signal != 0:
		v.code, v.text = signalVerdict(s.signal, "")
	case s.told != nil && s.told.Signal != 0:
		v.code, v.text = signalVerdict(syscall.Signal(s.told.Signal), " by another node")
	case len(s.stuck) > 0:
		v.root = s.rootCause(s.told)
		v.code, v.text = failureVerdict(v.root, "")
	default: // a restart
		s.phase = joining
		return []effect{{kind: join}}
	}
	if len(s.stuck) > 0 {
		v.text = strings.TrimPrefix(fmt.Sprintf("%s; SIGKILL did not end pids %v, which wait in the kernel: this host needs a look", v.text, s.stuck), "; ")
	}
	return s.end(v)
}

func (s *supervisor) end(v verdict) []effect {
	s.phase = over
	return []effect{{kind: finish, verdict: v}}
}

// rootCause is the failure that began it all: the group's where another node saw
// it, so that all nodes tell the same, else this node's earliest. Times are whole
// seconds, as error files have them; within one the order of deaths decides.
func (s *supervisor) rootCause(e *rendezvous.Event) *rendezvous.Failure {
	if e != nil && e.Cause != nil && (e.Cause.Node != s.round.Rank || s.live != nil) {
		return e.Cause
	}
	if len(s.failures) == 0 {
		if e != nil {
			return e.Cause
		}
		return nil
	}
	first := slices.MinFunc(s.failures, func(a, b rendezvous.Failure) int { return int(a.Time.Unix() - b.Time.Unix()) })
	return &first
}
