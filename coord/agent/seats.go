package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Agent is the Coordinator of its node's ranks. The calls come from the readers of
// their connections; each is done by the agent's goroutine.
var _ agentapi.Coordinator = (*Agent)(nil)

// Attach takes a rank. The first one says what the job is; the others must mean the same.
func (a *Agent) Attach(s *agentapi.Seat, want agentapi.Attach) error {
	bound := time.NewTimer(vacantBound)
	defer bound.Stop()
	var at endpoint
	for {
		err := a.do(context.Background(), func() error { return a.attach(s, want, at) })
		if unknown, is := errors.AsType[*unresolvedError](err); is {
			if at, err = a.config.resolve(a.ending, unknown.address); err != nil {
				return err
			}
			continue
		}
		taken, is := errors.AsType[*takenError](err)
		if !is {
			return err
		}
		select {
		case <-taken.vacated:
		case <-a.stop: // the next try says so
		case <-bound.C:
			return nd.Errorf(nd.ErrConfig, "%w", err)
		}
	}
}

// vacantBound is how long a rank waits for the end of the one that had its place. Of a process that
// was killed the connection's end is there at once, and was perhaps not read yet. Whether that process
// lives is not asked: it has another number in another container.
const vacantBound = time.Second

// takenError is that of a rank whose place another one has.
type takenError struct {
	local   int
	vacated <-chan struct{} // closed when it has it no more
}

func (e *takenError) Error() string {
	return fmt.Sprintf("local rank %d is attached already: one loader of a rank is in the job, coord is off for the others", e.local)
}

// unresolvedError is that of a rank for which the agent would begin, at an address that has to be
// looked up first.
type unresolvedError struct{ address string }

func (e *unresolvedError) Error() string { return "the address " + e.address + " is not looked up yet" }

// attach is Attach, for the agent's goroutine. At is what the agent's address stands for, where that
// was looked up.
func (a *Agent) attach(s *agentapi.Seat, want agentapi.Attach, at endpoint) error {
	local := s.Hello.LocalRank
	switch {
	case a.config.Witness:
		return nd.Errorf(nd.ErrConfig, "this agent is a witness: it takes no ranks")
	case a.refused != nil:
		return a.refused
	case a.config.Await:
		return nd.Errorf(nd.ErrConfig, "local rank %d comes before the nodes have met", local)
	case a.seats[local] != nil:
		return &takenError{local, a.seats[local].vacated}
	case a.former != nil && !same(a.former, &want):
		return nd.Errorf(nd.ErrConfig, "local rank %d means another job than the ranks before it: %s", local, differs(&want, a.former))
	}
	if a.self.node == nil && at.address != a.address {
		var literal bool
		var err error
		if at, literal, err = endpointOf(a.address); err != nil {
			return err
		}
		if !literal {
			return &unresolvedError{a.address}
		}
	}
	first := a.former == nil
	if first {
		a.former = &want
	}
	a.seated++
	step := want.Epoch*want.Steps + want.Step
	a.seats[local] = &seat{Seat: s, local: local, number: a.seated, done: step, used: step, vacated: make(chan struct{})}
	a.order = append(a.order, local)
	slices.Sort(a.order)
	delete(a.told, local)
	if a.self.node == nil {
		return a.beginWith(at, local, first)
	}
	a.self.node.Ranks(a.now(), slices.Clone(a.order))
	a.progress()
	return nil
}

// beginWith begins for a rank. Where that fails the rank was never there, nor what it has said
// of the job if it was the first to: it may attach again.
func (a *Agent) beginWith(at endpoint, local int, first bool) error {
	err := a.begin(at)
	if err == nil {
		return nil
	}
	close(a.seats[local].vacated)
	delete(a.seats, local)
	a.order = slices.DeleteFunc(a.order, func(o int) bool { return o == local })
	if first {
		a.former = nil
	}
	return err
}

// same reports whether two ranks mean one job. Where each is does not matter.
func same(a, b *agentapi.Attach) bool {
	x, y := *a, *b
	x.Epoch, x.Step, y.Epoch, y.Step = 0, 0, 0, 0
	return x == y
}

