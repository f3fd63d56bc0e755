package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/cuda"
)

// pci is a file of the GPU's folder in sysfs.
func (s System) pci(info cuda.Info, file string) string {
	return s.text("sys/bus/pci/devices/" + strings.ToLower(info.BusID) + "/" + file)
}

// generations are the transfer rates of PCIe in GT/s, by generation from 1 on.
var generations = [...]string{"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"}

// generation of a rate as sysfs writes it, "32.0 GT/s PCIe"; 0 if it is not known.
func generation(speed string) int {
	rate, _, _ := strings.Cut(speed, " ")
	for i, g := range generations {
		if rate == g || rate == strings.TrimSuffix(g, ".0") {
			return i + 1
		}
	}
	return 0
}

// link compares the PCIe link with the most that the GPU can: every byte of a
// batch crosses it once.
func (s System) link(name string, info cuda.Info) Check {
	c := Check{Name: name + " PCIe", Status: OK}
	now, most := generation(s.pci(info, "current_link_speed")), generation(s.pci(info, "max_link_speed"))
	width, _ := strconv.Atoi(s.pci(info, "current_link_width"))
	widest, _ := strconv.Atoi(s.pci(info, "max_link_width"))
	if now == 0 || width == 0 {
		return Check{c.Name, Note, "the system does not tell (usual in a virtual machine)", ""}
	}
	c.Found = fmt.Sprintf("generation %d x%d", now, width)
	if now >= most && width >= widest {
		return c
	}
	c.Found += fmt.Sprintf(", the GPU can do generation %d x%d", most, widest)
	if width < widest {
		c.Status, c.Advice = Warn, "fewer lanes: look for another slot or riser, or at how the board divides its lanes"
		return c
	}
	c.Status, c.Advice = Note, "an idle GPU lets its link rest, so look again under load; else the slot or the firmware's settings limit it"
	return c
}

// numa compares the cores that this process may use with those beside the GPU.
func (s System) numa(name string, info cuda.Info) Check {
	c := Check{Name: name + " NUMA", Status: OK}
	node := info.NUMANode
	if node < 0 {
		if n, err := strconv.Atoi(s.pci(info, "numa_node")); err == nil {
			node = n
		}
	}
	near, ok := parseCores(s.text(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", node)))
	if node < 0 || !ok {
		return Check{c.Name, OK, "one node, or the system does not tell", ""}
	}
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		return Check{c.Name, Note, "unknown: " + err.Error(), ""}
	}
	beside := 0
	for _, core := range near {
		if mine.IsSet(core) {
			beside++
		}
	}
	c.Found = fmt.Sprintf("node %d, %d of this process's %d cores are on it", node, beside, mine.Count())
	bind := fmt.Sprintf("numactl --cpunodebind=%d --membind=%d", node, node)
	switch {
	case beside == 0:
		c.Status, c.Advice = Warn, "every copy crosses the sockets: start the rank with "+bind
	case beside < mine.Count():
		c.Status, c.Advice = Note, "the rank of this GPU gains by "+bind
	}
	return c
}

// parseCores reads a list as sysfs writes it, "0-3,8,10-11".
func parseCores(list string) (cores []int, ok bool) {
	if list == "" {
		return nil, false
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || a < 0 || b < a || b > 1<<16 {
			return nil, false
		}
		for ; a <= b; a++ {
			cores = append(cores, a)
		}
	}
	return cores, true
}

// mps says whether the multi-process service runs. Only the companion engine gains
// by it: without it two processes take turns on a GPU.
func (s System) mps() Check {
	c := Check{Name: "MPS", Status: OK}
	folder := s.MPS
	if folder == "" {
		folder = "/tmp/nvidia-mps"
	}
	const start = "only for `headrace engine` beside a trainer, whose kernels then wait less: nvidia-cuda-mps-control -d"
	if _, err := os.Stat(filepath.Join(s.file(folder), "control")); err != nil {
		return Check{c.Name, Note, "does not run", start}
	}
	pid := s.text(filepath.Join(folder, "nvidia-cuda-mps-control.pid"))
	if _, err := os.Stat(filepath.Join(s.file("proc"), pid)); pid != "" && err != nil {
		return Check{c.Name, Note, fmt.Sprintf("does not run, but has left its pipes in %s", folder), start}
	}
	c.Found = "runs, pipes in " + folder
	return c
}

// pinnedDefault is what a pipeline on a GPU may pin where the config does not say:
// a ring of 1 GiB, the buffers of its waves, and 4 GiB of the page cache.
const pinnedDefault = 6 << 30

// pinned says how much host memory can be pinned. The driver's pinned memory does
// not count against RLIMIT_MEMLOCK, but no limit lets it be more than there is, and
// what is pinned can be neither swapped nor reclaimed.
func (s System) pinned() Check {
	c := Check{Name: "pinned memory", Status: OK}
	node, err := s.node()
	if err != nil {
		return Check{c.Name, Note, "unknown: " + err.Error(), ""}
	}
	free := node.Memory
	if n := s.available(); n > 0 {
		free = min(free, n)
	}
	c.Found = fmt.Sprintf("at most %s, what the job has free; %s", size(free), lockLimit())
	if free < pinnedDefault {
		c.Status = Note
		c.Advice = fmt.Sprintf("a pipeline on a GPU pins up to %s unless HostBytes and MappedBytes say less", size(pinnedDefault))
	}
	return c
}

// lockLimit is RLIMIT_MEMLOCK.
func lockLimit() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "limit of locked memory unknown"
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "no limit of locked memory"
	}
	return fmt.Sprintf("limit of locked memory %s (the driver does not count it)", size(int64(limit.Cur)))
}
