package launcher

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The kernel's list of children and a look at every process agree.
func TestChildren(t *testing.T) {
	var cmds []*exec.Cmd
	for range 3 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	listed, scanned := childrenOf(os.Getpid()), scanChildren(os.Getpid())
	all := descendants(os.Getpid(), map[int]bool{cmds[0].Process.Pid: true})
	for i, cmd := range cmds {
		pid := cmd.Process.Pid
		if !slices.Contains(listed, pid) || !slices.Contains(scanned, pid) || slices.Contains(all, pid) != (i > 0) {
			t.Errorf("child %d: listed %v, scanned %v, descendants %v", pid, listed, scanned, all)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}
	if _, _, ok := parentOf(cmds[0].Process.Pid); ok {
		t.Error("a process that was waited for is still there")
	}
}

// Where control groups are, in the files of proc_pid_mounts(5) and cgroups(7): version
// 2 alone, beside version 1, or not at all.
func TestControlGroupFiles(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ mounts, self, mount, group string }{
		{"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/user.slice/a\n", "/sys/fs/cgroup", "/user.slice/a"},
		{"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "4:memory:/x\n0::/\n", "/sys/fs/cgroup/unified", "/"},
		{"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", "4:memory:/x\n", "", ""},
	} {
		if m, g := mountPoint(file(c.mounts)), ownGroup(file(c.self)); m != c.mount || g != c.group {
			t.Errorf("mounted at %q, group %q, want %q, %q", m, g, c.mount, c.group)
		}
	}
	if g := newCgroup(file(""), file("")); g.fd() != -1 {
		t.Error("a group out of nothing")
	}
	// A folder that is no control group cannot be one; nothing is left in it.
	root := t.TempDir()
	if g := newCgroup(file("cgroup2 "+root+" cgroup2 rw 0 0\n"), file("0::/\n")); g.fd() != -1 {
		t.Error("a group in a plain folder")
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