// differs says what a rank means that the job's ranks do not.
func differs(a, job *agentapi.Attach) string {
	var list []string
	if why := coord.PlanDiffers(a.Plan, job.Plan); why != "" { // of which n is a part
		return why
	}
	for _, f := range []struct {
		name        string
		mine, their any
	}{{"mode", a.Mode, job.Mode}, {"n", a.N, job.N}, {"steps", a.Steps, job.Steps}, {"epochs", a.Epochs, job.Epochs}, {"ahead", a.Ahead, job.Ahead}} {
		if f.mine != f.their {
			list = append(list, fmt.Sprintf("%s %v, the job's %v", f.name, f.mine, f.their))
		}
	}
	return strings.Join(list, "; ")
}

// with runs a function for an attached rank.
func (a *Agent) with(s *agentapi.Seat, f func(*seat) error) error {
	return a.do(context.Background(), func() error {
		k := a.seats[s.Hello.LocalRank]
		if k == nil || k.Seat != s {
			return nd.Errorf(nd.ErrConfig, "local rank %d is not attached", s.Hello.LocalRank)
		}
		return f(k)
	})
}

// Progress is how far a rank is.
func (a *Agent) Progress(s *agentapi.Seat, p agentapi.Progress) {
	_ = a.with(s, func(k *seat) error { // of a rank that has gone it does not matter
		k.view, k.redo, k.done, k.used, k.ends = p.View, p.Redo, p.Done, p.Used, p.Ends
		a.progress()
		return nil
	})
}

// progress tells how far the ranks of this node are.
func (a *Agent) progress() {
	if a.self.node == nil {
		return
	}
	list := make([]group.Reached, len(a.order))
	for i, local := range a.order {
		k := a.seats[local]
		list[i] = group.Reached{Local: local, View: k.view, Redos: k.redo, Done: k.done, Used: k.used}
	}
	a.self.node.Progress(a.now(), list)
}

// Commit is what a rank has done.
func (a *Agent) Commit(s *agentapi.Seat, parts []agentapi.Part) error {
	return a.with(s, func(k *seat) error {
		list := make([]coord.Part, len(parts))
		for i, p := range parts {
			d, err := sampler.ParseDigest(p.Digest, p.Span.Stop-p.Span.Start)
			if err != nil {
				return err
			}
			list[i] = coord.Part{Local: k.local, Epoch: p.Epoch, Span: nd.Span(p.Span), Digest: d.Lanes}
		}
		if a.self.node == nil || !a.self.node.Commit(a.now(), k.number, list) {
			return nd.Errorf(nd.ErrBudget, "local rank %d has too many commits under way", k.local)
		}
		return nil
	})
}

// decided tells a rank what became of a part that it has committed: not one that has taken
// its place meanwhile.
func (a *Agent) decided(e group.Event) {
	k := a.seats[e.Part.Local]
	if k == nil || k.number != e.Seat {
		return
	}
	d := agentapi.Decided{Epoch: e.Part.Epoch, Span: agentapi.Span(e.Part.Span), Effective: e.Verdict == coord.Effective}
	if !d.Effective {
		d.Reason = e.Verdict.String()
	}
	k.Decided([]agentapi.Decided{d})
}

// giveUp tells ranks that what they have committed and nothing is known of is not theirs any
// more: the agent begins again, and will not hear what became of it.
func (a *Agent) giveUp(parts []group.Waiting) {
	for _, p := range parts {
		if k := a.seats[p.Local]; k != nil && k.number == p.Seat {
			k.Decided([]agentapi.Decided{{Epoch: p.Epoch, Span: agentapi.Span(p.Span), Unknown: true, Reason: "not known: the agent was evicted"}})
		}
	}
}

// Redo has all ranks go on from a step.
func (a *Agent) Redo(s *agentapi.Seat, r agentapi.Redo) error {
	return a.with(s, func(*seat) error {
		if a.self.node == nil {
			return nd.Errorf(nd.ErrClosed, "redo: %w", errNoJob)
		}
		a.self.node.Redo(a.now(), coord.Redo{View: r.View, Redos: r.Redo, Step: r.Step, By: r.By})
		return nil
	})
}

