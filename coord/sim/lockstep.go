package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// collectives are where the ranks of a lockstep job meet, once a step, as in an
// all-reduce: a step is done when all ranks of one view have come to it.
type collectives struct {
	w    *World
	open map[meeting]*gathering // of steps that are not done
	done map[int64]bool         // steps that all ranks of a view have done, and no redo has taken back
	most map[uint64]int64       // by turn, which is the number of Redos here: behind the last step that was delivered
	meet map[uint64]*seat       // by coord.Machine's turn: the first of its ranks, in the model's list of them
	goal int64                  // a redo that the trainer wants of itself: so many steps back
}

type meeting struct {
	turn uint64
	step int64
}

type gathering struct {
	view  *coord.View
	here  []*lockstepRank // by rank
	count int
}

func newCollectives(w *World) *collectives {
	return &collectives{w: w, open: map[meeting]*gathering{}, done: map[int64]bool{}, most: map[uint64]int64{}, meet: map[uint64]*seat{}}
}

// back has the trainer go back some steps of its own.
func (c *collectives) back(steps int64) {
	if c.w.sc.Job.Mode == coord.Lockstep {
		c.goal = max(1, steps)
	}
}

// lockstepRanks are the ranks of one process of a lockstep job: the reference trainer.
//
//	idle ── delivered ──▶ working ──▶ waiting for all ranks ──▶ done ──▶ idle
//
// When a member is lost they give up what they are at, and rank 0 of the new view asks
// for a redo from where it is, and some of the others do, each from where it is: one of them
// holds. After a redo all go on from its step.
type lockstepRanks struct {
	p     *process
	ranks []*lockstepRank       // in the order of their local ranks
	until time.Duration         // stalled
	asked [2]uint64             // view and turn of the last redo, each + 1
	by    uint64                // it
	past  map[int]*lockstepRank // local ranks that have ended
}

type lockstepRank struct {
	owner *lockstepRanks
	local int
	in    bool   // it has entered a view
	did   bool   // and done a step: it has what others may go on from
	turn  uint64 // in which it is
	step  int64  // it does next; all before it are done
	busy  bool
	try   int // what it was at before is void
}

func newLockstepRanks(p *process) *lockstepRanks {
	r := &lockstepRanks{p: p, past: map[int]*lockstepRank{}}
	for _, k := range p.ranks {
		r.ranks = append(r.ranks, &lockstepRank{owner: r, local: k})
	}
	return r
}

func (r *lockstepRanks) stall(until time.Duration) {
	r.until = until
	r.p.wake(until)
}

func (r *lockstepRanks) event(*group.Event) {}

func (r *lockstepRanks) locals() (list []int) {
	for _, k := range r.ranks {
		list = append(list, k.local)
	}
	return list
}

func (r *lockstepRanks) lose(local int) {
	if !slices.Contains(r.locals(), local) {
		return
	}
	var left []*lockstepRank
	for _, k := range r.ranks {
		if k.local != local {
			left = append(left, k)
		} else {
			r.past[local] = k
			k.give()
		}
	}
	r.ranks = left
	r.p.node.Ranks(r.p.local(), r.locals())
}

func (r *lockstepRanks) back(local int) {
	if slices.Contains(r.locals(), local) || !slices.Contains(r.p.ranks, local) {
		return
	}
	var list []*lockstepRank
	for _, k := range with(r.locals(), local) {
		rank := &lockstepRank{owner: r, local: local}
		for _, o := range r.ranks {
			if o.local == k {
				rank = o
			}
		}
		list = append(list, rank)
	}
	r.ranks = list
	r.p.node.Ranks(r.p.local(), r.locals())
}

func (r *lockstepRanks) poll() {
	s := r.p.node.State()
	if s.View == nil || s.View.Index(r.p.id) < 0 || s.Ending != "" || r.p.w.sc.Pace == 0 {
		return
	}
	for _, k := range r.ranks {
		k.poll(&s)
	}
	r.redo(&s)
	r.report(&s)
}

// redo asks for one, where the rank is 0 and a member is lost or the trainer wants it.
func (r *lockstepRanks) redo(s *group.State) {
	c := r.p.w.steps
	first := len(r.ranks) > 0 && s.View.Rank(r.p.id, r.ranks[0].local) == 0
	if len(r.ranks) == 0 || !s.Halted && (c.goal == 0 || !first) {
		return
	}
	k := r.ranks[0]
	if !first && (k.turn != s.Redos || r.p.place%3 == 0) { // it has no state, or leaves it to others
		return
	}
	if r.asked == [2]uint64{s.Known.View + 1, s.Redos + 1} || !s.Halted && (k.busy || k.turn != s.Redos) {
		return
	}
	r.asked = [2]uint64{s.Known.View + 1, s.Redos + 1}
	step := k.step
	if !k.did || k.turn != s.Redos {
		step = s.Step // it has nothing of this turn but what is known to be done
	}
	k.give()
	step = max(0, step-c.goal)
	c.goal = 0
	view, turn := s.Known.View, s.Redos
	r.p.w.after(50*time.Millisecond+time.Duration(r.p.rand.Int64N(int64(300*time.Millisecond))), func() { r.ask(view, turn, step) })
}

