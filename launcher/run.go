package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/launcher/topology"
	"github.com/headrace/headrace/nd"
)

// Result is how a node's part of a job ended.
type Result struct {
	// Code is the exit code: that of the root cause, 128+N for signal N, 127 and 126
	// for what cannot be started, 1 for what the launcher itself could not do.
	Code int
	// Root is the first failure, here or on another node; nil where no worker failed.
	Root *rendezvous.Failure
	// Failures are those of this node's last round, in the order they were seen.
	Failures []rendezvous.Failure
	Stuck    []int  // pids that outlived SIGKILL
	LogDir   string // the log tree, "" if there is none (any more)
	script   string // titles the report
}

// Report is the failure report in torchrun's form, "" where no worker failed.
func (r Result) Report() string {
	if r.Root == nil || r.Root.PID == 0 {
		return ""
	}
	return banner(r.script, r.Root, r.Failures)
}

// killBound is how long a process may take to end after SIGKILL. One that waits in
// the kernel (state D) is given up then, and named.
const killBound = 15 * time.Second

// Run starts the workers of one node and returns when all is over and nothing is
// left. The error is one line that says why Result.Code is not 0: ErrFailed, or of a
// kind of package nd where the launcher's own part did not work. A context that
// ends stops the job as SIGTERM does; with Spec.Adopt, where the process's own
// signals do that, only one that has ended before Run. Run takes over the signals of
// the process.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if err := spec.Validate(); err != nil {
		return Result{Code: 2}, err
	}
	spec.fill()
	if err := spec.readKey(); err != nil {
		r := Result{Code: 1}
		if errors.Is(err, nd.ErrConfig) {
			r.Code = 2
		}
		return r, err
	}
	sh := &shell{spec: &spec, box: newMailbox(), stop: make(chan struct{}), hurry: make(chan struct{})}
	sh.host, _ = os.Hostname()
	v, err := sh.run(ctx)
	r := Result{Code: v.code, Root: v.root, Failures: v.failures, Stuck: v.stuck, LogDir: sh.logs.dir, script: spec.Script}
	if m, ok := errors.AsType[*missing](err); ok {
		r.Code = m.code
	} else if err != nil && r.Code == 0 {
		r.Code = 1
	}
	if err == nil {
		err = v.err()
	}
	return r, err
}

// shell carries out what the supervisor decides. Its fields belong to the goroutine
// of Run, but for the parts that say otherwise.
type shell struct {
	spec     *Spec
	command  command
	host     string
	sup      *supervisor
	box      *mailbox
	spawner  *spawner
	cgroups  []cgroup // of the round: one for all workers, or in a live job one for each
	live     *members // nil without --live
	talk     context.Context
	logs     logTree
	console  [2]*lines
	sockets  sockets
	bindings []topology.Binding // by local rank, nil without
	counters counters
	null     *os.File // /dev/null, standard input of engines

	out     *outputs
	more    []*outputs        // of workers of a live job that were started again
	pending *rendezvous.Round // waits for the engines
	workers []*process        // of the spawner's thread, by local rank; nil entries did not start
	engines []*engine         // set before the thread sees them
	warm    bool              // the engines were started
	ending  bool              // of the spawner's thread: engines that end are not started again

	timer *time.Timer
	talks sync.WaitGroup // calls of the group, and what feeds the mailbox
	stop  chan struct{}  // closed to end the feeders
	hurry chan struct{}  // closed by the first signal that stops the job
	mu    struct {
		sync.Mutex
		group rendezvous.Group // nil until the node is known to the job
	}
}

