package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

// asyncRanks are the ranks of one process of an async job: the reference trainer. Each
// takes positions of its lane, works on them and finishes them; what the log has made
// effective counts.
type asyncRanks struct {
	p       *process
	locals  []int // that live
	cursors map[int]*coord.Cursor
	busy    map[int]bool
	open    map[int]int64 // positions that a rank has, and of which it has not heard
	seats   map[int]seated
	last    uint64        // seat
	until   time.Duration // stalled
}

// seated is the process that is a local rank now, and what it was given.
type seated struct {
	number uint64
	given  []given
}

type given struct {
	epoch int64
	span  nd.Span
}

// newWorker makes the trainer's side of a process.
func (w *World) newWorker(p *process) worker {
	if w.sc.Job.Mode == coord.Lockstep {
		return newLockstepRanks(p)
	}
	r := &asyncRanks{p: p, locals: p.ranks, cursors: map[int]*coord.Cursor{}, busy: map[int]bool{}, open: map[int]int64{}, seats: map[int]seated{}}
	for _, k := range p.ranks {
		r.sit(k)
	}
	return r
}

// sit puts a new process in a local rank's place.
func (r *asyncRanks) sit(local int) {
	r.last++
	r.seats[local] = seated{number: r.last}
	r.cursors[local] = coord.NewCursor(&r.p.w.sc.Job, local)
}

func (r *asyncRanks) stall(until time.Duration) {
	r.until = until
	r.p.wake(until)
}

func (r *asyncRanks) lose(local int) {
	if !slices.Contains(r.locals, local) {
		return
	}
	r.locals = without(r.locals, local)
	delete(r.cursors, local)
	delete(r.busy, local)
	delete(r.open, local)
	delete(r.seats, local)
	r.p.node.Ranks(r.p.local(), r.locals)
}

func (r *asyncRanks) back(local int) {
	if slices.Contains(r.locals, local) || !slices.Contains(r.p.ranks, local) {
		return
	}
	r.locals = with(r.locals, local)
	r.sit(local)
	r.p.node.Ranks(r.p.local(), r.locals)
}

func (r *asyncRanks) under() int { return 0 }

// event takes what became of a part.
func (r *asyncRanks) event(e *group.Event) {
	if e.Kind != group.Decided {
		return
	}
	if e.Verdict == coord.Effective {
		r.p.w.accept(r.p, &e.Part)
	}
	c, now := r.cursors[e.Part.Local], r.seats[e.Part.Local]
	if c == nil {
		return
	}
	if e.Seat != now.number {
		if e.Verdict == coord.Effective {
			r.late(e, &now)
		}
		return
	}
	void := c.Decide(e.Part.Span, e.Verdict)
	if e.Verdict == coord.Effective {
		r.open[e.Part.Local] -= e.Part.Span.Stop - e.Part.Span.Start
	} else {
		r.lost(e.Part.Local, void)
	}
}

// late is a part of a process that has ended, and counts: the one that has its place must not
// have been given the same.
func (r *asyncRanks) late(e *group.Event, now *seated) {
	for _, g := range now.given {
		if x := e.Part.Span; g.epoch == e.Part.Epoch && g.span.Start < x.Stop && x.Start < g.span.Stop {
			r.p.w.violate("I9", r.p.place, "positions %v of local rank %d count for a process that has ended, and the next one was given %v", x, e.Part.Local, g.span)
		}
	}
}

// poll lets idle ranks take work.
func (r *asyncRanks) poll() {
	s := r.p.node.State()
	if s.View == nil || s.Over || r.p.w.sc.Pace == 0 {
		return
	}
	at := s.View.Index(r.p.id)
	if at < 0 {
		return
	}
	for i, k := range s.View.Members[at].Ranks {
		if i < len(s.Lanes) && r.cursors[k] != nil {
			r.lost(k, r.cursors[k].Update(s.Epoch, s.Lanes[i]))
		}
	}
	for _, k := range r.locals {
		if slices.Contains(s.Ranks, k) && !r.busy[k] && r.p.w.now >= r.until && s.Ending == "" {
			r.take(k)
		}
	}
}

// lost is work that is another rank's now.
func (r *asyncRanks) lost(local int, void []nd.Span) {
	for _, x := range void {
		r.open[local] -= x.Stop - x.Start
	}
}

// mostTaken is how many positions a rank takes at once, at most.
const mostTaken = 16

func (r *asyncRanks) take(local int) {
	w, c := r.p.w, r.cursors[local]
	x, wait := c.Take(1 + int64(r.p.rand.IntN(mostTaken)))
	if wait != coord.Go || w.sc.Pace == 0 {
		return
	}
	w.delivered(r.p, x)
	now := r.seats[local]
	now.given = append(now.given, given{c.Epoch(), x})
	r.seats[local] = now
	if r.open[local] += x.Stop - x.Start; r.open[local] > w.sc.Job.Ahead {
		w.violate("I7", r.p.place, "local rank %d has %d positions that are not committed, at most %d are leased", local, r.open[local], w.sc.Job.Ahead)
	}
	r.busy[local] = true
	w.after(w.workTime(r.p), func() { r.finish(local, c, x) })
}

func (r *asyncRanks) finish(local int, c *coord.Cursor, x nd.Span) {
	w := r.p.w
	if r.p.dead || r.cursors[local] != c {
		return
	}
	if r.p.stopped {
		w.after(100*time.Millisecond, func() { r.finish(local, c, x) })
		return
	}
	r.busy[local] = false
	c.Finish(x, digestOf(x))
	r.p.node.Commit(r.p.local(), r.seats[local].number, c.Parts())
	r.poll()
	if w.now < r.until {
		w.after(r.until-w.now, r.poll)
	}
	r.p.flush()
}

// workTime is how long a rank takes for one piece of work: slower on some hosts.
func (w *World) workTime(p *process) time.Duration {
	pace := int64(w.sc.Pace) * int64(1+p.place%4) / 2
	return time.Duration(pace/4 + p.rand.Int64N(max(1, pace*3/2)))
}

// digestOf is the sum over positions, as digests are.
func digestOf(x nd.Span) (d [2]uint64) {
	for p := x.Start; p < x.Stop; p++ {
		d[0] += uint64(p+1) * 0x9e3779b97f4a7c15
		d[1] += uint64(p) ^ 0x5555
	}
	return d
}

// without is a list without a number.
func without(list []int, x int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(y int) bool { return x == y })
}

// with is an ordered list with a number more.
func with(list []int, x int) []int {
	list = append(slices.Clone(list), x)
	slices.Sort(list)
	return list
}
