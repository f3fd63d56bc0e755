package rank_test

import (
	"io/fs"
	"os"
	"runtime"
	"testing"

	"github.com/headrace/headrace/rank"
)

// reads makes a ReadFile of the given files.
func reads(files map[string]string) rank.ReadFile {
	return func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

const (
	meminfo = "MemTotal:       67108864 kB\nMemFree:        21331664 kB\n" // 64 GiB
	gib     = 1 << 30
)

func TestReadNode(t *testing.T) {
	f := func(what string, allowed int, files map[string]string, want rank.Node) {
		t.Helper()
		files["/proc/meminfo"] = meminfo
		files["/sys/devices/system/cpu/online"] = "0-63\n"
		got, err := rank.ReadNode(reads(files), allowed)
		if err != nil || got != want {
			t.Errorf("%s: got %+v %v, want %+v", what, got, err, want)
		}
	}
	f("no control groups", 64, map[string]string{}, rank.Node{Cores: 64, Allowed: 64, Memory: 64 * gib})
	f("v2, no limits", 64, map[string]string{
		"/proc/self/cgroup":                      "0::/user.slice\n",
		"/sys/fs/cgroup/user.slice/memory.max":   "max\n",
		"/sys/fs/cgroup/user.slice/cpu.max":      "max 100000\n",
		"/sys/fs/cgroup/cpuset.cpus.effective":   "0-63\n",
		"/sys/fs/cgroup/user.slice/cpu.pressure": "junk",
	}, rank.Node{Cores: 64, Allowed: 64, Memory: 64 * gib})
	f("v2, the group above is the tighter one", 64, map[string]string{
		"/proc/self/cgroup":                             "0::/job/step\n",
		"/sys/fs/cgroup/job/step/memory.max":            "34359738368\n",
		"/sys/fs/cgroup/job/memory.max":                 "17179869184\n",
		"/sys/fs/cgroup/job/cpu.max":                    "1550000 100000\n",
		"/sys/fs/cgroup/job/step/cpu.max":               "max 100000\n",
		"/sys/fs/cgroup/job/step/cpuset.cpus.effective": "0-15,32-47\n",
	}, rank.Node{Cores: 16, Allowed: 64, Memory: 16 * gib})
	f("container that sees only its own tree", 16, map[string]string{
		"/proc/self/cgroup":                    "0::/../../kubepods/pod1/c1\n",
		"/sys/fs/cgroup/memory.max":            "8589934592\n",
		"/sys/fs/cgroup/cpuset.cpus.effective": "0-15\n",
	}, rank.Node{Cores: 16, Allowed: 16, Memory: 8 * gib})
	f("v2, slowed down before the limit", 64, map[string]string{
		"/proc/self/cgroup":              "0::/job\n",
		"/sys/fs/cgroup/job/memory.max":  "17179869184\n",
		"/sys/fs/cgroup/job/memory.high": "8589934592\n",
	}, rank.Node{Cores: 64, Allowed: 64, Memory: 8 * gib})
	f("v1", 64, map[string]string{
		"/proc/self/cgroup":                                 "9:name=systemd:/\n4:memory:/job\n3:cpuset:/job\n1:cpu,cpuacct:/job\n0::/\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes":       "9223372036854771712\n",
		"/sys/fs/cgroup/memory/job/memory.limit_in_bytes":   "4294967296\n",
		"/sys/fs/cgroup/cpuset/job/cpuset.effective_cpus":   "0-7\n",
		"/sys/fs/cgroup/cpu/cpu.cfs_quota_us":               "-1\n",
		"/sys/fs/cgroup/cpu/cpu.cfs_period_us":              "100000\n",
		"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us":           "400000\n",
		"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us":          "100000\n",
		"/sys/fs/cgroup/memory/job/cpuset.cpus.effective":   "0",
		"/sys/fs/cgroup/cpuset/job/memory.limit_in_bytes":   "1",
		"/sys/fs/cgroup/memory/job/memory.stat.unreadable!": "",
	}, rank.Node{Cores: 4, Allowed: 64, Memory: 4 * gib})
	f("nonsense limits nothing", 64, map[string]string{
		"/proc/self/cgroup":                    "0::/\nhello\n::\n",
		"/sys/fs/cgroup/memory.max":            "-5",
		"/sys/fs/cgroup/cpu.max":               "0 0",
		"/sys/fs/cgroup/cpuset.cpus.effective": "3-1,x",
	}, rank.Node{Cores: 64, Allowed: 64, Memory: 64 * gib})
}

func TestReadNodeNeedsMeminfo(t *testing.T) {
	for _, text := range []string{"", "MemTotal: x kB\n", "MemTotal: 12 MB\n", "MemTotal: 9223372036854775807 kB\n"} {
		if n, err := rank.ReadNode(reads(map[string]string{"/proc/meminfo": text}), 4); err == nil {
			t.Errorf("%q: got %+v, want an error", text, n)
		}
	}
	if _, err := rank.ReadNode(reads(nil), 4); err == nil {
		t.Error("no file: want an error")
	}
}

func TestShare(t *testing.T) {
	f := func(what string, n rank.Node, localWorld int, want rank.Share) {
		t.Helper()
		if got := n.Share(localWorld); got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	f("alone", rank.Node{Cores: 64, Allowed: 64, Memory: 64}, 1, rank.Share{Cores: 64, Memory: 64})
	f("eight ranks", rank.Node{Cores: 64, Allowed: 64, Memory: 64}, 8, rank.Share{Cores: 8, Memory: 8})
	f("eight ranks, each bound to four cores", rank.Node{Cores: 64, Allowed: 4, Memory: 64}, 8, rank.Share{Cores: 4, Memory: 8})
	f("more ranks than cores", rank.Node{Cores: 2, Allowed: 2, Memory: 64}, 8, rank.Share{Cores: 1, Memory: 8})
	f("no ranks", rank.Node{Cores: 2, Allowed: 2, Memory: 64}, 0, rank.Share{Cores: 2, Memory: 64})
}

// The node that the test runs on gives figures that can be.
func TestReadThisNode(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	n, err := rank.ReadNode(os.ReadFile, runtime.NumCPU())
	if err != nil {
		t.Fatal(err)
	}
	if n.Cores < 1 || n.Allowed != runtime.NumCPU() || n.Memory < 1<<20 {
		t.Errorf("%+v", n)
	}
}
