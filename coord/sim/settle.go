package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// settle looks, once a second after the last fault, whether all is well again.
func (w *World) settle() {
	if w.majorityLost() {
		w.stop()
		return
	}
	why := w.unsettled()
	switch {
	case why == "" && (w.over() || w.sc.Pace == 0 || !w.working() && w.now-w.lastEnd > w.sc.Profile.bound()):
		w.result.ended = true
		return
	case why == "" && w.progress() != w.result.progress:
		w.result.progress = w.progress()
		w.result.moved = w.now
	case w.now-w.lastEnd > w.sc.Profile.bound() && why != "":
		w.violate("I10", -1, "%v after the last fault: %s", w.now-w.lastEnd, why)
		return
	case why == "" && w.working() && w.now-w.result.moved > w.patience() && w.now-w.lastEnd > w.sc.Profile.bound():
		w.violate("I10", -1, "the job stands still: %s", w.standing())
		return
	}
	w.after(time.Second, w.settle)
}

// working reports whether there is who could get on with the job.
func (w *World) working() bool {
	return w.log.plain.open && slices.ContainsFunc(w.log.plain.members, func(m coord.Member) bool {
		p := w.procs[m.ID]
		return len(m.Ranks) > 0 && (p == nil || !p.hangs)
	})
}

// patience is how long a job may stand still that is well: where ranks hang, until others have
// their lanes, perhaps after some that hang too.
func (w *World) patience() time.Duration {
	const still = 20 * time.Second
	hang := 0 // ranks, one after the other of which may have the last positions
	for _, p := range w.order {
		if p.hangs {
			hang += len(p.ranks)
		}
	}
	if hang == 0 {
		return still
	}
	slow := time.Duration(0) // as long as work seemed to take to a leader whose clock jumped
	for i := range w.sc.Actions {
		if w.sc.Actions[i].Kind == Jump {
			slow = max(slow, w.sc.Actions[i].By)
		}
	}
	return still + 2*slow + w.sc.Profile.config().Stall*time.Duration((hang+1)*(hang+2)/2)
}

// stop watches a job that has lost a majority for good: its last leases are used up, and
// then each agent says why nothing comes (I11).
func (w *World) stop() {
	if w.stopped == 0 {
		w.stopped = w.now
	}
	switch {
	case w.now-w.stopped < 15*time.Second:
	case w.now-w.latestWork() >= 10*time.Second:
		w.result.ended = true
		w.reasons()
		return
	case w.now-w.stopped > w.sc.Profile.bound()+time.Duration(4*w.sc.Job.Lease)*10*w.sc.Pace:
		w.violate("I11", -1, "something was delivered %v after a majority of the voters was lost", w.latestWork()-w.stopped)
		return
	}
	w.after(time.Second, w.settle)
}

func (w *World) reasons() {
	for _, p := range w.live() {
		if s := p.node.State(); p.node.Waiting() == "" && s.Ending == "" && !s.Over {
			w.violate("I11", p.place, "a majority of the voters is lost, and the agent does not say so")
		}
	}
}

// progress is a number that grows while the job gets on.
func (w *World) progress() [3]int64 {
	m := &w.log.plain
	return [3]int64{m.epoch, m.step, m.count}
}

func (w *World) over() bool {
	return w.log.machine.Over() && !slices.ContainsFunc(w.live(), func(p *process) bool { return !p.node.State().Over })
}

// majorityLost reports whether a majority of the voters is gone for good: nothing is decided any
// more. Who the voters are is what the newest replica has, and what the newest one has that lives: a
// leader may end a change of the voters and be lost before a word of that has come to anybody. Those
// that are left need majorities of both sets then, and nothing tells them that it is not so.
func (w *World) majorityLost() bool {
	return w.unled(func(*process) bool { return true }) || w.unled(func(p *process) bool { return !p.dead })
}

