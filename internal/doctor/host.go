package doctor

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/rank"
)

// cores compares the machine's cores with those that the job and this process may
// use.
func (s System) cores() Check {
	c := Check{Name: "cores", Status: OK}
	node, _ := s.node()
	c.Found = fmt.Sprintf("%d to use, %d of the job on this node", min(runtime.GOMAXPROCS(0), node.Cores), node.Cores)
	if min(runtime.GOMAXPROCS(0), node.Cores) < 2 {
		c.Status, c.Advice = Warn, "one core reads, decodes and trains in turn: raise the CPU limit of the job or container"
	}
	return c
}

// node is what the job may use of this machine, by the limits of control groups.
func (s System) node() (rank.Node, error) {
	return rank.ReadNode(func(path string) ([]byte, error) { return os.ReadFile(s.file(path)) }, runtime.NumCPU())
}

// smallMemory is below what the default budgets of one pipeline may take.
const smallMemory = 2 << 30

func (s System) memory() Check {
	node, err := s.node()
	if err != nil {
		return Check{"memory", Note, "unknown: " + err.Error(), ""}
	}
	free := min(s.available(), node.Memory)
	c := Check{Name: "memory", Status: OK, Found: fmt.Sprintf("%s for the job, %s free now", size(node.Memory), size(free))}
	if free < smallMemory {
		c.Status, c.Advice = Warn, "set HostBytes (host_bytes in Python): the default budgets may not fit"
	}
	return c
}

// available is MemAvailable of /proc/meminfo.
func (s System) available() int64 {
	for line := range strings.Lines(s.text("proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// fewFiles is the limit below which shards would be opened and closed all the
// time.
const fewFiles = 1024

func (s System) files() Check {
	c := Check{Name: "open files", Status: OK}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Check{c.Name, Note, "unknown: " + err.Error(), ""}
	}
	c.Found = fmt.Sprintf("limit %d (hard %d)", limit.Cur, limit.Max)
	if limit.Cur < fewFiles {
		c.Status, c.Advice = Warn, "raise it with `ulimit -n 65536`, or LimitNOFILE= of the service"
	}
	return c
}

func (s System) build() Check {
	c := Check{Name: "build", Status: OK}
	cgo := "cgo off"
	if info, ok := debug.ReadBuildInfo(); ok && slices.ContainsFunc(info.Settings, func(b debug.BuildSetting) bool {
		return b.Key == "CGO_ENABLED" && b.Value == "1"
	}) {
		cgo = "cgo on"
	}
	c.Found = fmt.Sprintf("headrace %s, %s %s/%s, %s, zstd by %s", s.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, cgo, s.Zstd)
	if s.Zstd != "libzstd" {
		c.Status, c.Advice = Warn, "zstd is slower in pure Go: build with a C compiler and CGO_ENABLED=1"
	}
	return c
}

func (s System) features() Check {
	c := Check{Name: "CPU", Status: OK}
	if runtime.GOARCH != "amd64" {
		return Check{c.Name, Note, runtime.GOARCH + ": the plain loops are used", ""}
	}
	var has []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"SSE4.2", cpu.X86.HasSSE42}, {"BMI2", cpu.X86.HasBMI2}, {"AVX2", cpu.X86.HasAVX2}, {"AVX-512", cpu.X86.HasAVX512BW},
	} {
		if f.has {
			has = append(has, f.name)
		}
	}
	c.Found = strings.Join(has, " ")
	if !cpu.X86.HasAVX2 {
		c.Status, c.Advice = Warn, "without AVX2 unshuffling and casts take the plain loops"
		c.Found += " (no AVX2)"
	}
	return c
}

func (s System) pages() Check {
	c := Check{Name: "pages", Status: OK, Found: fmt.Sprintf("%d bytes", os.Getpagesize())}
	huge := s.text("sys/kernel/mm/transparent_hugepage/enabled")
	_, chosen, ok := strings.Cut(huge, "[")
	chosen, _, closed := strings.Cut(chosen, "]")
	if !ok || !closed {
		c.Found += ", no transparent huge pages"
		return c
	}
	c.Found += ", transparent huge pages: " + chosen
	if chosen == "never" {
		c.Status = Note
		c.Advice = "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` makes large buffers cheaper"
	}
	return c
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1 << 10
	v, names := float64(n), "BKMGT"
	for v >= unit && len(names) > 1 {
		v, names = v/unit, names[1:]
	}
	if names[0] == 'B' {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", v, names[0])
}
