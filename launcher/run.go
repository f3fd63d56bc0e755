package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	name     string
}

// Report is the failure report in torchrun's form, "" where no worker failed.
func (r Result) Report() string {
	if r.Root == nil || r.Root.PID == 0 {
		return ""
	}
	return banner(r.name, r.Root, r.Failures)
}

// killBound is how long a process may take to end after SIGKILL. One that waits in
// the kernel (state D) is given up then, and named.
const killBound = 15 * time.Second

// Run starts the workers of one node and returns when all is over and nothing is
// left. The error is one line that says why Result.Code is not 0. A context that
// ends stops the job as SIGTERM does; with Spec.Adopt, where the process's own
// signals do that, only one that has ended before Run. Run takes over the signals of
// the process.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if err := spec.Validate(); err != nil {
		return Result{Code: 2}, err
	}
	sh := &shell{spec: &spec, box: newMailbox(), stop: make(chan struct{})}
	sh.host, _ = os.Hostname()
	v, err := sh.run(ctx)
	r := Result{Code: v.code, Root: v.root, Failures: v.failures, Stuck: v.stuck, LogDir: sh.logs.dir, name: filepath.Base(spec.Script)}
	if m, ok := errors.AsType[*missing](err); ok {
		r.Code = m.code
	} else if err != nil && r.Code == 0 {
		r.Code = 1
	}
	if err == nil && v.text != "" {
		err = errors.New(v.text)
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
	cgroup   cgroup // of the round
	logs     logTree
	console  [2]*lines
	sockets  sockets
	bindings []topology.Binding // by local rank, nil without
	counters counters
	null     *os.File // /dev/null, standard input of engines

	out     *outputs
	pending *rendezvous.Round // waits for the engines
	workers []*process        // of the spawner's thread, by local rank; nil entries did not start
	engines []*engine         // set before the thread sees them
	warm    bool              // the engines were started
	ending  bool              // of the spawner's thread: engines that end are not started again

	timer *time.Timer
	talks sync.WaitGroup // calls of the group, and what feeds the mailbox
	stop  chan struct{}  // closed to end the feeders
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
	defer func() {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
		err = errors.Join(err, sh.logs.remove(sh.keepLogs(v)))
	}()
	if err != nil {
		return v, err
	}
	sh.announce()
	v = sh.supervise(ctx, signals)
	own, _ := sh.spec.lookup("TORCHELASTIC_ERROR_FILE")
	return v, copyError(own, v.root, v.code)
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
	closers = append(closers, sh.spawner.close, sh.sockets.close)
	if err := sh.sockets.open(s.RunID, sh.relay(ctx)); err != nil {
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

// signalOf is the signal that ended a context of signal.NotifyContext.
func signalOf(cause error) syscall.Signal {
	if strings.Contains(cause.Error(), os.Interrupt.String()) {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// keepLogs says whether a temporary log tree has what the user may want.
func (sh *shell) keepLogs(v verdict) bool {
	s := sh.spec
	written := s.Redirects.any(s.Workers) || s.Tee.any(s.Workers)
	return written || slices.ContainsFunc(v.failures, func(f rendezvous.Failure) bool { return f.ErrorFile != "" })
}

// listen catches the signals that stop the job and those that are passed on.
// SIGPIPE is caught to be ignored: a console that nobody reads must not end the
// launcher, and a plain ignore would be inherited by the workers. SIGHUP stays
// ignored under nohup.
func (sh *shell) listen() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, n := range slices.Concat(sh.spec.Signals, forwarded(), conventional()) {
		if n != syscall.SIGHUP || !signal.Ignored(n) {
			signal.Notify(signals, n)
		}
	}
	signal.Notify(signals, syscall.SIGPIPE)
	if sh.spec.Adopt {
		signal.Notify(signals, syscall.SIGCHLD)
	}
	return signals
}

func (sh *shell) warn(text string) {
	if sh.spec.PrintWarning != nil {
		sh.spec.PrintWarning(text)
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
		_ = late.Close()
	}
	return v
}

// feed starts what turns signals into events.
func (sh *shell) feed(ctx context.Context, signals chan os.Signal) {
	sh.talks.Go(func() {
		ended := ctx.Done()
		for {
			select {
			case n := <-signals:
				if n, ok := n.(syscall.Signal); ok {
					sh.signalled(n)
				}
			case <-ended:
				sh.box.put(event{kind: contextEnded})
				ended = nil
			case <-sh.stop:
				return
			}
		}
	})
}

// hear starts what turns the group's words into events.
func (sh *shell) hear(g rendezvous.Group) {
	sh.talks.Go(func() {
		for {
			select {
			case e := <-g.Events():
				sh.box.put(event{kind: groupSpoke, group: e})
			case d := <-g.Relayed():
				if sh.sockets.server != nil {
					sh.relayed(d)
				}
			case <-sh.stop:
				return
			}
		}
	})
}

func (sh *shell) signalled(n syscall.Signal) {
	switch n {
	case syscall.SIGPIPE:
	case syscall.SIGCHLD:
		sh.spawner.later(sh.spawner.reapAdopted)
	default:
		sh.box.put(event{kind: signalCame, signal: n})
	}
}

// carry does what the supervisor wants, in order.
func (sh *shell) carry(ctx context.Context, effects []effect) (v verdict, done bool) {
	for _, e := range effects {
		switch e.kind {
		case join:
			sh.talks.Go(func() { sh.box.put(sh.next(ctx)) })
		case spawn:
			sh.warmUp(e.round)
		case tell, pass:
			sh.callOff()
			sh.spawner.later(func() { sh.signalWorkers(e.signal, e.kind == tell) })
		case kill:
			sh.spawner.later(sh.killWorkers)
		case startTimer:
			sh.startTimer(e.timer, e.after)
		case sweep:
			sh.sweep()
		case report:
			if g := sh.entered(); g != nil {
				sh.talks.Go(func() { _ = g.Report(ctx, e.outcome) }) // the group tells of its own troubles by an event
			}
		case finish:
			return e.verdict, true
		}
	}
	return v, false
}

// next asks the group for the next round. The first time it finds the group.
func (sh *shell) next(ctx context.Context) event {
	g := sh.entered()
	if g == nil {
		var err error
		if g, err = sh.spec.enter(ctx, sh.host, sh.warn); err != nil {
			return event{kind: joinFailed, verdict: verdict{code: 1, text: err.Error()}}
		}
		sh.mu.Lock()
		sh.mu.group = g
		sh.mu.Unlock()
		sh.hear(g)
	}
	r, err := g.Next(ctx)
	if err == nil {
		return event{kind: roundAgreed, round: r}
	}
	if s, ok := errors.AsType[*rendezvous.Stopped](err); ok {
		return event{kind: joinStopped, group: s.Event}
	}
	if errors.Is(err, rendezvous.ErrFinished) {
		return event{kind: joinFailed}
	}
	return event{kind: joinFailed, verdict: verdict{code: 1, text: err.Error()}}
}

func (sh *shell) startTimer(number int, after time.Duration) {
	if sh.timer != nil {
		sh.timer.Stop()
	}
	sh.timer = time.AfterFunc(after, func() { sh.box.put(event{kind: timerFired, timer: number}) })
}

// warmUp starts the engines before the first workers, and then the workers.
func (sh *shell) warmUp(r rendezvous.Round) {
	if sh.warm || len(sh.engines) == 0 {
		sh.spawn(r, nil)
		return
	}
	sh.pending = &r
	sh.out = &outputs{}
	sh.startEngines(func(err error) {
		sh.box.put(event{kind: called, call: func() {
			sh.warm = err == nil
			if sh.pending != nil {
				sh.pending = nil
				sh.spawn(r, err)
			}
		}})
	})
}

// callOff ends the wait for the engines: workers that were not started have ended.
func (sh *shell) callOff() {
	if sh.pending == nil {
		return
	}
	sh.pending = nil
	for local := range sh.spec.Workers {
		sh.box.put(event{kind: workerEnded, local: local})
	}
}

// spawn starts the workers of a round. One that cannot be started is a failure like
// any other, and those after it are not started.
func (sh *shell) spawn(r rendezvous.Round, err error) {
	var programs []program
	sh.out = &outputs{}
	if err == nil {
		programs, err = sh.prepare(r)
	}
	out := sh.out
	sh.spawner.later(func() {
		sh.workers = make([]*process, sh.spec.Workers)
		for local := range sh.workers {
			var f *rendezvous.Failure
			if err == nil {
				if sh.workers[local], err = sh.spawner.start(programs[local]); err == nil {
					sh.counters.running.Add(1)
					sh.counters.started.Add(1)
					continue
				}
				f = unstarted(place{round: r, local: local}, sh.host, err)
			} else if local == 0 {
				f = unstarted(place{round: r}, sh.host, err)
			}
			sh.box.put(event{kind: workerEnded, local: local, failure: f})
		}
		out.begin()
	})
}

// prepare makes the log folders, streams and environments of a round's workers.
func (sh *shell) prepare(r rendezvous.Round) ([]program, error) {
	sh.sockets.begin(r)
	sh.counters.rounds.Add(1)
	sh.counters.restarts.Store(int64(r.Restarts))
	sh.counters.nodes.Store(int64(len(r.Nodes)))
	sh.cgroup = newCgroup("/proc/self/mounts", "/proc/self/cgroup")
	dir, err := sh.logs.attempt(r.Restarts, sh.spec.Workers)
	if err != nil {
		return nil, err
	}
	at := func(local int) place {
		p := place{round: r, local: local, errorFile: dir.errorFile(local), agent: sh.sockets.agentPath()}
		if sh.engines != nil {
			p.engine = sh.engines[local].socket
		}
		return p
	}
	out, err := newOutputs(sh.spec, dir, sh.console, func(local int) string { return sh.spec.prefixOf(at(local), sh.host) })
	sh.out = out
	programs := make([]program, sh.spec.Workers)
	for local := range programs {
		if err != nil {
			return nil, err
		}
		p := &programs[local]
		*p = program{path: sh.command.path, argv: sh.command.of(local), env: sh.spec.environment(at(local)), cgroup: sh.cgroup.fd()}
		p.in = os.Stdin.Fd()
		p.out, p.err, err = out.descriptors(local)
		if sh.bindings != nil {
			p.bound(sh.bindings[local])
		}
		p.ended = sh.deathOf(at(local))
	}
	return programs, err
}

// deathOf is called on the spawner's thread.
func (sh *shell) deathOf(p place) func(syscall.WaitStatus) {
	return func(status syscall.WaitStatus) {
		pid := sh.workers[p.local].pid
		f := failureOf(p, sh.host, pid, status, time.Now())
		sh.counters.running.Add(-1)
		if f != nil {
			sh.counters.failed.Add(1)
		}
		sh.box.put(event{kind: workerEnded, local: p.local, failure: f})
	}
}

// unstarted is the failure of a worker that was never there.
func unstarted(p place, host string, err error) *rendezvous.Failure {
	f := &rendezvous.Failure{Rank: p.rank(), LocalRank: p.local, Node: p.round.Rank, Host: host, Time: time.Now(), ExitCode: 1}
	switch {
	case errors.Is(err, syscall.ENOENT):
		f.ExitCode = codeNotFound
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC):
		f.ExitCode = codeNotExecutable
	}
	f.Message = nd.Errorf(nd.ErrIO, "start worker %d: %w", p.local, err).Error()
	return f
}

// signalWorkers sends a signal to every worker, or to its whole process group; on
// the spawner's thread. A worker that has ended is a zombie until the round is over,
// so its group is still its own.
func (sh *shell) signalWorkers(n syscall.Signal, groups bool) {
	for _, w := range sh.workers {
		if w != nil && groups {
			_ = syscall.Kill(-w.pid, n)
		} else if w != nil && w.fd >= 0 {
			_ = unix.PidfdSendSignal(w.fd, n, nil, 0)
		}
	}
}

// killWorkers kills all that is left of the round; on the spawner's thread.
func (sh *shell) killWorkers() {
	sh.cgroup.kill()
	sh.signalWorkers(syscall.SIGKILL, true)
}

// sweepBound is how long what the workers left behind may take to end.
const sweepBound = 5 * time.Second

// sweep kills what the workers left behind, reads their output to its end, and lets
// go of them.
func (sh *shell) sweep() {
	out := sh.out
	sh.spawner.later(func() {
		stuck := sh.clear()
		sh.talks.Go(func() {
			if err := out.drain(); err != nil {
				sh.warn(err.Error())
			}
			sh.box.put(event{kind: swept, stuck: stuck})
		})
	})
}

func pidSet(pids []int) map[int]bool {
	set := map[int]bool{}
	for _, pid := range pids {
		set[pid] = true
	}
	return set
}

// clear is the spawner's part of a sweep. The next round has its own.
func (sh *shell) clear() (stuck []int) {
	sh.killWorkers()
	spared := map[int]bool{}
	for _, e := range sh.engines {
		if e.process != nil {
			spared[e.process.pid] = true
		}
	}
	for _, w := range sh.workers {
		if w != nil && w.fd >= 0 {
			stuck = append(stuck, w.pid)
			spared[w.pid] = true
		}
	}
	if sh.spec.Adopt {
		stuck = append(stuck, endAll(spared, sweepBound, sh.spawner.reapAdopted)...)
	}
	if len(stuck) == 0 {
		sh.cgroup.wait(sweepBound)
	}
	for _, w := range sh.workers {
		if w != nil {
			sh.spawner.release(w)
		}
	}
	sh.cgroup.close()
	return stuck
}
