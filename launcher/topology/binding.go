package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/launcher/nvml"
)

// Mode says how near to its GPU a rank is kept. The names and meanings are those
// of torchrun's --numa-binding.
type Mode string

const (
	None        Mode = "none"         // anywhere
	Node        Mode = "node"         // the CPUs of the GPU's node
	Socket      Mode = "socket"       // all CPUs of the socket of that node
	Exclusive   Mode = "exclusive"    // a part of the node's physical cores that no other rank has
	CoreComplex Mode = "core-complex" // the CPUs of the node that share one last cache
)

// ParseMode reads a mode; "" is None.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "":
		return None, nil
	case None, Node, Socket, Exclusive, CoreComplex:
		return m, nil
	}
	return "", fmt.Errorf("%q is no binding: node, socket, exclusive, core-complex or none", text)
}

// Binding is where one rank is to run.
type Binding struct {
	Mode Mode
	GPU  string // PCI address, "" for a rank without one
	CPUs CPUs   // empty: not bound, for the reason in Note
	Node int    // whose memory is preferred, -1 for none
	Note string // one line
}

// String is a line for a log.
func (b Binding) String() string {
	of := ""
	if b.GPU != "" {
		of = ", GPU " + b.GPU
	}
	if len(b.CPUs) == 0 {
		return fmt.Sprintf("not bound%s: %s", of, b.Note)
	}
	return fmt.Sprintf("CPUs %s, memory of node %d (%s%s)", b.CPUs, b.Node, b.Mode, of)
}

// Bindings places the ranks of this machine. gpus has the PCI address of each
// rank's GPU, by local rank; where it is empty there are no GPUs, and the ranks
// are spread over the nodes in blocks. A rank whose node is not known, or has none
// of the allowed CPUs, is not bound and its Note says so. More ranks on a node
// than it has cores to be exclusive is an error with the numbers.
func (m *Machine) Bindings(mode Mode, localWorld int, gpus []string) ([]Binding, error) {
	if len(gpus) != 0 && len(gpus) != localWorld {
		return nil, fmt.Errorf("%d GPUs for %d ranks: one each, or none at all", len(gpus), localWorld)
	}
	bindings := make([]Binding, localWorld)
	for i := range bindings {
		bindings[i] = m.near(mode, i, localWorld, gpus)
	}
	if mode == None {
		return bindings, nil
	}
	for _, node := range m.Nodes() {
		var ranks []*Binding
		for i := range bindings {
			if bindings[i].Node == node {
				ranks = append(ranks, &bindings[i])
			}
		}
		if len(ranks) == 0 {
			continue
		}
		if err := m.divide(mode, node, ranks); err != nil {
			return nil, err
		}
	}
	return bindings, nil
}

// near finds the node of a rank.
func (m *Machine) near(mode Mode, local, localWorld int, gpus []string) Binding {
	b := Binding{Mode: mode, Node: -1, Note: "not asked for"}
	nodes := m.Nodes()
	if len(gpus) > 0 {
		b.GPU = nvml.Address(gpus[local])
	}
	switch node, known := m.NodeOf(b.GPU); {
	case mode == None:
	case b.GPU == "":
		b.Node, b.Note = nodes[local*len(nodes)/localWorld], ""
	case !known:
		b.Note = "the kernel does not know the GPU's NUMA node"
	case !slices.Contains(nodes, node):
		b.Note = fmt.Sprintf("none of the CPUs of the GPU's node %d is allowed", node)
	default:
		b.Node, b.Note = node, ""
	}
	return b
}

// divide gives the ranks of one node their CPUs.
func (m *Machine) divide(mode Mode, node int, ranks []*Binding) error {
	all := m.where(func(c CPU) bool { return c.Node == node })
	switch mode {
	case Exclusive:
		return m.exclusive(all, node, ranks)
	case CoreComplex:
		// The largest first, so that a cpuset that cuts a cache in two leaves it last.
		caches := group(all, func(c CPU) int { return c.Cache })
		slices.SortStableFunc(caches, func(a, b []CPU) int { return cmp.Compare(len(b), len(a)) })
		for i, r := range ranks {
			r.CPUs = ids(caches[i%len(caches)])
		}
		return nil
	case Socket:
		all = m.where(func(c CPU) bool {
			return slices.ContainsFunc(all, func(n CPU) bool { return n.Package == c.Package })
		})
	}
	for _, r := range ranks {
		r.CPUs = ids(all)
	}
	return nil
}

// exclusive divides the cores of a node into runs whose lengths differ by at most
// one, the longer ones first. Hyperthreads stay with their core.
func (m *Machine) exclusive(all []CPU, node int, ranks []*Binding) error {
	cores := group(all, func(c CPU) int { return c.Core })
	if len(cores) < len(ranks) {
		return fmt.Errorf("binding exclusive: node %d has %d cores for %d ranks: use node or core-complex, start fewer ranks, or allow more CPUs", node, len(cores), len(ranks))
	}
	from := 0
	for i, r := range ranks {
		to := from + len(cores)/len(ranks)
		if i < len(cores)%len(ranks) {
			to++
		}
		r.CPUs = ids(slices.Concat(cores[from:to]...))
		from = to
	}
	return nil
}

func (m *Machine) where(keep func(CPU) bool) []CPU {
	var kept []CPU
	for _, c := range m.CPUs {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// group gathers CPUs by a key, in the order of their first CPUs.
func group(cpus []CPU, key func(CPU) int) [][]CPU {
	var groups [][]CPU
	at := make(map[int]int)
	for _, c := range cpus {
		i, ok := at[key(c)]
		if !ok {
			i = len(groups)
			at[key(c)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func ids(cpus []CPU) CPUs {
	set := make(CPUs, len(cpus))
	for i, c := range cpus {
		set[i] = c.ID
	}
	slices.Sort(set)
	return set
}

// String describes the machine in a line for a log.
func (m *Machine) String() string {
	var nodes []string
	for _, node := range m.Nodes() {
		cpus := m.where(func(c CPU) bool { return c.Node == node })
		cores := group(cpus, func(c CPU) int { return c.Core })
		caches := group(cpus, func(c CPU) int { return c.Cache })
		nodes = append(nodes, fmt.Sprintf("node %d: CPUs %s, %d cores, %d caches", node, ids(cpus), len(cores), len(caches)))
	}
	return strings.Join(nodes, "; ")
}
