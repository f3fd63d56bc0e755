// Package doctor looks at the machine that headrace runs on and says what is
// missing or slow and what to do about it.
//
//	host.go     cores, memory, limits, build
//	uring.go    io_uring: kernel, build, what forbids it
//	gpu.go      the driver, and the list of checks of each GPU
//	device.go   what a GPU is asked through the driver: kernels, memory, pinning
//	sysfs.go    what the system says of it: PCIe link, NUMA node, MPS
//	python.go   the installed package
//	storage.go  how fast a folder is read
//	gossip.go   whether agents of other nodes are reached
//
// Every check only looks: no setting is changed, and the files that the checks of
// storage and of pinning may write are removed again. Looking at a GPU makes a
// context there for a moment, a few hundred MB of its memory.
package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/coord/agent"
)

// Status is how a check ended.
type Status string

// The states of a check.
const (
	OK   Status = "ok"
	Note Status = "note" // works, and something is worth knowing
	Warn Status = "warn" // works, but slower or smaller than it could
	Fail Status = "fail" // something that was asked for does not work
)

// Check is one line of the table.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	// Advice says what to do; "" where nothing is to be done.
	Advice string `json:"advice,omitempty"`
}

// System is what the checks look at.
type System struct {
	// Root is the folder that stands for "/".
	Root string
	// Version of this program, "1.2.3".
	Version string
	// Zstd names the zstd library of this build.
	Zstd string
	// Python is the interpreter whose package is compared; "" leaves it out.
	Python string
	// Path is where the storage is measured; "" leaves it out.
	Path string
	// Libraries lists further folders to look for the driver in.
	Libraries []string
	// Driver is the path of NVIDIA's driver library; "" is the one that the loader
	// finds.
	Driver string
	// MPS is the folder of the multi-process service (CUDA_MPS_PIPE_DIRECTORY); ""
	// is the usual one.
	MPS string
	// Gossip lists agents to be reached, host:port, by Reach.
	Gossip []string
	Reach  func(ctx context.Context, address string) agent.Reach
}

// Run makes all checks in a fixed order.
func Run(ctx context.Context, s System) []Check {
	checks := []Check{
		s.cores(),
		s.memory(),
		s.files(),
		s.build(),
		s.features(),
		s.pages(),
		s.uring(),
	}
	checks = append(checks, s.gpus(ctx)...)
	if s.Python != "" {
		checks = append(checks, s.python(ctx))
	}
	if s.Path != "" {
		checks = append(checks, s.storage(ctx)...)
	}
	checks = append(checks, s.gossip(ctx)...)
	return checks
}

func (s System) file(path string) string { return filepath.Join(s.Root, path) }

// text is a small file's content without space around it, "" if it cannot be
// read.
func (s System) text(path string) string {
	data, err := os.ReadFile(s.file(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
