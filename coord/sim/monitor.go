package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

// checkState looks at what an agent has come to know: view, epoch and place in the log
// only grow.
func (w *World) checkState(p *process) {
	s := p.node.State()
	if votes := p.node.Machine() != nil; votes != p.votes {
		p.votes = votes
		if votes {
			w.gossip.changed()
		}
	}
	w.log.replica(p)
	if s.View == nil {
		return
	}
	view := s.Known.View
	if view < p.view || p.known.Newer(s.Known) || s.Redos < p.turn || s.Epoch < p.epoch && s.Redos == p.turn {
		w.violate("I8", p.place, "view %d, epoch %d, turn %d at %v, after view %d, epoch %d, turn %d at %v", view, s.Epoch, s.Redos, s.Known, p.view, p.epoch, p.turn, p.known)
	}
	if view != p.view {
		w.picture.mark(w.now, p.place, "view")
		w.note('v', p.place, int(view), nil)
	}
	p.view, p.known, p.epoch, p.turn = view, s.Known, s.Epoch, s.Redos
	if view > w.log.plain.view || s.Known.Index > w.log.last && s.Known.Index > p.applied {
		w.violate("I2", p.place, "knows view %d at %v, and the log is at view %d, index %d", view, s.Known, w.log.plain.view, w.log.last)
	}
	if p.ticks%16 == 0 {
		w.bounded(p)
	}
}

// Bounds of what an agent keeps, in bytes: a few times what runs come to.
const (
	mostBytes  = 1 << 16 // of anything, where few are there
	mostEntry  = 1 << 9  // of an entry, in the mean of a log, but for members
	mostMember = 1 << 10 // of a member in a snapshot, with its last commit and its lanes; and in a log
	mostSaid   = 1 << 12 // of a message, but for the view in it
	mostInView = 160     // of a member in a view
)

// bounded checks that an agent keeps no more than there is to know: who lives, who is in its
// view, and who has ended of late. So nothing grows with the run.
func (w *World) bounded(p *process) {
	h := p.node.Held()
	all := w.recent.count(w) + len(p.node.State().View.Members)
	if h.Others > 16 || h.Followers > all || h.Gossip > all || h.Joins > all || h.Reports > all || h.Gone > all || h.Entries > 1<<12 || h.Waiting > 1<<14 {
		w.violate("memory", p.place, "keeps %+v, and there are %d", h, all)
	}
	if h.Log > mostBytes+mostEntry*h.Entries+mostMember*all || h.Snapshot > mostBytes+mostMember*all {
		w.violate("memory", p.place, "keeps bytes: %+v, and there are %d", h, all)
	}
	w.result.Entries = max(w.result.Entries, h.Entries)
	w.result.Log = max(w.result.Log, h.Log)
	w.result.Snapshot = max(w.result.Snapshot, h.Snapshot)
	w.result.Known = max(w.result.Known, h.Others+h.Followers+h.Gossip+h.Joins+h.Reports+h.Gone)
}

// outbox checks what an agent wants sent at once: a message to each, with the view.
func (w *World) outbox(p *process, list []group.Send) {
	bytes := 0
	for i := range list {
		bytes += len(list[i].Message)
	}
	if all := w.recent.count(w); bytes > mostBytes+all*(mostSaid+mostInView*all) {
		w.violate("memory", p.place, "wants %d messages of %d bytes sent at once, and there are %d", len(list), bytes, all)
	}
	w.result.Outbox = max(w.result.Outbox, bytes)
}

// remembered is how long an agent may know one that has ended.
const remembered = 2 * time.Minute

// recent counts the processes that live or have ended of late, once a second.
type recent struct {
	at      time.Duration
	n       int
	started int // processes that had started by then
}

func (r *recent) count(w *World) int {
	if w.now-r.at >= time.Second || r.started == 0 {
		*r = recent{at: w.now, started: len(w.order)}
		for _, p := range w.order {
			if !p.dead || w.now-p.died <= remembered {
				r.n++
			}
		}
	}
	return r.n + len(w.order) - r.started
}

// installed notes the newest view, for the result and the picture.
func (w *World) installed(e *coord.Installed) {
	w.result.LastView = e.View.Number
	w.picture.installed(w.now, len(e.View.Members))
}

