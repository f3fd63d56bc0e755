package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
)

// asProgram makes the test binary be headrace: the tests of signals and real
// streams start it again that way.
const asProgram = "HEADRACE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if text := os.Getenv(asRank); text != "" {
		os.Exit(rankProgram(text))
	}
	if os.Getenv(asWorld) == "probe" {
		os.Exit(probeWorld())
	}
	goleak.VerifyTestMain(m) // no command leaves a goroutine behind
}

// program is headrace as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// result is what a run of the command line gave.
type result struct {
	code           int
	stdout, stderr string
}

func headrace(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	r := result{code, stdout.String(), stderr.String()}
	if code == 0 && r.stderr != "" {
		t.Errorf("%v: success with %q on stderr", args, r.stderr)
	}
	if code != 0 && (!strings.HasPrefix(r.stderr, "headrace: ") || strings.Count(r.stderr, "\n") != 1) {
		t.Errorf("%v: an error is one line that begins with headrace: got %q", args, r.stderr)
	}
	return r
}

// must runs a command that has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	r := headrace(t, args...)
	if r.code != 0 {
		t.Fatalf("%v: exit %d: %s", args, r.code, r.stderr)
	}
	return r.stdout
}

// fails runs a command that has to fail with a code and a message of these words.
func fails(t *testing.T, code int, args []string, words ...string) {
	t.Helper()
	r := headrace(t, args...)
	if r.code != code {
		t.Errorf("%v: exit %d (%q), want %d", args, r.code, r.stderr, code)
	}
	for _, w := range words {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("%v: message %q does not say %q", args, r.stderr, w)
		}
	}
}

