package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// No GPU is no fault: it is said in one line, and nothing warns. A driver that is
// there and does not work is worth a warning.
func TestNoDriver(t *testing.T) {
	checks := machine(t, nil).gpus(context.Background())
	if len(checks) != 1 {
		t.Fatalf("%d lines without a driver: %+v", len(checks), checks)
	}
	expect(t, checks[0], Note, "no NVIDIA driver found: batches stay on the host")
	s := machine(t, map[string]string{"opt/lib/libcuda.so.1": "", "proc/driver/nvidia/version": "NVRM version: 570.1\nGCC"})
	s.Libraries = []string{"opt/lib"}
	expect(t, s.gpus(context.Background())[0], Warn, "libcuda.so.1", "NVRM version: 570.1", "stay on the host", "nvidia-smi")
}

// node is a machine whose driver is a fake one; set prepares it before it is loaded.
func node(t *testing.T, files map[string]string, set ...func(*cudatest.Fake)) (System, *cudatest.Fake) {
	t.Helper()
	fake := cudatest.New(t)
	for _, f := range set {
		f(fake)
	}
	s := machine(t, files)
	s.Driver = fake.Path
	return s, fake
}

func one(f *cudatest.Fake) { f.Devices(1) }

// find gives the only check of that name.
func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q: %+v", name, checks)
	}
	return checks[i]
}

// Every GPU is looked at, each by all checks and in the same order, and nothing is
// left on it.
func TestGPUs(t *testing.T) {
	s, fake := node(t, map[string]string{
		"proc/meminfo": "MemTotal: 64000000 kB\nMemAvailable:    32000000 kB\n",
		"sys/bus/pci/devices/0000:10:00.0/current_link_speed": "32.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:10:00.0/max_link_speed":     "32.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:10:00.0/current_link_width": "16\n",
		"sys/bus/pci/devices/0000:10:00.0/max_link_width":     "16\n",
		"sys/devices/system/node/node0/cpulist":               "0-1023\n",
		"tmp/nvidia-mps/control":                              "",
		"tmp/nvidia-mps/nvidia-cuda-mps-control.pid":          "77",
		"proc/77/stat": "77",
	})
	checks := s.gpus(context.Background())
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
		if c.Status == Warn || c.Status == Fail {
			t.Errorf("%+v", c)
		}
	}
	want := "GPU driver"
	for _, n := range []string{"GPU 0", "GPU 1"} {
		want += "," + strings.Join([]string{n, n + " kernels", n + " memory", n + " page cache", n + " copies", n + " PCIe", n + " NUMA"}, ",")
	}
	want += ",pinned memory,MPS"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("checks %s\nwant   %s", got, want)
	}
	expect(t, find(t, checks, "GPU driver"), OK, "CUDA 13.0", "GPUs to use: 2")
	expect(t, find(t, checks, "GPU 1"), OK, "Fake GPU 1", "GPU-", "compute capability", "0000:11:00.0")
	expect(t, find(t, checks, "GPU 0 kernels"), OK, "loaded in", "ms")
	expect(t, find(t, checks, "GPU 0 memory"), OK, "16.0 GiB free")
	expect(t, find(t, checks, "GPU 0 page cache"), OK, "pinned in place", "4.0 MiB")
	expect(t, find(t, checks, "GPU 0 copies"), OK, "in batches")
	expect(t, find(t, checks, "GPU 0 PCIe"), OK, "generation 5 x16")
	expect(t, find(t, checks, "GPU 1 PCIe"), Note, "does not tell")
	expect(t, find(t, checks, "GPU 0 NUMA"), OK, "node 0")
	expect(t, find(t, checks, "pinned memory"), OK, "30.5 GiB")
	expect(t, find(t, checks, "MPS"), OK, "runs", "/tmp/nvidia-mps")
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("left on the GPUs: %+v", live)
	}
	if c := fake.Complaints(); len(c) > 0 {
		t.Errorf("the driver complains: %q", c)
	}
}

// An instance of a divided GPU is named as nvidia-smi names it, and what it shares is told.
func TestInstance(t *testing.T) {
	s, fake := node(t, nil)
	fake.Instance(1, "1g.10gb")
	checks := s.gpus(context.Background())
	expect(t, find(t, checks, "GPU 0"), OK, "GPU-0100")
	expect(t, find(t, checks, "GPU 1"), Note, "MIG 1g.10gb", "MIG-0101", "share one PCIe link")
}