func (sh *shell) run(ctx context.Context) (v verdict, err error) {
	signals := sh.listen()
	defer signal.Stop(signals)
	if sh.spec.Adopt { // from here on the signals themselves come; before, only the context could tell
		if ctx.Err() != nil {
			sh.box.put(event{kind: signalCame, signal: signalOf(context.Cause(ctx))})
		}
		ctx = context.WithoutCancel(ctx)
	}
	if sh.command, err = sh.spec.command(); err != nil {
		return v, err
	}
	closers, err := sh.open(ctx)
	if err == nil {
		sh.announce()
		v = sh.supervise(ctx, signals)
		own, _ := sh.spec.lookup("TORCHELASTIC_ERROR_FILE")
		closers = append(closers, func() error { return copyError(own, v.root, v.code) })
	}
	for _, c := range slices.Backward(closers) {
		sh.warnOf(c()) // the job is over, and how it ended does not change
	}
	sh.warnOf(sh.logs.remove(sh.keepLogs(v)))
	return v, err
}

// open makes what a job needs on this node besides its group. What was made is
// closed in the opposite order.
func (sh *shell) open(ctx context.Context) (closers []func() error, err error) {
	s := sh.spec
	if sh.logs, err = newLogTree(s); err != nil {
		return nil, err
	}
	if sh.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "%w", err)
	}
	closers = append(closers, sh.null.Close)
	if sh.bindings, err = s.bindings(); err != nil {
		return closers, err
	}
	if sh.spawner, err = newSpawner(); err != nil {
		return closers, err
	}
	if s.Live {
		left, err := sh.openAgent()
		if err != nil {
			return append(closers, sh.spawner.close), err
		}
		closers = append(closers, left)
	}
	closers = append(closers, sh.spawner.close, sh.sockets.close)
	if err := sh.sockets.open(s.RunID, sh.relay(ctx), sh.coordinator()); err != nil {
		sh.warn("ranks cannot compare their plans through the launcher: " + err.Error())
	}
	if sh.engines, err = sh.companions(); err != nil {
		return closers, err
	}
	served, err := sh.serveMetrics()
	if err != nil {
		return closers, err
	}
	closers = append(closers, served)
	sh.console = [2]*lines{{file: s.Stdout}, {file: s.Stderr}}
	if s.Stdout == s.Stderr {
		sh.console[1] = sh.console[0]
	}
	if s.Adopt {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it process groups have to do
	}
	return closers, nil
}

// announce tells what the user did not say, and should know.
func (sh *shell) announce() {
	s := sh.spec
	if s.Place != "" {
		sh.warn(fmt.Sprintf("node %d of %d, from the environment of %s", max(s.NodeRank, 0), s.MaxNodes, s.Place))
	}
	if _, ok := s.lookup("OMP_NUM_THREADS"); !ok && s.Workers > 1 {
		sh.warn("OMP_NUM_THREADS is set to 1 for each worker: set it yourself for more threads")
	}
	for _, line := range describeBindings(sh.bindings) {
		sh.warn(line)
	}
}

// keepLogs says whether a temporary log tree has what the user may want.
func (sh *shell) keepLogs(v verdict) bool {
	s := sh.spec
	written := s.Redirects.any(s.Workers) || s.Tee.any(s.Workers)
	return written || slices.ContainsFunc(v.failures, func(f rendezvous.Failure) bool { return f.ErrorFile != "" })
}

func (sh *shell) warn(text string) {
	if sh.spec.PrintWarning != nil {
		sh.spec.PrintWarning(text)
	}
}

func (sh *shell) warnOf(err error) {
	if err != nil {
		sh.warn(err.Error())
	}
}

// entered is the job's group, nil until the node is known to it.
func (sh *shell) entered() rendezvous.Group {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.mu.group
}

