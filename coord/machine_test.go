package coord

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// named makes an ID that is readable in a failure.
func named(n int) ID { return ID{0: byte(n >> 8), 1: byte(n), 7: 1, 15: byte(n)} }

func member(n, ranks int) Member {
	return Member{ID: named(n), Name: fmt.Sprint("node", n), Rack: fmt.Sprint("rack", n%3), Address: "10.0.0.1:7946", Ranks: locals(ranks)}
}

func locals(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func admission(j Job, m Member) Admission {
	return Admission{Member: m, Version: Version, Job: j.Name, Plan: j.Plan}
}

func lockstep() Job {
	return Job{Name: "j", Plan: "p", N: 1000, Steps: 100, Epochs: 3, Voters: 7, Lease: 8}
}

func async(n int64) Job {
	return Job{Name: "j", Plan: "p", Mode: Async, N: n, Epochs: 2, Voters: 7, Ahead: 64, Reserve: 4}
}

// log applies entries one after the other.
type log struct {
	Machine
	at uint64
}

func form(t testing.TB, j Job, members ...Member) *log {
	t.Helper()
	l := &log{}
	if i, ok := l.apply(&Form{Job: j, Members: members})[0].(*Ignored); ok {
		t.Fatal(i.Reason)
	}
	return l
}

func (l *log) apply(e Entry) []Effect {
	l.at++
	return l.Apply(l.at, e)
}

// last is the last effect of an entry.
func (l *log) last(e Entry) Effect {
	out := l.apply(e)
	return out[len(out)-1]
}

func wants[T Effect](t *testing.T, got Effect) T {
	t.Helper()
	e, ok := got.(T)
	if !ok {
		t.Fatalf("effect %T %+v", got, got)
	}
	return e
}

// A view has the number after the one before; members keep their order, so that ranks
// that stay have numbers in the same order.
func TestViews(t *testing.T) {
	j := lockstep()
	l := form(t, j, member(1, 8), member(2, 8), member(3, 0))
	v := wants[*Installed](t, l.last(&Change{View: 0, Evict: []ID{named(1)}, Admit: []Admission{admission(j, member(4, 4))}})).View
	if v.Number != 1 || v.World() != 12 || v.Index(named(4)) != 2 || v.First(2) != 8 {
		t.Errorf("view %+v", v)
	}
	wants[*Ignored](t, l.last(&Change{View: 0, Evict: []ID{named(2)}}))
	wants[*Ignored](t, l.last(&Change{View: 1, Evict: []ID{named(1)}}))
	wants[*Ignored](t, l.last(&Change{View: 1, Evict: []ID{named(2), named(3), named(4)}}))
}

// Who means another job is told so, and the others of the same Change come in.
func TestRefusals(t *testing.T) {
	j := lockstep()
	l := form(t, j, member(1, 1))
	l.apply(&Extend{})
	other := func(n int, change func(*Admission)) Admission {
		a := admission(j, member(n, 1))
		change(&a)
		return a
	}
	out := l.apply(&Change{Admit: []Admission{
		other(2, func(a *Admission) { a.Version++ }),
		other(3, func(a *Admission) { a.Plan = "q" }),
		other(4, func(a *Admission) { a.Job = "k" }),
		other(1, func(*Admission) {}),
		other(5, func(a *Admission) { a.ID[15]++ }), // another ID, the same number
		other(5, func(*Admission) {}),
		other(6, func(a *Admission) { a.Plan, a.Ranks = "", nil }), // a witness loads nothing
		other(7, func(a *Admission) { a.Ranks = locals(maxRanks) }),
	}})
	var refused []ID
	for _, e := range out[:len(out)-1] {
		refused = append(refused, wants[*Refused](t, e).ID)
	}
	want := []ID{named(2), named(3), named(4), named(1), named(5), named(7)}
	v := wants[*Installed](t, out[len(out)-1]).View
	if !slices.Equal(refused, want) || len(v.Members) != 3 || v.Index(named(6)) != 2 {
		t.Errorf("refused %v, view %+v", refused, v)
	}
}

// The number of one that has voted is never another agent's; a replica that was restored knows it
// too. The same agent may come again, and one that has not voted has promised nothing. What is
// remembered is bounded.
func TestNumbersOfVotersAreUsedOnce(t *testing.T) {
	j := lockstep()
	j.Voters = 1
	l := form(t, j, member(1, 1), member(2, 1))
	view := func(c *Change) *View {
		t.Helper()
		c.View = l.View().Number
		return wants[*Installed](t, l.last(c)).View
	}
	if v := view(&Change{Evict: []ID{named(1)}}); !slices.Equal(v.Voters, []ID{named(2)}) {
		t.Fatalf("voters %v", v.Voters)
	}
	twin := func(n int) Admission {
		a := admission(j, member(n, 0))
		a.ID[15] = 99
		return a
	}
	var copied Machine
	if err := copied.Restore(l.Snapshot()); err != nil {
		t.Fatal(err)
	}
	a := twin(1)
	for name, m := range map[string]*Machine{"the machine": &l.Machine, "one that was restored": &copied} {
		if m.Refuses(&a) == "" {
			t.Errorf("%s admits an agent with a number that has voted", name)
		}
		if same := admission(j, member(1, 0)); m.Refuses(&same) != "" {
			t.Errorf("%s does not admit the one that has voted again: %s", name, m.Refuses(&same))
		}
	}
	view(&Change{Admit: []Admission{admission(j, member(3, 0))}})
	view(&Change{Evict: []ID{named(3)}})
	if a = twin(3); l.Refuses(&a) != "" {
		t.Errorf("one that has never voted keeps its number: %s", l.Refuses(&a))
	}
	for n := range mostRetired + 1 { // in each view another one votes
		view(&Change{Evict: l.View().Voters, Admit: []Admission{admission(j, member(n+4, 0))}})
	}
	if n := len(l.retired); n != mostRetired || slices.Contains(l.retired, named(1)) {
		t.Errorf("%d voters are remembered", n)
	}
}

// A lease is never more than two leases beyond what is done: without a majority, which
// is what extends it, a job stops by itself.
func TestLease(t *testing.T) {
	l := form(t, lockstep(), member(1, 1))
	if l.Horizon() != 8 {
		t.Fatalf("first lease to %d", l.Horizon())
	}
	if e := wants[*Extended](t, l.last(&Extend{Horizon: 1000, Done: 4})); e.Horizon != 20 || e.Done != 4 {
		t.Errorf("%+v", e)
	}
	wants[*Ignored](t, l.last(&Extend{Horizon: 1000, Done: 21}))
	wants[*Ignored](t, l.last(&Extend{View: 1, Horizon: 1000, Done: 5}))
	if e := wants[*Extended](t, l.last(&Extend{Horizon: 5, Done: 2})); e.Horizon != 20 || e.Done != 4 {
		t.Errorf("a lease that went back: %+v", e)
	}
	wants[*Ignored](t, l.last(&Extend{Redos: 1, Horizon: 1000, Done: 5}))
	for s := int64(4); s < 300; s += 10 {
		l.apply(&Extend{Horizon: s + 16, Done: s})
	}
	if l.Horizon() != 300 {
		t.Errorf("the lease ends at %d, the job at 300", l.Horizon())
	}
}

// A member that comes is in from the step that nobody can have reached. One that is lost
// stops the job until the trainer says where to go on, at most where it can have been.
func TestCuts(t *testing.T) {
	j := lockstep()
	l := form(t, j, member(1, 1), member(2, 1))
	l.apply(&Extend{Horizon: 16, Done: 3})
	v := wants[*Installed](t, l.last(&Change{Admit: []Admission{admission(j, member(3, 1))}})).View
	if v.Cut != 16 || l.Horizon() != 24 {
		t.Errorf("a member comes at step %d of a lease to %d", v.Cut, l.Horizon())
	}
	if v := wants[*Installed](t, l.last(&Change{View: 1, Evict: []ID{named(2)}})).View; v.Cut != 3 || l.Horizon() != 0 || !l.Halted() {
		t.Errorf("a member was lost: cut %d, lease to %d", v.Cut, l.Horizon())
	}
	wants[*Ignored](t, l.last(&Extend{View: 2, Horizon: 16, Done: 5}))
	wants[*Ignored](t, l.last(&Redo{View: 1, Step: 5}))
	wants[*Ignored](t, l.last(&Redo{View: 2, Step: 25}))
	wants[*Ignored](t, l.last(&Redo{View: 2, Redos: 1, Step: 24}))
	if e := wants[*Extended](t, l.last(&Redo{View: 2, Step: 24})); e.Horizon != 32 || l.View().Cut != 24 || l.Halted() {
		t.Errorf("after the redo: lease to %d, cut %d", e.Horizon, l.View().Cut)
	}
	// A witness that goes stops nobody.
	l.apply(&Change{View: 2, Admit: []Admission{admission(j, member(4, 0))}})
	l.apply(&Change{View: 3, Evict: []ID{named(4)}})
	if l.Halted() || l.View().Cut != 24 || l.View().Number != 4 {
		t.Errorf("after a witness: %+v", l.View())
	}
}

// A redo that comes again, when ranks have gone on from it, takes nothing back; and what
// they had done before it is not done after it.
func TestRedoTwice(t *testing.T) {
	l := form(t, lockstep(), member(1, 1))
	l.apply(&Extend{Horizon: 16, Done: 6})
	l.apply(&Redo{Step: 2})
	wants[*Ignored](t, l.last(&Extend{Horizon: 16, Done: 8}))
	l.apply(&Extend{Redos: 1, Horizon: 24, Done: 10})
	wants[*Ignored](t, l.last(&Redo{Step: 2}))
	if l.Progress().Step != 10 || l.Horizon() != 24 {
		t.Errorf("step %d, lease to %d", l.Progress().Step, l.Horizon())
	}
}

// Of two redos that answer one halt the first holds, and is known by what its rank has drawn. Turns
// count what changes whom a rank meets: not witnesses.
func TestTheFirstRedoHolds(t *testing.T) {
	j := lockstep()
	l := form(t, j, member(1, 1), member(2, 1), member(3, 1))
	turn := l.Turn()
	l.apply(&Change{Evict: []ID{named(3)}})
	l.apply(&Redo{View: 1, Step: 5, By: 77})
	wants[*Ignored](t, l.last(&Redo{View: 1, Step: 3, By: 88}))
	if b := l.Brief(named(1), Stamp{}); b.By != 77 || b.Cut != 5 || b.Redos != 1 || b.Turn != turn+2 || b.Reach != 13 {
		t.Errorf("by %d, cut %d, %d redos, turn %d, reach %d", b.By, b.Cut, b.Redos, b.Turn, b.Reach)
	}
	l.apply(&Change{View: 1, Admit: []Admission{admission(j, member(4, 0))}})
	if l.Turn() != turn+2 || l.View().Number != 2 {
		t.Errorf("a witness makes turn %d of view %d", l.Turn(), l.View().Number)
	}
	// Forward to where an earlier lease was, whose steps may all be done: a newer checkpoint says so.
	l.apply(&Redo{View: 2, Redos: 1, Step: 0})
	wants[*Ignored](t, l.last(&Redo{View: 2, Redos: 2, Step: 14}))
	wants[*Extended](t, l.last(&Redo{View: 2, Redos: 2, Step: 13}))
}

// Ranks come one view after the other: the next one waits until all have begun the view
// that there is, so that no rank has to know three of them.
func TestViewsFollowEachOther(t *testing.T) {
	j := lockstep()
	l := form(t, j, member(1, 1))
	come := func(n, ranks int) Effect {
		return l.last(&Change{View: l.View().Number, Admit: []Admission{admission(j, member(n, ranks))}})
	}
	wants[*Ignored](t, come(2, 1))
	l.apply(&Extend{})
	wants[*Installed](t, come(2, 1))
	l.apply(&Extend{View: 1, Done: 7})
	wants[*Ignored](t, come(3, 1))
	wants[*Installed](t, come(4, 0)) // a witness
	l.apply(&Extend{View: 2, Done: 8})
	wants[*Installed](t, come(3, 1))
}

// Ranks of a member come and go one by one: a lost one halts the job and gives up its
// lane, a new one comes where nobody can be.
func TestRanks(t *testing.T) {
	l := form(t, lockstep(), member(1, 3))
	l.apply(&Extend{})
	ranks := func(list ...int) *Change {
		return &Change{View: l.View().Number, Ranks: []Ranks{{named(1), list}}}
	}
	if v := wants[*Installed](t, l.last(ranks(0, 1, 2, 7))).View; v.Cut != 8 || v.Rank(named(1), 7) != 3 || l.Halted() {
		t.Errorf("a rank came: %+v", v)
	}
	if v := wants[*Installed](t, l.last(ranks(0, 2, 7))).View; v.Cut != 0 || v.Rank(named(1), 7) != 2 || !l.Halted() {
		t.Errorf("a rank was lost: %+v", v)
	}
	wants[*Ignored](t, l.last(ranks(0, 2, 7)))
}

// Nothing is handed out before all ranks that are expected are there; who goes before
// that halts nobody.
func TestExpectedRanks(t *testing.T) {
	j := lockstep()
	j.Expect = 4
	a := async(100)
	a.Expect = 4
	for _, l := range []*log{form(t, j, member(1, 2)), form(t, a, member(1, 2))} {
		l.apply(&Change{Admit: []Admission{admission(l.job, member(2, 1))}})
		l.apply(&Change{View: 1, Evict: []ID{named(2)}})
		if l.Horizon() != 0 || l.Lanes() != 0 || l.Halted() {
			t.Errorf("%v: work before the ranks: lease to %d, %d lanes, halted %v", l.job.Mode, l.Horizon(), l.Lanes(), l.Halted())
		}
		v := wants[*Installed](t, l.last(&Change{View: 2, Admit: []Admission{admission(l.job, member(3, 2))}})).View
		if l.job.Mode == Lockstep && (l.Horizon() != 8 || v.Cut != 0) || l.job.Mode == Async && l.Lanes() != 4 {
			t.Errorf("%v: the ranks are there: lease to %d, cut %d, %d lanes", l.job.Mode, l.Horizon(), v.Cut, l.Lanes())
		}
		if l.job.Mode == Async {
			checkWhole(t, &l.Machine)
		}
	}
}

// An epoch of a lockstep job closes when its last step is done.
func TestCloseLockstep(t *testing.T) {
	j := lockstep()
	j.Steps, j.Epochs = 10, 2
	l := form(t, j, member(1, 1))
	wants[*Ignored](t, l.last(&Close{0}))
	for e := range int64(2) {
		l.apply(&Extend{Horizon: 100, Done: 8 + 10*e})
		l.apply(&Extend{Horizon: 100, Done: 10 + 10*e})
		if c := wants[*Closed](t, l.last(&Close{e})); c.Epoch != e || c.Count != 1000 {
			t.Errorf("%+v", c)
		}
	}
	if !l.Over() {
		t.Error("the job is not over")
	}
	wants[*Ignored](t, l.last(&Close{2}))
}

// A commit counts once, in the order of its author, however often it is proposed; and what
// became of it is told again, for the first answer may be lost.
func TestCommitsOnce(t *testing.T) {
	l := form(t, async(100), member(1, 1), member(2, 1))
	part := func(a, b int64) []Part {
		return []Part{{Span: nd.Span{Start: a, Stop: b}, Digest: [2]uint64{1, 2}}}
	}
	c := &Commit{Author: named(1), Seq: 1, Parts: part(0, 10)}
	first := wants[*Outcome](t, l.last(c))
	again := wants[*Outcome](t, l.last(c))
	if first.Verdicts[0] != Effective || first.Again || again.Verdicts[0] != Effective || !again.Again {
		t.Errorf("%+v, then %+v", first, again)
	}
	wants[*Ignored](t, l.last(&Commit{Author: named(1), Seq: 3, Parts: part(10, 20)}))
	if o := wants[*Outcome](t, l.last(&Commit{Author: named(1), Seq: 2, Parts: part(20, 30)})); o.Verdicts[0] != VoidLane {
		t.Errorf("positions that are not next: %v", o.Verdicts)
	}
	if o := wants[*Outcome](t, l.last(&Commit{Author: named(2), Seq: 1, Parts: part(10, 20)})); o.Verdicts[0] != VoidLane {
		t.Errorf("positions of another lane: %v", o.Verdicts)
	}
	l.apply(&Change{Evict: []ID{named(2)}})
	if o := wants[*Outcome](t, l.last(&Commit{View: 1, Author: named(2), Seq: 2, Parts: part(50, 60)})); o.Verdicts[0] != VoidView {
		t.Errorf("of an evicted member: %v", o.Verdicts)
	}
	if o := wants[*Outcome](t, l.last(&Commit{View: 0, Author: named(1), Seq: 3, Parts: part(10, 20)})); o.Verdicts[0] != VoidView {
		t.Errorf("of an old view: %v", o.Verdicts)
	}
	if l.Committed() != 10 || l.digest != [2]uint64{1, 2} {
		t.Errorf("%d positions are committed, digest %v", l.Committed(), l.digest)
	}
}

// Ranks that have nothing left get half of what the slowest has, and the begin of its
// lane stays with it.
func TestRebalance(t *testing.T) {
	l := form(t, async(200), member(1, 2))
	l.apply(&Commit{Author: named(1), Seq: 1, Parts: []Part{{Local: 1, Span: nd.Span{Start: 100, Stop: 200}}}})
	wants[*Ignored](t, l.last(&Rebalance{From: 1, To: 0}))
	wants[*Rebalanced](t, l.last(&Rebalance{From: 0, To: 1}))
	if a, b := l.Lane(0), l.Lane(1); !slices.Equal(a, []nd.Span{{Start: 0, Stop: 52}}) || !slices.Equal(b, []nd.Span{{Start: 52, Stop: 100}}) {
		t.Errorf("lanes %v and %v", a, b)
	}
	wants[*Ignored](t, l.last(&Rebalance{From: 0, To: 2}))
}

// A rank that has nothing left gets all that one has which stands still, the reserve too; what
// that one commits of it is void then.
func TestRebalanceAll(t *testing.T) {
	l := form(t, async(200), member(1, 2))
	l.apply(&Commit{Author: named(1), Seq: 1, Parts: []Part{{Local: 1, Span: nd.Span{Start: 100, Stop: 200}}}})
	l.apply(&Commit{Author: named(1), Seq: 2, Parts: []Part{{Span: nd.Span{Start: 0, Stop: 98}}}})
	wants[*Ignored](t, l.last(&Rebalance{From: 0, To: 1}))
	if r := wants[*Rebalanced](t, l.last(&Rebalance{From: 0, To: 1, All: true})); r.Moved != 2 {
		t.Errorf("%d positions were moved", r.Moved)
	}
	wants[*Ignored](t, l.last(&Rebalance{From: 0, To: 1, All: true}))
	last := []Part{{Span: nd.Span{Start: 98, Stop: 100}}}
	if o := wants[*Outcome](t, l.last(&Commit{Author: named(1), Seq: 3, Parts: last})); o.Verdicts[0] != VoidLane {
		t.Errorf("of the rank that stood still: %v", o.Verdicts)
	}
	last[0].Local = 1
	if o := wants[*Outcome](t, l.last(&Commit{Author: named(1), Seq: 4, Parts: last})); o.Verdicts[0] != Effective || l.Committed() != 200 {
		t.Errorf("of the one that has it now: %v, %d committed", o.Verdicts, l.Committed())
	}
}

// checkWhole says that each position is in one lane or committed, which is what makes
// an epoch exact (I4, I5) whatever comes.
func checkWhole(t *testing.T, m *Machine) {
	t.Helper()
	if m.view.World() == 0 || m.Over() || !m.open {
		return
	}
	seen := make([]int, m.job.N)
	count := func(list []nd.Span) {
		for _, s := range list {
			for p := s.Start; p < s.Stop; p++ {
				seen[p]++
			}
		}
	}
	count(m.done)
	for i := range m.lanes {
		count(m.lanes[i].rest)
	}
	for p, n := range seen {
		if n != 1 {
			t.Fatalf("position %d is in %d lanes or commits, view %d", p, n, m.view.Number)
		}
	}
}

// player drives a random history of an async job and knows by itself what must come of
// its commits.
type player struct {
	*log
	t     *testing.T
	r     *rand.Rand
	seq   map[ID]uint64
	owned map[int64]ID // position to the author whose commit was effective
	next  int
}

func (p *player) step() {
	v := p.View()
	switch p.r.IntN(8) {
	case 0:
		p.change(v)
	case 1:
		if n := p.Lanes(); n > 1 {
			p.apply(&Rebalance{View: v.Number, From: p.r.IntN(n), To: p.r.IntN(n), All: p.r.IntN(4) == 0})
		}
	default:
		p.commit(v)
	}
}

func (p *player) change(v *View) {
	c := &Change{View: v.Number}
	for _, m := range v.Members {
		if p.r.IntN(4) == 0 {
			c.Evict = append(c.Evict, m.ID)
		}
	}
	for _, m := range v.Members {
		if p.r.IntN(6) == 0 {
			c.Ranks = append(c.Ranks, Ranks{m.ID, slices.DeleteFunc(locals(5), func(int) bool { return p.r.IntN(2) == 0 })})
		}
	}
	for range p.r.IntN(3) {
		p.next++
		c.Admit = append(c.Admit, admission(p.job, member(p.next, p.r.IntN(4))))
	}
	p.apply(c)
}

func (p *player) commit(v *View) {
	m := v.Members[p.r.IntN(len(v.Members))]
	if len(m.Ranks) == 0 {
		return
	}
	local := m.Ranks[p.r.IntN(len(m.Ranks))]
	lane := p.Lane(v.Rank(m.ID, local))
	if len(lane) == 0 {
		return
	}
	x := lane[0]
	x.Stop = min(x.Stop, x.Start+1+int64(p.r.IntN(20)))
	p.seq[m.ID]++
	o := wants[*Outcome](p.t, p.last(&Commit{View: v.Number, Author: m.ID, Seq: p.seq[m.ID], Parts: []Part{{Local: local, Epoch: p.epoch, Span: x, Digest: [2]uint64{uint64(x.Start), uint64(x.Stop)}}}}))
	if o.Verdicts[0] != Effective {
		p.t.Fatalf("%v of %s in lane %v: %v", x, m.ID, lane, o.Verdicts)
	}
	for at := x.Start; at < x.Stop; at++ {
		if other, twice := p.owned[at]; twice {
			p.t.Fatalf("position %d by %s and %s", at, other, m.ID)
		}
		p.owned[at] = m.ID
	}
}

// Whatever comes and goes, each position of the epoch is committed once; snapshots
// taken anywhere go on as the machine itself does.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := &player{log: form(t, async(1+int64(r.IntN(3000))), member(1, 1+r.IntN(4)), member(2, r.IntN(3))), t: t, r: r, seq: map[ID]uint64{}, owned: map[int64]ID{}, next: 2}
		for range 4000 {
			p.step()
			if r.IntN(10) == 0 {
				checkWhole(t, &p.Machine)
			}
			if r.IntN(50) == 0 {
				p.restore()
			}
			if p.Complete() {
				break
			}
		}
		if int64(len(p.owned)) != p.Committed() {
			t.Fatalf("seed %d: %d positions are owned, %d committed", seed, len(p.owned), p.Committed())
		}
		if p.Complete() {
			for e := int64(0); !p.Over(); e++ {
				wants[*Closed](t, p.last(&Close{e}))
				if checkWhole(t, &p.Machine); e == 0 {
					p.finishEpoch()
				}
			}
			p.change(p.View())
			p.restore()
		}
	}
}

