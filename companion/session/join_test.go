package session

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/nd"
)

// joins counts what a loader asks of its job, and fails where it is told to.
type joins struct {
	begun, live atomic.Int32
	fail        atomic.Pointer[error]
	hold        chan struct{} // a join waits for it
}

func (j *joins) join(c *agentapi.Client, a agentapi.Attach, local int) (Part, error) {
	j.begun.Add(1)
	<-j.hold
	if err := j.fail.Load(); err != nil {
		return nil, *err
	}
	part, err := join(c, a, local)
	if err != nil {
		return nil, err
	}
	j.live.Add(1)
	return &watched{Part: part, joins: j}, nil
}

// watched is a part that counts its end.
type watched struct {
	Part
	joins *joins
	once  sync.Once
}

func (p *watched) Close() {
	p.once.Do(func() { p.joins.live.Add(-1) })
	p.Part.Close()
}

// first is a loader that was not used yet.
func first(t *testing.T, mode string) (*Session, uint64, *joins, *desk) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	d := &desk{detached: make(chan struct{}, 100)}
	server, _ := serve(t, path, d)
	j := &joins{hold: make(chan struct{})}
	s := New(Options{Join: j.join})
	t.Cleanup(func() {
		s.End()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, openJob(t, s, path, mode), j, d
}

// ask has threads join at once, and gives what each came to.
func ask(t *testing.T, s *Session, handle uint64) []error {
	t.Helper()
	errs := make([]error, 8)
	var asked sync.WaitGroup
	for i := range errs {
		asked.Go(func() {
			_, errs[i] = s.Guard(func() (Status, error) {
				text, err := s.Ask(t.Context(), handle, "join", []byte("20000"))
				if err != nil {
					return Failed, err
				}
				var said joining
				if err := json.Unmarshal(text, &said); err != nil || !said.Joined {
					t.Errorf("%s, %v", text, err)
				}
				return Done, nil
			})
		})
	}
	asked.Wait()
	return errs
}

// Several threads use a loader for the first time at once: one joins, the others have its part.
func TestThreadsJoinOnce(t *testing.T) {
	for _, mode := range []string{"lockstep", "async"} {
		s, handle, j, _ := first(t, mode)
		close(j.hold)
		for _, err := range ask(t, s, handle) {
			if err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
		if n := j.begun.Load(); n != 1 {
			t.Errorf("%s: %d joins", mode, n)
		}
	}
}

// Where the join fails, at once or by the agent's answer, no thread gets anything but its error, no
// part is left behind, and the loader can join later.
func TestJoinThatFails(t *testing.T) {
	s, handle, j, d := first(t, "async")
	close(j.hold)
	refused := nd.Errorf(nd.ErrConfig, "refused on purpose")
	fails := func() {
		t.Helper()
		for _, err := range ask(t, s, handle) {
			if !errors.Is(err, nd.ErrConfig) {
				t.Errorf("%v", err)
			}
		}
		if n := j.live.Load(); n != 0 {
			t.Errorf("%d parts of joins that failed", n)
		}
	}
	j.fail.Store(&refused)
	fails()
	j.fail.Store(nil)
	d.refuse.Store(true)
	fails()
	d.refuse.Store(false)
	for _, err := range ask(t, s, handle) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := j.live.Load(); n != 1 {
		t.Errorf("%d parts", n)
	}
}

// A loader that is closed while a thread joins leaves no part behind.
func TestCloseWhileAThreadJoins(t *testing.T) {
	s, handle, j, _ := first(t, "async")
	joined, closed := make(chan error), make(chan error)
	go func() {
		_, err := s.Ask(t.Context(), handle, "join", []byte("20000"))
		joined <- err
	}()
	testwait.Until(t, "it joins", func() bool { return j.begun.Load() > 0 })
	closeLoader, err := s.Detach(handle)
	if err != nil {
		t.Fatal(err)
	}
	go func() { closed <- closeLoader() }()
	j.hold <- struct{}{}
	if err := errors.Join(<-closed); err != nil {
		t.Error(err)
	}
	t.Logf("the join came to: %v", <-joined) // before the end, or with its error
	if n := j.live.Load(); n != 0 {
		t.Errorf("%d parts", n)
	}
}

// A loader can be asked for its view at any time, also where no view comes: the answer says so, and
// neither waits nor joins.
func TestViewBeforeTheFirst(t *testing.T) {
	s, handle, j, d := first(t, "async")
	close(j.hold)
	d.silent.Store(true)
	view := func() (v viewAbout) {
		t.Helper()
		text, err := s.Ask(t.Context(), handle, "view", []byte("null"))
		if err := errors.Join(err, json.Unmarshal(text, &v)); err != nil {
			t.Fatal(err)
		}
		if v.Number != -1 || v.Rank != -1 || v.World != 0 {
			t.Errorf("%+v", v)
		}
		return v
	}
	if v := view(); !strings.Contains(v.Waiting, "has not asked") || j.begun.Load() != 0 {
		t.Errorf("%+v, %d joins", v, j.begun.Load())
	}
	text, err := s.Ask(t.Context(), handle, "join", []byte("10"))
	var said joining
	if err := errors.Join(err, json.Unmarshal(text, &said)); err != nil || said.Joined || said.Entered {
		t.Errorf("%s, %v", text, err)
	}
	if v := view(); !strings.Contains(v.Waiting, "has not answered") || j.begun.Load() != 1 {
		t.Errorf("%+v, %d joins", v, j.begun.Load())
	}
}

// A loader waits for its job from when it was first told to ask again until it gets something, whoever
// asks. That is what a client's timeout counts, and not a wait for storage.
func TestWaitForTheJob(t *testing.T) {
	s := &seat{}
	if s.waited() != 0 {
		t.Error("it waits before it has asked")
	}
	again := &agentapi.WaitError{What: "a step is not leased", Err: context.DeadlineExceeded}
	if err := s.note(again); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	since := s.since.Load()
	_ = s.note(again)
	_ = s.note(context.Canceled) // the caller goes, the job is what it was
	if s.since.Load() != since || s.waited() <= 0 {
		t.Errorf("waits for %v", s.waited())
	}
	if n := testing.AllocsPerRun(100, func() { _ = s.note(nil) }); n != 0 || s.waited() != 0 {
		t.Errorf("%v allocations for a step, and then %v", n, s.waited())
	}
}
