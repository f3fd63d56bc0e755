package launcher_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// The trainer of the tests of live jobs: each worker takes positions from its agent, asks
// the test for leave, and commits them. So the test says when anything moves.

const (
	livePositions = 600
	liveBatch     = 10
)

// liveDigest is additive, as the coordinator's is.
func liveDigest(x nd.Span) (d [2]uint64) {
	for p := x.Start; p < x.Stop; p++ {
		d[0] += uint64(p*p + 1)
		d[1] += uint64(p)<<20 + 7
	}
	return d
}

// liveMain is the word live=GATE.
func liveMain(gate string) error {
	conn, err := net.Dial("tcp", gate)
	if err != nil {
		return err
	}
	replies := bufio.NewReader(conn)
	ask := func(format string, args ...any) error {
		_, _ = fmt.Fprintf(conn, format+"\n", args...)
		_, err := replies.ReadString('\n')
		return err
	}
	e := os.Getenv
	if err := ask("hello %s %s %s %d view=%s rank=%s", e("TEST_NODE"), e("LOCAL_RANK"), e("TORCHELASTIC_RESTART_COUNT"), os.Getpid(), e("HEADRACE_VIEW"), e("RANK")); err != nil {
		return err
	}
	id, _, err := rank.Detect(os.LookupEnv)
	if err != nil {
		return err
	}
	ctx := context.Background()
	f, err := fence.Dial(ctx, id, agentapi.Attach{Plan: "p", Mode: "async", N: livePositions, Steps: 1, Epochs: 1, Ahead: 40})
	if err != nil {
		return err
	}
	defer f.Close()
	loader, err := agentapi.Dial(ctx, id.Agent, agentapi.Hello{RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1})
	if err != nil {
		return err
	}
	defer loader.Close() //nolint:errcheck // all was said
	if err := loader.SendStats(agentapi.Stats{"samples_total": 12}); err != nil {
		return err
	}
	for {
		epoch, x, err := f.Take(ctx, liveBatch)
		if errors.Is(err, fence.ErrOver) {
			c, _ := f.Closed()
			return ask("over %d %s", c.Count, c.Digest)
		}
		if err != nil {
			return err
		}
		if err := ask("take %d %d", x.Start, x.Stop); err != nil {
			return err
		}
		if _, err := f.Finish(epoch, x, liveDigest(x)); err != nil {
			return err
		}
	}
}

// gate lets workers go on, or not.
type gate struct {
	t  *testing.T
	l  net.Listener
	mu sync.Mutex
	*sync.Cond
	open    bool
	workers map[string]*attendant
	over    []string // what workers have said of the end
	nodes   []*job
}

// attendant is one process of a worker, by node, local rank and restart: "2.1.0".
type attendant struct {
	pid, taken int
	view, rank string
	gone       bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, l: l, workers: map[string]*attendant{}}
	g.Cond = sync.NewCond(&g.mu)
	late := time.AfterFunc(testBound, func() {
		t.Errorf("not at its end within %v: the workers are let go", testBound)
		g.change(func() { g.open = true })
	})
	t.Cleanup(func() {
		late.Stop()
		g.change(func() { g.open = true })
		_ = l.Close()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go g.serve(conn)
		}
	}()
	return g
}

const (
	// liveBound is how long any one thing may take.
	liveBound = 60 * time.Second
	// testBound is for all of them.
	testBound = 4 * liveBound
)

func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.Broadcast()
}

func (g *gate) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // of a worker that has ended
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		return
	}
	f := strings.Fields(lines.Text())
	if len(f) != 7 {
		g.t.Errorf("a worker says %q", lines.Text())
		return
	}
	a := &attendant{view: strings.TrimPrefix(f[5], "view="), rank: strings.TrimPrefix(f[6], "rank=")}
	a.pid, _ = strconv.Atoi(f[4])
	g.change(func() { g.workers[f[1]+"."+f[2]+"."+f[3]] = a })
	_, _ = conn.Write([]byte("go\n"))
	for lines.Scan() {
		g.mu.Lock()
		if text, is := strings.CutPrefix(lines.Text(), "over "); is {
			g.over = append(g.over, text)
		} else {
			a.taken++
			g.Broadcast()
			for !g.open {
				g.Wait()
			}
		}
		g.Broadcast()
		g.mu.Unlock()
		if _, err := conn.Write([]byte("go\n")); err != nil {
			break
		}
	}
	g.change(func() { a.gone = true })
}

