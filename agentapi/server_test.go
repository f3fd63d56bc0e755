package agentapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/nd"
)

// A test binary in which a goroutine of a client or a server is left fails.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server of a job of two ranks, and ends it with the test.
func serve(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, options)
	s.Begin(Round{Number: 3, World: 2})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, path
}

func dial(t *testing.T, path string, rank int) *Client {
	t.Helper()
	c, err := Dial(t.Context(), path, Hello{PID: 1, RunID: "job", Rank: rank, World: 2, LocalRank: rank, Round: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestSocketIsPrivate(t *testing.T) {
	_, path := serve(t, Options{})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v, others could attach to it", info.Mode())
	}
	if _, err := Listen(path); !errors.Is(err, nd.ErrIO) {
		t.Errorf("a second server at the same path: %v", err)
	}
	if _, err := Listen(strings.Repeat("x", 200)); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a path that is too long: %v", err)
	}
}

// checkAll runs PlanCheck of several clients at a time.
func checkAll(ctx context.Context, clients []*Client, plans []Plan) []error {
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { errs[i] = c.PlanCheck(ctx, plans[i]) })
	}
	all.Wait()
	return errs
}

func TestPlanCheck(t *testing.T) {
	_, path := serve(t, Options{RunID: "job"})
	clients := []*Client{dial(t, path, 0), dial(t, path, 1)}
	if !clients[0].Offers(OfferPlanCheck) || !clients[0].Offers(OfferStats) || clients[0].Offers("coord") {
		t.Errorf("the server offers %v", clients[0].offers)
	}
	for range 3 { // a name is free again after its verdict
		for rank, err := range checkAll(t.Context(), clients, plansOf(2, 1, 8)) {
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	}
	plans := plansOf(2, 1, 8)
	plans[1].Seed++
	for rank, err := range checkAll(t.Context(), clients, plans) {
		if wantError(t, err, "ranks 0 and 1 differ in seed: 7 and 8"); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("rank %d: the error lost its kind: %v", rank, err)
		}
	}
}

// Two loaders of one process check at the same time, and not in the same order on
// all ranks: names keep them apart.
func TestChecksInterleave(t *testing.T) {
	_, path := serve(t, Options{})
	var clients []*Client
	var plans []Plan
	for i := range 8 {
		rank := i % 2
		p := plansOf(2, 1, 8)[rank]
		p.Check = fmt.Sprint("loader ", (i/2+3*rank)%4)
		clients, plans = append(clients, dial(t, path, rank)), append(plans, p)
	}
	for i, err := range checkAll(t.Context(), clients, plans) {
		if err != nil {
			t.Errorf("%s: %v", plans[i].Check, err)
		}
	}
}

