package topology

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/launcher/nvml"
)

// CPU is one logical CPU and what it is part of.
type CPU struct {
	ID      int
	Node    int // NUMA node
	Package int // socket
	Core    int // first hyperthread of the physical core, allowed or not
	Cache   int // first CPU that shares the last cache, allowed or not
}

// Machine is what this process may use of a machine.
type Machine struct {
	CPUs []CPU // by ID

	// NUMA tells whether the kernel described nodes. Without it all CPUs are in
	// node 0.
	NUMA bool

	files fs.FS
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	pciDir  = "sys/bus/pci/devices"
)

// Read reads the machine from the files of its root, os.DirFS("/") outside tests.
// Files of /sys that are not there leave a plainer machine: one node, one socket,
// no hyperthreads, one cache.
func Read(root fs.FS) (*Machine, error) {
	m := &Machine{files: root}
	allowed, err := m.allowed()
	if err != nil {
		return nil, err
	}
	nodes := m.nodes()
	m.NUMA = len(nodes) > 0
	for _, id := range allowed {
		dir := path.Join(cpuDir, "cpu"+strconv.Itoa(id))
		m.CPUs = append(m.CPUs, CPU{
			ID: id, Node: nodes[id],
			Package: max(0, m.number(path.Join(dir, "topology/physical_package_id"), 0)),
			Core:    m.first(id, path.Join(dir, "topology/core_cpus_list"), path.Join(dir, "topology/thread_siblings_list")),
			Cache:   m.lastCache(id, path.Join(dir, "cache")),
		})
	}
	return m, nil
}

// allowed are the CPUs that are online and that this process may run on, by
// proc_pid_status(5); all online ones where that cannot be read.
func (m *Machine) allowed() (CPUs, error) {
	const name = cpuDir + "/online"
	online, err := ParseCPUs(m.text(name))
	if err != nil || len(online) == 0 {
		return nil, fmt.Errorf("the machine's CPUs: no list in /%s", name)
	}
	for line := range strings.Lines(m.text("proc/self/status")) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		mine, err := ParseCPUs(list)
		if err != nil {
			return nil, fmt.Errorf("the machine's CPUs: /proc/self/status: %w", err)
		}
		online = slices.DeleteFunc(online, func(cpu int) bool { return !mine.Has(cpu) })
	}
	if len(online) == 0 {
		return nil, fmt.Errorf("the machine's CPUs: none that is online is allowed by /proc/self/status")
	}
	return online, nil
}

// nodes gives the node of each CPU. Nodes of memory alone have no CPU.
func (m *Machine) nodes() map[int]int {
	nodes := make(map[int]int)
	entries, _ := fs.ReadDir(m.files, nodeDir)
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "node")
		id, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil {
			continue
		}
		cpus, _ := ParseCPUs(m.text(path.Join(nodeDir, e.Name(), "cpulist")))
		for _, cpu := range cpus {
			nodes[cpu] = int(id)
		}
	}
	return nodes
}

// first is the first CPU of the first list that is there, the CPU itself where
// none is.
func (m *Machine) first(id int, lists ...string) int {
	for _, name := range lists {
		if cpus, err := ParseCPUs(m.text(name)); err == nil && len(cpus) > 0 {
			return cpus[0]
		}
	}
	return id
}

// lastCache names the last cache of a CPU: that of the highest level, an L3 on most
// machines. CPUs of a machine without such files share one.
func (m *Machine) lastCache(id int, dir string) int {
	highest, cache := 0, 0
	entries, _ := fs.ReadDir(m.files, dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "index") {
			continue
		}
		if level := m.number(path.Join(dir, e.Name(), "level"), 0); level > highest {
			highest, cache = level, m.first(id, path.Join(dir, e.Name(), "shared_cpu_list"))
		}
	}
	return cache
}

// Nodes are the nodes that have CPUs of this process.
func (m *Machine) Nodes() []int {
	var nodes []int
	for _, c := range m.CPUs {
		if !slices.Contains(nodes, c.Node) {
			nodes = append(nodes, c.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// NodeOf is the node of a PCI device, written in any usual way (0000:3b:00.0,
// 00000000:3B:00.0). known is false where the kernel does not say and the machine
// has several.
func (m *Machine) NodeOf(pci string) (node int, known bool) {
	if node := m.number(path.Join(pciDir, path.Base(nvml.Address(pci)), "numa_node"), -1); node >= 0 && m.NUMA {
		return node, true
	}
	if nodes := m.Nodes(); len(nodes) == 1 {
		return nodes[0], true
	}
	return -1, false
}

func (m *Machine) number(name string, missing int) int {
	n, err := strconv.Atoi(m.text(name))
	if err != nil {
		return missing
	}
	return n
}

// text is the content of a file without the space around it, "" if there is none.
func (m *Machine) text(name string) string {
	data, err := fs.ReadFile(m.files, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