// restore goes on from a snapshot, which must be the machine.
func (p *player) restore() {
	var m Machine
	snapshot := p.Snapshot()
	if err := m.Restore(snapshot); err != nil {
		p.t.Fatal(err)
	}
	if !bytes.Equal(m.Snapshot(), snapshot) {
		p.t.Fatal("the snapshot of a snapshot differs")
	}
	p.Machine = m
}

// finishEpoch commits all that is left.
func (p *player) finishEpoch() {
	p.owned = map[int64]ID{}
	for !p.Complete() {
		p.commit(p.View())
	}
}

// Lanes of those that stay keep their begin, for that is under way: only what was
// lost, or is beyond the share, moves.
func TestChangeLeavesWorkUnderWay(t *testing.T) {
	j := async(1000)
	l := form(t, j, member(1, 1), member(2, 1), member(3, 1))
	before := []nd.Span{l.Lane(0)[0], l.Lane(1)[0]}
	l.apply(&Change{Evict: []ID{named(3)}, Admit: []Admission{admission(j, member(4, 3))}})
	for i, b := range before {
		if got := l.Lane(i)[0]; got.Start != b.Start || got.Stop-got.Start < j.Reserve {
			t.Errorf("lane %d was %v, is %v", i, b, l.Lane(i))
		}
	}
	checkWhole(t, &l.Machine)
	for i := range l.Lanes() {
		if n := l.Left(i); n != 200 {
			t.Errorf("lane %d has %d positions of 200", i, n)
		}
	}
}

