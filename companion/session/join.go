package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

var errNotJoined = nd.Errorf(nd.ErrBug, "the loader has not joined its job")

// lock takes the turn: a loader is used by several threads, of which one joins, or enters, at a time.
func (s *seat) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &agentapi.WaitError{What: "another thread of this rank waits for the job", Reason: s.waiting(), Err: ctx.Err()}
	}
}

func (s *seat) unlock() { <-s.turn }

// take joins, with the loader's place where the job is formed now. The view is waited for until
// patience ends. Who finds another thread joining gets what that one comes to: the same part, or
// the same error. After an error the seat can be taken again.
func (s *seat) take(ctx, patience context.Context, o *loaderObject) error {
	if s == nil || s.joined() {
		return nil
	}
	before, _ := s.failures()
	if err := s.lock(patience); err != nil {
		return err
	}
	defer s.unlock()
	if s.joined() {
		return nil
	}
	if n, err := s.failures(); n != before {
		return err
	}
	err := s.sit(ctx, o)
	if err == nil {
		err = s.enterFirst(ctx, patience, o)
	}
	if err != nil && ctx.Err() == nil && !waits(err) {
		s.mu.Lock()
		s.mu.failed++
		s.mu.failure = err
		s.mu.Unlock()
	}
	return err
}

// failures counts the joins that came to nothing, and is why the last one did.
func (s *seat) failures() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.failed, s.mu.failure
}

// sit makes the rank's part, if there is none. The caller has the turn.
func (s *seat) sit(ctx context.Context, o *loaderObject) error {
	if s.taken() != nil {
		return nil
	}
	client, err := s.connected(ctx, o.id)
	if err != nil {
		return err
	}
	part, err := s.join(client, o.attach(), o.id.LocalRank)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.part = part
	s.mu.Unlock()
	return nil
}

// attach is what the loader means by the job, and where it is.
func (o *loaderObject) attach() agentapi.Attach {
	stream, at := o.l.Stream(), o.l.State()
	a := agentapi.Attach{Plan: stream.PlanSummary(), Mode: "lockstep", N: stream.N, Steps: stream.Steps(), Epoch: at.Epoch, Step: at.NextPosition / stream.Global}
	if at.NextPosition >= stream.Delivered().Stop {
		a.Step = stream.Steps()
	}
	if o.seat.async {
		a.Mode, a.Epochs, a.Ahead, a.Step = "async", o.epochs, o.l.Ahead(), 0
	}
	return a
}

// connected is the connection to the agent: a new one where the agent has begun again since, and
// the loader's numbers end. The caller has the turn.
func (s *seat) connected(ctx context.Context, id rank.Identity) (*agentapi.Client, error) {
	s.mu.Lock()
	client, closed := s.mu.client, s.mu.closed
	s.mu.Unlock()
	if closed {
		return nil, nd.Errorf(nd.ErrClosed, "the loader is closed")
	}
	if client.Err() == nil {
		return client, nil
	}
	again, err := dial(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.Join(nd.Errorf(nd.ErrClosed, "the loader is closed"), again.Close())
	}
	s.mu.client = again
	return again, client.Close()
}

// enterFirst enters the first view. A wait that is ended goes on with the next call; after
// another error the rank is in no job. The caller has the turn.
func (s *seat) enterFirst(ctx, patience context.Context, o *loaderObject) error {
	part := s.taken()
	err := s.enterPart(ctx, patience, part, o)
	gone := err != nil && ctx.Err() == nil && !waits(err)
	s.mu.Lock()
	s.mu.entered = err == nil
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
	if err := s.lock(patience); err != nil {
		return err
	}
	defer s.unlock()
	part := s.taken()
	if part == nil {
		return errNotJoined
	}
	return s.enterPart(ctx, patience, part, o)
}

// enterPart has the part and the loader enter one view: of two threads between these two steps each
// could undo the other's. The caller has the turn.
func (s *seat) enterPart(ctx, patience context.Context, part Part, o *loaderObject) error {
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

// joining is a loader that joins its job, or enters a view of it.
type joining struct {
	loaderAbout
	Entered bool   `json:"entered"`
	Waits   string `json:"waits"` // why it has not entered
	View    uint64 `json:"view"`  // that was entered: not the newest, if there is another since
	Turn    uint64 `json:"turn"`
}

// answerJoin takes or enters the seat, for as long as one call may take: so many milliseconds.
func (o *loaderObject) answerJoin(ctx context.Context, argument []byte, join func(s *seat, ctx, patience context.Context, o *loaderObject) error) (any, error) {
	var wait int64
	if err := Parse(argument, &wait); err != nil {
		return nil, err
	}
	if o.seat == nil {
		return nil, nd.Errorf(nd.ErrConfig, "enter: the loader is in no job whose ranks come and go")
	}
	short, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
	defer cancel()
	err := join(o.seat, ctx, short, o)
	if waits(err) && ctx.Err() == nil {
		return joining{loaderAbout: o.is(), Waits: o.seat.waiting()}, nil
	}
	o.seat.mu.Lock()
	place := o.seat.mu.place
	o.seat.mu.Unlock()
	return joining{loaderAbout: o.is(), Entered: true, View: place.View, Turn: place.Turn}, err
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

// close ends the connection, and with it the wait of who joins still; that one's part ends too.
func (s *seat) close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.mu.closed = true
	err := s.mu.client.Close()
	s.mu.Unlock()
	_ = s.lock(context.Background()) // it does not end, so there is no error
	defer s.unlock()
	if part := s.taken(); part != nil {
		part.Close()
	}
	return err
}

// viewAbout is where a rank is.
type viewAbout struct {
	Number  int64  `json:"number"` // -1: no view has come yet
	Rank    int    `json:"rank"`
	World   int    `json:"world"`
	Halted  bool   `json:"halted"`
	Waiting string `json:"waiting"`
	Turn    uint64 `json:"turn"`
}

// view is what is known of the newest view. It waits for nothing, and does not join.
func (s *seat) view() viewAbout {
	part := s.taken()
	if part == nil {
		return viewAbout{Number: -1, Rank: -1, Waiting: "this rank has not asked to join yet: it does for its first batch, or to enter"}
	}
	place, halted := part.Newest()
	v := viewAbout{int64(place.View), place.Rank, place.World, halted, part.Waiting(), place.Turn}
	if place.World == 0 && !s.joined() {
		v.Number = -1
	}
	if v.Rank < 0 && v.Waiting == "" {
		v.Waiting = "the agent has not answered yet"
	}
	return v
}

// waiting is why nothing new is decided in the job, empty without one.
func (s *seat) waiting() string {
	if part := s.taken(); part != nil {
		return part.Waiting()
	}
	return ""
}

// note notes what came of asking the job for a step, or for positions. A loader asks again while
// its caller waits for a batch; what it waits for else, such as storage, is not the job's.
func (s *seat) note(err error) error {
	switch {
	case err == nil:
		if s.since.Load() != nil {
			s.since.Store(nil)
		}
	case waits(err):
		now := time.Now()
		s.since.CompareAndSwap(nil, &now)
	}
	return err
}

// waited is for how long the loader has asked the job for what does not come.
func (s *seat) waited() time.Duration {
	if s == nil {
		return 0
	}
	if since := s.since.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}
