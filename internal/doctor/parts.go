package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gpu looks for NVIDIA's driver library. A GPU is not needed.
func (s System) gpu() Check {
	c := Check{Name: "GPU", Status: Note}
	library := s.driver()
	if library == "" {
		c.Found = "no NVIDIA driver found: batches stay on the host"
		return c
	}
	c.Found = "driver library " + library
	if first, _, _ := strings.Cut(s.text("proc/driver/nvidia/version"), "\n"); first != "" {
		c.Found += " (" + first + ")"
	}
	c.Advice = "this version has no GPU engine yet: batches stay on the host"
	return c
}

// driver is the path of libcuda, "" if there is none. It is not opened: opening
// it would start the driver.
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

// python compares the version of the installed package with this program's: the
// two come from one wheel, but a command found first in PATH may be older.
func (s System) python(ctx context.Context) Check {
	c := Check{Name: "Python package", Status: OK}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const ask = `from importlib.metadata import version, PackageNotFoundError
try: print(version("headrace"))
except PackageNotFoundError: print("none")`
	out, err := exec.CommandContext(ctx, s.Python, "-P", "-c", ask).Output()
	version := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		c.Status, c.Found = Note, s.Python+" does not run: "+err.Error()
	case version == "none":
		c.Status, c.Found = Note, "not installed for "+s.Python
		c.Advice = "only needed for training in Python: pip install the wheel (make wheel)"
	case version != s.Version:
		c.Status, c.Found = Warn, "version "+version+", this command is "+s.Version
		c.Advice = "install both from one wheel; `which -a headrace` shows which command is found first"
	default:
		c.Found = "version " + version
	}
	return c
}