// A machine holds no more pieces than a few for each rank, though thousands of
// changes cut lanes up.
func TestPiecesAreBounded(t *testing.T) {
	j := async(1 << 20)
	l := form(t, j, member(1, 4), member(2, 4))
	for n := range 3000 {
		l.apply(&Change{View: l.View().Number, Evict: []ID{named(n + 1)}, Admit: []Admission{admission(j, member(n+3, 1+n%7))}})
		pieces := 0
		for i := range l.Lanes() {
			pieces += len(l.Lane(i))
		}
		if most := (mostPieces + 2) * (l.Lanes() + 1); pieces > most {
			t.Fatalf("change %d: %d pieces in %d lanes", n, pieces, l.Lanes())
		}
	}
	if n := len(l.sessions); n != 2 {
		t.Errorf("%d sessions of 2 members", n)
	}
}

// At most seven voters, an odd number; those that are stay; racks are spread.
func TestVoters(t *testing.T) {
	for n := 1; n < 40; n++ {
		var members []Member
		for i := range n {
			members = append(members, member(i+1, 1))
		}
		voters := chooseVoters(members, nil, 7)
		want := min(7, n-1+n%2)
		if len(voters) != max(1, want) {
			t.Errorf("%d of %d members", len(voters), n)
		}
		racks := map[string]int{}
		for _, m := range members {
			if slices.Contains(voters, m.ID) {
				racks[m.Rack]++
			}
		}
		for _, k := range racks {
			if n > 9 && k > 3 {
				t.Errorf("%d of %d voters in one rack", k, len(voters))
			}
		}
		if n > 8 {
			next := chooseVoters(members[1:], voters, 7)
			kept := 0
			for _, v := range voters {
				if slices.Contains(next, v) {
					kept++
				}
			}
			if kept < 6 {
				t.Errorf("%d of 7 voters were kept when one left", kept)
			}
		}
	}
}

