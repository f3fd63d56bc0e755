package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

// asyncRanks are the ranks of one process of an async job: the reference trainer. Each
// takes pieces of its lane ahead, some at a time, works on one after the other and finishes
// them in the order in which it took them, as a loader does; what the log has made effective
// counts.
type asyncRanks struct {
	p      *process
	locals []int              // that live
	seats  map[int]*asyncSeat // of these
	last   uint64             // seat
	until  time.Duration      // stalled
}

// asyncSeat is the process that is a local rank now.
type asyncSeat struct {
	number uint64
	cursor *coord.Cursor
	ahead  int      // how many pieces it holds at a time
	pieces []*piece // that it holds, in the order in which they were taken
	busy   bool     // it works on one
	open   int64    // positions that it was given, and of which it has not heard
	given  []given  // all of them
}

// piece is positions that a rank has taken and not finished.
type piece struct{ span nd.Span }

type given struct {
	epoch int64
	span  nd.Span
}

// newWorker makes the trainer's side of a process.
func (w *World) newWorker(p *process) worker {
	if w.sc.Job.Mode == coord.Lockstep {
		return newLockstepRanks(p)
	}
	r := &asyncRanks{p: p, locals: p.ranks, seats: map[int]*asyncSeat{}}
	for _, k := range p.ranks {
		r.sit(k)
	}
	return r
}

// mostAhead is how many pieces a rank holds at a time, at most.
const mostAhead = 4

// sit puts a new process in a local rank's place.
func (r *asyncRanks) sit(local int) {
	r.last++
	r.seats[local] = &asyncSeat{number: r.last, cursor: coord.NewCursor(&r.p.w.sc.Job, local), ahead: 1 + r.p.rand.IntN(mostAhead)}
}

func (r *asyncRanks) stall(until time.Duration) {
	if r.until = max(r.until, until); until < forever {
		r.p.wake(until)
	}
}

func (r *asyncRanks) lose(local int) {
	if !slices.Contains(r.locals, local) {
		return
	}
	r.locals = without(r.locals, local)
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

// event takes what became of a part.
func (r *asyncRanks) event(e *group.Event) {
	if e.Kind != group.Decided {
		return
	}
	if e.Verdict == coord.Effective {
		r.p.w.accept(r.p, &e.Part)
	}
	k := r.seats[e.Part.Local]
	if k == nil {
		return
	}
	if e.Seat != k.number {
		if e.Verdict == coord.Effective {
			r.late(e, k)
		}
		return
	}
	if e.Part.Epoch != k.cursor.Epoch() {
		return // what it held of that epoch was given up as it ended
	}
	void := k.cursor.Decide(e.Part.Span, e.Verdict)
	if e.Verdict == coord.Effective {
		k.open -= e.Part.Span.Stop - e.Part.Span.Start
	} else {
		r.void(k, void)
	}
}

// late is a part of a process that has ended, and counts: the one that has its place must not
// have been given the same.
func (r *asyncRanks) late(e *group.Event, now *asyncSeat) {
	for _, g := range now.given {
		if x := e.Part.Span; g.epoch == e.Part.Epoch && g.span.Start < x.Stop && x.Start < g.span.Stop {
			r.p.w.violate("I9", r.p.place, "positions %v of local rank %d count for a process that has ended, and the next one was given %v", x, e.Part.Local, g.span)
		}
	}
}

// poll has ranks take what they may hold, and work on it.
func (r *asyncRanks) poll() {
	s := r.p.node.State()
	if s.View == nil || s.Over || r.p.w.sc.Pace == 0 {
		return
	}
	at := s.View.Index(r.p.id)
	if at < 0 {
		return
	}
	for i, local := range s.View.Members[at].Ranks {
		if k := r.seats[local]; k != nil && i < len(s.Lanes) {
			r.void(k, k.cursor.Update(s.Epoch, s.Lanes[i]))
		}
	}
	for _, local := range r.locals {
		if slices.Contains(s.Ranks, local) && r.p.w.now >= r.until && s.Ending == "" {
			k := r.seats[local]
			for len(k.pieces) < k.ahead && r.take(local, k) {
			}
			r.begin(local, k)
		}
	}
}

// void is work that is another rank's now: the rank forgets what it holds of it.
func (r *asyncRanks) void(k *asyncSeat, list []nd.Span) {
	for _, x := range list {
		k.open -= x.Stop - x.Start
		at := slices.IndexFunc(k.pieces, func(o *piece) bool { return o.span == x })
		if at < 0 {
			continue // it is finished
		}
		if at < len(k.pieces)-1 {
			r.p.w.result.VoidWithin++
		}
		k.pieces = slices.Delete(k.pieces, at, at+1)
	}
}

// mostTaken is how many positions a rank takes at once, at most.
const mostTaken = 16

// take takes the next piece, if there is one.
func (r *asyncRanks) take(local int, k *asyncSeat) bool {
	w := r.p.w
	x, wait := k.cursor.Take(1 + int64(r.p.rand.IntN(mostTaken)))
	if wait != coord.Go {
		return false
	}
	w.delivered(r.p, x)
	k.given = append(k.given, given{k.cursor.Epoch(), x})
	k.pieces = append(k.pieces, &piece{x})
	w.result.Held = max(w.result.Held, len(k.pieces))
	if k.open += x.Stop - x.Start; k.open > w.sc.Job.Ahead {
		w.violate("I7", r.p.place, "local rank %d has %d positions that are not committed, at most %d are leased", local, k.open, w.sc.Job.Ahead)
	}
	return true
}

// begin has a rank work on the first piece that it holds.
func (r *asyncRanks) begin(local int, k *asyncSeat) {
	if k.busy || len(k.pieces) == 0 {
		return
	}
	k.busy = true
	first := k.pieces[0]
	r.p.w.after(r.p.w.workTime(r.p), func() { r.finish(local, k, first) })
}

func (r *asyncRanks) finish(local int, k *asyncSeat, x *piece) {
	w := r.p.w
	if r.p.dead || r.p.hangs || r.seats[local] != k {
		return
	}
	if r.p.stopped {
		w.after(100*time.Millisecond, func() { r.finish(local, k, x) })
		return
	}
	k.busy = false
	if len(k.pieces) > 0 && k.pieces[0] == x { // else it is void
		k.pieces = k.pieces[1:]
		k.cursor.Finish(x.span, digestOf(x.span))
		r.p.node.Commit(r.p.local(), k.number, k.cursor.Parts())
	}
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
