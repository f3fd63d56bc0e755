package launcher_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/internal/testport"
)

// golden is testdata/cases.json: what the real torchrun did (its "about" explains
// the fields), with headrace's intended differences under "ours".
type golden struct {
	Cases map[string]goldenCase `json:"cases"`
}

type goldenCase struct {
	Args          []string            `json:"args"`
	Agents        []goldenAgent       `json:"agents"`
	Env           map[string]string   `json:"env"`
	Exit          int                 `json:"exit"`
	EnvAll        map[string]string   `json:"env_all"`
	WorkersTotal  int                 `json:"workers_total"`
	Workers       []goldenWorker      `json:"workers"`
	Stdout        []string            `json:"stdout"`
	WorkerStderr  []string            `json:"worker_stderr"`
	Log           map[string]string   `json:"log"`
	Failures      []goldenFailure     `json:"failures"`
	Signal        string              `json:"signal"`
	WorkerSignals map[string][]string `json:"worker_signals"`
	Ours          struct {
		Exit *int     `json:"exit"`
		Argv []string `json:"argv"`
	} `json:"ours"`
}

type goldenAgent struct {
	Args         []string `json:"args"`
	Exit         int      `json:"exit"`
	WorkerStderr []string `json:"worker_stderr"`
}

type goldenWorker struct {
	Rank    int               `json:"rank"`
	Restart int               `json:"restart"`
	Group   int               `json:"group"`
	Argv    []string          `json:"argv"`
	Env     map[string]string `json:"env"`
}

type goldenFailure struct {
	Index     int    `json:"index"`
	Rank      int    `json:"rank"`
	LocalRank int    `json:"local_rank"`
	ExitCode  int    `json:"exitcode"`
	ErrorFile string `json:"error_file"`
}

// record is what testdata/worker_env.py writes.
type record struct {
	Argv   []string          `json:"argv"`
	Env    map[string]string `json:"env"`
	Leader bool              `json:"pid_is_session_leader"`
	Group  bool              `json:"pgid_is_pid"`
}

func goldenCases(t *testing.T) map[string]goldenCase {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g.Cases
}

// The environment, exit code, log tree, console and failure report are torchrun's,
// save for the differences that cases.json lists.
func TestTorchrun(t *testing.T) {
	python(t)
	cases := goldenCases(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			if reason := notHere(name); reason != "" {
				t.Skip(reason)
			}
			if len(c.Agents) > 0 {
				checkAgents(t, c)
				return
			}
			checkCase(t, name, c)
		})
	}
}

// notHere names what a case needs and a test machine may lack. Each is covered by
// another test, which says so.
func notHere(name string) string {
	switch name {
	case "nproc_gpu", "nproc_auto":
		return "needs the two GPUs of the capture host; TestCount counts given ones"
	}
	return ""
}

func python(t *testing.T) string {
	t.Helper()
	path, err := findPython()
	if err != nil {
		t.Skip("there is no python3 on this machine")
	}
	return path
}