// entries is one of each kind.
func entries() []Entry {
	j := async(100)
	return []Entry{
		&Form{Job: j, Members: []Member{member(1, 2), member(2, 0)}, Start: Progress{Epoch: 1, Step: 7, Done: []nd.Span{{Start: 1, Stop: 5}, {Start: 9, Stop: 10}}, Digest: [2]uint64{3, 4}}},
		&Change{View: 3, Evict: []ID{named(1)}, Admit: []Admission{admission(j, member(4, 1))}, Ranks: []Ranks{{named(2), []int{1, 4, 5}}}, Reason: "it is gone"},
		&Extend{View: 1 << 40, Redos: 3, Horizon: 9, Done: 8},
		&Redo{View: 2, Redos: 1, Step: 1 << 50, By: 1 << 60},
		&Commit{View: 1, Author: named(9), Seq: 77, Parts: []Part{{Local: 1, Epoch: 2, Span: nd.Span{Start: 5, Stop: 6}, Digest: [2]uint64{1, 1 << 63}}}},
		&Rebalance{View: 1, From: 2, To: 3, All: true},
		&Close{Epoch: 5},
	}
}

// What is read is what was written, and nothing shorter or longer is taken for it.
func TestEntriesOnTheWire(t *testing.T) {
	for _, e := range entries() {
		data := AppendEntry(nil, e)
		got, err := ParseEntry(data)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%T: %+v, %v", e, got, err)
		}
		if _, err := ParseEntry(append(data, 0)); err == nil {
			t.Errorf("%T with a byte more was read", e)
		}
		for n := range data {
			if got, err := ParseEntry(data[:n]); err == nil {
				t.Errorf("%T cut to %d bytes: %+v", e, n, got)
			}
		}
	}
}

