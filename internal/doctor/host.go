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
)

// cores compares the machine's cores with those that this process may use.
func (s System) cores() Check {
	c := Check{Name: "cores", Status: OK}
	use := runtime.GOMAXPROCS(0)
	c.Found = fmt.Sprintf("%d to use, %d allowed by affinity", use, runtime.NumCPU())
	if quota := s.cpuQuota(); quota > 0 {
		c.Found += fmt.Sprintf(", cgroup limit %.4g", quota)
		if quota < 2 {
			c.Status, c.Advice = Warn, "decoding needs cores: raise the CPU limit of the container or job"
		}
	}
	if use == 1 && c.Status == OK {
		c.Status, c.Advice = Warn, "one core reads, decodes and trains in turn: ask the job for more"
	}
	return c
}

// cpuQuota is the cgroup's limit in cores, 0 for none (cgroup v2's cpu.max, or
// v1's two files).
func (s System) cpuQuota() float64 {
	parts := strings.Fields(s.text("sys/fs/cgroup/cpu.max"))
	if len(parts) != 2 {
		parts = []string{s.text("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), s.text("sys/fs/cgroup/cpu/cpu.cfs_period_us")}
	}
	quota, err1 := strconv.ParseFloat(parts[0], 64)
	period, err2 := strconv.ParseFloat(parts[1], 64)
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// smallMemory is below what the default budgets of one pipeline may take.
const smallMemory = 2 << 30

func (s System) memory() Check {
	c := Check{Name: "memory", Status: OK}
	total, available := s.meminfo("MemTotal"), s.meminfo("MemAvailable")
	if total == 0 {
		return Check{"memory", Note, "unknown: no /proc/meminfo", ""}
	}
	c.Found = fmt.Sprintf("%s, %s available", size(total), size(available))
	limit := s.memoryLimit()
	if limit > 0 && limit < total {
		c.Found += ", cgroup limit " + size(limit)
		available = min(available, limit)
	}
	if available < smallMemory {
		c.Status, c.Advice = Warn, "set HostBytes (host_bytes in Python): the default budgets may not fit"
	}
	return c
}

func (s System) meminfo(name string) int64 {
	for line := range strings.Lines(s.text("proc/meminfo")) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == name+":" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// memoryLimit is the cgroup's, 0 for none.
func (s System) memoryLimit() int64 {
	for _, path := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseInt(s.text(path), 10, 64); err == nil {
			return n
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