func checkCase(t *testing.T, name string, c goldenCase) {
	f := newFolders(t)
	if name == "raise" {
		f.torch(t)
	}
	if name == "usr1" { // torchrun died of it; here each rank is told, and leaves
		c.WorkerSignals = map[string][]string{"0": {"SIGUSR1"}, "1": {"SIGUSR1"}}
	}
	// Two workers that write to the same console in parts mix their lines.
	f.changeWorker(t, `print("hello from", env.get("RANK"), flush=True); print("err from", env.get("RANK"), file=sys.stderr, flush=True)`,
		`os.write(1, f"hello from {env.get('RANK')}\n".encode()); os.write(2, f"err from {env.get('RANK')}\n".encode())`)
	if c.Signal != "" {
		checkSignal(t, f, c)
		return
	}
	if len(c.Failures) > 1 || name == "fail_first_restart" {
		const before = "def sig(n, f):"
		f.changeWorker(t, before, meet+before)
	}
	code, stdout, stderr := run(t, f.env(c.Env), f.args(c.Args)...)
	if name == "help" {
		stdout = ""
	}
	if want := c.exit(); code != want {
		t.Errorf("exit %d, want %d\n%s", code, want, stderr)
	}
	if name == "args_after_script" { // torchrun parses what follows the script; here it runs
		c.Workers, c.WorkersTotal = []goldenWorker{{Argv: c.Ours.Argv}}, 1
		f.checkRecords(t, 1)
		if got := f.record(t, "0-0-0"); !slices.Equal(got.Argv, c.Ours.Argv) {
			t.Errorf("arguments %q, want %q", got.Argv, c.Ours.Argv)
		}
		return
	}
	if c.Ours.Exit == nil || c.WorkersTotal > 0 {
		f.checkConsole(t, c, stdout, stderr)
	}
	total := c.WorkersTotal
	if name == "nproc_cpu" {
		total = runtime.NumCPU()
		c.EnvAll["LOCAL_WORLD_SIZE"] = strconv.Itoa(total)
		c.EnvAll["WORLD_SIZE"], c.EnvAll["ROLE_WORLD_SIZE"] = strconv.Itoa(total), strconv.Itoa(total)
		if total == 1 {
			delete(c.EnvAll, "OMP_NUM_THREADS")
		}
		c.Workers = slices.DeleteFunc(c.Workers, func(w goldenWorker) bool { return w.Rank >= total })
	}
	f.checkRecords(t, total)
	for _, w := range c.Workers {
		f.checkWorker(t, c, w)
	}
	f.checkLog(t, c)
	if name != "missing_script" { // no worker starts here, so there is nothing to report on
		checkFailures(t, c, f.placeholders("", stderr, ""))
	}
}

func (c goldenCase) exit() int {
	if c.Ours.Exit != nil {
		return *c.Ours.Exit
	}
	return c.Exit
}

// folders are the places that cases.json has names for.
type folders struct{ here, out, log, tmp, port, path string }

func newFolders(t *testing.T) *folders {
	t.Helper()
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	f := &folders{here: here, out: filepath.Join(root, "out"), log: filepath.Join(root, "log"), tmp: filepath.Join(root, "tmp"), port: freePort(t)}
	for _, dir := range []string{f.out, f.log, f.tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// freePort is one that the test has for itself. The cases' own fixed ports may be in use here;
// which one it is makes no difference to the rest.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testport.Free(t))
}

var fixedPort = regexp.MustCompile(`^29\d\d\d$`)

func (f *folders) args(args []string) []string {
	var list []string
	for _, a := range args {
		switch {
		case a == "<port>", fixedPort.MatchString(a):
			a = f.port
		case a == "<python>":
			a, _ = findPython()
		}
		a = strings.NewReplacer("HERE", f.here, "LOGDIR", f.log).Replace(a)
		list = append(list, a)
	}
	return list
}

func (f *folders) env(extra map[string]string) []string {
	env := []string{"CASE_OUT=" + f.out, "TMPDIR=" + f.tmp, "PYTHONPATH=" + f.here + ":" + f.path}
	for name, value := range extra {
		if fixedPort.MatchString(value) {
			value = f.port
		}
		env = append(env, name+"="+value)
	}
	return env
}

func (f *folders) record(t *testing.T, name string) record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.out, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *folders) checkRecords(t *testing.T, want int) {
	t.Helper()
	if files, _ := filepath.Glob(filepath.Join(f.out, "*.json")); len(files) != want {
		t.Errorf("%d workers ran, want %d", len(files), want)
	}
}

var (
	randomFolder = regexp.MustCompile(`_[a-z0-9_]{8}/`)
	uuidText     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
)

// placeholders writes a value as cases.json does.
func (f *folders) placeholders(name, value, want string) string {
	value = strings.NewReplacer(f.log, "LOGDIR", f.tmp, "<tmp>").Replace(value)
	value = uuidText.ReplaceAllString(value, "<uuid>")
	value = randomFolder.ReplaceAllString(value, "_<rand>/")
	if name == "MASTER_PORT" || name == "PET_MASTER_PORT" {
		if n, err := strconv.Atoi(value); want == "<port>" && err == nil && n > 1023 {
			return want
		}
		if value == f.port {
			return want // the case's own fixed port
		}
	}
	return value
}

