package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a root with the given files.
func machine(t *testing.T, files map[string]string) System {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return System{Root: root, Version: "1.2.3", Zstd: "libzstd", Driver: filepath.Join(root, "no-driver.so")}
}

func expect(t *testing.T, c Check, status Status, words ...string) {
	t.Helper()
	if c.Status != status {
		t.Errorf("%s: status %s (%s), want %s", c.Name, c.Status, c.Found, status)
	}
	for _, w := range words {
		if !strings.Contains(c.Found+" "+c.Advice, w) {
			t.Errorf("%s: %q, %q do not say %q", c.Name, c.Found, c.Advice, w)
		}
	}
	if (c.Status == Warn || c.Status == Fail) && c.Advice == "" {
		t.Errorf("%s: a warning without advice", c.Name)
	}
}

func TestLimits(t *testing.T) {
	s := machine(t, map[string]string{
		"proc/self/cgroup":         "0::/\n",
		"sys/fs/cgroup/cpu.max":    "100000 100000\n",
		"sys/fs/cgroup/memory.max": "1073741824\n",
		"proc/meminfo":             "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable:    8192000 kB\n",
	})
	expect(t, s.cores(), Warn, "1 to use", "CPU limit")
	expect(t, s.memory(), Warn, "1.0 GiB for the job", "HostBytes")
	s = machine(t, map[string]string{"proc/meminfo": "MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\n"})
	expect(t, s.memory(), OK, "15.6 GiB for the job, 7.8 GiB free")
	expect(t, machine(t, nil).memory(), Note, "unknown")
}

func TestPagesAndBuild(t *testing.T) {
	s := machine(t, map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"})
	expect(t, s.pages(), Note, "never", "madvise")
	expect(t, machine(t, nil).pages(), OK, "no transparent huge pages")
	expect(t, s.build(), OK, "headrace 1.2.3", "libzstd")
	s.Zstd = "klauspost"
	expect(t, s.build(), Warn, "cgo")
}

// The package's version is asked of a Python; here of scripts that stand for it.
func TestPython(t *testing.T) {
	python := func(script string) Check {
		path := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it must run
			t.Fatal(err)
		}
		return System{Version: "1.2.3", Python: path}.python(context.Background())
	}
	expect(t, python("echo 1.2.3"), OK, "1.2.3")
	expect(t, python("echo 1.0.0"), Warn, "1.0.0", "which -a")
	expect(t, python("echo none"), Note, "not installed")
	expect(t, python("exit 3"), Note, "does not run")
}

func TestStorage(t *testing.T) {
	folder := t.TempDir()
	s := System{Path: folder}
	checks := s.storage(context.Background())
	if len(checks) != 2 || !strings.Contains(checks[1].Found, "64.0 MiB") {
		t.Errorf("a folder without files: %+v", checks)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	if err := os.WriteFile(filepath.Join(folder, "shard"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	checks = s.storage(context.Background())
	if len(checks) != 2 || !strings.Contains(checks[0].Found, "3.0 MiB") {
		t.Errorf("a folder with data: %+v", checks)
	}

	s.Path = filepath.Join(folder, "absent")
	expect(t, s.storage(context.Background())[0], Fail, "absent", "--path")
}

// Run must work anywhere and keep its order: scripts read the JSON by name.
func TestRunHere(t *testing.T) {
	var names []string
	for _, c := range Run(context.Background(), System{Root: "/", Version: "1.2.3", Zstd: "libzstd"}) {
		names = append(names, c.Name)
		if c.Found == "" || c.Status == Fail {
			t.Errorf("%+v", c)
		}
	}
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "cores memory open files build CPU pages io_uring GPU") {
		t.Errorf("checks: %s", got)
	}
}
