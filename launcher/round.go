package launcher

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

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
				f = unstarted(place{round: r, local: local}, sh.host, unrunnable(err))
			} else if local == 0 || sh.live != nil {
				f = unstarted(place{round: r, local: local}, sh.host, err)
			}
			sh.box.put(event{kind: workerEnded, local: local, failure: f})
		}
		out.begin()
	})
}

// prepare makes the log folders, streams and environments of a round's workers.
func (sh *shell) prepare(r rendezvous.Round) ([]program, error) {
	sh.sockets.begin(r, sh.live != nil)
	sh.counters.rounds.Add(1)
	if before := sh.counters.restarts.Swap(int64(r.Restarts)); int64(r.Restarts) > before {
		sh.warn(fmt.Sprintf("restart %d of %d: the workers are started again", r.Restarts, sh.spec.MaxRestarts))
	}
	sh.counters.nodes.Store(int64(len(r.Nodes)))
	sh.cgroups = make([]cgroup, 1)
	if sh.live != nil {
		sh.cgroups = make([]cgroup, sh.spec.Workers)
	}
	for i := range sh.cgroups {
		sh.cgroups[i] = makeCgroup()
	}
	dir, err := sh.logs.attempt(r.Restarts, sh.spec.Workers)
	if err != nil {
		return nil, err
	}
	at := func(local int) place { return sh.placeOf(r, dir, local) }
	out, err := newOutputs(sh.spec, dir, sh.console, func(local int) string { return sh.spec.prefixOf(at(local), sh.host) })
	sh.out = out
	programs := make([]program, sh.spec.Workers)
	for local := range programs {
		if err != nil {
			return nil, err
		}
		programs[local], err = sh.program(at(local), out)
		programs[local].cgroup = sh.cgroups[local%len(sh.cgroups)].fd()
	}
	return programs, err
}

func makeCgroup() cgroup { return newCgroup("/proc/self/mounts", "/proc/self/cgroup") }

// placeOf is a worker's place in a round.
func (sh *shell) placeOf(r rendezvous.Round, dir attemptDir, local int) place {
	p := place{round: r, local: local, errorFile: dir.errorFile(local), agent: sh.sockets.agentPath()}
	if sh.engines != nil {
		p.engine = sh.engines[local].socket
	}
	if sh.live != nil {
		p.view = strconv.FormatUint(sh.viewNow(), 10)
	}
	return p
}

// program is a worker as it is to be started.
func (sh *shell) program(at place, out *outputs) (p program, err error) {
	p = program{path: sh.command.path, argv: sh.command.of(at.local), env: sh.spec.environment(at), cgroup: -1}
	p.in = os.Stdin.Fd()
	p.out, p.err, err = out.descriptors(at.local)
	if sh.bindings != nil {
		p.bound(sh.bindings[at.local])
	}
	p.ended = sh.deathOf(at)
	return p, err
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
		if sh.live != nil {
			sh.live.agent.Ended(p.local)
			sh.killLeft(p.local, pid)
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

// unrunnable explains the kernel's error for a program that was found and may be run.
func unrunnable(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: the interpreter that its first line or its ELF header names is missing", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: it is no program of this machine, and no #! at its start names an interpreter", err)
	}
	return err
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
	for _, c := range sh.cgroups {
		c.kill()
	}
	sh.signalWorkers(syscall.SIGKILL, true)
}

// sweepBound is how long what the workers left behind may take to end.
const sweepBound = 5 * time.Second

// consoleBound is how long a job that was told to stop waits for who reads the
// console. Any other job waits for as long as the console is paused.
const consoleBound = 5 * time.Second

// sweep kills what the workers left behind, reads their output to its end, and lets
// go of them.
func (sh *shell) sweep() {
	outs := append([]*outputs{sh.out}, sh.more...)
	sh.spawner.later(func() {
		stuck := sh.clear()
		sh.talks.Go(func() {
			for _, out := range outs {
				if err := out.drain(sh.hurry, consoleBound); err != nil {
					sh.warn(err.Error())
				}
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
	for _, c := range sh.cgroups {
		if len(stuck) == 0 {
			c.wait(sweepBound)
		}
	}
	for _, w := range sh.workers {
		if w != nil {
			sh.spawner.release(w)
		}
	}
	for _, c := range sh.cgroups {
		c.close()
	}
	return stuck
}