// until waits until something holds.
func (g *gate) until(what string, holds func() bool) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	late := false
	stop := time.AfterFunc(liveBound, func() { g.change(func() { late = true }) })
	defer stop.Stop()
	for !holds() {
		if late {
			for i, j := range g.nodes {
				g.t.Logf("node %d:\n%s", i, j.errors())
			}
			g.t.Fatalf("not within %v: %s; workers %s", liveBound, what, g.list())
		}
		g.Wait()
	}
}

func (g *gate) list() string {
	var b strings.Builder
	for name, a := range g.workers {
		fmt.Fprintf(&b, "%s: %+v; ", name, *a)
	}
	return b.String()
}

// working reports whether these processes have taken something.
func (g *gate) working(names ...string) func() bool {
	return func() bool {
		for _, name := range names {
			if a := g.workers[name]; a == nil || a.taken == 0 {
				return false
			}
		}
		return true
	}
}

// exact checks that so many workers have seen the end, with all positions done once.
func (g *gate) exact(workers int) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	d := liveDigest(nd.Span{Start: 0, Stop: livePositions})
	want := fmt.Sprintf("%d %016x%016x", livePositions, d[0], d[1])
	if len(g.over) != workers {
		g.t.Errorf("%d workers have seen the end, want %d: %v", len(g.over), workers, g.over)
	}
	for _, got := range g.over {
		if got != want {
			g.t.Errorf("coverage %s, want %s", got, want)
		}
	}
}

// live is a job of nodes that the test starts.
type live struct {
	*gate
	port, key string
}

func newLive(t *testing.T) *live {
	t.Parallel()
	l := &live{gate: newGate(t), port: freePort(t), key: t.TempDir() + "/key"}
	if err := os.WriteFile(l.key, []byte("the key of a live job"), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// start starts a node of two workers. The first one is where the others meet.
func (l *live) start(flags ...string) {
	l.t.Helper()
	i := len(l.nodes)
	host := "false"
	if i == 0 {
		host = "true"
	}
	args := append([]string{
		"--live", "--live-profile", "fast", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:" + l.port, "--rdzv-id", "live",
		"--rdzv-conf", "is_host=" + host + ",last_call_timeout=1,join_timeout=40", "--shutdown-timeout", "10",
	}, flags...)
	j := start(l.t, []string{"TEST_NODE=" + strconv.Itoa(i), "HEADRACE_KEY_FILE=" + l.key}, append(args, workers(2, "live="+l.l.Addr().String())...)...)
	l.nodes = append(l.nodes, j)
}

// startAll starts so many nodes and waits until each worker has something to do.
func (l *live) startAll(n int, flags ...string) {
	l.t.Helper()
	var names []string
	for i := range n {
		l.start(flags...)
		names = append(names, fmt.Sprintf("%d.0.0", i), fmt.Sprintf("%d.1.0", i))
	}
	l.until("all workers work", l.working(names...))
	if n > 2 {
		l.says(1, "3 agents decide") // from here on any may be lost
	}
}

func (l *live) release() { l.change(func() { l.open = true }) }

// ends waits for a node, and checks its exit code and what it has said.
func (l *live) ends(node, code int, said ...string) {
	l.t.Helper()
	got, _, stderr := l.nodes[node].wait()
	if got != code {
		l.t.Errorf("node %d exits with %d, want %d\n%s", node, got, code, stderr)
	}
	for _, text := range said {
		if !strings.Contains(stderr, text) {
			l.t.Errorf("node %d has not said %q:\n%s", node, text, stderr)
		}
	}
}

// says waits until a launcher has said something.
func (l *live) says(node int, text string) {
	l.t.Helper()
	j := l.nodes[node]
	j.mu.Lock()
	defer j.mu.Unlock()
	late := false
	stop := time.AfterFunc(liveBound, func() {
		j.mu.Lock()
		late = true
		j.mu.Unlock()
		j.written.Broadcast()
	})
	defer stop.Stop()
	for !strings.Contains(j.stderr.String(), text) {
		if late {
			l.t.Fatalf("node %d has not said %q:\n%s", node, text, j.stderr.String())
		}
		j.written.Wait()
	}
}
