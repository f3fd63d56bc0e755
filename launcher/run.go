package launcher

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher/rendezvous"
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
// ends stops the job as SIGTERM does. Run takes over the signals of the process.
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
	spec    *Spec
	command command
	host    string
	sup     *supervisor
	box     *mailbox
	group   rendezvous.Group
	spawner *spawner
	cgroup  cgroup
	logs    logTree
	port    *claim
	console [2]*lines

	out     *outputs
	workers []*process // of the spawner's thread, by local rank; nil entries did not start
	timer   *time.Timer
	talks   sync.WaitGroup // calls of the group, and what feeds the mailbox
	stop    chan struct{}  // closed to end the feeders
	cancel  context.CancelFunc
}

func (sh *shell) run(ctx context.Context) (v verdict, err error) {
	signals := sh.listen()
	defer signal.Stop(signals)
	if sh.command, err = sh.spec.command(); err != nil {
		return v, err
	}
	if sh.logs, err = newLogTree(sh.spec); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, sh.logs.remove(sh.keepLogs(v))) }()
	if sh.spawner, err = newSpawner(); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, sh.spawner.close()) }()
	if sh.group, err = sh.enter(ctx); err != nil {
		return v, err
	}
	sh.console = [2]*lines{{file: sh.spec.Stdout}, {file: sh.spec.Stderr}}
	if sh.spec.Stdout == sh.spec.Stderr {
		sh.console[1] = sh.console[0]
	}
	sh.cgroup = newCgroup("/proc/self/mounts", "/proc/self/cgroup")
	defer sh.cgroup.close()
	if sh.spec.Adopt {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it process groups have to do
	}
	sh.warnThreads()
	v = sh.supervise(ctx, signals)
	if sh.port != nil {
		sh.port.release()
	}
	own, _ := sh.spec.lookup("TORCHELASTIC_ERROR_FILE")
	return v, copyError(own, v.root, v.code)
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

// warnThreads tells once that OMP_NUM_THREADS was set.
func (sh *shell) warnThreads() {
	if _, ok := sh.spec.lookup("OMP_NUM_THREADS"); !ok && sh.spec.Workers > 1 {
		sh.warn("OMP_NUM_THREADS is set to 1 for each worker: set it yourself for more threads")
	}
}

func (sh *shell) warn(text string) {
	if sh.spec.PrintWarning != nil {
		sh.spec.PrintWarning(text)
	}
}

// enter finds the job's group. A job of one node needs no network: its port is
// chosen here.
func (sh *shell) enter(context.Context) (rendezvous.Group, error) {
	s := sh.spec
	c := rendezvous.Config{RunID: s.RunID, MaxRestarts: s.MaxRestarts, Node: sh.node()}
	address := s.MasterAddr
	if s.Backend == "c10d" {
		address = s.LocalAddr
		if address == "" {
			address = "localhost"
		}
	}
	var err error
	if sh.port, err = claimPort(s.MasterPort, s.AnyPort || s.Backend == "c10d"); err != nil {
		return nil, err
	}
	c.Endpoint = net.JoinHostPort(address, strconv.Itoa(sh.port.port))
	return rendezvous.Single(c)
}

func (sh *shell) node() rendezvous.Node {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return rendezvous.Node{Addr: sh.spec.LocalAddr, LocalWorld: sh.spec.Workers, Host: sh.host, PID: os.Getpid(), Boot: strings.TrimSpace(string(boot)), Role: sh.spec.Role}
}

// supervise runs the state machine until its verdict.
func (sh *shell) supervise(ctx context.Context, signals chan os.Signal) verdict {
	talk, cancel := context.WithCancel(context.WithoutCancel(ctx))
	sh.cancel = cancel
	sh.feed(ctx, signals)
	sh.sup = newSupervisor(sh.spec, killBound)
	v, done := sh.carry(talk, sh.sup.start())
	for !done {
		for _, e := range sh.box.take() {
			if v, done = sh.carry(talk, sh.sup.step(e)); done {
				break
			}
		}
	}
	if sh.timer != nil {
		sh.timer.Stop()
	}
	close(sh.stop)
	_ = sh.group.Close() // after it no call of the group waits
	cancel()
	sh.talks.Wait()
	return v
}

// feed starts what turns signals and the group's words into events.
func (sh *shell) feed(ctx context.Context, signals chan os.Signal) {
	sh.talks.Go(func() {
		for {
			select {
			case n := <-signals:
				sh.signalled(n.(syscall.Signal)) //nolint:errcheck // on Linux all are
			case e := <-sh.group.Events():
				sh.box.put(event{kind: groupSpoke, group: e})
			case <-ctx.Done():
				sh.box.put(event{kind: contextEnded})
				ctx = context.WithoutCancel(ctx)
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
			sh.spawn(e.round)
		case tell, pass:
			sh.spawner.later(func() { sh.signalWorkers(e.signal, e.kind == tell) })
		case kill:
			sh.spawner.later(sh.killWorkers)
		case startTimer:
			sh.startTimer(e.timer, e.after)
		case sweep:
			sh.sweep()
		case report:
			sh.talks.Go(func() { _ = sh.group.Report(ctx, e.outcome) }) // the group tells of its own troubles by an event
		case finish:
			return e.verdict, true
		}
	}
	return v, false
}

// next asks the group for the next round.
func (sh *shell) next(ctx context.Context) event {
	r, err := sh.group.Next(ctx)
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

// spawn starts the workers of a round. One that cannot be started is a failure like
// any other, and those after it are not started.
func (sh *shell) spawn(r rendezvous.Round) {
	programs, err := sh.prepare(r)
	out := sh.out
	sh.spawner.later(func() {
		sh.workers = make([]*process, sh.spec.Workers)
		for local := range sh.workers {
			var f *rendezvous.Failure
			if err == nil {
				if sh.workers[local], err = sh.spawner.start(programs[local]); err == nil {
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
	sh.out = &outputs{}
	dir, err := sh.logs.attempt(r.Restarts, sh.spec.Workers)
	if err != nil {
		return nil, err
	}
	at := func(local int) place { return place{round: r, local: local, errorFile: dir.errorFile(local)} }
	out, err := newOutputs(sh.spec, dir, sh.console, func(local int) string { return sh.spec.prefixOf(at(local), sh.host) })
	sh.out = out
	programs := make([]program, sh.spec.Workers)
	for local := range programs {
		if err != nil {
			return nil, err
		}
		p := &programs[local]
		*p = program{path: sh.command.path, argv: sh.command.of(local), env: sh.spec.environment(at(local)), cgroup: sh.cgroup.fd()}
		p.out, p.err, err = out.descriptors(local)
		p.ended = sh.deathOf(at(local))
	}
	return programs, err
}

// deathOf is called on the spawner's thread.
func (sh *shell) deathOf(p place) func(syscall.WaitStatus) {
	return func(status syscall.WaitStatus) {
		pid := sh.workers[p.local].pid
		sh.box.put(event{kind: workerEnded, local: p.local, failure: failureOf(p, sh.host, pid, status, time.Now())})
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

func (sh *shell) clear() (stuck []int) {
	sh.killWorkers()
	spared := map[int]bool{}
	for _, w := range sh.workers {
		if w != nil && w.fd >= 0 {
			stuck = append(stuck, w.pid)
			spared[w.pid] = true
		}
	}
	if sh.spec.Adopt {
		stuck = append(stuck, endAll(spared, sweepBound, sh.spawner.reapAdopted)...)
	}
	for _, w := range sh.workers {
		if w != nil {
			sh.spawner.release(w)
		}
	}
	return stuck
}
