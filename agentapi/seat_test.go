package agentapi

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
)

// office is a Coordinator that notes what it is told.
type office struct {
	mu    sync.Mutex
	seats []*Seat
	said  chan string
}

func (o *office) Attach(s *Seat, a Attach) error {
	if a.Plan != "p" {
		return nd.Errorf(nd.ErrConfig, "its plan is %q", a.Plan)
	}
	o.mu.Lock()
	o.seats = append(o.seats, s)
	o.mu.Unlock()
	o.said <- "attach " + a.Mode
	return nil
}
func (o *office) Progress(*Seat, Progress)       { o.said <- "progress" }
func (o *office) Commit(_ *Seat, p []Part) error { o.said <- "commit " + p[0].Digest; return nil }
func (o *office) Redo(*Seat, Redo) error         { o.said <- "redo"; return nil }
func (o *office) Detach(_ *Seat, left bool) {
	if left {
		o.said <- "left"
	} else {
		o.said <- "lost"
	}
}

func (o *office) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-o.said:
		if got != want {
			t.Fatalf("%s, expected %s", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("nothing, expected %s", want)
	}
}

func attached(t *testing.T, o *office) (*Client, Attachment, chan JobState, chan []Decided) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, Options{Coordinator: o})
	s.Begin(Round{World: 1})
	t.Cleanup(func() { _ = s.Close() })
	c, err := Dial(context.Background(), path, Hello{World: 1, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if !c.Offers(OfferCoord) {
		t.Fatal("coord is not offered")
	}
	states, decided := make(chan JobState, 100), make(chan []Decided, 100)
	at, err := c.Attach(Attach{Plan: "p", Mode: "async"}, func(s *JobState, d []Decided) {
		if s != nil {
			states <- *s
		}
		if d != nil {
			decided <- d
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	o.expect(t, "attach async")
	return c, at, states, decided
}

// A rank gets the newest state, and the outcome of every part; what it says arrives; its end
// is told apart from its leaving.
func TestSeat(t *testing.T) {
	o := &office{said: make(chan string, 100)}
	_, at, states, decided := attached(t, o)
	for i := range uint64(1000) {
		o.seats[0].State(JobState{View: i, World: 1})
		o.seats[0].Decided([]Decided{{Epoch: int64(i)}})
	}
	for last := (JobState{}); last.View != 999; last = <-states {
	}
	for n := 0; n < 1000; {
		n += len(<-decided)
	}
	for what, send := range map[string]error{
		"progress": at.Progress(Progress{3, 4, 1, 2, false}),
	} {
		if send != nil {
			t.Fatal(send)
		}
		o.expect(t, what)
	}
	_ = at.Commit([]Part{{Span: Span{0, 4}, Digest: "d"}})
	o.expect(t, "commit d")
	_ = at.Redo(Redo{1, 3, 2, 9})
	o.expect(t, "redo")
	_ = at.Detach()
	o.expect(t, "left")
}

// A rank hears that its agent is gone, by a state; the agent that the rank is.
func TestSeatsEnd(t *testing.T) {
	o := &office{said: make(chan string, 100)}
	c, at, states, _ := attached(t, o)
	o.seats[0].Fail(nd.Errorf(nd.ErrConfig, "evicted"))
	if s := <-states; s.Ending == "" || s.Rank != -1 {
		t.Errorf("%+v", s)
	}
	if err := at.Progress(Progress{}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("afterwards: %v", err)
	}
	_ = c.Close()
	o.expect(t, "lost")
}

// What is said for an attachment that has ended does not reach the next one of the same
// connection, in neither direction.
func TestSeatIsTakenAgain(t *testing.T) {
	o := &office{said: make(chan string, 100)}
	c, first, _, _ := attached(t, o)
	_ = first.Detach()
	o.expect(t, "left")
	heard := make(chan Decided, 100)
	second, err := c.Attach(Attach{Plan: "p", Mode: "async"}, func(_ *JobState, d []Decided) {
		for _, x := range d {
			heard <- x
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	o.expect(t, "attach async")
	_ = first.Commit([]Part{{Span: Span{0, 4}, Digest: "first"}})
	_ = first.Redo(Redo{1, 3, 2, 9})
	_ = second.Commit([]Part{{Span: Span{0, 4}, Digest: "second"}})
	o.expect(t, "commit second")
	o.seats[0].Decided([]Decided{{Epoch: 1}})
	o.seats[1].Decided([]Decided{{Epoch: 2}})
	if d := <-heard; d.Epoch != 2 {
		t.Errorf("the second one heard of epoch %d", d.Epoch)
	}
}

// What breaks the protocol ends the connection, with the reason.
func TestSeatRefuses(t *testing.T) {
	o := &office{said: make(chan string, 100)}
	for name, send := range map[string]func(Attachment) error{
		"two attaches": func(a Attachment) error {
			_, err := a.client.Attach(Attach{Plan: "p", Mode: "async"}, nil)
			return err
		},
		"no parts":        func(a Attachment) error { return a.Commit(nil) },
		"too many parts":  func(a Attachment) error { return a.Commit(make([]Part, MaxParts+1)) },
		"empty positions": func(a Attachment) error { return a.Commit([]Part{{}}) },
		"a step below 0":  func(a Attachment) error { return a.Redo(Redo{Step: -1}) },
	} {
		c, at, _, _ := attached(t, o)
		_ = send(at) // the answer may be there before it returns
		<-c.done
		if err := c.failed(); !errors.Is(err, nd.ErrConfig) && !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		o.expect(t, "lost")
	}
}

// A state that is told while the message with the one before it is written does not leave an
// empty message behind, which would end the connection.
func TestStatesUnderWriting(t *testing.T) {
	o := &office{said: make(chan string, 10)}
	c, _, states, _ := attached(t, o)
	const last = 300000
	for view := range uint64(last + 1) {
		o.seats[0].State(JobState{View: view})
	}
	for {
		select {
		case s := <-states:
			if s.Ending != "" {
				t.Fatal(s.Ending)
			}
			if s.View == last {
				return
			}
		case <-c.done:
			t.Fatal(c.failed())
		}
	}
}

// A state that cannot be of this rank's job is an error that names the agent: the rank would wait, or
// deliver what it has not. A lane need not ascend, but has each position once.
func TestSenselessState(t *testing.T) {
	a := Attach{Plan: "p", Mode: "async", N: 100}
	lane := func(spans ...Span) JobState { return JobState{World: 1, Lane: spans} }
	for _, s := range []JobState{lane(), lane(Span{0, 100}), lane(Span{50, 60}, Span{10, 20}, Span{0, 10}), {Rank: -1}, {Ending: "gone", World: -1}} {
		if err := s.check(&a); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []JobState{
		lane(Span{50, 5}), lane(Span{5, 5}, Span{5, 9}), lane(Span{-5, 5}), lane(Span{90, 101}), lane(Span{0, 50}, Span{20, 60}),
		lane(Span{20, 60}, Span{0, 50}),
		{World: 1, Cut: 1 << 62},
		{World: 1, Cut: -7},
		{World: 1, Epoch: -1},
		{World: 1, Rank: 7},
		{World: -3, Rank: -1},
	} {
		if err := s.check(&a); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	o := &office{said: make(chan string, 100)}
	c, _, states, _ := attached(t, o)
	o.seats[0].State(lane(Span{50, 5}))
	if s := <-states; s.Ending == "" || !errors.Is(s.Cause, nd.ErrCorrupt) || !strings.Contains(s.Ending, "the agent at ") {
		t.Errorf("%+v", s)
	}
	if !errors.Is(c.Err(), nd.ErrCorrupt) {
		t.Error(c.Err())
	}
}
