package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
)

// host is an agent, the socket of its ranks, and the ranks.
type host struct {
	*Agent
	server *agentapi.Server
	socket string
}

func startHost(t *testing.T, name string, change func(*Config)) *host {
	t.Helper()
	cfg := Config{Job: "job", Name: name, Profile: "fast", Key: []byte("0123456789abcdef")}
	cfg.Listener.Event = func(e Event) { t.Logf("%s: %s %s", name, e.Kind, e.Text) }
	change(&cfg)
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{Agent: a, socket: filepath.Join(t.TempDir(), "s")}
	l, err := agentapi.Listen(h.socket)
	if err != nil {
		t.Fatal(err)
	}
	h.server = agentapi.Serve(l, agentapi.Options{Coordinator: a})
	h.server.Begin(agentapi.Round{})
	t.Cleanup(h.stop)
	return h
}

func (h *host) stop() {
	_ = h.Close()
	_ = h.server.Close()
}

// worker is a rank of an async job.
type worker struct {
	client *agentapi.Client
	fence  *fence.Fence
}

func (h *host) attach(ctx context.Context, local int, a agentapi.Attach) (*worker, error) {
	client, err := agentapi.Dial(ctx, h.socket, agentapi.Hello{RunID: "job", LocalRank: local, World: 1, Round: -1})
	if err != nil {
		return nil, err
	}
	f, err := fence.Attach(ctx, client, a, local)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &worker{client, f}, nil
}

// die ends the rank as kill -9 does: its connection is closed.
func (w *worker) die() { _ = w.client.Close() }

// ledger is what the ranks of a job have finished: the test's own account.
type ledger struct {
	mu   sync.Mutex
	done map[int64]int
}

func (l *ledger) add(x nd.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := x.Start; p < x.Stop; p++ {
		l.done[p]++
	}
}

// work takes, finishes and commits until the job is over, or stop says otherwise.
func (w *worker) work(ctx context.Context, l *ledger, most int) error {
	for n := 0; most == 0 || n < most; n++ {
		epoch, x, err := w.fence.Take(ctx, 5)
		if errors.Is(err, fence.ErrOver) {
			return nil
		}
		if err != nil {
			return err
		}
		if ok, err := w.fence.Finish(epoch, x, digestOf(x)); err != nil {
			return err
		} else if ok {
			l.add(x)
		}
	}
	return nil
}

// digestOf is the sum over positions, as digests are.
func digestOf(x nd.Span) (d [2]uint64) {
	for p := x.Start; p < x.Stop; p++ {
		d[0] += uint64(p+1) * 0x9e3779b97f4a7c15
		d[1] += uint64(p) ^ 0x5555
	}
	return d
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// An async job over three agents, of whom one is lost with its ranks in the middle, and
// another rank is killed: the job ends with every position done.
func TestAsyncJobOverAgents(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 3000, Steps: 1, Epochs: 1, Ahead: 64}
	first := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 6 })
	hosts := []*host{first}
	for _, name := range []string{"b", "c"} {
		hosts = append(hosts, startHost(t, name, func(c *Config) { c.Contacts = []string{first.Address()} }))
	}
	l := &ledger{done: map[int64]int{}}
	var running sync.WaitGroup
	failed := make(chan error, 6)
	for i, h := range hosts {
		for local := range 2 {
			running.Go(func() {
				w, err := h.attach(ctx, local, want)
				if err != nil {
					failed <- fmt.Errorf("rank %d of host %d: %w", local, i, err)
					return
				}
				defer w.die()
				most := 0
				if i == 2 || i == 1 && local == 1 {
					most = 20 // then it is lost, with what it has under way
				}
				err = w.work(ctx, l, most)
				if i == 2 && local == 1 {
					_ = h.Close()
				}
				if i == 2 && local == 0 && errors.Is(err, nd.ErrClosed) {
					return // its agent went with the other rank
				}
				if err != nil {
					failed <- fmt.Errorf("rank %d of host %d: %w", local, i, err)
				}
			})
		}
	}
	running.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for p := range want.N {
		if l.done[p] == 0 {
			t.Errorf("position %d was never finished", p)
		}
	}
	if s := first.State(); !s.Over || s.View.World() > 4 {
		t.Errorf("at the end: over %v, view %+v", s.Over, s.View)
	}
}

