// Package fence is the rank's side of a job whose ranks come and go.
//
//	loader ── Lease, Delivered ──▶ Fence ◀── agentapi ──▶ agent of the node
//	          Take, Finish
//
// What the job decides is package coord's; here is what one rank may do by it, as the
// agent tells: which steps it may return, which positions it has, and when the view is
// another one.
package fence

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// Fence is a rank's part in a job whose ranks come and go, as its agent tells it. It is a
// loader's Fence in lockstep; in async mode it hands out positions (Take). Its methods may be called from
// any goroutine. It has one of its own, which Close ends.
//
// A step below the limit passes without a lock: the agent raises the limit ahead of
// need.
type Fence struct {
	client *agentapi.Client
	job    agentapi.Attachment
	owns   bool // the client is closed with the fence
	steps  int64
	limit  atomic.Int64 // lockstep: steps below it may be returned
	done   atomic.Int64 // lockstep: steps below it are done by this rank
	used   atomic.Int64
	most   atomic.Int64 // lockstep: steps below it were delivered by this rank at some time
	stop   chan struct{}
	once   sync.Once
	commit sync.Mutex // held while parts are sent: they go in the lane's order; taken before mu
	ended  sync.WaitGroup

	mu struct {
		sync.Mutex
		state   agentapi.JobState
		in      bool          // it has entered a view
		entered entry         // what the rank works under
		seen    uint64        // the last redo that the rank knows of: it has entered behind it, or was told of a halt
		halt    uint64        // behind the redo after which the rank was last told of a halt; 0: it never was
		left    bool          // nothing is heard any more
		changed chan struct{} // closed at the next change, and made anew
		news    chan struct{} // the same for Changed
		cursor  *coord.Cursor // async
		settled []agentapi.Decided
		void    []void // of what was finished, and that Await has not told
	}
}

// entry is a view as a rank has entered it: once for each turn.
type entry struct{ view, redo, turn uint64 }

func entryOf(s *agentapi.JobState) entry { return entry{s.View, s.Redo, s.Turn} }

// Place is a rank's place in the job, and where it goes on.
type Place = agentapi.Place

// ViewError says that the view is another one: what was asked for is not this rank's
// any more. Enter tells its new place.
type ViewError = agentapi.ViewError

// New attaches a rank to the job of its agent: Enter waits until it is in a view. The client stays
// its owner's, to be closed after the Fence.
func New(client *agentapi.Client, a agentapi.Attach, local int) (*Fence, error) {
	if !client.Offers(agentapi.OfferCoord) {
		return nil, nd.Errorf(nd.ErrUnsupported, "the agent does not coordinate: start the job with headrace launch --live or headrace agent")
	}
	f := &Fence{client: client, steps: max(1, a.Steps), stop: make(chan struct{})}
	f.mu.changed, f.mu.news = make(chan struct{}), make(chan struct{})
	f.mu.state.Rank = -1
	if a.Mode == coord.Async.String() {
		f.mu.cursor = coord.NewCursor(&coord.Job{Ahead: a.Ahead}, local)
	}
	f.done.Store(a.Epoch*f.steps + a.Step)
	f.used.Store(f.done.Load())
	var err error
	if f.job, err = client.Attach(a, f.take); err != nil {
		return nil, err
	}
	f.ended.Go(f.report)
	return f, nil
}

