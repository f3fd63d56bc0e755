package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// desk is a coordinator whose job has one rank, with all positions.
type desk struct {
	detached chan struct{}
	refuse   atomic.Bool
	silent   atomic.Bool // no view comes
}

func (d *desk) Attach(s *agentapi.Seat, a agentapi.Attach) error {
	if d.refuse.Load() {
		return nd.Errorf(nd.ErrConfig, "the agent refuses on purpose")
	}
	if d.silent.Load() {
		return nil
	}
	s.State(agentapi.JobState{View: 1, World: 1, Horizon: a.N, Lane: []agentapi.Span{{Stop: a.N}}})
	return nil
}
func (*desk) Progress(*agentapi.Seat, agentapi.Progress)   {}
func (*desk) Commit(*agentapi.Seat, []agentapi.Part) error { return nil }
func (*desk) Redo(*agentapi.Seat, agentapi.Redo) error     { return nil }
func (d *desk) Detach(*agentapi.Seat, bool)                { d.detached <- struct{}{} }

// counting counts the connections that a listener takes.
type counting struct {
	net.Listener
	taken atomic.Int32
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.taken.Add(1)
	}
	return c, err
}

// serve is an agent at a path.
func serve(t *testing.T, path string, d *desk) (*agentapi.Server, *counting) {
	t.Helper()
	listener, err := agentapi.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	counted := &counting{Listener: listener}
	server := agentapi.Serve(counted, agentapi.Options{Coordinator: d})
	server.Begin(agentapi.Round{})
	return server, counted
}

func join(c *agentapi.Client, a agentapi.Attach, local int) (Part, error) {
	return fence.New(c, a, local)
}

// A rank has one connection to its agent: for the question whether there is a job, for its part in
// it, and for the loader's numbers. It ends with the loader.
func TestOneConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	d := &desk{detached: make(chan struct{}, 1)}
	server, counted := serve(t, path, d)
	defer server.Close() //nolint:errcheck // of a test
	s := New(Options{Join: join})
	defer s.End()
	handle := openJob(t, s, path, "lockstep")
	text, err := s.Ask(t.Context(), handle, "join", []byte("10000"))
	var joined joining
	if err := errors.Join(err, json.Unmarshal(text, &joined)); err != nil || !joined.Joined {
		t.Errorf("%s, %v", text, err)
	}
	deliver := func(got Delivery, token uint64) error {
		s.GiveBack(token)
		return nil
	}
	if st, err := s.Next(t.Context(), handle, patience, deliver); err != nil {
		t.Errorf("%v, %v", st, err)
	}
	testwait.Until(t, "the loader sends no numbers", func() bool { return len(server.Stats()) > 0 })
	closeLoader, err := s.Detach(handle)
	if err := errors.Join(err, closeLoader()); err != nil {
		t.Error(err)
	}
	select {
	case <-d.detached:
	case <-time.After(patience):
		t.Error("the rank has not left")
	}
	if n := counted.taken.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// openJob opens a loader of a job in which it is the only rank.
func openJob(t *testing.T, s *Session, path, mode string) uint64 {
	t.Helper()
	request := fmt.Sprintf(`{"open": "loader", "device": "cpu", "on_error": "raise", "reuse": "window", "decoded_bytes": 1048576, "fields": [{"name": "x", "shape": [2], "pad": "error", "pad_value": "0"}],
		"source": {"kind": "grid", "tail": "drop", "fields": [{"name": "x", "arrays": [%q], "shape": [2]}]},
		"loader": {"batch_size": 2, "coord": "require", "mode": %q, "tail": "short"},
		"env": {"HEADRACE_AGENT": %q}}`, writeArray(t, 0), mode, path)
	handle, about, err := s.Open(t.Context(), []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(about), `"job":true`) {
		t.Errorf("%s", about)
	}
	return handle
}

// An agent that is named and does not answer may have a job: a rank goes on beside it only
// where it was said that it joins none.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	gone := rank.Identity{World: 1, LocalWorld: 1, Nodes: 1, Agent: filepath.Join(t.TempDir(), "gone")}
	for _, c := range []struct {
		coord string
		id    rank.Identity
		kind  error
		words string
	}{
		{"auto", gone, nd.ErrIO, `coord="off"`},
		{"require", gone, nd.ErrIO, gone.Agent},
		{"off", gone, nil, ""},
		{"auto", rank.Identity{World: 1}, nil, ""},
		{"require", rank.Identity{World: 1}, nd.ErrUnsupported, "HEADRACE_AGENT is not set"},
	} {
		s, err := findSeat(t.Context(), &request{Loader: &loaderSpec{Coord: c.coord, Mode: "lockstep"}}, c.id)
		if s != nil || !errors.Is(err, c.kind) || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s with %q: %v, %v", c.coord, c.id.Agent, s, err)
		}
	}
}

// A rank that finds its agent begun again since the loader was opened joins by a new connection.
func TestAgentThatBeginsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server, _ := serve(t, path, &desk{})
	id := rank.Identity{World: 1, LocalWorld: 1, Nodes: 1, Agent: path}
	s, err := findSeat(t.Context(), &request{Loader: &loaderSpec{Coord: "require"}, join: join}, id)
	if err != nil {
		t.Fatal(err)
	}
	first := s.mu.client
	if again, err := s.connected(t.Context(), id); again != first || err != nil {
		t.Errorf("a second connection: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "the connection does not end", func() bool { return first.Err() != nil })
	server, counted := serve(t, path, &desk{})
	defer server.Close() //nolint:errcheck // of a test
	if again, err := s.connected(t.Context(), id); err != nil || again == first || counted.taken.Load() != 1 {
		t.Errorf("%v", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