// lost is a process that has ended: the views must come to be without it.
func (w *World) lost(p *process) {
	w.picture.mark(w.now, p.place, "dead")
	if !slices.ContainsFunc(w.log.plain.members, func(m coord.Member) bool { return m.ID == p.id }) {
		return
	}
	w.leaving = append(w.leaving, pending{id: p.id, at: w.now, caused: w.result.Caused})
	if !w.watching {
		w.watching = true
		w.after(0, w.recovery)
	}
}

// recovery measures from the loss of a member to when no live agent has it in its view.
func (w *World) recovery() {
	live := w.live()
	w.leaving = slices.DeleteFunc(w.leaving, func(l pending) bool {
		if slices.ContainsFunc(w.log.plain.members, func(m coord.Member) bool { return m.ID == l.id }) {
			return false
		}
		for _, p := range live {
			if v := p.node.State().View; v != nil && v.Index(p.id) >= 0 && v.Index(l.id) >= 0 {
				return false
			}
		}
		w.result.Recovery = append(w.result.Recovery, w.now-l.at)
		w.result.Change = append(w.result.Change, w.result.Caused-l.caused)
		return true
	})
	if w.watching = len(w.leaving) > 0; w.watching {
		w.after(20*time.Millisecond, w.recovery)
	}
}

// delivered is positions that a rank of an async job takes.
func (w *World) delivered(p *process, x nd.Span) {
	w.result.Delivered += x.Stop - x.Start
	w.lastWork(p)
	s := p.node.State()
	if s.Known.View > w.log.plain.view || s.View.Index(p.id) < 0 {
		w.violate("I7", p.place, "delivers %v in view %d, which is not installed", x, s.Known.View)
	}
	w.note('d', p.place, int(x.Start), nil)
}

func (w *World) lastWork(p *process) {
	p.worked = w.now
	w.picture.delivered(w.now, p.place)
}

// deliveredStep is a step that a rank of a lockstep job is given.
func (w *World) deliveredStep(k *lockstepRank, s *group.State, v *coord.View, rank int) {
	p, m := k.owner.p, &w.log.plain
	w.result.Delivered++
	w.lastWork(p)
	w.note('d', p.place, int(k.step), nil)
	w.steps.most[k.turn] = max(w.steps.most[k.turn], k.step+1)
	if k.turn > m.turn || k.step >= m.granted[k.turn] {
		w.violate("I7", p.place, "step %d of turn %d is delivered, and the lease of that turn never went beyond %d", k.step, k.turn, m.granted[k.turn])
		return
	}
	want := m.seats(k.turn, k.step)
	if len(want) != v.World() || want[rank] != (seat{p.id, k.local}) {
		w.violate("I7", p.place, "step %d of turn %d is delivered to rank %d of %d in view %d, and the log gives it to %d other ranks", k.step, k.turn, rank, v.World(), v.Number, len(want))
		return
	}
	if v != s.View {
		return // the turn of the view before is not told any more
	}
	if first := w.steps.meet[s.Turn]; first != nil && first != &want[0] {
		w.violate("I7", p.place, "step %d is delivered in turn %d of the ranks, which had others", k.step, s.Turn)
	}
	w.steps.meet[s.Turn] = &want[0]
}

// accept is a part that counts for its rank: no position may do so twice.
func (w *World) accept(p *process, part *coord.Part) {
	seen := w.done[part.Epoch]
	if seen == nil {
		seen = make([]uint8, w.sc.Job.N)
		w.done[part.Epoch] = seen
	}
	for at := part.Span.Start; at < part.Span.Stop; at++ {
		if seen[at]++; seen[at] > 1 {
			w.violate("I5", p.place, "position %d of epoch %d counts for two ranks", at, part.Epoch)
			return
		}
	}
	if part.Epoch == w.log.plain.epoch {
		for at := part.Span.Start; at < part.Span.Stop; at++ {
			if !w.log.plain.done[at] {
				w.violate("I5", p.place, "position %d of epoch %d counts for its rank, and not in the log", at, part.Epoch)
				return
			}
		}
	}
}
