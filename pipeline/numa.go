package pipeline

import (
	"io/fs"
	"strconv"
	"strings"
)

// memoryNode is the NUMA node next to a PCI device, by the files under /sys; -1 where
// there is one node, or none is known.
func memoryNode(sys fs.FS, bus string) int {
	online, err := fs.ReadFile(sys, "devices/system/node/online") // "0", "0-1", "0,2"
	if err != nil || !strings.ContainsAny(string(online), ",-") {
		return -1
	}
	text, err := fs.ReadFile(sys, "bus/pci/devices/"+strings.ToLower(bus)+"/numa_node")
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}