func FuzzEntry(f *testing.F) {
	for _, e := range entries() {
		f.Add(AppendEntry(nil, e))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEntry(data)
		if err != nil {
			return
		}
		if c, ok := e.(*Change); ok {
			for i := range c.Admit {
				a := &c.Admit[i] // a million lanes are right, and slow
				a.Ranks = a.Ranks[:min(len(a.Ranks), 100)]
			}
		}
		l := form(t, async(50), member(1, 2), member(2, 1))
		l.apply(e)
		checkWhole(t, &l.Machine)
		written := AppendEntry(nil, e)
		again, err := ParseEntry(written)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v was read back as %+v, %v", e, again, err)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	l := form(f, async(50), member(1, 2), member(2, 1))
	f.Add(l.Snapshot())
	l.apply(&Commit{Author: named(1), Seq: 1, Parts: []Part{{Span: nd.Span{Start: 0, Stop: 10}}}})
	f.Add(l.Snapshot())
	f.Add(form(f, lockstep(), member(1, 2)).Snapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Machine
		if m.Restore(data) != nil {
			return
		}
		var again Machine
		if err := again.Restore(m.Snapshot()); err != nil || !bytes.Equal(again.Snapshot(), m.Snapshot()) {
			t.Fatalf("a snapshot that was read is not written: %v", err)
		}
	})
}

