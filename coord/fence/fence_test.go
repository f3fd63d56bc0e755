package fence

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

func span(a, b int64) nd.Span { return nd.Span{Start: a, Stop: b} }

// desk is an agent of one rank: the test says what it tells.
type desk struct {
	seat     chan *agentapi.Seat
	progress chan agentapi.Progress
	redo     chan agentapi.Redo
	parts    chan []agentapi.Part
}

func (d *desk) Attach(s *agentapi.Seat, _ agentapi.Attach) error { d.seat <- s; return nil }
func (d *desk) Progress(_ *agentapi.Seat, p agentapi.Progress)   { d.progress <- p }
func (d *desk) Commit(_ *agentapi.Seat, p []agentapi.Part) error {
	d.parts <- p
	return nil
}
func (d *desk) Redo(_ *agentapi.Seat, r agentapi.Redo) error { d.redo <- r; return nil }
func (d *desk) Detach(*agentapi.Seat, bool)                  {}

// sit attaches a Fence to a desk, which tells it a first state.
func sit(t *testing.T, a agentapi.Attach, first agentapi.JobState) (*desk, *Fence, *agentapi.Seat) {
	t.Helper()
	d := &desk{seat: make(chan *agentapi.Seat, 1), progress: make(chan agentapi.Progress, 1000), redo: make(chan agentapi.Redo, 10), parts: make(chan []agentapi.Part, 4096)}
	path := filepath.Join(t.TempDir(), "s")
	l, err := agentapi.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := agentapi.Serve(l, agentapi.Options{Coordinator: d})
	server.Begin(agentapi.Round{World: 1})
	client, err := agentapi.Dial(context.Background(), path, agentapi.Hello{World: 1, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(client, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	seat := receive(ctx, t, d.seat)
	seat.State(first)
	if _, err := f.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		_ = client.Close()
		_ = server.Close()
	})
	return d, f, seat
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive takes what must come.
func receive[T any](ctx context.Context, t *testing.T, from <-chan T) (x T) {
	t.Helper()
	select {
	case x = <-from:
	case <-ctx.Done():
		t.Fatal("nothing comes")
	}
	return x
}

// until waits for what comes of something that the agent told: it looks at each change.
func until(ctx context.Context, t *testing.T, f *Fence, what string, ok func() bool) {
	t.Helper()
	for {
		f.mu.Lock()
		changed := f.mu.changed
		f.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A step passes while it is leased, waits while it is not, and is refused with the reason
// when it is another view's; then the rank enters that view and goes on where it begins.
func TestFenceLockstep(t *testing.T) {
	a := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1000, Steps: 100}
	state := agentapi.JobState{View: 3, Rank: 1, World: 4, Cut: 105, Horizon: 110, Epoch: 1}
	d, f, seat := sit(t, a, state)
	ctx := within(t)
	if p := f.Place(); p != (Place{View: 3, Rank: 1, World: 4, Epoch: 1, Step: 5}) {
		t.Errorf("place %+v", p)
	}
	for s := int64(5); s < 10; s++ {
		if err := f.Lease(ctx, 1, s); err != nil {
			t.Fatal(err)
		}
		f.Delivered(1, s)
	}
	for receive(ctx, t, d.progress) != (agentapi.Progress{View: 3, Done: 109, Used: 110}) {
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	if err := f.Lease(short, 1, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a step that is not leased: %v", err)
	}
	cancel()

	// A rank comes at step 120: the old view holds up to there.
	state.View, state.World, state.Cut, state.Horizon, state.Turn = 4, 5, 120, 130, 1
	seat.State(state)
	for s := int64(10); s < 20; s++ {
		if err := f.Lease(ctx, 1, s); err != nil {
			t.Fatal(err)
		}
		f.Delivered(1, s)
	}
	var view *ViewError
	if err := f.Lease(ctx, 1, 20); !errors.As(err, &view) || view.View != 4 || view.Halted {
		t.Fatalf("the first step of the next view: %v", err)
	}
	if p, err := f.Enter(ctx); err != nil || p != (Place{View: 4, Rank: 1, World: 5, Epoch: 1, Step: 20, Turn: 1}) {
		t.Errorf("entered %+v, %v", p, err)
	}
	if err := f.Lease(ctx, 1, 20); err != nil {
		t.Fatal(err)
	}

	// A rank is lost: nothing passes until a redo says where to go on.
	state.View, state.World, state.Cut, state.Halted, state.Turn = 5, 4, 118, true, 2
	seat.State(state)
	until(ctx, t, f, "the halt", func() bool { return errors.As(f.Lease(ctx, 1, 21), &view) && view.Halted })
	redone := make(chan error, 1)
	go func() { redone <- f.Redo(ctx, 1, 15) }()
	r := receive(ctx, t, d.redo)
	if r.By == 0 || r != (agentapi.Redo{View: 5, Step: 115, By: r.By}) {
		t.Errorf("redo %+v", r)
	}
	state.Cut, state.Halted, state.Redo, state.Horizon, state.By, state.Turn = 115, false, 1, 140, r.By, 3
	seat.State(state)
	if err := receive(ctx, t, redone); err != nil {
		t.Fatal(err)
	}
	if err := f.Lease(ctx, 1, 15); !errors.As(err, &view) {
		t.Errorf("before it is entered: %v", err)
	}
	if p, err := f.Enter(ctx); err != nil || p != (Place{View: 5, Rank: 1, World: 4, Epoch: 1, Step: 15, Turn: 3}) {
		t.Errorf("entered %+v, %v", p, err)
	}
	if err := f.Lease(ctx, 1, 15); err != nil {
		t.Error(err)
	}
	seat.Fail(nd.Errorf(nd.ErrConfig, "evicted"))
	until(ctx, t, f, "the eviction", func() bool { return errors.Is(f.Lease(ctx, 1, 16), nd.ErrClosed) })
}

// Changed tells of a new view, of a halt, of what is waited for and of the end, and not of leases.
func TestChanged(t *testing.T) {
	state := agentapi.JobState{View: 1, World: 2, Horizon: 10}
	_, f, seat := sit(t, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 100}, state)
	ctx := within(t)
	for _, c := range []struct {
		what   string
		change func()
		ok     func() bool
	}{
		{"a view", func() { state.View = 2 }, func() bool { p, _ := f.Newest(); return p.View == 2 && !f.Interrupted() }},
		{"a halt", func() { state.Halted = true }, func() bool { _, halted := f.Newest(); return halted && f.Interrupted() }},
		{"a wait", func() { state.Waiting = "no majority" }, func() bool { return f.Waiting() != "" }},
		{"a redo", func() { state.Halted, state.Redo, state.Cut = false, 1, 3 }, func() bool { return f.Interrupted() && f.Err() == nil }},
		{"the end", func() { state.Ending = "evicted" }, func() bool { return errors.Is(f.Err(), nd.ErrClosed) }},
	} {
		changed := f.Changed()
		state.Horizon += 10
		seat.State(state)
		until(ctx, t, f, "a lease", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.mu.state.Horizon == state.Horizon
		})
		select {
		case <-changed:
			t.Errorf("a lease is told as %s", c.what)
		default:
		}
		c.change()
		seat.State(state)
		receive(ctx, t, changed)
		if !c.ok() {
			t.Errorf("%s is told, and cannot be seen", c.what)
		}
	}
}

// A lane that cannot be ends the rank's part with an error of that kind, which names the agent; it is
// not waited for.
func TestSenselessLane(t *testing.T) {
	a := agentapi.Attach{Plan: "p", Mode: "async", N: 100, Ahead: 8}
	_, f, seat := sit(t, a, agentapi.JobState{World: 1})
	seat.State(agentapi.JobState{World: 1, Lane: []agentapi.Span{{Start: 50, Stop: 5}}})
	if _, _, err := f.Take(within(t), 4); !errors.Is(err, nd.ErrCorrupt) || !strings.Contains(err.Error(), "the agent at ") {
		t.Errorf("took, %v", err)
	}
}

// A Fence that is closed keeps nobody waiting.
func TestCloseEndsWaits(t *testing.T) {
	_, f, _ := sit(t, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 100, Steps: 100}, agentapi.JobState{World: 1, Horizon: 1})
	ctx := within(t)
	changed := f.Changed()
	leased := make(chan error, 1)
	go func() { leased <- f.Lease(ctx, 0, 1) }()
	f.Close()
	receive(ctx, t, changed)
	if err := receive(ctx, t, leased); !errors.Is(err, nd.ErrClosed) || !errors.Is(f.Err(), nd.ErrClosed) {
		t.Errorf("Lease: %v, Err: %v", err, f.Err())
	}
}

// What a step costs a trainer: no allocation, and no lock while it is leased.
func TestLeaseAllocatesNothing(t *testing.T) {
	_, f, _ := sit(t, agentapi.Attach{Mode: "lockstep", Steps: 1 << 40}, agentapi.JobState{World: 1, Horizon: 1 << 40})
	ctx := within(t)
	step := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		if f.Lease(ctx, 0, step) != nil {
			t.Fatal("no lease")
		}
		f.Delivered(0, step)
		step++
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// Positions are taken, finished and committed in order; those that went to another rank
// are told.
func TestFenceAsync(t *testing.T) {
	a := agentapi.Attach{Plan: "p", Mode: "async", N: 1000, Ahead: 8}
	state := agentapi.JobState{View: 1, World: 2, Lane: []agentapi.Span{{Start: 10, Stop: 100}}}
	d, f, seat := sit(t, a, state)
	ctx := within(t)
	_, x, err := f.Take(ctx, 6)
	if err != nil || x != span(10, 16) {
		t.Fatalf("took %v, %v", x, err)
	}
	_, y, _ := f.Take(ctx, 6)
	if y != span(16, 18) {
		t.Errorf("beyond the lease: %v", y)
	}
	if ok, err := f.Finish(0, x, [2]uint64{1, 2}); !ok || err != nil {
		t.Error(ok, err)
	}
	parts := receive(ctx, t, d.parts)
	if parts[0].Span != (agentapi.Span{Start: 10, Stop: 16}) || parts[0].Digest != "00000000000000010000000000000002" {
		t.Errorf("committed %+v", parts)
	}
	seat.Decided([]agentapi.Decided{{Span: parts[0].Span, Effective: true}})
	if _, z, err := f.Take(ctx, 6); err != nil || z != span(18, 24) {
		t.Errorf("then %v, %v", z, err)
	}
	state.Lane = []agentapi.Span{{Start: 16, Stop: 20}}
	seat.State(state)
	if !f.Holds(0, span(16, 18)) {
		t.Error("the rank does not hold what it has taken")
	}
	var void []agentapi.Decided
	until(ctx, t, f, "void positions", func() bool {
		void = slices.DeleteFunc(f.Settled(), func(d agentapi.Decided) bool { return d.Effective })
		return len(void) > 0
	})
	if nd.Span(void[0].Span) != span(18, 24) {
		t.Errorf("void: %v", void)
	}
	if f.Holds(0, span(18, 24)) {
		t.Error("the rank holds what is void")
	}
	if ok, err := f.Finish(0, y, [2]uint64{}); !ok || err != nil {
		t.Error(ok, err)
	}
	state.Over, state.Lane = true, nil
	seat.State(state)
	for err = nil; err == nil; { // each takes one, or ends with ctx
		_, _, err = f.Take(ctx, 1)
	}
	if !errors.Is(err, ErrOver) {
		t.Error(err)
	}
}

// Await returns when all that was finished is decided, and not before; what is void is told once,
// and a wait that ends says what the job waits for.
func TestAwait(t *testing.T) {
	a := agentapi.Attach{Plan: "p", Mode: "async", N: 1000, Ahead: 64}
	state := agentapi.JobState{View: 1, World: 2, Lane: []agentapi.Span{{Start: 10, Stop: 100}}}
	d, f, seat := sit(t, a, state)
	ctx := within(t)
	if err := f.Await(ctx); err != nil {
		t.Errorf("nothing is finished: %v", err)
	}
	take := func() (x nd.Span) {
		_, x, err := f.Take(ctx, 5)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	finish := func(x nd.Span) {
		if ok, err := f.Finish(0, x, [2]uint64{}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	x, y, z := take(), take(), take()
	finish(x)
	state.Waiting = "no majority"
	seat.State(state)
	until(ctx, t, f, "a reason to wait", func() bool { return f.Waiting() != "" })
	var wait *agentapi.WaitError
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := f.Await(short); !errors.As(err, &wait) || wait.Reason != "no majority" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("not decided: %v", err)
	}
	awaited := make(chan error, 1)
	go func() { awaited <- f.Await(ctx) }()
	seat.Decided([]agentapi.Decided{{Span: receive(ctx, t, d.parts)[0].Span, Effective: true}})
	if err := receive(ctx, t, awaited); err != nil {
		t.Error(err)
	}
	finish(y)
	go func() { awaited <- f.Await(ctx) }()
	seat.Decided([]agentapi.Decided{{Span: receive(ctx, t, d.parts)[0].Span, Reason: "void: old view"}})
	var void *agentapi.VoidError
	if err := receive(ctx, t, awaited); !errors.As(err, &void) || len(void.Parts) != 1 || nd.Span(void.Parts[0].Span) != y {
		t.Errorf("a void part: %v", err)
	}
	if err := f.Await(ctx); err != nil {
		t.Errorf("it was told: %v", err)
	}
	finish(z) // and the connection ends: what became of it is not known, which is not void
	receive(ctx, t, d.parts)
	seat.Fail(nd.Errorf(nd.ErrConfig, "evicted"))
	if err := f.Await(ctx); !errors.Is(err, nd.ErrClosed) && !errors.Is(err, nd.ErrConfig) || errors.Is(err, agentapi.ErrVoid) {
		t.Errorf("at the end: %v", err)
	}
}

// What is void when it is finished is told by Finish, and by Await with its positions, once; who
// leaves was told.
func TestFinishOfWhatIsVoid(t *testing.T) {
	a := agentapi.Attach{Plan: "p", Mode: "async", N: 1000, Ahead: 64}
	state := agentapi.JobState{View: 1, World: 2, Lane: []agentapi.Span{{Start: 10, Stop: 100}}}
	_, f, seat := sit(t, a, state)
	ctx := within(t)
	var taken [2]nd.Span
	for i := range taken {
		_, taken[i], _ = f.TryTake(5)
	}
	state.Epoch, state.Lane = 1, nil
	seat.State(state)
	until(ctx, t, f, "the end of the epoch", func() bool { return !f.Holds(0, taken[0]) })
	finish := func(x nd.Span) {
		if ok, err := f.Finish(0, x, [2]uint64{}); ok || err != nil {
			t.Errorf("positions of an epoch that is over: %v, %v", ok, err)
		}
	}
	finish(taken[0])
	var void *agentapi.VoidError
	want := agentapi.Decided{Span: agentapi.Span(taken[0]), Reason: "void: not in the lane"}
	if err := f.Await(ctx); !errors.As(err, &void) || !slices.Equal(void.Parts, []agentapi.Decided{want}) {
		t.Errorf("%v", err)
	}
	if err := f.Await(ctx); err != nil {
		t.Errorf("it was told: %v", err)
	}
	finish(taken[1])
	if err := f.Leave(ctx); err != nil {
		t.Errorf("Finish has told it: %v", err)
	}
}

// A verdict that comes behind the end of its epoch is none on the same positions of the next.
func TestVerdictOfAnEpochThatIsOver(t *testing.T) {
	f := &Fence{}
	f.mu.changed, f.mu.news = make(chan struct{}), make(chan struct{})
	f.mu.cursor = coord.NewCursor(&coord.Job{Ahead: 64}, 0)
	lane := []agentapi.Span{{Stop: 10}}
	take := func(epoch int64) {
		f.take(&agentapi.JobState{Epoch: epoch, Lane: lane}, nil)
		_, x, _ := f.TryTake(10)
		f.mu.cursor.Finish(x, [2]uint64{})
		f.mu.cursor.Parts() // it is sent
	}
	take(0)
	take(1)
	f.Settled() // the epoch is over, and nothing was decided of it
	f.take(nil, []agentapi.Decided{{Epoch: 0, Span: lane[0], Reason: "void: old view"}})
	if s := f.Settled(); s != nil {
		t.Errorf("of epoch 1: %+v", s)
	}
	f.take(nil, []agentapi.Decided{{Epoch: 1, Span: lane[0], Effective: true}})
	if s := f.Settled(); len(s) != 1 || !s[0].Effective || s[0].Epoch != 1 {
		t.Errorf("of epoch 1: %+v", s)
	}
}

// Positions that several goroutines finish are committed in the lane's order all the same:
// a part before its turn would be void. However many become due at once, the agent takes them.
func TestFenceCommitsInOrder(t *testing.T) {
	const n = 2000
	a := agentapi.Attach{Plan: "p", Mode: "async", N: n, Ahead: n}
	d, f, _ := sit(t, a, agentapi.JobState{World: 1, Lane: []agentapi.Span{{Stop: n}}})
	ctx := within(t)
	work := make(chan nd.Span, n)
	for range n {
		_, x, err := f.Take(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		work <- x
	}
	close(work)
	for range 4 {
		go func() {
			for x := range work {
				if ok, err := f.Finish(0, x, [2]uint64{}); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		}()
	}
	for next := int64(0); next < n; {
		for _, p := range receive(ctx, t, d.parts) {
			if p.Span.Start != next {
				t.Fatalf("positions from %d on, want %d", p.Span.Start, next)
			}
			next = p.Span.Stop
		}
	}
}

// What a batch of a lane costs a trainer: no allocation, also where the lane is in pieces.
func TestTakeAllocatesNothing(t *testing.T) {
	first := agentapi.JobState{World: 1, Lane: make([]agentapi.Span, 500)}
	for i := range first.Lane {
		first.Lane[i] = agentapi.Span{Start: 20 * int64(i), Stop: 20*int64(i) + 10}
	}
	_, f, _ := sit(t, agentapi.Attach{Mode: "async", N: 1 << 40, Ahead: 1 << 40}, first)
	ctx := within(t)
	for range 128 { // room for what is taken
		f.TryTake(5)
	}
	if n := testing.AllocsPerRun(50, func() {
		epoch, x, ok := f.TryTake(5)
		_, y, err := f.Take(ctx, 5)
		if !ok || err != nil || !f.Holds(epoch, x) || !f.Holds(epoch, y) || f.Settled() != nil {
			t.Fatal(ok, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in two batches", n)
	}
}

// BenchmarkTake is a batch's way through the lane: taken, looked at, finished, sent, decided.
func BenchmarkTake(b *testing.B) {
	f := &Fence{}
	f.mu.cursor = coord.NewCursor(&coord.Job{Ahead: 1 << 62}, 0)
	f.mu.cursor.Update(0, []nd.Span{{Stop: 1 << 62}})
	for range 9 {
		f.TryTake(5)
	}
	b.ReportAllocs()
	for at := int64(0); b.Loop(); at += 5 {
		epoch, x, _ := f.TryTake(5)
		f.Holds(epoch, x)
		oldest := span(at, at+5)
		f.mu.cursor.Finish(oldest, [2]uint64{})
		f.mu.cursor.Parts()
		f.mu.cursor.Decide(oldest, coord.Effective)
	}
}

func BenchmarkLease(b *testing.B) {
	f := &Fence{steps: 1 << 40}
	f.limit.Store(1 << 60)
	ctx := context.Background()
	for i := range int64(b.N) {
		_ = f.Lease(ctx, 0, i)
		f.Delivered(0, i)
	}
}
