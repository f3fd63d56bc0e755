package launcher_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variable finds a value in what the word env wrote.
func variable(text, name string) string {
	m := regexp.MustCompile(`"` + name + `=([^"]*)"`).FindStringSubmatch(text)
	if m == nil {
		return "(absent)"
	}
	return m[1]
}

// Each worker has its GPU alone and calls it 0: by the parent's list, or by its index
// where that has none.
func TestVirtualLocalRank(t *testing.T) {
	for parent, want := range map[string][]string{"-": {"0", "1"}, "3,GPU-b": {"3", "GPU-b"}, "5": {"5", "1"}} {
		var env []string
		if parent != "-" {
			env = []string{"CUDA_VISIBLE_DEVICES=" + parent}
		}
		code, out, stderr := run(t, env, append([]string{"--virtual-local-rank"}, workers(2, "env", "exit=0")...)...)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		for line := range strings.Lines(out) {
			rank := variable(line, "RANK")
			if got := variable(line, "CUDA_VISIBLE_DEVICES"); got != want[rank[0]-'0'] || variable(line, "LOCAL_RANK") != "0" {
				t.Errorf("parent %s: rank %s sees %s, local rank %s", parent, rank, got, variable(line, "LOCAL_RANK"))
			}
		}
	}
}

// Ours adds variables; what torchrun's workers inherit is inherited, also where it is
// odd: an empty name, or no value.
func TestEnvironmentIsInherited(t *testing.T) {
	code, out, stderr := run(t, []string{"A=b=c", "EMPTY=", "RANK=77", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"}, append([]string{"--rdzv-id", "j"}, workers(1, "env", "exit=0")...)...)
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	for name, want := range map[string]string{
		"A": "b=c", "EMPTY": "", "RANK": "0", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "NODE_RANK": "0", "NNODES": "1", "GLOBAL_RANK": "0", "TORCHELASTIC_RUN_ID": "j",
		"HEADRACE_ENGINE": "(absent)", "HEADRACE_VIEW": "(absent)",
	} {
		if got := variable(out, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if strings.Count(out, `"RANK=`) != 1 {
		t.Error("a variable is there twice")
	}
}

// PYTHON_EXEC is the interpreter; --run-path wins over --no-python, and runs the
// script as a main program with its arguments.
func TestInterpreter(t *testing.T) {
	path := python(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "s.py")
	if err := os.WriteFile(script, []byte("import sys; print(__name__, *sys.argv[1:], sys.argv[0] == "+`"`+script+`"`+", flush=True)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := run(t, nil, "--run-path", "--no-python", script, "a", "--tee"); code != 0 || out != "__main__ a --tee True\n" {
		t.Errorf("--run-path: exit %d, %q\n%s", code, out, stderr)
	}
	wrapper := filepath.Join(dir, "wrapper")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\necho wrapped \"$1\"; exec "+path+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := run(t, []string{"PYTHON_EXEC=" + wrapper}, script); code != 0 || out != "wrapped -u\n__main__ True\n" {
		t.Errorf("PYTHON_EXEC: exit %d, %q\n%s", code, out, stderr)
	}
	if code, _, stderr := run(t, []string{"PYTHON_EXEC=/nonexistent"}, script); code != 127 || !strings.Contains(stderr, "/nonexistent") {
		t.Errorf("no interpreter: exit %d\n%s", code, stderr)
	}
}

// A program by PATH, as execvp finds it: the first that can be executed; 126 where
// there is one that cannot.
func TestProgramByPath(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for file, mode := range map[string]os.FileMode{filepath.Join(first, "p"): 0o644, filepath.Join(second, "p"): 0o755, filepath.Join(first, "q"): 0o644} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho $0\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + first + ":" + second + ":" + os.Getenv("PATH")
	if code, out, stderr := run(t, []string{path}, "--no-python", "p"); code != 0 || out != filepath.Join(second, "p")+"\n" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
	if code, _, _ := run(t, []string{path}, "--no-python", "q"); code != 126 {
		t.Errorf("exit %d", code)
	}
	// An executable that the kernel refuses is found out by starting it.
	odd := filepath.Join(second, "odd")
	if err := os.WriteFile(odd, []byte("\x7fELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, nil, "--no-python", odd); code != 126 || !strings.Contains(stderr, "start worker 0") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	// So is one whose interpreter is missing: the system's error does not say which file it means.
	if err := os.WriteFile(odd, []byte("#!/absent/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, nil, "--no-python", odd); code != 127 || !strings.Contains(stderr, "interpreter") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}

// --numa-binding binds before the program starts, and each worker differently where
// that was asked for.
func TestBinding(t *testing.T) {
	const show = `grep Cpus_allowed_list /proc/self/status`
	allowed := func(args ...string) []string {
		t.Helper()
		code, out, stderr := run(t, nil, append(args, "--no-python", "/bin/sh", "-c", show)...)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		return sortedLines(out)
	}
	free := allowed("--nproc-per-node", "1")
	if near := allowed("--nproc-per-node", "1", "--numa-binding", "node"); len(near) != 1 {
		t.Errorf("%q", near)
	}
	if strings.HasSuffix(free[0], "\t0") {
		t.Skip("this machine has one CPU to give to two workers")
	}
	two := allowed("--nproc-per-node", "2", "--numa-binding", "exclusive")
	if len(two) != 2 || two[0] == two[1] || slices.Contains(two, free[0]) {
		t.Errorf("exclusive: %q, free: %q", two, free)
	}
}
