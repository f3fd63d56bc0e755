// Package nvml lists the GPUs of this machine: by NVML in a build with the tag nvml
// (and cgo), which `make build` sets, else from the driver's files in /proc.
//
// The library is loaded when it is asked for, so a binary with the tag starts on
// machines without it.
package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// GPU is one GPU.
type GPU struct {
	UUID string // GPU-…, "" if the driver does not tell
	PCI  string // address as sysfs writes it: 0000:3b:00.0

	// Instances are the UUIDs of its MIG instances, MIG-…; known to NVML only.
	Instances []string
}

// GPUs lists the GPUs by their PCI addresses, which is the order of CUDA's numbers
// where all are of one kind, and says where the list is from. root is the root of
// the file system, os.DirFS("/") outside tests. A machine without GPUs has an empty
// list; the error says why NVML was not used, and the list holds all the same.
func GPUs(root fs.FS) (gpus []GPU, from string, err error) {
	gpus, err = Library()
	if err == nil {
		return sorted(gpus), "NVML", nil
	}
	gpus, procErr := driver(root)
	if errors.Is(err, ErrAbsent) {
		err = nil // a build without it is as it should be
	}
	return sorted(gpus), "/proc/driver/nvidia", errors.Join(err, procErr)
}

// Address writes a PCI address as sysfs does: four digits of the domain, small
// letters. NVML writes eight digits, nvidia-smi large letters.
func Address(pci string) string {
	pci = strings.ToLower(strings.TrimSpace(pci))
	domain, rest, ok := strings.Cut(pci, ":")
	if ok && strings.Count(rest, ":") == 1 && len(domain) > 4 {
		cut := len(domain) - 4
		pci = strings.TrimLeft(domain[:cut], "0") + domain[cut:] + ":" + rest
	}
	return pci
}

// ErrAbsent is the error of Library in a build without NVML.
var ErrAbsent = errors.New("built without NVML: the tag nvml and cgo are needed")

func sorted(gpus []GPU) []GPU {
	slices.SortFunc(gpus, func(a, b GPU) int { return strings.Compare(a.PCI, b.PCI) })
	return gpus
}

// driver reads what the driver tells of its GPUs in /proc:
//
//	GPU UUID: 	 GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
//	Bus Location: 	 0000:3b:00.0
//
// A GPU that was not opened since the driver was loaded has question marks for its
// UUID.
func driver(root fs.FS) ([]GPU, error) {
	const dir = "proc/driver/nvidia/gpus"
	entries, err := fs.ReadDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no driver
	}
	if err != nil {
		return nil, fmt.Errorf("GPUs of the driver: %w", err)
	}
	var gpus []GPU
	for _, e := range entries {
		data, err := fs.ReadFile(root, path.Join(dir, e.Name(), "information"))
		if err != nil {
			continue // the folder of a GPU that is going away
		}
		gpu := GPU{PCI: Address(e.Name())}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(line, ":")
			if value = strings.TrimSpace(value); strings.TrimSpace(name) == "GPU UUID" && !strings.Contains(value, "?") {
				gpu.UUID = value
			}
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}