// unled reports whether a majority is gone of the voters that the newest of some replicas has.
func (w *World) unled(of func(*process) bool) bool {
	var newest *process
	var at uint64
	for _, p := range w.order {
		if r, ok := p.node.Replica(); ok && p.foreign == "" && of(p) && (newest == nil || r.Applied > at) {
			newest, at = p, r.Applied
		}
	}
	if newest == nil {
		return true
	}
	r, _ := newest.node.Replica()
	for _, set := range [][]uint64{r.Voters, r.Outgoing} {
		live := 0
		for _, id := range set {
			if slices.ContainsFunc(w.order, func(p *process) bool { return p.id.Raft() == id && !p.dead && p.foreign == "" }) {
				live++
			}
		}
		if len(set) > 0 && live <= len(set)/2 {
			return true
		}
	}
	return false
}

// unsettled says what is not yet as it must come to be; empty: all is well.
func (w *World) unsettled() string {
	live := w.live()
	if len(live) == 0 {
		return ""
	}
	newest := w.log.machine.View()
	for _, p := range live {
		s := p.node.State()
		switch {
		case s.View == nil:
			return fmt.Sprintf("node %d knows no view", p.place)
		case s.Ending != "":
			return fmt.Sprintf("node %d: %s", p.place, s.Ending)
		case s.View.Number != newest.Number:
			return fmt.Sprintf("node %d is at view %d, the job at %d", p.place, s.View.Number, newest.Number)
		case s.View.Index(p.id) < 0 && !p.leaves:
			return fmt.Sprintf("node %d is not in view %d", p.place, newest.Number)
		}
	}
	for _, m := range newest.Members {
		if p := w.procs[m.ID]; p == nil || p.dead {
			return fmt.Sprintf("%v, which is dead, is in view %d", short(m.ID), newest.Number)
		}
	}
	return w.unsettledVoters(newest)
}

// unsettledVoters checks that those vote who should.
func (w *World) unsettledVoters(v *coord.View) string {
	for _, id := range v.Voters {
		p := w.procs[id]
		r, ok := p.node.Replica()
		if !ok || len(r.Outgoing) > 0 || len(r.Voters) != len(v.Voters) || !slices.Contains(r.Voters, id.Raft()) {
			return fmt.Sprintf("node %d should be a voter; its voters are %d of %d", p.place, len(r.Voters), len(v.Voters))
		}
	}
	return ""
}

func (w *World) latestWork() (last time.Duration) {
	for _, p := range w.order {
		last = max(last, p.worked)
	}
	return last
}

// standing says how the job stands.
func (w *World) standing() string {
	m := &w.log.machine
	if w.sc.Job.Mode == coord.Async {
		return fmt.Sprintf("epoch %d, %d of %d positions", m.Epoch(), m.Committed(), w.sc.Job.N)
	}
	return fmt.Sprintf("step %d, lease to %d, halted %v, settled %v", m.Progress().Step, m.Horizon(), m.Halted(), m.Settled())
}

// atEnd checks what must hold when a run is over.
func (w *World) atEnd() {
	w.result.Over = w.log.machine.Over()
	w.result.Stopped = w.majorityLost()
	w.result.Epochs = w.epochs
	w.result.Covered = w.log.plain.count
	w.result.N = w.sc.Job.N
	if w.result.Over && w.result.ended {
		w.heardOf()
	}
	if w.result.ended || w.result.Stopped {
		return
	}
	if why := w.unsettled(); why != "" && w.now > w.lastEnd+w.sc.Profile.bound() {
		w.violate("I10", -1, "at the end: %s", why)
	}
}

// heardOf checks that each rank that lives has heard of what it has done (I5).
func (w *World) heardOf() {
	for epoch, authors := range w.log.plain.authors {
		for at, id := range authors {
			if p := w.procs[id]; p != nil && !p.dead && w.done[int64(epoch)][at] == 0 {
				w.violate("I5", p.place, "position %d of epoch %d is effective, and its rank has not heard of it", at, epoch)
				return
			}
		}
	}
}
