package launcher

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// engine is the companion of one local rank. It stays over restarts of its worker,
// whose next life finds its caches warm, and is started anew if it dies.
type engine struct {
	socket, device string
	program        program
	process        *process // of the spawner's thread
	started        time.Time
}

const (
	engineStart = 2 * time.Minute // to load a driver and make a context on a busy GPU
	engineStop  = 5 * time.Second // from SIGTERM to SIGKILL
	engineAgain = time.Second     // between two starts, so that one that cannot live does not spin
)

// companions describes the engines of this node's ranks.
func (sh *shell) companions() ([]*engine, error) {
	s := sh.spec
	if !s.Companion {
		return nil, nil
	}
	if s.Program == "" || sh.sockets.dir == "" {
		return nil, nd.Errorf(nd.ErrIO, "--companion: the headrace program is not known, or there is no folder for its sockets")
	}
	gpus, err := s.devices()
	if err != nil {
		return nil, err
	}
	list := make([]*engine, s.Workers)
	for local := range list {
		e := &engine{socket: filepath.Join(sh.sockets.dir, "engine-"+strconv.Itoa(local)), device: engineDevice(gpus, local, s.VirtualLocalRank)}
		env := overlay(s.Env)
		if s.VirtualLocalRank {
			env.set("CUDA_VISIBLE_DEVICES", ownDevice(env, local))
		}
		e.program = program{path: s.Program, argv: []string{"headrace", "--json", "engine", "--device", e.device, "--socket", e.socket}, env: env.list, cgroup: -1}
		if sh.bindings != nil {
			e.program.bound(sh.bindings[local])
		}
		e.program.ended = func(syscall.WaitStatus) { sh.engineEnded(e) }
		list[local] = e
	}
	return list, nil
}

// startEngine starts an engine and gives the pipe on which it says that it is ready;
// on the spawner's thread.
func (sh *shell) startEngine(e *engine) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "pipe: %w", err)
	}
	defer w.Close() //nolint:errcheck // the engine has its own
	e.program.in, e.program.out, e.program.err = sh.null.Fd(), w.Fd(), sh.spec.Stderr.Fd()
	e.started = time.Now()
	if e.process, err = sh.spawner.start(e.program); err != nil {
		_ = r.Close()
		return nil, nd.Errorf(nd.ErrIO, "start an engine: %w", err)
	}
	return r, nil
}

// startEngines starts all engines and calls then with the first error once all are
// ready.
func (sh *shell) startEngines(then func(error)) {
	sh.spawner.later(func() {
		var pipes []*os.File
		var failed error
		for _, e := range sh.engines {
			if e.process != nil {
				continue
			}
			pipe, err := sh.startEngine(e)
			if err != nil {
				failed = err
				break
			}
			pipes = append(pipes, pipe)
		}
		sh.talks.Go(func() {
			for _, pipe := range pipes {
				if err := ready(pipe); err != nil && failed == nil {
					failed = nd.Errorf(nd.ErrIO, "an engine of --companion did not start: %w", err)
				}
			}
			then(failed)
		})
	})
}

// ready waits for the line that an engine prints when it listens. The pipe's end
// without one is the engine's.
func ready(pipe *os.File) error {
	_ = pipe.SetReadDeadline(time.Now().Add(engineStart))
	_, err := bufio.NewReader(pipe).ReadString('\n')
	_ = pipe.Close()
	return err
}

// engineEnded is called on the spawner's thread.
func (sh *shell) engineEnded(e *engine) {
	if sh.ending {
		return
	}
	pid := e.process.pid
	sh.spawner.release(e.process)
	e.process = nil
	sh.warn("engine " + e.socket + " (pid " + strconv.Itoa(pid) + ") ended: it is started again")
	time.AfterFunc(max(0, engineAgain-time.Since(e.started)), func() {
		sh.spawner.later(func() {
			if sh.ending {
				return
			}
			if pipe, err := sh.startEngine(e); err != nil {
				sh.warn(err.Error())
			} else {
				// Takes its line, so that it can write one. Who waits for the engine is its
				// worker, at its socket.
				sh.talks.Go(func() { _ = ready(pipe) })
			}
		})
	})
}

// endEngines ends all engines; on the spawner's thread.
func (sh *shell) endEngines() {
	sh.ending = true
	var fds []unix.PollFd
	for _, e := range sh.engines {
		if e.process != nil && e.process.fd >= 0 {
			_ = unix.PidfdSendSignal(e.process.fd, unix.SIGTERM, nil, 0)
			fds = append(fds, unix.PollFd{Fd: int32(e.process.fd), Events: unix.POLLIN})
		}
	}
	if !waitAll(fds, engineStop) {
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(int(fd.Fd), unix.SIGKILL, nil, 0)
		}
		waitAll(fds, engineStop)
	}
	for _, e := range sh.engines {
		if e.process != nil {
			sh.spawner.release(e.process)
		}
	}
}
