package agent

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// signal has who waits look again.
type signal struct {
	sync.Mutex
	*sync.Cond
}

func newSignal() *signal {
	s := &signal{}
	s.Cond = sync.NewCond(&s.Mutex)
	return s
}

func (s *signal) changed() { s.Lock(); s.Broadcast(); s.Unlock() }

// until waits until what an agent sees is as wanted.
func (s *signal) until(t *testing.T, a *Agent, what string, holds func(Sight) bool) {
	t.Helper()
	late := time.AfterFunc(30*time.Second, s.changed)
	defer late.Stop()
	began := time.Now()
	s.Lock()
	defer s.Unlock()
	for ok := false; !ok; {
		var seen Sight
		a.Look(func(x Sight) { seen, ok = x, holds(x) })
		if !ok && time.Since(began) > 29*time.Second {
			t.Fatalf("not within 30 s: %s; %+v", what, seen.State)
		}
		if !ok {
			s.Wait()
		}
	}
}

// What an agent has to tell reaches the others, the last word before a leave too; and a leave
// is told from a death.
func TestNotes(t *testing.T) {
	t.Parallel()
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Epochs: 1, Ahead: 4}
	ctx, news := patient(t), newSignal()
	a := startHost(t, "a", func(c *Config) { c.Form, c.Listener.Changed = true, news.changed })
	one, err := a.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer one.die()
	b := startHost(t, "b", func(c *Config) { c.Await = true })
	if err := b.Tell([]byte("first")); err != nil { // before it is anybody
		t.Fatal(err)
	}
	if _, err := b.attach(ctx, 0, want); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a rank before the nodes have met: %v", err)
	}
	if err := b.Meet(Meeting{Contacts: []string{a.Address()}}); err != nil {
		t.Fatal(err)
	}
	two, err := b.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer two.die()
	var id coord.ID
	b.Look(func(s Sight) { id = s.ID })
	news.until(t, a.Agent, "the first note", func(s Sight) bool { return string(s.Peers[id].Note) == "first" })
	if err := b.Tell(make([]byte, MaxNote+1)); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("a long note: %v", err)
	}
	if err := b.Tell([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	news.until(t, a.Agent, "the last note, and that it left", func(s Sight) bool {
		p := s.Peers[id]
		return string(p.Note) == "last" && p.Left
	})
	news.until(t, a.Agent, "a view without it", func(s Sight) bool { return len(s.State.View.Members) == 1 })
}

// Who has started a rank knows of its death, though another process may hold its
// connection: the rank is out of the view, and the next process takes its place.
func TestEnded(t *testing.T) {
	t.Parallel()
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Epochs: 1, Ahead: 4}
	ctx, news := patient(t), newSignal()
	a := startHost(t, "a", func(c *Config) { c.Form, c.Listener.Changed = true, news.changed })
	for local := range 2 {
		w, err := a.attach(ctx, local, want)
		if err != nil {
			t.Fatal(err)
		}
		defer w.die()
	}
	news.until(t, a.Agent, "two ranks", func(s Sight) bool { return s.State.View.World() == 2 })
	a.Ended(1)
	a.Ended(7) // was never there
	news.until(t, a.Agent, "one rank", func(s Sight) bool { return s.State.View.World() == 1 })
	w, err := a.attach(ctx, 1, want)
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	news.until(t, a.Agent, "two ranks again", func(s Sight) bool { return s.State.View.World() == 2 })
}
