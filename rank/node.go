package rank

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Node is what the job may use of this machine.
type Node struct {
	Cores   int   // cores of the job's control group, all ranks of the node together
	Allowed int   // cores that this very process may run on
	Memory  int64 // bytes
}

// Share is the part of a node that one rank may use.
type Share struct {
	Cores  int   // at least 1
	Memory int64 // bytes
}

// Share divides the node by the number of its ranks. A process that is already
// bound to fewer cores keeps to those: they are not divided again.
func (n Node) Share(localWorld int) Share {
	localWorld = max(1, localWorld)
	return Share{
		Cores:  max(1, min(n.Allowed, n.Cores/localWorld)),
		Memory: n.Memory / int64(localWorld),
	}
}

// ReadFile gives the content of a file, as os.ReadFile does.
type ReadFile func(path string) ([]byte, error)

// ReadNode measures the node: memory from /proc/meminfo, cut by the limits of
// the control groups (v1 and v2) that the process is in; cores from allowed (the
// caller's runtime.NumCPU), the cores online, the cpuset and the quota. Files
// that are not there limit nothing. The error is about /proc/meminfo, without
// which there is no default for memory.
func ReadNode(read ReadFile, allowed int) (Node, error) {
	memory, err := memTotal(read)
	if err != nil {
		return Node{}, err
	}
	n := Node{Cores: allowed, Allowed: allowed, Memory: memory}
	if online := countList(text(read, "/sys/devices/system/cpu/online")); online > 0 {
		n.Cores = online
	}
	for _, dir := range controlGroups(read) {
		n.Memory = min(n.Memory, dir.memory(read))
		n.Cores = min(n.Cores, dir.cores(read))
	}
	n.Cores = max(1, n.Cores)
	return n, nil
}

// memTotal is the line "MemTotal:  24684092 kB" of proc_meminfo(5).
func memTotal(read ReadFile) (int64, error) {
	const name = "/proc/meminfo"
	data, err := read(name)
	if err != nil {
		return 0, fmt.Errorf("memory of the node: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kib > 0 && kib < math.MaxInt64>>10 {
				return kib << 10, nil
			}
		}
	}
	return 0, fmt.Errorf("memory of the node: %s has no line MemTotal in kB", name)
}

// text is the content of a file without the space around it, "" if there is no
// such file.
func text(read ReadFile, name string) string {
	data, err := read(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