// Detach is the end of a rank's connection: the rank is gone, and the view is told at
// once.
func (a *Agent) Detach(s *agentapi.Seat, left bool) {
	_ = a.with(s, func(k *seat) error {
		a.vacate(k, left)
		return nil
	})
}

// Ended is evidence from who has started a rank: its process is gone. The view is told, whether or
// not the connection has ended: another process holds it, perhaps. What the rank has said at
// last may not be read yet, that it is done above all, and is waited for a little.
func (a *Agent) Ended(local int) {
	a.inbox.put(call(func() {
		if k := a.seats[local]; k != nil && k.ended == 0 {
			k.ended = a.now()
		}
	}))
}

// burial is how long a rank whose process is gone has for what it has said.
const burial = 100 * time.Millisecond

// bury takes out the ranks whose processes are gone, and whose connections have not ended.
func (a *Agent) bury() {
	for _, local := range slices.Clone(a.order) {
		if k := a.seats[local]; k.ended > 0 && a.now()-k.ended >= burial {
			a.vacate(k, false)
		}
	}
}

func (a *Agent) vacate(k *seat, left bool) {
	close(k.vacated)
	delete(a.seats, k.local)
	delete(a.told, k.local)
	a.order = slices.DeleteFunc(a.order, func(local int) bool { return local == k.local })
	if a.self.node != nil {
		if left && k.ends {
			a.self.node.Done(k.local)
		}
		a.self.node.Ranks(a.now(), slices.Clone(a.order))
		a.progress()
	}
	if !left {
		a.event("lost", fmt.Sprintf("local rank %d is gone", k.local))
	}
}

// said is what the states of the ranks were made of when they were last told. A stamp stands for
// all that the log says.
type said struct {
	id     coord.ID
	view   *coord.View
	known  coord.Stamp
	waits  string
	ranks  []int
	seated uint64 // with seats: who is attached
	seats  int
}

func (x *said) same(y *said) bool {
	return x.id == y.id && x.view == y.view && x.known == y.known && x.waits == y.waits && x.seated == y.seated && x.seats == y.seats && slices.Equal(x.ranks, y.ranks)
}

// tell tells each rank what is new for it. It is called with each message and each beat, of
// which most bring nothing new.
func (a *Agent) tell(s group.State) {
	now := said{a.self.id, s.View, s.Known, a.waiting(), s.Ranks, a.seated, len(a.order)}
	if now.same(&a.said) {
		return
	}
	a.said = now
	view, waits := s.View, now.waits
	if view == nil {
		view = &coord.View{}
	}
	index, first, world := view.Index(a.self.id), 0, view.World()
	switch {
	case index >= 0:
		first = view.First(index)
	case waits == "":
		waits = "this node is not in the view yet: it has asked to be admitted"
	}
	for _, local := range a.order {
		state := agentapi.JobState{
			View: view.Number, Rank: -1, World: world, Cut: view.Cut, Horizon: s.Horizon, Done: s.Step,
			Halted: s.Halted, Redo: s.Redos, By: s.By, Reach: s.Reach, Turn: s.Turn, Epoch: s.Epoch, Over: s.Over, Waiting: waits,
		}
		if c := s.Closed; c != nil {
			state.Closed = &agentapi.Closed{Epoch: c.Epoch, Count: c.Count, Digest: sampler.Digest{Lanes: c.Digest}.String()}
		}
		if index >= 0 && s.Open && slices.Contains(s.Ranks, local) {
			k := slices.Index(view.Members[index].Ranks, local)
			state.Rank = first + k
			if k < len(s.Lanes) {
				for _, x := range s.Lanes[k] {
					state.Lane = append(state.Lane, agentapi.Span(x))
				}
			}
		}
		if state.Rank < 0 && state.Waiting == "" {
			state.Waiting = fmt.Sprintf("local rank %d waits for a view that has it", local)
		}
		if !reflect.DeepEqual(a.told[local], state) {
			a.told[local] = state
			a.seats[local].State(state)
		}
	}
}
