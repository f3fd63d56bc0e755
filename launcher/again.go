package launcher

import (
	"fmt"
	"syscall"
	"time"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// Workers of a live job that are started again, each by itself.

// startLater has a worker started again after a pause.
func (sh *shell) startLater(e effect) {
	_, text := failureVerdict(e.failure, "")
	sh.warn(fmt.Sprintf("%s: it is started again in %v, restart %d of %d of this node", text, e.after, sh.sup.live.used, sh.spec.MaxRestarts))
	sh.counters.restarts.Add(1)
	time.AfterFunc(e.after, func() { sh.box.put(event{kind: pauseOver, local: e.local}) })
}

// loseWorker tells of a worker that is not started again.
func (sh *shell) loseWorker(f *rendezvous.Failure) {
	_, text := failureVerdict(f, "")
	why := "it could not be started"
	if f.PID != 0 {
		why = fmt.Sprintf("--max-restarts %d of this node are used up", sh.spec.MaxRestarts)
	}
	sh.warn(fmt.Sprintf("%s, and is not started again: %s", text, why))
	sh.live.keeper.lose(f)
	sh.keep()
}

// killLeft kills what a worker of a live job has left behind: it must not hold the GPU of the one
// that takes its place. On the spawner's thread; the worker is a zombie, so its group is
// its own.
func (sh *shell) killLeft(local, pid int) {
	sh.cgroups[local].kill()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// respawn starts one worker again, with a log folder and streams of its own.
func (sh *shell) respawn(local, restarts int) {
	r := sh.sup.round
	r.Restarts = restarts
	at := place{round: r, local: local}
	var p program
	out := &outputs{}
	dir, err := sh.logs.attemptOf(restarts, local)
	if err == nil {
		at = sh.placeOf(r, dir, local)
		out, err = newOutputs(sh.spec, dir, sh.console, func(int) string { return sh.spec.prefixOf(at, sh.host) })
	}
	if err == nil {
		p, err = sh.program(at, out)
	}
	sh.more = append(sh.more, out)
	sh.spawner.later(func() {
		if old := sh.workers[local]; old != nil {
			sh.spawner.release(old)
			sh.workers[local] = nil
		}
		sh.cgroups[local].close()
		sh.cgroups[local] = makeCgroup() // one that was killed once may stay deadly
		p.cgroup = sh.cgroups[local].fd()
		if err == nil {
			sh.workers[local], err = sh.spawner.start(p)
		}
		if err != nil {
			sh.box.put(event{kind: workerEnded, local: local, failure: unstarted(at, sh.host, unrunnable(err))})
		} else {
			sh.counters.running.Add(1)
			sh.counters.started.Add(1)
		}
		out.begin()
	})
}
