package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/cuda"
)

// gpus looks at the driver and at every GPU that the process may use. A GPU is not
// needed: where there is no driver, one line says so.
func (s System) gpus(ctx context.Context) []Check {
	driver, err := cuda.Load(s.Driver)
	if err != nil {
		return []Check{s.noDriver(err)}
	}
	count, err := driver.Count()
	if err != nil {
		return []Check{s.noDriver(err)}
	}
	checks := []Check{s.driverVersion(driver.Version(), count)}
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		checks = append(checks, s.oneGPU(ctx, driver, i)...)
	}
	return append(checks, s.pinned(), s.mps())
}

// noDriver tells a machine without a driver from one whose driver does not work.
func (s System) noDriver(err error) Check {
	library := s.driver()
	if library == "" && strings.Contains(err.Error(), "no NVIDIA driver:") {
		return Check{"GPU", Note, "no NVIDIA driver found: batches stay on the host", ""}
	}
	if library != "" {
		library = " (library " + library + ")"
	}
	return Check{
		"GPU", Warn, fmt.Sprintf("%v%s%s", err, library, s.module()),
		"batches stay on the host until this works. If nvidia-smi fails too, install or update the driver (535 or later); " +
			"if it does not, look at CUDA_VISIBLE_DEVICES and LD_LIBRARY_PATH",
	}
}

// module is what the kernel module says of its version.
func (s System) module() string {
	if first, _, _ := strings.Cut(s.text("proc/driver/nvidia/version"), "\n"); first != "" {
		return " (" + first + ")"
	}
	return ""
}

// imageDriver is the first CUDA version that takes the PTX of the embedded image,
// of ISA 8.2.
const imageDriver = 12020

func (s System) driverVersion(version, count int) Check {
	c := Check{Name: "GPU driver", Status: OK, Found: fmt.Sprintf("CUDA %d.%d%s, GPUs to use: %d", version/1000, version%1000/10, s.module(), count)}
	if version < imageDriver {
		c.Status, c.Advice = Warn, "too old for the kernels of headrace: update it to 535 or later (CUDA 12.2)"
	}
	return c
}

// oneGPU makes all checks of one GPU.
func (s System) oneGPU(ctx context.Context, driver *cuda.Driver, ordinal int) []Check {
	name := fmt.Sprintf("GPU %d", ordinal)
	info, err := driver.Describe(ordinal)
	if err != nil {
		return []Check{{name, Warn, err.Error(), "see what nvidia-smi says of it"}}
	}
	checks := []Check{identity(name, info)}
	g, err := driver.Open(ordinal)
	if err != nil {
		return append(checks, Check{
			name + " context", Warn, err.Error(),
			"another process may use it alone (nvidia-smi -q -d COMPUTE), or its memory is full",
		})
	}
	checks = append(checks, kernelImage(name, g), freeMemory(name, g), s.pinning(ctx, name, g), batchedCopies(name, info))
	// The link is looked at after the copies: an idle GPU lets it rest.
	checks = append(checks, s.link(name, info), s.numa(name, info))
	if err := g.Close(); err != nil {
		checks = append(checks, Check{name + " context", Warn, err.Error(), "see the kernel's log (dmesg) for lines of NVRM"})
	}
	return checks
}

// identity names the GPU. An instance of a divided one (MIG) has its profile in
// its name.
func identity(name string, info cuda.Info) Check {
	c := Check{Name: name, Status: OK}
	c.Found = fmt.Sprintf("%s, %s, compute capability %d.%d, %d SMs, %s, PCI %s",
		info.Name, info.UUID, info.Major, info.Minor, info.SMs, size(info.Memory), info.BusID)
	switch {
	case info.Major < 8:
		c.Status, c.Advice = Warn, "the kernels of headrace need compute capability 8.0: batches stay on the host"
	case info.MIG:
		c.Status, c.Advice = Note, "an instance of a divided GPU (MIG): all instances share one PCIe link"
	}
	return c
}

// driver is the path of libcuda in the usual folders and in s.Libraries, "" if there
// is none: to tell a driver that is not there from one that does not load.
func (s System) driver() string {
	folders := []string{
		"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib",
		"usr/lib/wsl/lib", "usr/local/nvidia/lib64", "run/opengl-driver/lib",
	}
	for _, folder := range append(folders, s.Libraries...) {
		path := filepath.Join(s.file(folder), "libcuda.so.1")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}