func (r *lockstepRanks) ask(view, turn uint64, step int64) {
	if r.p.dead {
		return
	}
	if r.p.stopped {
		r.p.w.after(100*time.Millisecond, func() { r.ask(view, turn, step) })
		return
	}
	r.p.w.say(r.p.place, "trainer: redo from step %d, view %d, turn %d", step, view, turn)
	r.by = r.p.rand.Uint64() | 1
	r.p.node.Redo(r.p.local(), coord.Redo{View: view, Redos: turn, Step: step, By: r.by})
	r.p.flush()
}

// report tells the agent how far its ranks are, also those that wait for a view.
func (r *lockstepRanks) report(s *group.State) {
	list := make([]group.Reached, len(r.ranks))
	for i, k := range r.ranks {
		list[i] = group.Reached{Local: k.local, Done: k.step, Used: k.step}
		if k.in {
			list[i].View, list[i].Redos = s.Known.View, k.turn
		}
		if k.busy {
			list[i].Used++
		}
	}
	r.p.node.Progress(r.p.local(), list)
}

// give gives up what the rank is at.
func (k *lockstepRank) give() {
	k.busy = false
	k.try++
}

// poll brings the rank to the newest state.
func (k *lockstepRank) poll(s *group.State) {
	w := k.owner.p.w
	if !slices.Contains(s.Ranks, k.local) {
		return // not yet, or not any more
	}
	if s.Halted {
		if k.busy {
			k.give()
		}
		return
	}
	if !k.in || k.turn != s.Redos {
		k.give()
		k.in, k.turn, k.step = true, s.Redos, s.Cut
	}
	wants := k.owner.asked == [2]uint64{s.Known.View + 1, s.Redos + 1} // a redo is under way
	if k.busy || wants || k.step >= s.Horizon || w.now < k.owner.until {
		return
	}
	v := s.At(k.step)
	rank := -1
	if v != nil {
		rank = v.Rank(k.owner.p.id, k.local)
	}
	if rank < 0 {
		w.violate("I7", k.owner.p.place, "local rank %d may deliver step %d, of a view without it", k.local, k.step)
		return
	}
	k.busy = true
	w.deliveredStep(k, s, v, rank)
	try := k.try
	w.after(w.workTime(k.owner.p), func() { k.arrive(try, v, rank) })
}

// arrive is at the collective.
func (k *lockstepRank) arrive(try int, v *coord.View, rank int) {
	w := k.owner.p.w
	if k.owner.p.dead || k.try != try {
		return
	}
	if k.owner.p.stopped || w.now < k.owner.until {
		w.after(100*time.Millisecond, func() { k.arrive(try, v, rank) })
		return
	}
	at := meeting{k.turn, k.step}
	g := w.steps.open[at]
	if g == nil || !w.steps.same(g.view, v) {
		if g != nil && g.view.Number > v.Number {
			return // of an older view: nobody comes
		}
		g = &gathering{view: v, here: make([]*lockstepRank, v.World())}
		w.steps.open[at] = g
	}
	if g.here[rank] == nil {
		g.count++
	}
	g.here[rank] = k
	if g.count == len(g.here) {
		delete(w.steps.open, at)
		w.steps.complete(at, g)
	}
}

// same reports whether two views have the same ranks.
func (c *collectives) same(a, b *coord.View) bool {
	if a.Number == b.Number {
		return true
	}
	if a.World() != b.World() {
		return false
	}
	for rank := range a.World() {
		o := a.Owner(rank)
		if o != b.Owner(rank) {
			return false
		}
	}
	return true
}

// complete has a step done, at each rank when it hears of it.
func (c *collectives) complete(at meeting, g *gathering) {
	w := c.w
	for _, k := range g.here {
		if k.owner.p.dead || k.turn != at.turn || k.step != at.step || !k.busy {
			return // one that came is gone: the collective fails for all
		}
	}
	if m := &w.log.plain; at.turn == m.turn || at.step < m.plans[at.turn+1][0].cut {
		c.done[at.step] = true
	}
	w.note('c', int(at.turn), int(at.step), nil)
	for _, k := range g.here {
		try := k.try
		w.after(time.Duration(k.owner.p.rand.Int64N(int64(2*time.Millisecond))), func() { k.finish(try, at) })
	}
}

func (k *lockstepRank) finish(try int, at meeting) {
	p := k.owner.p
	if p.dead || k.try != try || k.turn != at.turn || k.step != at.step {
		return
	}
	if p.stopped {
		p.w.after(100*time.Millisecond, func() { k.finish(try, at) })
		return
	}
	k.busy = false
	k.did = true
	k.step++
	k.owner.poll()
	p.flush()
}

// reached is behind the last step that was delivered in a turn.
func (c *collectives) reached(turn uint64) int64 { return c.most[turn] }

// undo takes steps back.
func (c *collectives) undo(from int64) {
	for step := range c.done {
		if step >= from {
			delete(c.done, step)
		}
	}
}

// where is how far a rank is in a turn, as it knows itself.
func (c *collectives) where(s seat, turn uint64) (step int64, ok bool) {
	p := c.w.procs[s.id]
	if p == nil {
		return 0, false
	}
	r := p.work.(*lockstepRanks)
	k := r.past[s.local]
	for _, o := range r.ranks {
		if o.local == s.local && (o.in || k == nil) {
			k = o
		}
	}
	if k == nil {
		return 0, false
	}
	return k.step, k.in && k.turn == turn
}