// launchVariables are all that a case speaks of, or says to be absent.
func launchVariable(name string) bool {
	switch name {
	case "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME",
		"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TORCH_NCCL_ASYNC_ERROR_HANDLING":
		return true
	}
	return strings.HasPrefix(name, "TORCHELASTIC_") || strings.HasPrefix(name, "PET_")
}

func (f *folders) checkWorker(t *testing.T, c goldenCase, w goldenWorker) {
	t.Helper()
	r := f.record(t, fmt.Sprintf("%d-%d-%d", w.Rank, w.Restart, w.Group))
	want := maps.Clone(c.EnvAll)
	maps.Copy(want, w.Env)
	for name, value := range c.Env {
		if launchVariable(name) {
			want[name] = value
		}
	}
	want["TORCHELASTIC_USE_AGENT_STORE"] = "False" // rank 0 hosts torch's store
	for name, value := range want {
		got, ok := r.Env[name]
		if got = f.placeholders(name, got, value); !ok || got != value {
			t.Errorf("rank %d: %s is %q, want %q", w.Rank, name, got, value)
		}
	}
	for name, value := range r.Env {
		if _, ok := want[name]; !ok && launchVariable(name) {
			t.Errorf("rank %d: %s=%s, want it absent", w.Rank, name, value)
		}
	}
	if !slices.Equal(r.Argv, w.Argv) && len(r.Argv)+len(w.Argv) > 0 {
		t.Errorf("rank %d: arguments %q, want %q", w.Rank, r.Argv, w.Argv)
	}
	if !r.Leader || !r.Group {
		t.Errorf("rank %d leads no session or no process group", w.Rank)
	}
}

func (f *folders) checkConsole(t *testing.T, c goldenCase, stdout, stderr string) {
	t.Helper()
	if got := sortedLines(stdout); !slices.Equal(got, c.Stdout) && len(got)+len(c.Stdout) > 0 {
		t.Errorf("standard output %q, want %q", got, c.Stdout)
	}
	var got []string
	for _, line := range sortedLines(stderr) {
		if strings.Contains(line, "err from") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, c.WorkerStderr) && len(got)+len(c.WorkerStderr) > 0 {
		t.Errorf("workers' standard error %q, want %q", got, c.WorkerStderr)
	}
}

func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		return nil
	}
	slices.Sort(lines)
	return lines
}

func (f *folders) checkLog(t *testing.T, c goldenCase) {
	t.Helper()
	got := map[string]string{}
	_ = filepath.Walk(f.log, func(path string, info os.FileInfo, _ error) error {
		if info.Mode().IsRegular() {
			text, _ := os.ReadFile(path)
			got[f.placeholders("", strings.TrimPrefix(path, f.log+"/"), "")] = string(text)
		}
		return nil
	})
	if !maps.Equal(got, c.Log) {
		t.Errorf("log tree %v, want %v", got, c.Log)
	}
}

var failureRows = regexp.MustCompile(`\[(\d+)\]:\n  time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\n  host      : \S+\n  rank      : (\d+) \(local_rank: (\d+)\)\n  exitcode  : (-?\d+) \(pid: \d+\)\n  error_file: (\S+)\n  traceback : `)

func checkFailures(t *testing.T, c goldenCase, stderr string) {
	t.Helper()
	found := failureRows.FindAllStringSubmatch(stderr, -1)
	if len(found) != len(c.Failures) {
		t.Errorf("%d failures in the report, want %d\n%s", len(found), len(c.Failures), stderr)
		return
	}
	for _, want := range c.Failures {
		row := []string{strconv.Itoa(want.Index), strconv.Itoa(want.Rank), strconv.Itoa(want.LocalRank), strconv.Itoa(want.ExitCode), want.ErrorFile}
		if !slices.ContainsFunc(found, func(m []string) bool { return slices.Equal(m[1:], row) }) {
			t.Errorf("no failure %v in the report\n%s", row, stderr)
		}
	}
	if len(found) > 0 && !strings.Contains(stderr, "worker_env.py FAILED\n") {
		t.Error("the report does not name the script")
	}
	if len(found) > 0 && found[len(found)-1][1] != "0" {
		t.Error("the root cause is not the last row of the report")
	}
}