// In a lockstep job a rank that is killed halts the others; they agree where to go on,
// among those that are left.
func TestLockstepJobLosesARank(t *testing.T) {
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1 << 20, Steps: 1 << 16}
	a := startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 3 })
	b := startHost(t, "b", func(c *Config) { c.Contacts = []string{a.Address()} })
	var workers [3]*worker
	var attaching sync.WaitGroup
	for i, h := range []*host{a, a, b} {
		attaching.Go(func() {
			w, err := h.attach(ctx, i%2, want)
			if err != nil {
				t.Error(err)
			}
			workers[i] = w
		})
	}
	attaching.Wait()
	if t.Failed() {
		return
	}
	steps := func(from, to int64, list ...*worker) {
		t.Helper()
		for s := from; s < to; s++ {
			for _, w := range list {
				if err := w.fence.Lease(ctx, 0, s); err != nil {
					t.Fatalf("step %d: %v", s, err)
				}
				w.fence.Delivered(0, s)
			}
		}
	}
	steps(0, 600, workers[:]...) // further than the first leases
	workers[1].die()
	began := time.Now()
	var view *agentapi.ViewError
	for _, w := range []*worker{workers[0], workers[2]} {
		var err error
		for s := int64(600); err == nil; s++ {
			err = w.fence.Lease(ctx, 0, 600) // they wait for each other at this step
		}
		if !errors.As(err, &view) || !view.Halted || view.World != 2 {
			t.Fatalf("after the loss: %v", err)
		}
	}
	t.Logf("the loss is in the view of both agents after %v", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the loss of a local rank took %v", took)
	}
	// Both say from where, at once: one of them holds, and the other hears so.
	both := [2]error{}
	var asking sync.WaitGroup
	for i, w := range []*worker{workers[0], workers[2]} {
		asking.Go(func() { both[i] = w.fence.Redo(ctx, 0, 590) })
	}
	asking.Wait()
	if (both[0] == nil) == (both[1] == nil) || !errors.Is(errors.Join(both[:]...), agentapi.ErrView) {
		t.Fatalf("two redos at once: %v, %v", both[0], both[1])
	}
	for i, w := range []*worker{workers[0], workers[2]} {
		p, err := w.fence.Enter(ctx)
		if err != nil || p.Rank != i || p.World != 2 || p.Step != 590 {
			t.Fatalf("entered %+v, %v", p, err)
		}
	}
	steps(590, 1000, workers[0], workers[2])
	workers[0].fence.Close()
	workers[2].fence.Close()
	workers[0].die()
	workers[2].die()
}

// Who has another key, job or plan does not get in; the last one hears why.
func TestStrangers(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Ahead: 4}
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	w, err := a.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	key := startHost(t, "key", func(c *Config) { c.Contacts, c.Key = []string{a.Address()}, []byte("another key, 16+") })
	job := startHost(t, "job", func(c *Config) { c.Contacts, c.Job = []string{a.Address()}, "other" })
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := key.attach(short, 0, want); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no agent of the job has answered yet") {
		t.Errorf("with another key: %v", err)
	}
	other := want
	other.Plan = "q"
	plan := startHost(t, "plan", func(c *Config) { c.Contacts = []string{a.Address()} })
	if _, err := plan.attach(ctx, 0, other); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with another plan: %v", err)
	} else {
		t.Log(err)
	}
	if _, err := job.attach(ctx, 0, want); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of another job: %v", err)
	} else {
		t.Log(err)
	}
	if n := len(a.State().View.Members); n != 1 {
		t.Errorf("%d members", n)
	}
}