// messages is one of each kind.
func messages() []Body {
	j := async(100)
	view := &View{Number: 3, Members: []Member{member(1, 2), member(2, 0)}, Voters: []ID{named(1)}, Cut: 9}
	return []Body{
		&Raft{Data: []byte{1, 2, 3}},
		&Join{Admission: admission(j, member(4, 2)), Hops: 2},
		&Follow{Known: Stamp{5, 1, 2}, Seq: 3},
		&Brief{Known: Stamp{5, 3, 9}, Deltas: []Delta{{Evict: []ID{named(2)}, Admit: []Member{member(3, 2)}, Ranks: []Ranks{{named(4), []int{1}}}, Voters: []ID{named(1)}, Cut: 7}, {}}},
		&Brief{Known: Stamp{1 << 63, 3, 9}, View: view, Hint: true, Leader: named(2), Refused: "no", Cut: 9, Redos: 6, By: 1 << 63, Reach: 30, Turn: 8, Horizon: 20, Step: 10, Halted: true, Epoch: 2, Committed: 5, Closed: &Closed{1, 9, [2]uint64{3, 4}}, Lanes: [][]nd.Span{{{Start: 1, Stop: 4}}, nil}, Seq: 8, Verdicts: []Verdict{Effective, VoidLane}},
		&Ask{Entry: &Redo{View: 3, Redos: 2, Step: 9}},
		&Report{Author: named(3), View: 4, Redos: 2, Ranks: []int{0, 2, 5}, Done: 4, Used: 7},
		&Gone{ID: named(3), Reason: "it left", Hops: 1},
	}
}

