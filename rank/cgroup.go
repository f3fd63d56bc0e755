package rank

import (
	"math"
	"path"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// controlGroup is a folder below cgroupRoot that may limit this process.
type controlGroup struct {
	dir        string
	controller string // of v1, empty in v2 where one folder has all files
}

// controlGroups lists the groups that the process is in and all groups above
// them, since the tightest limit holds: cgroups(7), /proc/pid/cgroup. Inside a
// container that sees only its own tree the paths of /proc/self/cgroup may not
// be there; the root of the mount then is the container's group, and it is in
// the list too.
func controlGroups(read ReadFile) []controlGroup {
	var groups []controlGroup
	for line := range strings.Lines(text(read, "/proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[1] == "" {
			groups = append(groups, upwards(cgroupRoot, fields[2], "")...)
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			switch controller {
			case "memory", "cpu", "cpuset":
				groups = append(groups, upwards(path.Join(cgroupRoot, controller), fields[2], controller)...)
			}
		}
	}
	return groups
}

// upwards lists a group and those above it, up to the root of the mount.
func upwards(mount, group, controller string) []controlGroup {
	var groups []controlGroup
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		groups = append(groups, controlGroup{path.Join(mount, group), controller})
		if group == "/" {
			return groups
		}
	}
}

// memory is the group's limit, MaxInt64 for none. Above memory.high, of v2, nobody
// is killed, but everybody is slowed down until pages are given back.
func (g controlGroup) memory(read ReadFile) int64 {
	switch g.controller {
	case "":
		return min(g.bytes(read, "memory.max"), g.bytes(read, "memory.high"))
	case "memory":
		return g.bytes(read, "memory.limit_in_bytes")
	}
	return math.MaxInt64
}

// bytes is a limit, MaxInt64 for "max" or where there is no such file.
func (g controlGroup) bytes(read ReadFile, name string) int64 {
	limit, err := strconv.ParseInt(text(read, path.Join(g.dir, name)), 10, 64)
	if err != nil || limit <= 0 {
		return math.MaxInt64
	}
	return limit
}

// cores is the number of cores that the group's cpuset and quota leave, MaxInt
// for no limit.
func (g controlGroup) cores(read ReadFile) int {
	cores := math.MaxInt
	if g.controller == "" || g.controller == "cpuset" {
		name := "cpuset.cpus.effective"
		if g.controller == "cpuset" {
			name = "cpuset.effective_cpus"
		}
		if n := countList(text(read, path.Join(g.dir, name))); n > 0 {
			cores = n
		}
	}
	var quota, period string
	switch g.controller {
	case "":
		quota, period, _ = strings.Cut(text(read, path.Join(g.dir, "cpu.max")), " ")
	case "cpu":
		quota = text(read, path.Join(g.dir, "cpu.cfs_quota_us"))
		period = text(read, path.Join(g.dir, "cpu.cfs_period_us"))
	}
	q, errQ := strconv.ParseInt(quota, 10, 64)
	p, errP := strconv.ParseInt(period, 10, 64)
	if errQ == nil && errP == nil && q > 0 && p > 0 { // "max" and -1 are no quota
		// Rounded up: a quota of 1.5 cores can keep two threads busy.
		cores = min(cores, int((q-1)/p+1))
	}
	return cores
}

// countList counts the members of a list as cpuset(7) writes it, "0-3,8", and is
// 0 for anything else.
func countList(list string) int {
	if list == "" {
		return 0
	}
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err := strconv.ParseUint(lo, 10, 16)
		last, err2 := strconv.ParseUint(hi, 10, 16)
		if err != nil || err2 != nil || last < first {
			return 0
		}
		n += int(last-first) + 1
	}
	return n
}