// Attach is New, and waits until the rank is in a view.
func Attach(ctx context.Context, client *agentapi.Client, a agentapi.Attach, local int) (*Fence, error) {
	f, err := New(client, a, local)
	if err != nil {
		return nil, err
	}
	if _, err := f.Enter(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Dial connects to the agent that the identity names, attaches the rank to its job, and waits until
// it is in a view. The connection ends with the Fence.
func Dial(ctx context.Context, id rank.Identity, a agentapi.Attach) (*Fence, error) {
	hello := agentapi.Hello{PID: os.Getpid(), RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1}
	client, err := agentapi.Dial(ctx, id.Agent, hello)
	if err != nil {
		return nil, err
	}
	f, err := Attach(ctx, client, a, id.LocalRank)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	f.owns = true
	return f, nil
}

// take takes what the agent says.
func (f *Fence) take(state *agentapi.JobState, decided []agentapi.Decided) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.left {
		return
	}
	before := newsOf(&f.mu.state)
	if c := f.mu.cursor; c != nil {
		for _, d := range decided {
			if d.Epoch != c.Epoch() {
				continue // all of it was given up with its epoch
			}
			verdict := coord.Effective
			if !d.Effective {
				verdict = coord.VoidLane
			}
			for _, x := range c.Sent(nd.Span(d.Span)) {
				f.settle(agentapi.Decided{Epoch: d.Epoch, Span: agentapi.Span(x), Effective: d.Effective, Unknown: d.Unknown, Reason: d.Reason}, true)
			}
			c.Decide(nd.Span(d.Span), verdict)
		}
	}
	if state != nil {
		f.mu.state = *state
		if f.mu.in && !state.Halted && state.Turn == f.mu.entered.turn && state.Redo == f.mu.entered.redo {
			f.mu.entered.view = state.View // of the same ranks: a witness came or went
		}
		if c := f.mu.cursor; c != nil && state.Ending == "" { // else nothing is known of the lane
			lane := make([]nd.Span, len(state.Lane))
			for i, s := range state.Lane {
				lane[i] = nd.Span(s)
			}
			epoch, finished := c.Epoch(), c.Undecided()
			for _, x := range c.Update(state.Epoch, lane) {
				f.settle(notInLane(epoch, x), slices.Contains(finished, x))
			}
		}
		f.allow()
	}
	f.announce(before)
}

// settle notes what became of positions. f.mu is held.
func (f *Fence) settle(d agentapi.Decided, finished bool) {
	f.mu.settled = append(f.mu.settled, d)
	if finished && !d.Effective {
		f.lose(void{Decided: d})
	}
}

// allow works out the limit. f.mu is held.
func (f *Fence) allow() {
	s := &f.mu.state
	limit := s.Horizon
	switch {
	case !f.mu.in || f.interrupted():
		limit = 0
	case s.Turn != f.mu.entered.turn:
		limit = min(limit, s.Cut) // the view that the rank is in holds up to there
	}
	f.limit.Store(limit)
}

// Lease waits until a step may be returned. Steps before it are done, as far as this
// rank is concerned. The error is a *ViewError where the step is another view's.
func (f *Fence) Lease(ctx context.Context, epoch, step int64) error {
	at := epoch*f.steps + step
	if f.done.Load() < at {
		f.done.Store(at)
	}
	for {
		if at < f.limit.Load() {
			return nil
		}
		changed, err := f.refused(at)
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f.waited(ctx, "a step is not leased")
		}
	}
}

// refused says why a step is not leased: an error, or the change to wait for.
func (f *Fence) refused(at int64) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.mu.state
	switch {
	case at < f.limit.Load():
		return nil, nil
	case s.Ending != "":
		return nil, ended(s)
	case s.Over:
		return nil, ErrOver
	case s.Halted, s.Redo != f.mu.entered.redo, s.Turn != f.mu.entered.turn && at >= s.Cut:
		return nil, f.elsewhere()
	}
	return f.mu.changed, nil
}

// waited is the error of a wait that the context has ended.
func (f *Fence) waited(ctx context.Context, what string) error {
	return &agentapi.WaitError{What: what, Reason: f.Waiting(), Err: ctx.Err()}
}

// Waiting is why nothing new is decided in the job now, as the agent has it: no majority,
// ranks that are expected, a redo that must come. Empty: nothing is known to be wrong.
func (f *Fence) Waiting() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.state.Waiting
}

func ended(s *agentapi.JobState) error {
	if s.Cause != nil {
		return s.Cause
	}
	return nd.Errorf(nd.ErrClosed, "this rank has no part in the job any more: %s", s.Ending)
}

// Delivered is told after a step was returned.
func (f *Fence) Delivered(epoch, step int64) {
	at := epoch*f.steps + step + 1
	if f.used.Load() < at {
		f.used.Store(at)
	}
	if f.most.Load() < at {
		f.most.Store(at)
	}
}

// reportEvery is how often an agent hears how far a rank is.
const reportEvery = 100 * time.Millisecond

// report tells the agent how far this rank is.
func (f *Fence) report() {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	last := agentapi.Progress{Done: -1}
	for {
		select {
		case <-tick.C:
		case <-f.stop:
			return
		}
		now, in := f.progress()
		if in && f.mu.cursor == nil && now != last && f.job.Progress(now) == nil {
			last = now
		}
	}
}

// lastWords tells the agent whether this rank has come to the end of an epoch: then it leaves
// since it is done, and is not lost.
func (f *Fence) lastWords() {
	now, in := f.progress()
	now.Ends = f.most.Load() > 0 && now.Used%f.steps == 0
	if in && f.mu.cursor == nil {
		_ = f.job.Progress(now) // a connection that has ended has left already
	}
}

// progress is how far this rank is, once it has entered a view.
func (f *Fence) progress() (p agentapi.Progress, in bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.mu.entered
	return agentapi.Progress{View: e.view, Redo: e.redo, Done: f.done.Load(), Used: f.used.Load()}, f.mu.in
}

// Leave waits, as Await does, until it is known what became of all that this rank has finished,
// and leaves the job. Its error does not tell what Finish has told.
func (f *Fence) Leave(ctx context.Context) error {
	err := f.await(ctx, func(v void) bool { return v.refused })
	f.Close()
	return err
}

// Close leaves the job. What became of parts that are under way will not be known here: see
// Leave. Who waits in a call is told that the rank has left. The client of New and Attach stays its owner's.
func (f *Fence) Close() {
	f.once.Do(func() {
		close(f.stop)
		f.ended.Wait()
		f.lastWords()
		_ = f.job.Detach() // a connection that has ended has left already
		if f.owns {
			_ = f.client.Close() // what was to be said is said
		}
		f.end()
	})
}