func TestMessagesOnTheWire(t *testing.T) {
	for _, b := range messages() {
		m := &Message{From: Source{named(7), "10.0.0.7:1"}, To: named(8), Stamp: Stamp{5, 3, 4}, Body: b}
		data := AppendMessage(nil, m)
		got, err := ParseMessage(data)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %+v, %v", b, got, err)
		}
		data[0]++
		if _, err := ParseMessage(data); !errors.Is(err, nd.ErrUnsupported) {
			t.Errorf("%T of another version: %v", b, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, b := range messages() {
		f.Add(AppendMessage(nil, &Message{From: Source{named(7), "a:1"}, Body: b}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMessage(data)
		if err != nil {
			return
		}
		again, err := ParseMessage(AppendMessage(nil, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v was read back as %+v, %v", m, again, err)
		}
	})
}

// When the last rank of a lockstep job is lost nobody can say where to go on: the job waits
// for as many ranks as at its begin, and goes on where all had been.
func TestLockstepLosesAllRanks(t *testing.T) {
	j := Job{Name: "job", Plan: "p", Mode: Lockstep, N: 1000, Steps: 500, Voters: 3, Expect: 2, Lease: 8}
	a, b := Member{ID: ID{7: 1}, Ranks: []int{0}}, Member{ID: ID{7: 2}, Ranks: []int{0}}
	var m Machine
	m.Apply(1, &Form{Job: j, Members: []Member{a, b}})
	m.Apply(2, &Extend{View: 0, Horizon: 100, Done: 6})
	m.Apply(3, &Change{View: 0, Ranks: []Ranks{{ID: a.ID}}})
	if !m.Halted() {
		t.Error("a loss that leaves a rank does not halt")
	}
	m.Apply(4, &Change{View: 1, Ranks: []Ranks{{ID: b.ID}}})
	if m.Halted() || m.Brief(a.ID, Stamp{}).Open {
		t.Errorf("without ranks: halted %v", m.Halted())
	}
	m.Apply(5, &Change{View: 2, Ranks: []Ranks{{ID: b.ID, Ranks: []int{0}}}})
	if m.Brief(a.ID, Stamp{}).Open {
		t.Error("one of two ranks opens the job")
	}
	m.Apply(6, &Change{View: 3, Ranks: []Ranks{{ID: a.ID, Ranks: []int{0}}}})
	if s := m.Brief(a.ID, Stamp{}); !s.Open || s.Cut != 6 || s.Horizon != 14 || s.Halted || s.Redos != 1 {
		t.Errorf("again: %+v", s)
	}
}

// A redo while ranks that are expected are missing is none: it would lease steps to those that
// are there.
func TestRedoBeforeAllAreThere(t *testing.T) {
	a, b := Member{ID: named(1), Ranks: []int{0}}, Member{ID: named(2)}
	l := form(t, Job{Name: "j", N: 100, Steps: 10, Voters: 1, Lease: 8, Expect: 2}, a, b)
	wants[*Ignored](t, l.last(&Redo{Step: 0}))
	if l.Horizon() != 0 || l.Open() || l.Redos() != 0 {
		t.Errorf("horizon %d, open %v, redos %d", l.Horizon(), l.Open(), l.Redos())
	}
	l.apply(&Change{Ranks: []Ranks{{ID: b.ID, Ranks: []int{0}}}})
	if l.Horizon() != 8 || !l.Open() {
		t.Errorf("all are there: horizon %d, open %v", l.Horizon(), l.Open())
	}
	wants[*Extended](t, l.last(&Redo{View: 1, Step: 3}))
}

// Where all that have worked leave behind the last step of an epoch the job is over for ranks that came
// late and had no step; not where one of them is lost, or still works.
func TestDoneRanksEndTheJob(t *testing.T) {
	j := lockstep()
	j.Epochs = 0
	late := func(t *testing.T) *log {
		l := form(t, j, member(1, 1), member(2, 1))
		l.apply(&Extend{Horizon: 16, Done: 3})
		wants[*Installed](t, l.last(&Change{Admit: []Admission{admission(j, member(3, 1))}}))
		return l
	}
	left := func(n int) Ranks { return Ranks{named(n), []int{0}} }
	l := late(t)
	l.apply(&Change{View: 1, Evict: []ID{named(1), named(2)}, Left: []Ranks{left(1), left(2)}})
	if !l.Over() || l.Halted() {
		t.Errorf("all are done: over %v, halted %v", l.Over(), l.Halted())
	}
	wants[*Ignored](t, l.last(&Redo{View: 2}))
	l = late(t)
	l.apply(&Change{View: 1, Evict: []ID{named(1), named(2)}, Left: []Ranks{left(1)}})
	if l.Over() || !l.Halted() {
		t.Errorf("one of them is lost: over %v, halted %v", l.Over(), l.Halted())
	}
	l = late(t)
	l.apply(&Change{View: 1, Evict: []ID{named(1)}, Left: []Ranks{left(1)}})
	if l.Over() || !l.Halted() {
		t.Errorf("one of them works: over %v, halted %v", l.Over(), l.Halted())
	}
	l.apply(&Change{View: 2, Evict: []ID{named(2)}, Left: []Ranks{left(2)}})
	if !l.Over() || l.Halted() {
		t.Errorf("then it is done too: over %v, halted %v", l.Over(), l.Halted())
	}
}
