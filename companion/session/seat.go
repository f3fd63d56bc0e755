package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// Part is a rank's part in a job whose ranks come and go: a coord/fence.Fence.
type Part interface {
	loader.Fence
	loader.Lanes
	// Enter waits until the newest view can be entered, and enters it.
	Enter(ctx context.Context) (agentapi.Place, error)
	// Redo has all ranks go on from a step.
	Redo(ctx context.Context, epoch, step int64) error
	// Newest is the place in the newest view, and whether a redo is waited for.
	Newest() (place agentapi.Place, halted bool)
	// Closed is the last epoch that was closed.
	Closed() (agentapi.Closed, bool)
	// Waiting is why nothing new is decided in the job now; empty: it is.
	Waiting() string
	// Leave waits until all that was finished is decided, and leaves.
	Leave(ctx context.Context) error
	Close()
}

// Join takes a rank into the job of its agent. It waits for no view: that is for Enter. The
// client stays the caller's. What a coordinator is, a session is told by its owner.
type Join func(client *agentapi.Client, a agentapi.Attach, local int) (Part, error)

// seat is a loader's place in a job: kept for it from when the loader is opened, and taken
// before its first batch, so that the state of a checkpoint can be loaded in between.
//
// It owns the rank's connection to its agent, by which the loader sends its numbers too.
type seat struct {
	join  Join
	async bool
	turn  chan struct{}             // holds one while somebody joins or enters
	since atomic.Pointer[time.Time] // when the loader was first told to ask the job again; nil: it has what it asked for
	mu    struct {
		sync.Mutex
		client  *agentapi.Client // it and the part are set in the turn alone
		part    Part
		entered bool
		failed  int   // joins that came to nothing
		failure error // the last of these
		closed  bool
		place   agentapi.Place // that was entered last
	}
}

// findSeat asks the agent whether there is a job to join, nil if not. An agent that is named
// and does not answer is an error, also where joining is left to what the agent offers: it
// may have a job, and a rank beside it would deliver what ranks of the job deliver too.
func findSeat(ctx context.Context, r *request, id rank.Identity) (*seat, error) {
	spec := r.Loader
	if spec.Coord == "off" {
		return nil, nil
	}
	must := spec.Coord == "require" || spec.Mode == "async"
	why := "HEADRACE_AGENT is not set"
	if id.Agent != "" {
		client, err := dial(ctx, id)
		if err != nil {
			return nil, nd.Errorf(nd.ErrIO, "whether this rank joins a job is not known: %w; unset HEADRACE_AGENT, or give coord=\"off\", if it joins none", err)
		}
		if client.Offers(agentapi.OfferCoord) && r.join != nil {
			s := &seat{join: r.join, async: spec.Mode == "async", turn: make(chan struct{}, 1)}
			s.mu.client = client
			return s, nil
		}
		if err := client.Close(); err != nil {
			return nil, err
		}
		why = "the agent at HEADRACE_AGENT does not coordinate"
	}
	if must {
		return nil, nd.Errorf(nd.ErrUnsupported, "there is no coordinator: %s; start the ranks under headrace agent or headrace launch --live", why)
	}
	return nil, nil
}

// dial connects a rank to its agent. Its round is left out: in a job whose ranks come and go a
// number of a view is the agent's to say.
func dial(ctx context.Context, id rank.Identity) (*agentapi.Client, error) {
	hello := agentapi.Hello{PID: os.Getpid(), RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1}
	return agentapi.Dial(ctx, id.Agent, hello)
}

// configure has a loader ask the seat what it may return.
func (s *seat) configure(c *loader.Config, manual bool) {
	if s == nil {
		return
	}
	c.Agent = s.mu.client
	c.NoCheck = true // the job takes ranks of one plan alone
	if s.async {
		c.Lanes, c.CommitOnRelease = s, !manual
	} else {
		c.Fence = s
	}
}

// taken is the rank's part, nil before it has joined.
func (s *seat) taken() Part {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.part
}

// redoJob has all ranks of the job go on from a step. It returns what it waits for still if the
// caller's time is over.
func (o *loaderObject) redoJob(ctx context.Context, part Part, argument []byte) (waits any, err error) {
	var step struct {
		Epoch *int64 `json:"epoch"`
		Step  int64  `json:"step"`
		Wait  int64  `json:"wait"` // milliseconds; 0: for ever
	}
	if err := Parse(argument, &step); err != nil {
		return nil, err
	}
	if o.seat.async {
		return nil, nd.Errorf(nd.ErrUnsupported, "redo in mode async: what was not committed is delivered again by itself")
	}
	epoch := o.l.Epoch()
	if step.Epoch != nil {
		epoch = *step.Epoch
	}
	bounded := ctx
	if step.Wait > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, time.Duration(step.Wait)*time.Millisecond)
		defer cancel()
	}
	err = part.Redo(bounded, epoch, step.Step)
	if errors.Is(err, io.EOF) {
		return nil, nil // as for enter
	}
	if waiting, is := errors.AsType[*agentapi.WaitError](err); is && ctx.Err() == nil {
		return waiting.Error(), nil
	}
	return nil, err
}