// changeWorker puts a changed copy of worker_env.py in its place.
func (f *folders) changeWorker(t *testing.T, old, changed string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.here, "worker_env.py"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("worker_env.py has not one %q", old)
	}
	f.here = t.TempDir()
	if err := os.WriteFile(filepath.Join(f.here, "worker_env.py"), []byte(strings.Replace(string(text), old, changed, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// torch puts a torch beside the worker that has the decorator alone, which writes
// the error file that torch's writes.
func (f *folders) torch(t *testing.T) {
	t.Helper()
	dir := filepath.Join(f.tmp, "torch", "distributed", "elastic", "multiprocessing")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const decorator = `
import json, os, time, traceback
def record(fn):
    def run():
        try:
            return fn()
        except Exception as e:
            doc = {"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
                json.dump(doc, f)
            raise
    return run
`
	if err := os.WriteFile(filepath.Join(dir, "errors.py"), []byte(decorator), 0o644); err != nil {
		t.Fatal(err)
	}
	f.path = f.tmp
}

// meet makes rank 1 wait for rank 0's first words: torchrun looks for deaths every
// 0.1 s, which gave rank 0 the time to say them; here it has none.
const meet = `if out: open(f"{out}/up-{name}", "w").close()
while out and r == 1 and not os.path.exists(f"{out}/up-0-{att}-0"): time.sleep(0.002)
`

// checkSignal sends the signal once both workers are up and have their handlers.
func checkSignal(t *testing.T, f *folders, c goldenCase) {
	// The worker says hello before it sets its handlers; the copy says when it has.
	f.changeWorker(t, "    t = time.time()\n", "    os.write(1, b'ready\\n'); t = time.time()\n")
	args := f.args(c.Args)
	if c.Env["MODE"] == "sig_ignore" { // torchrun's fixed 30 s are a flag's default here
		args = append([]string{"--shutdown-timeout", "1"}, args...)
	}
	j := start(t, f.env(c.Env), args...)
	for n := 0; n < 2; {
		if j.line() == "ready" {
			n++
		}
	}
	number := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP, "SIGUSR1": syscall.SIGUSR1}[c.Signal]
	j.send(number)
	code, _, stderr := j.wait()
	if want := c.exit(); code != want {
		t.Errorf("exit %d, want %d\n%s", code, want, stderr)
	}
	for rank, names := range c.WorkerSignals {
		text, err := os.ReadFile(filepath.Join(f.out, "sig-"+rank+"-0-0.txt"))
		if want := strconv.Itoa(int(number)) + "\n"; err != nil || string(text) != want || len(names) != 1 {
			t.Errorf("rank %s saw %q (%v), want %q", rank, text, err, want)
		}
	}
}

// checkAgents runs a case of several nodes on this host.
func checkAgents(t *testing.T, c goldenCase) {
	f := newFolders(t)
	var jobs []*job
	for _, a := range c.Agents {
		args := f.args(a.Args)
		for i := range args { // the endpoint's fixed port
			args[i] = regexp.MustCompile(`^localhost:29\d\d\d$`).ReplaceAllString(args[i], "localhost:"+f.port)
		}
		jobs = append(jobs, start(t, f.env(c.Env), args...))
	}
	for i, j := range jobs {
		if code, _, stderr := j.wait(); code != c.Agents[i].Exit {
			t.Errorf("agent %d: exit %d, want %d\n%s", i, code, c.Agents[i].Exit, stderr)
		}
	}
	f.checkRecords(t, len(c.Workers))
	for _, w := range c.Workers {
		f.checkWorker(t, c, w)
	}
}
