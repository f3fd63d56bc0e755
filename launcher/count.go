package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/headrace/headrace/rank"
)

// counter counts what a number of workers may be taken from.
type counter interface {
	CPUs() int
	GPUs() int // NVIDIA's, before CUDA_VISIBLE_DEVICES
	XPUs() int // Intel's
}

// machine is this one.
type machine struct{}

// CPUs counts those that this process may run on; torchrun counts all.
func (machine) CPUs() int { return runtime.NumCPU() }

func (machine) GPUs() int {
	known, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
	nodes, _ := filepath.Glob("/dev/nvidia[0-9]*")
	if len(nodes) > 0 && len(nodes) < len(known) {
		return len(nodes) // a container has the nodes of its own GPUs
	}
	return max(len(known), len(nodes))
}

func (machine) XPUs() int {
	vendors, _ := filepath.Glob("/sys/class/drm/renderD*/device/vendor")
	n := 0
	for _, file := range vendors {
		if id, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(id)) == "0x8086" {
			n++
		}
	}
	return n
}

// workers is the value of --nproc-per-node.
func workers(value string, m counter, lookup Lookup) (int, error) {
	gpus := func() int {
		if list, ok := lookup("CUDA_VISIBLE_DEVICES"); ok {
			return countVisible(rank.VisibleEntries(list), m.GPUs())
		}
		return m.GPUs()
	}
	switch value {
	case "cpu":
		return m.CPUs(), nil
	case "gpu":
		return some(gpus(), "is gpu, but there is no GPU that CUDA may use")
	case "xpu":
		return some(m.XPUs(), "is xpu, but there is no such device")
	case "auto":
		for _, n := range []int{gpus(), m.XPUs()} {
			if n > 0 {
				return n, nil
			}
		}
		return m.CPUs(), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		return 1, fmt.Errorf("is %q: a number, auto, cpu, gpu or xpu", value)
	}
	return n, nil
}

// countVisible counts the entries of CUDA_VISIBLE_DEVICES that can be there: one GPU
// may be several MIG instances, which have no numbers.
func countVisible(entries []string, gpus int) int {
	if len(entries) > 0 && strings.HasPrefix(entries[0], "MIG-") && gpus > 0 {
		return len(entries)
	}
	return min(len(entries), gpus)
}

func some(n int, none string) (int, error) {
	if n == 0 {
		return 1, errors.New(none)
	}
	return n, nil
}