// flushed is what a flush came to.
type flushed struct {
	Void    [][3]int64 `json:"void"`    // epoch, start and stop of parts that do not count
	Unknown [][3]int64 `json:"unknown"` // of parts of which it is not known
	Text    string     `json:"text"`    // about them
	Waits   string     `json:"waits"`   // what is waited for still; empty: all is decided
}

// flush waits until all that was committed is decided, at most so long.
func (o *loaderObject) flush(ctx context.Context, wait time.Duration) (flushed, error) {
	f := flushed{Void: [][3]int64{}, Unknown: [][3]int64{}}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := o.l.Flush(ctx)
	if void, ok := errors.AsType[*agentapi.VoidError](err); ok {
		f.Text = void.Error()
		for _, p := range void.Parts {
			list := &f.Void
			if p.Unknown {
				list = &f.Unknown
			}
			*list = append(*list, [3]int64{p.Epoch, p.Span.Start, p.Span.Stop})
		}
	}
	if e, ok := errors.AsType[*agentapi.WaitError](err); ok {
		f.Waits = e.Error()
	}
	if f.Text != "" || f.Waits != "" {
		err = nil
	}
	return f, err
}

// answerSeat answers what is asked of a loader in a job; refused is what only loaders may
// do that are in none.
func (o *loaderObject) answerSeat(ctx context.Context, method string, argument []byte) (value any, known bool, err error) {
	part := o.seat.taken()
	switch method {
	case "join":
		about, err := o.answerJoin(ctx, argument, (*seat).take)
		return about, true, err
	case "enter":
		about, err := o.answerJoin(ctx, argument, (*seat).enter)
		return about, true, err
	case "commit":
		var b struct{ Epoch, Step int64 }
		if err := Parse(argument, &b); err != nil {
			return nil, true, err
		}
		ok, err := o.l.CommitStep(b.Epoch, b.Step)
		return ok, true, err
	case "flush":
		var wait int64
		if err := Parse(argument, &wait); err != nil {
			return nil, true, err
		}
		f, err := o.flush(ctx, time.Duration(wait)*time.Millisecond)
		return f, true, err
	}
	switch {
	case o.seat == nil:
		return nil, false, nil
	case method == "view":
		return o.seat.view(), true, nil
	case part == nil && method == "closed":
		return nil, true, nil
	case part == nil:
		return nil, false, nil
	}
	switch method {
	case "closed":
		if c, ok := part.Closed(); ok {
			return c, true, nil
		}
		return nil, true, nil
	case "redo":
		waits, err := o.redoJob(ctx, part, argument)
		return waits, true, err
	case "set_epoch":
		var epoch int64
		if err := json.Unmarshal(argument, &epoch); err == nil && epoch == o.l.Epoch() {
			return nil, true, nil
		}
		return nil, true, placeIsTheJobs(method)
	case "load_state", "restart":
		return nil, true, placeIsTheJobs(method)
	}
	return nil, false, nil
}

func placeIsTheJobs(method string) error {
	return nd.Errorf(nd.ErrConfig, "%s: the loader has joined a job, and all ranks are at one place: load a state before the first batch, or redo a step", method)
}

// A seat is the loader's Fence and its Lanes: those of the part, once there is one.
var (
	_ loader.Fence = (*seat)(nil)
	_ loader.Lanes = (*seat)(nil)
)

func (s *seat) Lease(ctx context.Context, epoch, step int64) error {
	part := s.taken()
	if part == nil {
		return errNotJoined
	}
	return s.note(part.Lease(ctx, epoch, step))
}

func (s *seat) Delivered(epoch, step int64) {
	if part := s.taken(); part != nil {
		part.Delivered(epoch, step)
	}
}

func (s *seat) Take(ctx context.Context, n int64) (int64, nd.Span, error) {
	part := s.taken()
	if part == nil {
		return 0, nd.Span{}, errNotJoined
	}
	epoch, positions, err := part.Take(ctx, n)
	return epoch, positions, s.note(err)
}

func (s *seat) TryTake(n int64) (int64, nd.Span, bool) {
	part := s.taken()
	if part == nil {
		return 0, nd.Span{}, false
	}
	epoch, positions, ok := part.TryTake(n)
	if ok {
		_ = s.note(nil)
	}
	return epoch, positions, ok
}

func (s *seat) Holds(epoch int64, positions nd.Span) bool {
	part := s.taken()
	return part != nil && part.Holds(epoch, positions)
}

func (s *seat) Finish(epoch int64, positions nd.Span, digest [2]uint64) (bool, error) {
	if part := s.taken(); part != nil {
		return part.Finish(epoch, positions, digest)
	}
	return false, errNotJoined
}

func (s *seat) Await(ctx context.Context) error {
	if part := s.taken(); part != nil {
		return part.Await(ctx)
	}
	return nil
}

func (s *seat) Settled() []agentapi.Decided {
	if part := s.taken(); part != nil {
		return part.Settled()
	}
	return nil
}