func TestStats(t *testing.T) {
	s, path := serve(t, Options{})
	a, b := dial(t, path, 0), dial(t, path, 1)
	for i := range 5 {
		if err := errors.Join(a.SendStats(Stats{"samples_total": float64(i)}), b.SendStats(Stats{"samples_total": float64(10 * i)})); err != nil {
			t.Fatal(err)
		}
	}
	// The answer to a later message says that the earlier ones have been taken.
	for rank, err := range checkAll(t.Context(), []*Client{a, b}, plansOf(2, 1, 8)) {
		if err != nil {
			t.Fatal(rank, err)
		}
	}
	got := s.Stats()
	if len(got) != 2 || got[0].Stats["samples_total"] != 4 || got[1].Stats["samples_total"] != 40 || got[1].Rank != 1 {
		t.Errorf("stats %+v", got)
	}
	s.Begin(Round{Number: 4, World: 2})
	if got := s.Stats(); len(got) != 0 {
		t.Errorf("stats of the former round are left: %+v", got)
	}
	for _, bad := range []Stats{{"": 1}, {"Samples": 1}, {"a b": 1}, {"1a": 1}} {
		if err := a.SendStats(bad); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// Who does not belong to the round is refused, by a reason that names both sides.
func TestRefusals(t *testing.T) {
	s, path := serve(t, Options{RunID: "job", MaxClients: 1})
	try := func(h Hello, want string) {
		t.Helper()
		_, err := Dial(t.Context(), path, h)
		wantError(t, err, want)
		s.waitForClients(t, 0)
	}
	try(Hello{RunID: "other", World: 2, Round: -1}, `rank 0 belongs to job "other", this is the launcher of "job"`)
	try(Hello{RunID: "job", World: 2, Round: 2}, "rank 0 belongs to round 2, the job is in round 3")
	try(Hello{RunID: "job", World: 4, Rank: 3, Round: -1}, "rank 3 of 4, the job has 2 ranks")
	dial(t, path, 0)
	_, err := Dial(t.Context(), path, Hello{RunID: "job", World: 2, Round: -1})
	wantError(t, err, "no more are taken")
	if _, err = Dial(t.Context(), filepath.Join(t.TempDir(), "none"), Hello{}); !errors.Is(err, nd.ErrIO) {
		t.Errorf("no socket: %v", err)
	}
}

// Where ranks come and go a rank may tell any view, the one that it was started in, and is
// offered no comparison: nobody knows how many plans to wait for. Its numbers are taken.
func TestRanksThatComeAndGo(t *testing.T) {
	s, path := serve(t, Options{RunID: "job"})
	s.Begin(Round{Number: 4})
	for _, view := range []int{-1, 0, 7} {
		c, err := Dial(t.Context(), path, Hello{RunID: "job", Rank: 5, World: 6, Round: view})
		if err != nil {
			t.Fatalf("started in view %d: %v", view, err)
		}
		if c.Offers(OfferPlanCheck) || !c.Offers(OfferStats) {
			t.Errorf("started in view %d: plans are compared %v, numbers taken %v", view, c.Offers(OfferPlanCheck), c.Offers(OfferStats))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// waitForClients waits until the server has noticed that clients are gone.
func (s *Server) waitForClients(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	for {
		s.mu.Lock()
		have := len(s.mu.clients)
		s.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d clients, want %d", have, n)
		case <-time.After(time.Millisecond):
		}
	}
}

// What is no hello of this version is answered by a reason, and then the server
// hangs up; it never waits for bytes that a length only promises.
func TestBadBytes(t *testing.T) {
	_, path := serve(t, Options{})
	try := func(raw, want string) {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%.40q: answer %q, error %v, want %q", raw, answer, err, want)
		}
	}
	framed := func(text string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	try("GET / HTTP/1.1\r\n\r\n", "at most 4096 are taken")
	try(framed(`{"type":"hello","protocol":"headrace-agent","version":2,"world":2}`), "version 2 of headrace-agent, this one 1")
	try(framed(`{"type":"hello","protocol":"torch"}`), `speaks \"torch\"`)
	try(framed(`{"type":"stats"}`), "a stats before the hello")
	try(framed(`{"type":"hello"`), "unexpected end of JSON")
	hello := framed(`{"type":"hello","protocol":"headrace-agent","version":1,"rank":1,"world":2,"round":-1}`)
	try(hello+framed(`{"type":"what"}`), `message of type \"what\"`)
	try(hello+framed(`{"type":"plan","plan":{"rank":0,"world":2}}`), "rank 1 sent the plan of rank 0")
	try(hello+string([]byte{0xff, 0xff, 0xff, 0xff}), "at most 4194304 are taken")
}

// A client whose answer does not come back in time, or that is closed, does not
// wait for ever, and neither do those behind it.
func TestClientWakes(t *testing.T) {
	s, path := serve(t, Options{})
	c := dial(t, path, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.PlanCheck(ctx, plansOf(2, 1, 8)[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.PlanCheck(t.Context(), plansOf(2, 1, 8)[0]); err == nil || !strings.Contains(err.Error(), `two plans named "train"`) {
		t.Errorf("the plan that was sent before still stands: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- c.PlanCheck(t.Context(), plansOf(2, 1, 8)[0]) }()
	s.waitForPlans(t, 1)
	s.Begin(Round{Number: 4, World: 2})
	if err := <-waits; !errors.Is(err, nd.ErrClosed) {
		t.Errorf("the round ended: %v", err)
	}
	if err := c.PlanCheck(t.Context(), plansOf(2, 1, 8)[0]); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("a rank of the former round: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if err := c.SendStats(Stats{"a": 1}); !errors.Is(err, nd.ErrIO) {
		t.Errorf("the server is gone: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

func (s *Server) waitForPlans(t *testing.T, n int) {
	t.Helper()
	testwait.Until(t, "the plans wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.waiting) == n
	})
}

// pipes is a listener without a kernel, so that synctest sees its time pass.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(t *testing.T, h Hello) *Client {
	t.Helper()
	near, far := net.Pipe()
	p.conns <- far
	c, err := greet(t.Context(), near, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nodes is a job of two nodes with two ranks each, and servers that reach one
// another by function calls.
func nodes(t *testing.T, lost func(from, to int, kind string) bool) []*Client {
	t.Helper()
	servers, listeners := servers(t, 7, lost)
	var clients []*Client
	for n, s := range servers {
		clients = append(clients, ranks(t, s, listeners[n], Round{Number: 7, World: 4, Node: n})...)
	}
	return clients
}

// servers are those of two nodes, whose documents carry a round.
func servers(t *testing.T, round int, lost func(from, to int, kind string) bool) ([]*Server, []*pipes) {
	t.Helper()
	servers := make([]*Server, 2)
	listeners := make([]*pipes, 2)
	for n := range servers {
		relay := func(to int, kind string, doc []byte) error {
			for other, s := range servers {
				if other == n || to >= 0 && to != other || lost(n, other, kind) {
					continue
				}
				if mine, err := s.Receive(round, n, kind, doc); !mine || err != nil {
					t.Errorf("node %d: %s from node %d: %v", other, kind, n, err)
				}
			}
			return nil
		}
		listeners[n] = &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		servers[n] = Serve(listeners[n], Options{Relay: relay})
	}
	t.Cleanup(func() {
		for _, s := range servers {
			_ = s.Close()
		}
	})
	return servers, listeners
}

// ranks begins a round at a server, and dials as its two ranks.
func ranks(t *testing.T, s *Server, l *pipes, r Round) (clients []*Client) {
	t.Helper()
	s.Begin(r)
	for local := range 2 {
		clients = append(clients, l.dial(t, Hello{Rank: 2*r.Node + local, World: r.World, LocalRank: local, Round: -1}))
	}
	t.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close()
		}
	})
	return clients
}

// A node whose launcher is ahead of node 0's sends its plans before node 0's server
// knows of the round: they are not lost. Those of another round than they came in are
// left out, whether the launcher's group is ahead of its server or the other way.
func TestPlansBeforeTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, listeners := servers(t, 7, func(int, int, string) bool { return false })
		plans := plansOf(4, 1, 8)
		clients := ranks(t, servers[1], listeners[1], Round{Number: 7, World: 4, Node: 1})
		var ahead []error
		var all sync.WaitGroup
		all.Go(func() { ahead = checkAll(t.Context(), clients, plans[2:]) })
		synctest.Wait()
		stale, err := json.Marshal(roundPlan{Round: 6, Plan: plans[0]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := servers[0].Receive(7, 1, planDocument, stale); err != nil {
			t.Error(err)
		}
		rest := checkAll(t.Context(), ranks(t, servers[0], listeners[0], Round{Number: 7, World: 4}), plans[:2])
		all.Wait()
		for rank, err := range append(rest, ahead...) {
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
}

// Node 0 names the missing ranks also where it is its own that are missing.
func TestMissingPlansOfNode0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := nodes(t, func(int, int, string) bool { return false })
		for _, err := range checkAll(t.Context(), clients[2:], plansOf(4, 1, 8)[2:]) {
			wantError(t, err, "no plan of ranks 0, 1 came in time")
		}
	})
}

func TestPlansOfTwoNodes(t *testing.T) {
	clients := nodes(t, func(int, int, string) bool { return false })
	for rank, err := range checkAll(t.Context(), clients, plansOf(4, 2, 8)) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	plans := plansOf(4, 1, 8)
	plans[2].Own[0].Start--
	for _, err := range checkAll(t.Context(), clients, plans) {
		wantError(t, err, "ranks 1 and 2 both load positions [3, 4)")
	}
}

// A rank that never sends its plan is named on every node once the time is up.
func TestMissingPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := nodes(t, func(int, int, string) bool { return false })
		began := time.Now()
		for _, err := range checkAll(t.Context(), clients[:3], plansOf(4, 1, 8)[:3]) {
			if wantError(t, err, `no plan of rank 3 came in time for the check "train"`); !errors.Is(err, nd.ErrIO) {
				t.Errorf("kind of %v", err)
			}
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("told after %v, want 1m", d)
		}
	})
}

// Where node 0 is deaf or silent, the other nodes' ranks still get an answer.
func TestLostDocuments(t *testing.T) {
	for kind, want := range map[string]string{
		planDocument:    "no plan of ranks 2, 3 came in time",
		verdictDocument: "node 0 gave no verdict",
	} {
		synctest.Test(t, func(t *testing.T) {
			clients := nodes(t, func(_, _ int, k string) bool { return k == kind })
			errs := checkAll(t.Context(), clients, plansOf(4, 1, 8))
			for _, err := range errs[2:] {
				wantError(t, err, want)
			}
		})
	}
}

func TestClientThatNeverGreetsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := Serve(p, Options{})
		near, far := net.Pipe()
		p.conns <- far
		if _, err := near.Read(make([]byte, 1)); err == nil {
			t.Error("the server said something")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		`{"type":"hello","protocol":"headrace-agent","version":1,"pid":1,"run_id":"a","rank":0,"world":2,"local_rank":0,"round":-1}`,
		`{"type":"stats","stats":{"a":1e300}}`,
		`{"type":"plan","id":1,"plan":{"check":"t","rank":1,"world":2,"n":5,"global":4,"batch":[0,4],"own":[[2,4]]}}`,
		`{"type":"checked","id":1,"error":{"kind":"config","text":"x"}}`,
		`{"type":"error"}`, `{}`, `[]`, `null`,
	} {
		f.Add(binary.BigEndian.AppendUint32(nil, uint32(len(text))), []byte(text))
	}
	f.Fuzz(func(t *testing.T, head, text []byte) {
		m, err := readMessage(io.MultiReader(bytes.NewReader(head), bytes.NewReader(text)), MaxMessage)
		if err != nil {
			return
		}
		// What was taken can be sent, and is the same at the other end.
		again, err := frame(&m)
		if err != nil {
			if errors.Is(err, nd.ErrBudget) {
				return // a long hello, or escapes that need more room
			}
			t.Fatalf("%q: %v", text, err)
		}
		back, err := readMessage(bytes.NewReader(again), MaxMessage)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		if third, err := frame(&back); err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%q became %q (%v)", again, third, err)
		}
	})
}
