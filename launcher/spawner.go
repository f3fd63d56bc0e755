package launcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// program is a process to start.
type program struct {
	path       string
	argv, env  []string
	in         uintptr
	out, err   uintptr
	cgroup     int          // descriptor of its control group, -1 for none
	beforeFork func() error // on the spawner's thread, which the child takes its CPUs from
	afterFork  func() error
	ended      func(syscall.WaitStatus) // called on the spawner's thread, must not block
}

// process is one that was started. It stays a zombie after its end until release,
// so that neither its number nor its process group's can be taken by another.
type process struct {
	pid    int
	fd     int // pidfd, -1 once its end was seen
	ended  func(syscall.WaitStatus)
	reaped bool
}

// spawner starts processes and sees them end, on one OS thread of its own: the
// death signal of a child (PR_SET_PDEATHSIG) comes when the thread that made it
// ends, which Go may do to any thread that is not locked (golang/go#27505). The
// thread sleeps in epoll_wait; a pidfd wakes it when a child has ended, an eventfd
// when there is work.
type spawner struct {
	epoll, wake int
	done        chan struct{}
	processes   map[int]*process // by pid; of the thread alone
	mu          struct {
		sync.Mutex
		work   []func()
		closed bool
	}
}

func newSpawner() (*spawner, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
	}
	if err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "eventfd: %w", err), unix.Close(epoll))
	}
	s := &spawner{epoll: epoll, wake: wake, done: make(chan struct{}), processes: map[int]*process{}}
	go s.run()
	return s, nil
}

// close ends the thread. All processes must have been released.
func (s *spawner) close() error {
	s.mu.Lock()
	s.mu.closed = true
	s.ringLocked()
	s.mu.Unlock()
	<-s.done
	return errors.Join(unix.Close(s.wake), unix.Close(s.epoll))
}

// later runs f on the thread and does not wait for it. After close it does nothing:
// the descriptor's number may be another file's by then.
func (s *spawner) later(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	s.mu.work = append(s.mu.work, f)
	s.ringLocked()
}

// now runs f on the thread and waits for it.
func (s *spawner) now(f func()) {
	done := make(chan struct{})
	s.later(func() { f(); close(done) })
	<-done
}

func (s *spawner) ringLocked() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.wake, one[:]) // fails only where it is rung already
}

func (s *spawner) run() {
	// Never unlocked: the thread ends with the goroutine, after all children.
	runtime.LockOSThread()
	defer close(s.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) != s.wake {
				s.reportEnd(int(e.Pad)) // Pad is ours: the kernel gives back all eight bytes
			}
		}
		if s.runWork() {
			return
		}
	}
}

// runWork does what is queued, and reports whether that was all for ever.
func (s *spawner) runWork() (closed bool) {
	var count [8]byte
	_, _ = unix.Read(s.wake, count[:])
	s.mu.Lock()
	work := s.mu.work
	s.mu.work = nil
	closed = s.mu.closed
	s.mu.Unlock()
	for _, f := range work {
		f()
	}
	return closed
}

// start forks and executes; on the thread.
func (s *spawner) start(p program) (*process, error) {
	fd := -1
	attr := &syscall.ProcAttr{
		Env: p.env, Files: []uintptr{p.in, p.out, p.err},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &fd, UseCgroupFD: p.cgroup >= 0, CgroupFD: p.cgroup},
	}
	pid, err := p.fork(attr)
	if err != nil {
		return nil, err
	}
	if fd < 0 {
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
			return nil, nd.Errorf(nd.ErrUnsupported, "pidfd_open: %w: Linux 5.3 or newer is needed", err)
		}
	}
	c := &process{pid: pid, fd: fd, ended: p.ended}
	s.processes[pid] = c
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd), Pad: int32(pid)}); err != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		s.release(c)
		return nil, nd.Errorf(nd.ErrIO, "epoll_ctl: %w", err)
	}
	return c, nil
}

// fork makes the process, bound as the program wants to be.
func (p *program) fork(attr *syscall.ProcAttr) (pid int, err error) {
	if p.beforeFork != nil {
		if err := p.beforeFork(); err != nil {
			return 0, err
		}
	}
	pid, err = syscall.ForkExec(p.path, p.argv, attr)
	if err != nil && p.cgroup >= 0 { // a kernel before 5.7, or a group that may not be entered
		attr.Sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(p.path, p.argv, attr)
	}
	if p.afterFork != nil {
		err = errors.Join(err, p.afterFork())
	}
	return pid, err
}

// reportEnd passes on the status of a process that has ended, and leaves it a
// zombie.
func (s *spawner) reportEnd(pid int) {
	c := s.processes[pid]
	if c == nil || c.fd < 0 {
		return
	}
	s.forget(c)
	status, ok := zombieStatus(pid)
	if !ok { // no /proc
		_, _ = syscall.Wait4(pid, &status, 0, nil)
		c.reaped = true
	}
	c.ended(status)
}

// release ends the hold on a process that has ended. One that has not, since it
// waits in the kernel, is left to init.
func (s *spawner) release(c *process) {
	delete(s.processes, c.pid)
	s.forget(c)
	if !c.reaped {
		c.reaped = true
		_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil)
	}
}

// forget closes the pidfd. It leaves the epoll set first: a child between fork and
// exec has a copy of it for a moment.
func (s *spawner) forget(c *process) {
	if c.fd >= 0 {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
		_ = unix.Close(c.fd)
		c.fd = -1
	}
}

// zombieStatus reads the wait status of a process that has ended and was not
// waited for: the last field of proc_pid_stat(5).
func zombieStatus(pid int) (syscall.WaitStatus, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 50 || fields[0][0] != 'Z' {
		return 0, false
	}
	status, err := strconv.Atoi(string(fields[49]))
	return syscall.WaitStatus(status), err == nil
}
