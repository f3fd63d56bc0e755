package sim

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// logbook is the one log of the job, written down as replicas apply it: each entry when
// the first of them does. Two models follow it: the machine itself, for what all replicas
// must be at each place, and a plain one that knows nothing of the machine's code.
type logbook struct {
	w       *World
	at      map[uint64]*applied
	last    uint64 // highest index
	machine coord.Machine
	plain   plain
	quorums quorums
	state   []byte // of the machine at last; nil: not written yet
	checks  int
}

// applied is an entry, and what it did at the first replica.
type applied struct {
	term    uint64
	entry   coord.Entry
	effects []coord.Effect
}

func (l *logbook) init(w *World) {
	*l = logbook{w: w, at: map[uint64]*applied{}}
	l.plain.init(w)
	l.quorums.init(w)
	w.breakMachine(&l.machine)
}

// watch takes what an agent says has happened.
func (w *World) watch(p *process, e *group.Event) {
	switch e.Kind {
	case group.Applied:
		w.log.applies(p, e)
	case group.Reconfigured:
		w.log.quorums.change(p, e)
	case group.Viewed:
		w.say(p.place, "view %d: %d members, cut %d", e.View.Number, len(e.View.Members), e.View.Cut)
	case group.Led:
		w.result.Elections++
		w.say(p.place, "leads")
		w.picture.mark(w.now, p.place, "leads")
	case group.Dropped:
		w.result.Dropped++
	case group.Foreign:
		w.violate("I1", p.place, "there is one job, and something is taken for another's: %s", e.Reason)
	case group.Refused:
		p.refused = e.Reason
		if p.foreign == "" {
			w.violate("admission", p.place, "%v belongs to the job, and was refused: %s", short(p.id), e.Reason)
		}
	case group.Ended:
		p.ended = e.Reason
		w.say(p.place, "ended: %s", e.Reason)
	case group.Broken:
		w.violate("raft", p.place, "%s", e.Reason)
	case group.Decided:
		w.say(p.place, "commit %d: %v of local rank %d is %v", e.Seq, e.Part.Span, e.Part.Local, e.Verdict)
	}
	p.work.event(e)
}

// applies is a replica that applies an entry: the same one as all others, with the same
// effects.
func (l *logbook) applies(p *process, e *group.Event) {
	if p.applied != e.Index {
		if e.Index < p.applied {
			l.w.violate("log", p.place, "applies index %d after %d", e.Index, p.applied)
			return
		}
		p.applied, p.effect = e.Index, 0
	}
	a := l.at[e.Index]
	if a == nil {
		if a = l.first(p, e); a == nil {
			return
		}
	}
	k := p.effect
	p.effect++
	switch {
	case a.term != e.Term || !sameEntry(a.entry, e.Entry):
		l.w.violate("log", p.place, "index %d is %T of term %d here, and was %T of term %d elsewhere", e.Index, e.Entry, e.Term, a.entry, a.term)
	case k >= len(a.effects) || !sameEffect(a.effects[k], e.Effect):
		l.w.violate("I1", p.place, "effect %d of index %d is %T%+v here, and not elsewhere", k, e.Index, e.Effect, e.Effect)
	}
}

// sameEntry reports whether two entries are equal: fast, for those of which there are many.
func sameEntry(a, b coord.Entry) bool {
	x, is := a.(*coord.Commit)
	y, too := b.(*coord.Commit)
	if !is || !too {
		return reflect.DeepEqual(a, b)
	}
	return x.View == y.View && x.Author == y.Author && x.Seq == y.Seq && slices.Equal(x.Parts, y.Parts)
}

// sameEffect is sameEntry for effects.
func sameEffect(a, b coord.Effect) bool {
	x, is := a.(*coord.Outcome)
	y, too := b.(*coord.Outcome)
	if !is || !too {
		return reflect.DeepEqual(a, b)
	}
	return x.Author == y.Author && x.Seq == y.Seq && x.Again == y.Again && slices.Equal(x.Verdicts, y.Verdicts) && slices.Equal(x.Parts, y.Parts)
}

// first is the first replica that applies an entry.
func (l *logbook) first(p *process, e *group.Event) *applied {
	if e.Index <= l.last {
		l.w.violate("log", p.place, "index %d has an entry of the job here, and %d was reached elsewhere without one", e.Index, l.last)
		return nil
	}
	l.quorums.hold(p, e)
	l.last = e.Index
	l.state = nil
	before := l.plain.before(&l.machine, e.Entry)
	a := &applied{e.Term, e.Entry, l.machine.Apply(e.Index, e.Entry)}
	l.at[e.Index] = a
	l.tell(p, e.Index, a)
	l.plain.apply(p, before, e.Entry, a.effects, &l.machine)
	return a
}

func (l *logbook) tell(p *process, index uint64, a *applied) {
	w := l.w
	for _, effect := range a.effects {
		switch e := effect.(type) {
		case *coord.Installed:
			w.result.Views++
			w.say(p.place, "log %d: view %d of %d members, %d ranks, cut %d (%s)", index, e.View.Number, len(e.View.Members), e.View.World(), e.View.Cut, e.Reason)
			w.installed(e)
			l.quorums.install(p, e.View)
		case *coord.Outcome:
			if w.trace != nil {
				w.say(p.place, "log %d: commit %d of %v: %v %v", index, e.Seq, short(e.Author), a.entry.(*coord.Commit).Parts, e.Verdicts)
			}
		default:
			if w.trace != nil {
				w.say(p.place, "log %d: %T %+v -> %T %+v", index, a.entry, a.entry, effect, effect)
			}
		}
	}
	w.note('l', p.place, int(index), coord.AppendEntry(nil, a.entry))
}

// replica compares a voter's whole state with what it must be at that place of the log.
func (l *logbook) replica(p *process) {
	m := p.node.Machine()
	if m == nil || m.Index() != l.last || !m.Formed() {
		return
	}
	if m.View().Number != l.machine.View().Number || m.Horizon() != l.machine.Horizon() || m.Committed() != l.machine.Committed() || m.Epoch() != l.machine.Epoch() {
		l.w.violate("I1", p.place, "at index %d the replica has another state than the log gives", l.last)
		return
	}
	if l.checks++; l.checks%64 != 0 || len(l.w.hosts) > mostPairs {
		return
	}
	if l.state == nil {
		l.state = l.machine.Snapshot()
	}
	if !bytes.Equal(l.state, m.Snapshot()) {
		l.w.violate("I1", p.place, "at index %d the replica's snapshot is another one than the log gives", l.last)
	}
}
