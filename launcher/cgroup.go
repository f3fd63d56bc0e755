package launcher

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a control group (version 2) of one round's workers: no child can leave
// it, and one write kills all. The zero value is none. A round has a new one, since
// Linux 6.14 and later kill whatever is started into a group that was killed once.
type cgroup struct {
	dir    *os.File
	killed *os.File // cgroup.kill, Linux 5.14
	events *os.File // cgroup.events: whether a live process is in it
}

// cgroupPrefix begins the names of our groups; the launcher's pid follows.
const cgroupPrefix = "headrace-"

// newCgroup makes a group below this process's own, where that may be written to.
// Where it may not, process groups and the walk of descendants have to do.
func newCgroup(mounts, self string) cgroup {
	mount, path := mountPoint(mounts), ownGroup(self)
	if mount == "" || path == "" {
		return cgroup{}
	}
	parent := filepath.Join(mount, path)
	removeStale(parent)
	name := filepath.Join(parent, cgroupPrefix+strconv.Itoa(os.Getpid())+"-"+randomName())
	if err := os.Mkdir(name, 0o755); err != nil {
		return cgroup{}
	}
	var c cgroup
	var errs [3]error
	c.killed, errs[0] = os.OpenFile(filepath.Join(name, "cgroup.kill"), os.O_WRONLY, 0)
	c.events, errs[1] = os.Open(filepath.Join(name, "cgroup.events"))
	c.dir, errs[2] = os.Open(name)
	if errors.Join(errs[:]...) != nil {
		c.close()
		_ = os.Remove(name)
		return cgroup{}
	}
	return c
}

// mountPoint finds where cgroup2 is mounted (proc_pid_mounts(5)).
func mountPoint(mounts string) string {
	f, err := os.Open(mounts)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// ownGroup is the path of this process's group of version 2 (cgroups(7)).
func ownGroup(self string) string {
	text, _ := os.ReadFile(self)
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

// removeStale removes empty groups of launchers that were killed.
func removeStale(parent string) {
	names, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, name := range names {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), cgroupPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.Remove(name) // refused while a process is in it
		}
	}
}

// fd is the group's descriptor, -1 for none.
func (c cgroup) fd() int {
	if c.dir == nil {
		return -1
	}
	return int(c.dir.Fd())
}

func (c cgroup) kill() {
	if c.killed != nil {
		_, _ = c.killed.WriteString("1")
	}
}

// wait returns once no live process is in the group, at most after the bound. A file
// of cgroup.events is ready for POLLPRI when it has changed since it was read.
func (c cgroup) wait(bound time.Duration) {
	if c.dir == nil {
		return
	}
	text := make([]byte, 256)
	for deadline := time.Now().Add(bound); ; {
		n, err := unix.Pread(int(c.events.Fd()), text, 0)
		left := time.Until(deadline)
		if err != nil || !strings.Contains(string(text[:max(n, 0)]), "populated 1") || left <= 0 {
			return
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.events.Fd()), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
	}
}

// close removes the group. A process that cannot be killed keeps it.
func (c cgroup) close() {
	for _, f := range []*os.File{c.killed, c.events, c.dir} {
		if f != nil {
			_ = f.Close()
		}
	}
	if c.dir != nil {
		_ = os.Remove(c.dir.Name())
	}
}
