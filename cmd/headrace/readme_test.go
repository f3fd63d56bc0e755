package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
)

// block is a fenced block of the README and the mark above it, which says how it
// is tested.
type block struct{ mark, language, text string }

var (
	fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	marked = regexp.MustCompile(`<!-- test: (\w+) -->\s*$`)
	link   = regexp.MustCompile(`\]\(([^)#]+)\)`)
)

func readme(t *testing.T) (string, []block) {
	t.Helper()
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var blocks []block
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		b := block{language: text[at[2]:at[3]], text: text[at[4]:at[5]]}
		if m := marked.FindStringSubmatch(text[:at[0]]); m != nil {
			b.mark = m[1]
		}
		blocks = append(blocks, b)
	}
	return text, blocks
}

// Everything that the README shows is run: the python block by
// python/tests/test_readme.py against the wheel, all others here. What the first
// screen promises stands on the first screen.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the examples of the README take a quarter of a minute")
	}
	text, blocks := readme(t)
	var marks []string
	var lines string // that make a module of the user
	for _, b := range blocks {
		marks = append(marks, b.mark)
		switch b.mark {
		case "make":
			makeTargets(t, b.text)
		case "wheel":
			wheel(t, b.text)
		case "module":
			lines = b.text
		case "shell":
			shell(t, b.text)
		case "gpu":
			t.Run("gpu", func(t *testing.T) { onGPU(t, b.text) })
		case "go":
			goProgram(t, lines, b.text)
		case "python":
		default:
			t.Errorf("a block has no test (mark %q):\n%s", b.mark, b.text)
		}
	}
	for _, want := range []string{"make", "wheel", "module", "python", "go", "shell", "gpu"} {
		if !slices.Contains(marks, want) {
			t.Errorf("no block with the mark %s: %v", want, marks)
		}
	}
	first := strings.Join(strings.SplitAfter(text, "\n")[:24], "")
	for _, want := range []string{"make demo", "make test"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not on the first screen", want)
		}
	}
}

func TestReadmeLinks(t *testing.T) {
	text, _ := readme(t)
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
}

// makeTargets runs `make demo` and asks make about the others: some build for
// minutes, and `make test` runs this test.
func makeTargets(t *testing.T, text string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "make" {
			t.Errorf("not a call of make: %q", line)
			continue
		}
		args := []string{"-C", "../..", words[1]}
		if words[1] != "demo" {
			args = append(args, "-n")
		}
		out, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput()
		if err != nil {
			t.Errorf("make %s: %v\n%s", words[1], err, out)
		}
		if words[1] == "demo" && !strings.Contains(string(out), "each crop once") {
			t.Errorf("make demo says\n%s", out)
		}
	}
}

// wheel holds the lines against the Makefile, whose test-python target installs
// the wheel in this way.
func wheel(t *testing.T, text string) {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if text != "make wheel\npip install dist/*.whl numpy\n" || !regexp.MustCompile(`pip install .*dist/\*\.whl`).Match(makefile) {
		t.Errorf("the Makefile does not install the wheel like this:\n%s", text)
	}
}

// folder is a place that looks like the root of the repository to the examples;
// data go to a temporary folder.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bench, err := filepath.Abs("../../bench")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bench, filepath.Join(dir, "bench")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell runs the lines with this program as headrace.
func shell(t *testing.T, text string) {
	t.Helper()
	dir := folder(t)
	runLines(t, dir, text)
	for _, made := range []string{"data/crop.npy", "data/padded.npy", "data/smoke/z000/scale0/image/zarr.json"} {
		if _, err := os.Stat(filepath.Join(dir, made)); err != nil {
			t.Errorf("the examples did not make %s", made)
		}
	}
}

// onGPU runs the lines on this machine's GPU, and where there is none on the fake
// one, which the command finds as it would find a driver. It is skipped where that
// cannot be built, with the reason.
func onGPU(t *testing.T, text string) {
	t.Helper()
	if _, err := cuda.Load(""); err == nil {
		runLines(t, folder(t), text)
		return
	}
	library := cudatest.Library(t)
	runLines(t, smaller(t), text, "LD_LIBRARY_PATH="+filepath.Dir(library))
}

// smaller is folder with a quarter of the batches: a fake GPU decodes at a thousandth of
// the rate of a real one, and each batch takes the same path.
func smaller(t *testing.T) string {
	t.Helper()
	const scenario = "bench/scenarios/smoke.json"
	text, err := os.ReadFile(filepath.Join("../..", scenario))
	if err != nil {
		t.Fatal(err)
	}
	less := strings.NewReplacer(`"n_batches": 8`, `"n_batches": 2`, `"n_warmup_batches": 2`, `"n_warmup_batches": 1`).Replace(string(text))
	if less == string(text) {
		t.Fatalf("%s has other numbers of batches", scenario)
	}
	path := filepath.Join(t.TempDir(), scenario)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(less), 0o600)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(path, scenario)
}

// runLines runs each line in the folder, with this program as headrace.
func runLines(t *testing.T, dir, text string, env ...string) {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "headrace")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"))
		cmd.Env = append(cmd.Env, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s%v\n%s", line, err, out)
		}
	}
}

// goProgram builds the program as it is printed, in a module made by the lines
// for one, and runs it. A wrong path is a message, not a panic.
func goProgram(t *testing.T, lines, text string) {
	t.Helper()
	dir := folder(t)
	t.Setenv(asProgram, "1") // the demo starts this program as its ranks
	must(t, "demo", "--dir", filepath.Join(dir, "data/demo"), "--crops", "1")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "headrace")); err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(dir, "user")
	if err := os.Mkdir(user, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, "main.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// Vet would want facts of each package again, were it run in a module of the user.
	vet := exec.CommandContext(t.Context(), "go", "vet", filepath.Join(user, "main.go"))
	build := exec.CommandContext(t.Context(), "sh", "-ec", "go mod init example.org/user\n"+lines+"go build -o ../example .")
	build.Dir = user
	// The sums are those that go.sum holds; the test asks no one for them. Without paths in it,
	// what was built in the folder of one run serves the next, and the packages of make demo.
	build.Env = append(os.Environ(), "GOSUMDB=off", "GOFLAGS=-mod=mod -trimpath", "GOWORK=off")
	for _, cmd := range []*exec.Cmd{vet, build} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the Go example does not build: %v\n%s", err, out)
		}
	}
	run := func(in string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "example"))
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(dir)
	if n := strings.Count(out, "[8 32 64 64] 4194304\n"); err != nil || n != 125 {
		t.Errorf("the Go example gave %d batches of 8, want 125 (%v)\n%.2000s", n, err, out)
	}
	if out, err := run(user); err == nil || strings.Contains(out, "panic") || !strings.Contains(out, "not found") {
		t.Errorf("without the data the Go example says %q (%v)", out, err)
	}
}