// supervise runs the state machine until its verdict.
func (sh *shell) supervise(ctx context.Context, signals chan os.Signal) verdict {
	talk, cancel := context.WithCancel(context.WithoutCancel(ctx))
	sh.talk = talk
	sh.feed(ctx, signals)
	sh.sup = newSupervisor(sh.spec, cmp.Or(sh.spec.killBound, killBound))
	v, done := sh.carry(talk, sh.sup.start())
	for !done {
		for _, e := range sh.box.take() {
			if e.kind == called {
				e.call()
			} else if v, done = sh.carry(talk, sh.sup.step(e)); done {
				break
			}
		}
	}
	if sh.timer != nil {
		sh.timer.Stop()
	}
	sh.spawner.now(sh.endEngines)
	if sh.spec.Adopt {
		sh.spawner.now(func() { v.stuck = append(v.stuck, endAll(pidSet(v.stuck), sweepBound, sh.spawner.reapAdopted)...) })
	}
	group := sh.entered()
	if group != nil {
		_ = group.Close() // after it no call of the group waits
	}
	cancel()
	close(sh.stop)
	sh.talks.Wait()
	if late := sh.entered(); late != nil && group == nil {
		if n := sh.sup.signal; n != 0 && (sh.live == nil || stopsAll(int(n))) {
			sh.report(ctx, late, rendezvous.Outcome{Kind: rendezvous.Signalled, Signal: int(n)})
		}
		_ = late.Close()
	}
	return v
}

// carry does what the supervisor wants, in order.
func (sh *shell) carry(ctx context.Context, effects []effect) (v verdict, done bool) {
	for _, e := range effects {
		switch e.kind {
		case join:
			sh.talks.Go(func() { sh.box.put(sh.next(ctx)) })
		case spawn:
			if sh.live != nil {
				sh.watch(e.round)
			}
			sh.warmUp(e.round)
		case again:
			sh.startLater(e)
		case respawn:
			sh.respawn(e.local, e.restarts)
		case lost:
			sh.loseWorker(e.failure)
		case tell:
			sh.callOff()
			sh.spawner.later(func() { sh.signalWorkers(e.signal, true) })
		case pass:
			sh.spawner.later(func() { sh.signalWorkers(e.signal, false) })
		case kill:
			sh.spawner.later(sh.killWorkers)
		case startTimer:
			sh.startTimer(e.timer, e.after)
		case sweep:
			sh.sweep()
		case report:
			if e.outcome.Kind == rendezvous.Signalled {
				close(sh.hurry) // the supervisor reports one
			}
			if sh.live != nil {
				sh.reportLive(e.outcome)
			} else if g := sh.entered(); g != nil {
				sh.report(ctx, g, e.outcome)
			}
		case finish:
			return e.verdict, true
		}
	}
	return v, false
}

// report tells the group of an outcome, in the order of outcomes: Report does not
// wait. The group tells of its own troubles by an event.
func (sh *shell) report(ctx context.Context, g rendezvous.Group, o rendezvous.Outcome) {
	_ = g.Report(ctx, o)
}

// next asks the group for the next round. The first time it finds the group.
func (sh *shell) next(ctx context.Context) event {
	g := sh.entered()
	if g == nil {
		var err error
		port := 0
		if sh.live != nil {
			port = sh.live.agent.Port()
		}
		if g, err = sh.spec.enter(ctx, sh.host, port, sh.warn); err != nil {
			return event{kind: joinFailed, verdict: refusedBy(err)}
		}
		sh.mu.Lock()
		sh.mu.group = g
		sh.mu.Unlock()
		sh.hear(g)
	}
	r, err := g.Next(ctx)
	if err == nil && sh.live != nil {
		r.Late = r.Late || len(sh.spec.LiveContacts) > 0
		err = sh.meet(r)
	}
	if err == nil {
		return event{kind: roundAgreed, round: r}
	}
	if s, ok := errors.AsType[*rendezvous.Stopped](err); ok {
		return event{kind: joinStopped, group: s.Event}
	}
	if errors.Is(err, rendezvous.ErrFinished) {
		return event{kind: joinFailed}
	}
	return event{kind: joinFailed, verdict: refusedBy(err)}
}

func (sh *shell) startTimer(number int, after time.Duration) {
	if sh.timer != nil {
		sh.timer.Stop()
	}
	sh.timer = time.AfterFunc(after, func() { sh.box.put(event{kind: timerFired, timer: number}) })
}
