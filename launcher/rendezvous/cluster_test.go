package rendezvous

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/testport"
	"github.com/headrace/headrace/nd"
)

// Sixty-four nodes over real TCP: the master's port is free for rank 0, a failure
// reaches all at once and restarts them by the job's budget, the next one stops them.
func TestSixtyFourNodes(t *testing.T) {
	const n = 64
	port := testport.Free(t)
	var configs []Config
	for rank := range n {
		c := job(port, n, rank)
		c.MaxRestarts = 1
		configs = append(configs, c)
	}
	groups := join(t, configs...)
	for rank, r := range next(t, groups...) {
		if r.Rank != rank || r.World() != 2*n || r.MasterPort != port {
			t.Fatalf("node %d: round %+v", rank, r)
		}
	}
	store := listenAt(t, "0.0.0.0", port)
	if second, err := net.Listen("tcp", store.Addr().String()); err == nil {
		t.Error("a second job listens at the master's port")
		_ = second.Close()
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cause := &Failure{Rank: 9, LocalRank: 1, PID: 77, ExitCode: 3, Error: json.RawMessage(`{"message":"boom"}`)}
	report(t, groups[4], Outcome{Round: 0, Kind: Failed, Cause: cause})
	for _, g := range groups {
		if e := wantEvent(t, g, Restart); e.Cause == nil || e.Cause.Node != 4 || e.Cause.Host != "host4" || e.Cause.ExitCode != 3 || string(e.Cause.Error) != `{"message":"boom"}` {
			t.Fatalf("event %+v of cause %+v", e, e.Cause)
		}
	}
	t.Logf("a failure reached %d nodes in %v", n, time.Since(began))
	began = time.Now()
	for rank, r := range next(t, groups...) {
		if r.Number != 1 || r.Restarts != 1 || r.Rank != rank || r.MasterPort != port {
			t.Fatalf("node %d: round %+v", rank, r)
		}
	}
	t.Logf("%d nodes agreed on the next round in %v", n, time.Since(began))
	report(t, groups[63], Outcome{Round: 1, Kind: Failed, Cause: &Failure{Rank: 126, Signal: 9}})
	for rank, g := range groups {
		if e := wantEvent(t, g, Stop); e.Cause.Signal != 9 || e.Reason != "node 63 (host63, pid 163): rank 126 was killed by signal 9" {
			t.Fatalf("node %d: event %+v", rank, e)
		}
		if _, err := g.Next(t.Context()); !errors.As(err, new(*Stopped)) {
			t.Fatalf("node %d: Next after Stop: %v", rank, err)
		}
	}
}

func TestSignalStopsAllNodes(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, job(port, 3, 0), job(port, 3, 1), job(port, 3, 2))
	next(t, groups...)
	report(t, groups[1], Outcome{Kind: Signalled, Signal: 15})
	for _, g := range groups {
		if e := wantEvent(t, g, Stop); e.Signal != 15 || e.Cause != nil {
			t.Errorf("event %+v", e)
		}
	}
}

func TestRelay(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, job(port, 3, 0), job(port, 3, 1), job(port, 3, 2))
	if err := groups[1].Relay(t.Context(), 0, "plan", nil); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("a document before the round: %v", err)
	}
	next(t, groups...)
	large := []byte(strings.Repeat("x", MaxDocument))
	if err := errors.Join(groups[2].Relay(t.Context(), 0, "plan", large), groups[0].Relay(t.Context(), Everyone, "verdict", []byte("ok"))); err != nil {
		t.Fatal(err)
	}
	if d := <-groups[0].Relayed(); d.From != 2 || d.Kind != "plan" || string(d.Doc) != string(large) {
		t.Errorf("document from %d of kind %s and %d bytes", d.From, d.Kind, len(d.Doc))
	}
	for _, g := range groups[1:] {
		if d := <-g.Relayed(); d.From != 0 || d.Kind != "verdict" || string(d.Doc) != "ok" || d.Round != 0 {
			t.Errorf("document %+v", d)
		}
	}
	if err := groups[0].Relay(t.Context(), 0, "a", append(large, 1)); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("a document that is too large: %v", err)
	}
	if err := groups[0].Relay(t.Context(), 3, "a", nil); !errors.Is(err, nd.ErrShape) {
		t.Errorf("a document to nobody: %v", err)
	}
}

