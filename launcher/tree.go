package launcher

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parentOf reads a process's state and parent (proc_pid_stat(5)); ok is false for
// one that is not there.
func parentOf(pid int) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// childrenOf lists the children of a process, those of all its threads.
func childrenOf(pid int) []int {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if len(files) == 0 && pid == os.Getpid() {
		return scanChildren(pid) // a kernel without CONFIG_PROC_CHILDREN
	}
	var pids []int
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range bytes.FieldsSeq(text) {
			if n, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// scanChildren looks at every process of the system.
func scanChildren(pid int) []int {
	names, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, name := range names {
		n, _ := strconv.Atoi(filepath.Base(name))
		if _, parent, ok := parentOf(n); ok && parent == pid {
			pids = append(pids, n)
		}
	}
	return pids
}

// descendants lists the live processes below pid, nearest first, without the trees
// of those that spared names.
func descendants(pid int, spared map[int]bool) []int {
	var all []int
	level := []int{pid}
	seen := map[int]bool{pid: true}
	for len(level) > 0 {
		var next []int
		for _, p := range level {
			for _, child := range childrenOf(p) {
				if seen[child] || spared[child] {
					continue
				}
				seen[child] = true
				next = append(next, child)
				if state, _, ok := parentOf(child); ok && state != 'Z' && state != 'X' {
					all = append(all, child)
				}
			}
		}
		level = next
	}
	return all
}

// endAll kills what descends from this process until nothing is left, and waits
// for it, at most for the bound. What is left then waits in the kernel.
func endAll(spared map[int]bool, bound time.Duration, reap func()) (stuck []int) {
	deadline := time.Now().Add(bound)
	for {
		pids := descendants(os.Getpid(), spared)
		if len(pids) == 0 {
			reap()
			return nil
		}
		fds := killNow(pids)
		ended := waitAll(fds, time.Until(deadline))
		for _, fd := range fds {
			_ = unix.Close(int(fd.Fd))
		}
		reap()
		if !ended && time.Now().After(deadline) {
			return descendants(os.Getpid(), spared)
		}
	}
}

// killNow sends SIGKILL through pidfds, so that a number that was given anew in
// between is not hit: a parent that changed is looked at after the pidfd is open.
func killNow(pids []int) []unix.PollFd {
	var fds []unix.PollFd
	for _, pid := range pids {
		_, before, ok := parentOf(pid)
		if !ok {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if _, parent, ok := parentOf(pid); !ok || parent != before && parent != os.Getpid() {
			_ = unix.Close(fd)
			continue
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return fds
}

// waitAll waits for processes to end, and reports whether all did.
func waitAll(fds []unix.PollFd, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	waiting := append([]unix.PollFd(nil), fds...)
	for len(waiting) > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		if _, err := unix.Poll(waiting, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		rest := waiting[:0]
		for _, fd := range waiting {
			if fd.Revents == 0 {
				rest = append(rest, fd)
			}
		}
		waiting = rest
	}
	return true
}

// reapAdopted waits for orphans that became this process's children and ended. It
// is for a process that starts nothing but through this spawner.
func (s *spawner) reapAdopted() {
	for _, pid := range childrenOf(os.Getpid()) {
		if s.processes[pid] != nil {
			continue
		}
		if state, _, ok := parentOf(pid); ok && state == 'Z' {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
