package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
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
	mu    struct {
		sync.Mutex
		client  *agentapi.Client
		part    Part
		entered bool
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
			s := &seat{join: r.join, async: spec.Mode == "async"}
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

// connected is the connection to the agent: a new one where the agent has begun again since, and
// the loader's numbers end.
func (s *seat) connected(ctx context.Context, id rank.Identity) (*agentapi.Client, error) {
	s.mu.Lock()
	client := s.mu.client
	s.mu.Unlock()
	if client.Err() == nil {
		return client, nil
	}
	again, err := dial(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.mu.client = again
	s.mu.Unlock()
	return again, client.Close()
}

// close ends the connection.
func (s *seat) close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.client.Close()
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

var errNotJoined = nd.Errorf(nd.ErrBug, "the loader has not joined its job")

// take joins, with the loader's place where the job is formed now. The view is waited for until
// patience ends.
func (s *seat) take(ctx, patience context.Context, o *loaderObject) error {
	if s == nil || s.joined() {
		return nil
	}
	if s.taken() != nil {
		return s.enterFirst(ctx, patience, o)
	}
	stream, at := o.l.Stream(), o.l.State()
	a := agentapi.Attach{Plan: stream.PlanHash(), Mode: "lockstep", N: stream.N, Steps: stream.Steps(), Epoch: at.Epoch, Step: at.NextPosition / stream.Global}
	if at.NextPosition >= stream.Delivered().Stop {
		a.Step = stream.Steps()
	}
	if s.async {
		a.Mode, a.Epochs, a.Ahead, a.Step = "async", o.epochs, o.l.Ahead(), 0
	}
	client, err := s.connected(ctx, o.id)
	if err != nil {
		return err
	}
	part, err := s.join(client, a, o.id.LocalRank)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.part = part
	s.mu.Unlock()
	return s.enterFirst(ctx, patience, o)
}

// enterFirst enters the first view. A wait that is ended goes on with the next call; after
// another error the rank is in no job.
func (s *seat) enterFirst(ctx, patience context.Context, o *loaderObject) error {
	err := s.enter(ctx, patience, o)
	s.mu.Lock()
	part := s.mu.part
	s.mu.entered = err == nil
	gone := err != nil && ctx.Err() == nil && !waits(err)
	if gone {
		s.mu.part = nil
	}
	s.mu.Unlock()
	if gone {
		part.Close()
	}
	return err
}

// joined reports whether the rank has been in a view.
func (s *seat) joined() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.entered
}

// enter enters the newest view.
func (s *seat) enter(ctx, patience context.Context, o *loaderObject) error {
	part := s.taken()
	if part == nil {
		return errNotJoined
	}
	place, err := part.Enter(patience)
	if errors.Is(err, io.EOF) && !s.async {
		return nil // the job is over: the next batch is its end
	}
	if err != nil || s.async {
		return err
	}
	s.mu.Lock()
	s.mu.place = place
	s.mu.Unlock()
	return o.l.Enter(ctx, place)
}

// leaveTime is how long a loader that is closed waits for what was committed to be decided.
const leaveTime = 5 * time.Second

// leave gives the seat up. What was committed is decided then, or it takes too long.
func (s *seat) leave() error {
	part := s.taken()
	if part == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return part.Leave(ctx)
}

// waiting is why nothing new is decided in the job, empty without one.
func (s *seat) waiting() string {
	if part := s.taken(); part != nil {
		return part.Waiting()
	}
	return ""
}

// joining is a loader that joins, and what it waits for still.
type joining struct {
	loaderAbout
	Waits string `json:"waits"`
}

// join joins, for as long as one call may take.
func (o *loaderObject) join(ctx context.Context, wait time.Duration) (joining, error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := o.seat.take(ctx, short, o)
	if waits(err) && ctx.Err() == nil {
		return joining{o.is(), o.seat.waiting()}, nil
	}
	return joining{loaderAbout: o.is()}, err
}

// viewAbout is where a rank is.
type viewAbout struct {
	Number  uint64 `json:"number"`
	Rank    int    `json:"rank"`
	World   int    `json:"world"`
	Halted  bool   `json:"halted"`
	Waiting string `json:"waiting"`
	Turn    uint64 `json:"turn"`
}

// entered is a loader that has entered a view: not the newest one, if there is another since.
type entered struct {
	loaderAbout
	View uint64 `json:"view"`
	Turn uint64 `json:"turn"`
}

func (o *loaderObject) entered() entered {
	o.seat.mu.Lock()
	place := o.seat.mu.place
	o.seat.mu.Unlock()
	return entered{o.is(), place.View, place.Turn}
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
		var wait int64
		if err := Parse(argument, &wait); err != nil {
			return nil, true, err
		}
		about, err := o.join(ctx, time.Duration(wait)*time.Millisecond)
		return about, true, err
	case "enter":
		if part == nil {
			return nil, true, nd.Errorf(nd.ErrConfig, "enter: the loader is in no job whose ranks come and go")
		}
		err = o.seat.enter(ctx, ctx, o)
		return o.entered(), true, err
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
	if part == nil {
		return nil, false, nil
	}
	switch method {
	case "view":
		place, halted := part.Newest()
		return viewAbout{place.View, place.Rank, place.World, halted, part.Waiting(), place.Turn}, true, nil
	case "closed":
		if c, ok := part.Closed(); ok {
			return c, true, nil
		}
		return nil, true, nil
	case "redo":
		var step struct {
			Epoch *int64 `json:"epoch"`
			Step  int64  `json:"step"`
		}
		if err := Parse(argument, &step); err != nil {
			return nil, true, err
		}
		epoch := o.l.Epoch()
		if step.Epoch != nil {
			epoch = *step.Epoch
		}
		if o.seat.async {
			return nil, true, nd.Errorf(nd.ErrUnsupported, "redo in mode async: what was not committed is delivered again by itself")
		}
		if err = part.Redo(ctx, epoch, step.Step); errors.Is(err, io.EOF) {
			err = nil // as for enter
		}
		return nil, true, err
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
	if part := s.taken(); part != nil {
		return part.Lease(ctx, epoch, step)
	}
	return errNotJoined
}

func (s *seat) Delivered(epoch, step int64) {
	if part := s.taken(); part != nil {
		part.Delivered(epoch, step)
	}
}

func (s *seat) Take(ctx context.Context, n int64) (int64, nd.Span, error) {
	if part := s.taken(); part != nil {
		return part.Take(ctx, n)
	}
	return 0, nd.Span{}, errNotJoined
}

func (s *seat) TryTake(n int64) (int64, nd.Span, bool) {
	if part := s.taken(); part != nil {
		return part.TryTake(n)
	}
	return 0, nd.Span{}, false
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