// What an old driver lacks is said with what to do, and the checks go on.
func TestOldDriver(t *testing.T) {
	s, _ := node(t, nil, one, func(f *cudatest.Fake) { f.Version(11080) })
	checks := s.gpus(context.Background())
	if len(checks) != 1 {
		t.Errorf("a driver that is too old to load: %+v", checks)
	}
	expect(t, checks[0], Warn, "too old", "11.8", "535")

	s, _ = node(t, nil, one, func(f *cudatest.Fake) { f.Version(12010) })
	checks = s.gpus(context.Background())
	expect(t, find(t, checks, "GPU driver"), Warn, "CUDA 12.1", "535")
	expect(t, find(t, checks, "GPU 0 kernels"), Warn, "unsupported .version", "535")
	expect(t, find(t, checks, "GPU 0 copies"), Note, "by a kernel", "12.8")
	find(t, checks, "GPU 0 page cache")
}

// The page cache is pinned where driver and file system allow it; elsewhere the
// reason is given and what takes its place. A file of the data is tried first.
func TestPinning(t *testing.T) {
	s, fake := node(t, nil, one)
	s.Path = t.TempDir()
	if err := os.WriteFile(filepath.Join(s.Path, "shard"), make([]byte, 1<<20+1000), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() Check { return find(t, s.gpus(context.Background()), "GPU 0 page cache") }
	expect(t, check(), OK, "1.0 MiB")
	fake.Fail("cuMemHostRegister", 1, 801)
	expect(t, check(), Note, "shard cannot be pinned", "801", "pinned ring")
	fake.Fail("cuMemHostRegister", 1, 0)
	fake.ReadOnlyRegister(false)
	expect(t, check(), Note, "no read-only mappings", "pinned ring")
	s.Path = filepath.Join(s.Path, "absent")
	fake.ReadOnlyRegister(true)
	expect(t, check(), OK, "4.0 MiB")
}

// A GPU that cannot be used is said to be so; the others are still looked at.
func TestBrokenGPU(t *testing.T) {
	s, fake := node(t, nil)
	fake.Fail("cuDevicePrimaryCtxRetain", 1, 2)
	checks := s.gpus(context.Background())
	expect(t, find(t, checks, "GPU 0 context"), Warn, "OUT_OF_MEMORY", "nvidia-smi")
	expect(t, find(t, checks, "GPU 1 kernels"), OK)

	s, fake = node(t, nil, one)
	fake.Memory(64 << 20)
	expect(t, find(t, s.gpus(context.Background()), "GPU 0 memory"), Warn, "64.0 MiB free", "DeviceBytes")
	fake.Fail("cuModuleLoadDataEx", 1, 209)
	expect(t, find(t, s.gpus(context.Background()), "GPU 0 kernels"), Warn, "NO_BINARY", "update the driver")
}

func TestLink(t *testing.T) {
	link := func(speed, width, maxSpeed, maxWidth string) Check {
		const folder = "sys/bus/pci/devices/0000:10:00.0/"
		s, _ := node(t, map[string]string{
			folder + "current_link_speed": speed, folder + "max_link_speed": maxSpeed,
			folder + "current_link_width": width, folder + "max_link_width": maxWidth,
		}, one)
		return find(t, s.gpus(context.Background()), "GPU 0 PCIe")
	}
	expect(t, link("16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"), Note, "generation 4 x16, the GPU can do generation 5 x16", "idle")
	expect(t, link("8 GT/s", "4", "8 GT/s", "16"), Warn, "generation 3 x4", "x16", "lanes")
	expect(t, link("Unknown", "0", "Unknown", "255"), Note, "does not tell")
}

func TestNUMA(t *testing.T) {
	numa := func(cores string) Check {
		s, _ := node(t, map[string]string{"sys/devices/system/node/node0/cpulist": cores}, one)
		return find(t, s.gpus(context.Background()), "GPU 0 NUMA")
	}
	expect(t, numa("0-1023"), OK, "node 0")
	expect(t, numa("1010-1020,1023"), Warn, "0 of this", "numactl --cpunodebind=0")
	expect(t, numa("nonsense"), OK, "does not tell")
}

func TestMPS(t *testing.T) {
	s := machine(t, nil)
	expect(t, s.mps(), Note, "does not run", "nvidia-cuda-mps-control -d", "headrace engine")
	s = machine(t, map[string]string{"run/mps/control": "", "run/mps/nvidia-cuda-mps-control.pid": "4242\n"})
	s.MPS = "/run/mps"
	expect(t, s.mps(), Note, "left its pipes in /run/mps")
}

func TestPinnedMemory(t *testing.T) {
	s := machine(t, map[string]string{"proc/meminfo": "MemTotal: 4000000 kB\nMemAvailable:    2097152 kB\n"})
	expect(t, s.pinned(), Note, "at most 2.0 GiB", "locked memory", "HostBytes and MappedBytes")
	expect(t, machine(t, nil).pinned(), Note, "unknown")
}