// parsed is a JSON object from stdout.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// hasKeys checks a promise to scripts.
func hasKeys(t *testing.T, object map[string]any, keys string) {
	t.Helper()
	for key := range strings.FieldsSeq(keys) {
		if _, ok := object[key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
}

// array writes one array and gives its path.
func array(t *testing.T, a dataset.Array, codecs string) string {
	t.Helper()
	if err := json.Unmarshal([]byte(codecs), &a.Codecs); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	a.Path, a.Entropy, a.Seed, a.Level = "x", 0.5, 42, 1
	if err := dataset.Write(context.Background(), root, []dataset.Array{a}, nil); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "x")
}

func volume() dataset.Array {
	return dataset.Array{Shape: []int64{13, 21, 34}, Chunk: []int64{4, 8, 16}, DType: nd.U16, Format: 3, Field: "lm"}
}

// files writes files below a folder.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A command line that makes no sense exits with 2 before anything is read or
// written, and says which command's help to look at.
func TestUsageErrors(t *testing.T) {
	empty := t.TempDir()
	t.Chdir(empty)
	for _, c := range []struct {
		args string
		word string
	}{
		{"frobnicate", `unknown command "frobnicate"`},
		{"inf", `did you mean "info"?`},
		{"--frob", "unknown flag: --frob"},
		{"simulate --seed 3", "unknown flag: --seed, did you mean --seeds?"},
		{"agent --contct x", "did you mean --contact?"},
		{"doctor --gossip 127.0.0.1", "host:port"},
		{"doctor --key-file k", "--gossip"},
		{"info", "URI is missing"},
		{"info a b", `"b" is one argument too many`},
		{"info a --level", "needs an argument"},
		{"read", "URI is missing"},
		{"read a", "-o is missing"},
		{"read a -o x --box 0:4,5", `"5" is not start:stop`},
		{"read a -o x --box 4:0", "stop 0 lies before start 4"},
		{"read a -o x --dtype f33", `unknown dtype "f33"`},
		{"read a -o x --pad wrap", "error, fill, edge or reflect"},
		{"read a -o x --axes 0,z", `"z" is not the number of an axis`},
		{"read a -o x --flip -1", "not the number of an axis"},
		{"read a -o - --json", "both want stdout"},
		{"read a -o x --pad-value many", "invalid argument"},
		{"gen", "SCENARIO.json is missing"},
		{"bench", "SCENARIO.json is missing"},
		{"bench s.json --batches 0", "--batches is 0"},
		{"bench s.json --workers -3", "--workers is -3"},
		{"doctor now", "too many"},
		{"help frobnicate", "no such command"},
		{"completion tcsh", `unknown command "tcsh"`},
		{"demo --crops 0", "--crops is 0"},
	} {
		fails(t, 2, strings.Fields(c.args), c.word, "--help`")
	}
	if made, _ := os.ReadDir(empty); len(made) > 0 {
		t.Errorf("files were made: %v", made)
	}
}

// A bad scenario is a bad config: exit 2 with every wrong key. A file that is not
// there is a failure of the work.
func TestScenarioErrors(t *testing.T) {
	root := files(t, map[string]string{
		"bad.json": `{"dataset": {"store_root": "d", "n_zarrs": 0}, "sampling": {"sample_shape": [1], "samples_per_batch": 0}, "pipeline": {}}`,
	})
	for _, command := range []string{"gen", "bench"} {
		fails(t, 2, []string{command, filepath.Join(root, "bad.json")}, "bad.json", "n_zarrs", "n_batches", "samples_per_batch")
		fails(t, 1, []string{command, filepath.Join(root, "absent.json")}, "no scenario file", "absent.json")
	}
}

func TestHelpAndVersion(t *testing.T) {
	if got := must(t, "--version"); got != "headrace "+version+"\n" {
		t.Errorf("--version prints %q", got)
	}
	help := must(t)
	for _, command := range []string{"info", "read", "gen", "bench", "doctor", "demo", "completion"} {
		if !strings.Contains(help, "\n  "+command+" ") {
			t.Errorf("the help does not list %s", command)
		}
		if text := must(t, command, "--help"); !strings.Contains(text, "Usage:") {
			t.Errorf("%s has no help", command)
		}
	}
	if must(t, "help", "read") != must(t, "read", "--help") {
		t.Error("help read is not the help of read")
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if text := must(t, "completion", shell); !strings.Contains(text, "headrace") {
			t.Errorf("no completion for %s", shell)
		}
	}
}

// The wheel carries this program and the Python package under one version.
func TestVersionIsThePackages(t *testing.T) {
	text, err := os.ReadFile("../../python/headrace/_version.py")
	if err != nil {
		t.Fatal(err)
	}
	if want := `__version__ = "` + version + `"`; !strings.Contains(string(text), want) {
		t.Errorf("python/headrace/_version.py has %q, this program %q", strings.TrimSpace(string(text)), version)
	}
}

// The scenarios that ship are what the tests of this file write small ones from.
func TestGenAndBench(t *testing.T) {
	root := files(t, map[string]string{"tiny.json": `{
		"dataset": {"store_root": "elsewhere", "n_zarrs": 2, "zarr_shape": [40,48,56], "chunk_shape": [8,16,16], "shard_shape": [16,32,32],
			"dtypes": ["u16","u8"], "codecs": ["zstd","blosc-lz4"], "clevel": 3, "entropy": 0.5, "seed": 42},
		"sampling": {"sample_shape": [12,20,24], "n_batches": 4, "n_warmup_batches": 1, "samples_per_batch": 4, "seed": 1234},
		"pipeline": {"dtype": "bf16", "lookahead_samples": 8, "n_io_threads": 2, "max_gpu_memory_mb": 512, "bypass_decode": 0}}`})
	tiny, data := filepath.Join(root, "tiny.json"), filepath.Join(root, "data")

	first := parsed(t, must(t, "gen", tiny, "--out", data, "--json"))
	if first["root"] != data || len(first["arrays"].([]any)) != 2 || first["bytes"] != float64(3*40*48*56) {
		t.Errorf("gen says %v", first)
	}
	before := tree(t, data)
	if !slices.Contains(before, "z001/scale0/image/zarr.json") {
		t.Errorf("gen made %v", before)
	}
	if text := must(t, "gen", tiny, "--out", data); !strings.Contains(text, "2 arrays") {
		t.Errorf("gen a second time: %q", text)
	}

	r := parsed(t, must(t, "bench", tiny, "--root", data, "--check", "--json", "--reuse", "batch", "--workers", "2", "--batches", "3"))
	hasKeys(t, r, "samples_per_s gb_per_s decoded_gb_per_s amplification hit_rates first_batch_ms host_bytes device_bytes stages check rss_bytes config decode_vs_bare end_to_end_vs_bare")
	config := r["config"].(map[string]any)
	if check := r["check"].(map[string]any); check["ok"] != true || check["samples"] != 12.0 || r["batches"] != 3.0 {
		t.Errorf("check %v of %v batches", check, r["batches"])
	}
	if config["reuse"] != "batch" || config["workers"] != 2.0 || config["dtype"] != "bf16" || config["readers"] != 2.0 {
		t.Errorf("config %v", config)
	}
	if text := must(t, "bench", tiny, "--root", data, "--batches", "1"); !strings.Contains(text, "samples/s") || !strings.Contains(text, "decode") {
		t.Errorf("bench prints\n%s", text)
	}

	fails(t, 2, []string{"bench", tiny, "--root", data, "--reuse", "sometimes"}, "sometimes", "window")
	fails(t, 2, []string{"bench", tiny, "--root", data, "--device", "gpu"}, "Device", "cuda:N")
	fails(t, 1, []string{"bench", tiny, "--root", data, "--device", "cuda:99"}, "device error") // no driver, or no such GPU
	fails(t, 2, []string{"bench", tiny, "--root", data, "--reader", "mmap"}, "Reader")
	fails(t, 1, []string{"bench", tiny, "--root", data, "--host-bytes", "1000"}, "HostBytes 1000 is too little")
	if after := tree(t, data); !slices.Equal(before, after) {
		t.Errorf("the data set changed:\n%v\n%v", before, after)
	}
}

// tree lists the files below a folder.
func tree(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(root, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestDoctor(t *testing.T) {
	r := parsed(t, must(t, "doctor", "--json", "--python", ""))
	checks := r["checks"].([]any)
	if r["version"] != version || len(checks) < 7 {
		t.Fatalf("doctor says %v", r)
	}
	for _, c := range checks {
		hasKeys(t, c.(map[string]any), "name status found")
	}
	if text := must(t, "doctor", "--python", ""); !strings.Contains(text, "GPU") || !strings.Contains(text, "cores") {
		t.Errorf("doctor prints\n%s", text)
	}
	r2 := headrace(t, "doctor", "--python", "", "--path", filepath.Join(t.TempDir(), "absent"))
	if r2.code != 1 || !strings.Contains(r2.stdout, "--path DIR") || !strings.Contains(r2.stderr, "absent") {
		t.Errorf("a path that is not there: %+v", r2)
	}
}

func TestDemo(t *testing.T) {
	t.Setenv(asProgram, "1") // the ranks are processes
	t.Setenv("RANK", "3")    // of another job, which does not count
	t.Setenv("WORLD_SIZE", "4")
	dir := filepath.Join(t.TempDir(), "demo")
	text := must(t, "demo", "--dir", dir, "--crops", "40")
	for _, w := range []string{"40 random crops of 5 arrays in 2 batches, each crop once", "\n2 ranks, ", "coverage digest ", "\n20 samples in 2 batches", "samples/s", "decode", "assemble", "headrace info " + dir} {
		if !strings.Contains(text, w) {
			t.Errorf("the demo does not say %q:\n%s", w, text)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	r := parsed(t, must(t, "demo", "--json", "--crops", "5", "--ranks", "3"))
	hasKeys(t, r, "arrays ranks digest exact samples batches bytes wall_s samples_per_s gb_per_s stages missing")
	if r["samples"] != 5.0 || r["missing"] != 0.0 || r["ranks"] != 3.0 || r["exact"] != true {
		t.Errorf("demo says %v", r)
	}
	if left := tree(t, os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("the temporary data were left behind: %v", left)
	}
}
