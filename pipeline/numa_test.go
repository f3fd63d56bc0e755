package pipeline

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/headrace/headrace/cuda"
)

// Of several nodes the GPU's is found by its PCI address, which sysfs writes in small
// letters; anything unclear is no node.
func TestMemoryNode(t *testing.T) {
	for name, c := range map[string]struct {
		online, node string
		want         int
	}{
		"two nodes":     {"0-1\n", "1\n", 1},
		"apart":         {"0,8\n", "8\n", 8},
		"one node":      {"0\n", "0\n", -1},
		"no affinity":   {"0-1\n", "-1\n", -1},
		"not a number":  {"0-1\n", "x\n", -1},
		"other devices": {"0-1\n", "", -1},
		"no sysfs":      {"", "1\n", -1},
	} {
		sys := fstest.MapFS{}
		if c.online != "" {
			sys["devices/system/node/online"] = &fstest.MapFile{Data: []byte(c.online)}
		}
		if c.node != "" {
			sys["bus/pci/devices/0000:3b:00.0/numa_node"] = &fstest.MapFile{Data: []byte(c.node)}
		}
		if got := memoryNode(sys, "0000:3B:00.0"); got != c.want {
			t.Errorf("%s: node %d, want %d", name, got, c.want)
		}
	}
}

// Memory that is pinned for a GPU prefers its node: the kernel says so.
func TestPinnedMemoryPrefersTheNode(t *testing.T) {
	if _, err := os.Stat("/proc/self/numa_maps"); err != nil {
		t.Skip("the kernel has no NUMA policies: ", err)
	}
	probe, err := allocate(1)
	if err != nil {
		t.Fatal(err)
	}
	defer free(probe) //nolint:errcheck // the test is over
	if err := cuda.PreferNode(probe, 0); err != nil {
		t.Skip("this process may not set NUMA policies: ", err)
	}
	c := newCube(t)
	onFake(t, &c.cfg)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came before
	d := p.backend.(*device)
	d.node = 0
	pinned, err := d.pin(4 * mib)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.free(d.gpu) //nolint:errcheck // the test is about what came before
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Fatal(err)
	}
	start := fmt.Sprintf("%x prefer", cuda.Address(pinned.mem))
	if !strings.Contains("\n"+string(maps), "\n"+start) {
		t.Errorf("no line %q... in\n%s", start, maps)
	}
}