// The plans of all ranks come to node 0 in one burst, faster than it takes them: none
// is lost, and no link is.
func TestRelayBurst(t *testing.T) {
	const senders, each = 3, 3000
	port := testport.Free(t)
	groups := join(t, job(port, 4, 0), job(port, 4, 1), job(port, 4, 2), job(port, 4, 3))
	next(t, groups...)
	var all sync.WaitGroup
	for _, g := range groups[1:] {
		all.Go(func() {
			for i := range each {
				if err := g.Relay(t.Context(), 0, "plan", []byte(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var last [senders + 1]int
	for range senders * each {
		d := <-groups[0].Relayed()
		if string(d.Doc) != strconv.Itoa(last[d.From]) {
			t.Fatalf("document %s of node %d, want %d", d.Doc, d.From, last[d.From])
		}
		last[d.From]++
	}
}

// A node that ends without a word is noticed at once, since the kernel says so. Its
// job ends for the others, unless it is elastic and has a restart left.
func TestNodeEnds(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, job(port, 3, 0), job(port, 3, 1), job(port, 3, 2))
	next(t, groups...)
	began := time.Now()
	groups[1].(*group).link.cut()
	for _, g := range []Group{groups[0], groups[2]} {
		if e := wantEvent(t, g, Stop); e.Reason != "node 1 (host1, pid 101) was lost: its launcher ended" {
			t.Errorf("event %+v", e)
		}
	}
	if e := wantEvent(t, groups[1], Stop); !strings.HasPrefix(e.Reason, "lost the rendezvous at 127.0.0.1:") {
		t.Errorf("event %+v", e)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("noticed after %v", d)
	}
}

// The end of the coordinator's node is the end of the job, in order or not.
func TestCoordinatorEnds(t *testing.T) {
	for _, static := range []bool{true, false} {
		port := testport.Free(t)
		configs := []Config{job(port, 2, 0), job(port, 2, 1)}
		if !static {
			configs = []Config{elastic(port, 1, 2, 0), elastic(port, 1, 2, 1)}
		}
		groups := join(t, configs...)
		next(t, groups...)
		host, other := groups[0], groups[1]
		if other.(*group).coordinator != nil {
			host, other = other, host
		}
		if err := host.Close(); err != nil {
			t.Error(err)
		}
		if e := wantEvent(t, other, Stop); !strings.Contains(e.Reason, "was lost: it left") {
			t.Errorf("event %+v", e)
		}
		if err := errors.Join(other.Close(), other.Close(), host.Close()); err != nil {
			t.Error(err)
		}
		if _, err := host.Next(t.Context()); !errors.Is(err, nd.ErrClosed) {
			t.Errorf("Next after Close: %v", err)
		}
	}
}

// Beyond MAX a node stands by, and ends without an error when the job does.
func TestSpare(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, elastic(port, 1, 2, 0), elastic(port, 1, 2, 1))
	next(t, groups...)
	spare := join(t, elastic(port, 1, 2, 2))[0]
	ended := make(chan error)
	go func() {
		_, err := spare.Next(t.Context())
		ended <- err
	}()
	for _, g := range groups {
		report(t, g, Outcome{Round: 0, Kind: Succeeded})
	}
	for _, g := range groups {
		wantEvent(t, g, Done)
	}
	if err := <-ended; !errors.Is(err, ErrFinished) {
		t.Errorf("the spare ended with %v", err)
	}
}

// Next can be given up and asked again: the round is not lost.
func TestNextIsCancelled(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, job(port, 2, 0), job(port, 2, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := groups[0].Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if r := next(t, groups...); r[0].Rank != 0 || r[1].Rank != 1 {
		t.Errorf("rounds %+v", r)
	}
	if _, err := groups[0].Next(t.Context()); !errors.Is(err, nd.ErrBug) {
		t.Errorf("Next within a round: %v", err)
	}
}

// Close wakes everyone who waits for a round.
func TestCloseEndsEveryNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		g := join(t, m.node(t, 2, 2, 0))[0]
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := g.Next(ctx); !errors.Is(err, nd.ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}

// Two jobs on one host, one after the other and at the same time, never meet.
func TestTwoJobs(t *testing.T) {
	a, b := testport.Free(t), testport.Free(t)
	other := func(c Config) Config { c.RunID = "other"; return c }
	groups := join(t, job(a, 2, 0), other(job(b, 2, 0)), other(job(b, 2, 1)), job(a, 2, 1))
	for i, r := range next(t, groups...) {
		if want := []string{"job", "other", "other", "job"}[i]; r.RunID != want || len(r.Nodes) != 2 {
			t.Errorf("node %d: round %+v", i, r)
		}
	}
	// The first job's port is only held now. Nobody may take it for a rendezvous.
	stranger := other(elastic(a, 1, 2, 0))
	stranger.JoinTimeout = 200 * time.Millisecond
	_, err := Join(t.Context(), stranger)
	wantText(t, err, fmt.Sprintf("nobody listens at 127.0.0.1:%d; port %d is in use by another headrace job (pid %d)", a, a, os.Getpid()))
}

// The same rules for one node alone.
func TestSingle(t *testing.T) {
	g, err := Single(Config{RunID: "r", Endpoint: "localhost:-1", Node: Node{Host: "h", LocalWorld: 4}, MaxRestarts: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	for restarts := range 2 {
		r := next(t, g)[0]
		if r.Number != restarts || r.Restarts != restarts || r.World() != 4 || r.MasterAddr != "localhost" || r.MasterPort <= 0 || r.RunID != "r" {
			t.Errorf("round %+v", r)
		}
		if err := listenAt(t, "127.0.0.1", r.MasterPort).Close(); err != nil {
			t.Error(err)
		}
		report(t, g, Outcome{Round: restarts - 1, Kind: Failed}) // of a round that is over
		report(t, g, Outcome{Round: restarts, Kind: Failed, Cause: &Failure{Rank: 2, ExitCode: 7}})
		e := wantEvent(t, g, []EventKind{Restart, Stop}[restarts])
		if e.Cause.ExitCode != 7 || e.Cause.Host != "h" {
			t.Errorf("event %+v", e)
		}
	}
	if _, err := g.Next(t.Context()); !errors.As(err, new(*Stopped)) {
		t.Errorf("Next after Stop: %v", err)
	}
	done, err := Single(Config{Endpoint: "127.0.0.1:-1", Node: Node{LocalWorld: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := done.Relay(t.Context(), 0, "plan", nil); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("a document before the round: %v", err)
	}
	next(t, done)
	if err := errors.Join(done.Relay(t.Context(), 0, "plan", []byte("x")), done.Relay(t.Context(), Everyone, "verdict", nil)); err != nil {
		t.Error(err)
	}
	if d := <-done.Relayed(); string(d.Doc) != "x" || d.From != 0 {
		t.Errorf("document %+v", d)
	}
	report(t, done, Outcome{Kind: Succeeded})
	wantEvent(t, done, Done)
	if err := done.Close(); err != nil {
		t.Error(err)
	}
}

// childVariable makes the test binary a node of a job instead.
const childVariable = "HEADRACE_TEST_NODE"

// TestChildNode is no test by itself: it is the node of TestProcesses. It prints its
// rounds and events.
func TestChildNode(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("only a child of TestProcesses")
	}
	var port, rank int
	if _, err := fmt.Sscan(text, &port, &rank); err != nil {
		t.Fatal(err)
	}
	c := elastic(port, 2, 3, rank)
	host := rank == 0 // else the process that is first to bind the endpoint
	c.MaxRestarts, c.Heartbeat, c.NodeRank, c.Host = 1, time.Second, rank, &host
	g := join(t, c)[0]
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	for {
		r, err := g.Next(t.Context())
		if err != nil {
			say("end %v", err)
			return
		}
		say("round %d rank %d of %d restarts %d", r.Number, r.Rank, len(r.Nodes), r.Restarts)
		if r.Number == 1 {
			report(t, g, Outcome{Round: 1, Kind: Succeeded})
		}
		e := <-g.Events()
		say("event %s", e.Kind)
		if e.Kind != Restart {
			return
		}
	}
}

// Real processes: one is killed, the others go on without it.
func TestProcesses(t *testing.T) {
	port := testport.Free(t)
	var children []*child
	for rank := range 3 {
		children = append(children, startChild(t, port, rank))
	}
	for rank, c := range children {
		c.want(t, fmt.Sprintf("round 0 rank %d of 3 restarts 0", rank))
	}
	killed := time.Now()
	if err := children[2].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, c := range children[:2] {
		c.want(t, "event restart")
	}
	t.Logf("the others knew after %v", time.Since(killed))
	for rank, c := range children[:2] {
		c.want(t, fmt.Sprintf("round 1 rank %d of 2 restarts 1", rank))
	}
	for _, c := range children[:2] {
		c.want(t, "event done")
	}
	for _, c := range children[:2] {
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

type child struct {
	cmd   *exec.Cmd
	lines chan string
}

func startChild(t *testing.T, port, rank int) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildNode$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"="+strconv.Itoa(port)+" "+strconv.Itoa(rank))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, make(chan string, 1000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		reading.Wait()
		_ = cmd.Wait()
	})
	return c
}

// want waits for a line, and skips those of the testing package.
func (c *child) want(t *testing.T, line string) {
	t.Helper()
	for got := range c.lines {
		switch got = strings.TrimSpace(got); {
		case got == line:
			return
		case strings.HasPrefix(got, "round "), strings.HasPrefix(got, "event "), strings.HasPrefix(got, "end "):
			t.Fatalf("the node says %q, want %q", got, line)
		}
	}
	t.Fatalf("the node ended before it said %q", line)
}
