package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// files lists a log tree: paths within the run's folder, and their texts.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := glob(t, filepath.Join(dir, "*_*"))
	_ = filepath.Walk(root, func(path string, info os.FileInfo, _ error) error {
		if info.Mode().IsRegular() {
			text, _ := os.ReadFile(path)
			found[strings.TrimPrefix(path, root+"/")] = string(text)
		}
		return nil
	})
	return found
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s holds %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is there", name)
		}
	}
}

// A stream that is redirected is a file and nothing else; the others go to the
// console as they are. Ranks may have more digits than torchrun's pattern takes.
func TestRedirectsByRank(t *testing.T) {
	dir := t.TempDir()
	args := append([]string{"--redirects", "0:1,1:2,11:3", "--log-dir", dir}, workers(12, "say=out %r", "err=err %r", "exit=0")...)
	code, out, stderr := run(t, nil, args...)
	var wantOut, wantErr []string
	for _, r := range []string{"1", "10", "2", "3", "4", "5", "6", "7", "8", "9"} {
		wantOut = append(wantOut, "out "+r)
	}
	for _, r := range []string{"0", "10", "2", "3", "4", "5", "6", "7", "8", "9"} {
		wantErr = append(wantErr, "err "+r)
	}
	if code != 0 || !slices.Equal(sortedLines(out), wantOut) || !slices.Equal(errLines(stderr), wantErr) {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
	same(t, files(t, dir), map[string]string{
		"attempt_0/0/stdout.log": "out 0\n", "attempt_0/1/stderr.log": "err 1\n", "attempt_0/11/stdout.log": "out 11\n", "attempt_0/11/stderr.log": "err 11\n",
	})
}

func errLines(stderr string) (lines []string) {
	for _, line := range sortedLines(stderr) {
		if strings.Contains(line, "err ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The filter hides ranks on the console and in the duplicates, which hold the matching
// lines of teed streams with their prefixes; the ranks' own files have everything.
func TestFilters(t *testing.T) {
	dir := t.TempDir()
	args := append([]string{"--tee", "3", "--local-ranks-filter", "1,2", "--duplicate-stdout-filters", "key,,word,other", "--duplicate-stderr-filters", "never", "--log-dir", dir},
		workers(3, "say=a key,word of %r", "say=plain", "err=err %r", "exit=0")...)
	code, out, stderr := run(t, nil, args...)
	shown := []string{"[default1]:a key,word of 1", "[default1]:plain", "[default2]:a key,word of 2", "[default2]:plain"}
	if code != 0 || !slices.Equal(sortedLines(out), shown) || !slices.Equal(errLines(stderr), []string{"[default1]:err 1", "[default2]:err 2"}) {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
	got := files(t, dir)
	if lines := sortedLines(got["attempt_0/filtered_stdout.log"]); !slices.Equal(lines, []string{"[default1]:a key,word of 1", "[default2]:a key,word of 2"}) {
		t.Errorf("filtered %q", lines)
	}
	delete(got, "attempt_0/filtered_stdout.log")
	same(t, got, map[string]string{
		"attempt_0/filtered_stderr.log": "",
		"attempt_0/0/stdout.log":        "a key,word of 0\nplain\n", "attempt_0/1/stdout.log": "a key,word of 1\nplain\n", "attempt_0/2/stdout.log": "a key,word of 2\nplain\n",
		"attempt_0/0/stderr.log": "err 0\n", "attempt_0/1/stderr.log": "err 1\n", "attempt_0/2/stderr.log": "err 2\n",
	})
}

// As with torchrun, streams that are not teed are not duplicated, and the file is
// there and empty.
func TestDuplicatesOfTeedStreamsOnly(t *testing.T) {
	dir := t.TempDir()
	run(t, nil, append([]string{"-r", "3", "--duplicate-stdout-filters", "hello", "--log-dir", dir}, workers(1, "say=hello", "exit=0")...)...)
	same(t, files(t, dir), map[string]string{"attempt_0/filtered_stdout.log": "", "attempt_0/0/stdout.log": "hello\n", "attempt_0/0/stderr.log": ""})
}

// Each attempt has its own folder, and a restart is told.
func TestLogsOfAttempts(t *testing.T) {
	dir := t.TempDir()
	args := append([]string{"-r3", "--max-restarts=1", "--rdzv-id", "job/7", "--log-dir", dir}, workers(1, "say=started", "first=0:4", "exit=0")...)
	if code, _, stderr := run(t, nil, args...); code != 0 || strings.Count(stderr, "headrace: restart 1 of 1:") != 1 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	same(t, files(t, dir), map[string]string{
		"attempt_0/0/stdout.log": "started\n", "attempt_0/0/stderr.log": "", "attempt_1/0/stdout.log": "started\n", "attempt_1/0/stderr.log": "",
	})
	if name := filepath.Base(glob(t, filepath.Join(dir, "*"))); !strings.HasPrefix(name, "job_7_") {
		t.Errorf("the folder is %s", name)
	}
}

// The prefix is a template; the environment has its default.
func TestPrefixTemplate(t *testing.T) {
	template := "<${role_name}/${rank}/${local_rank}/${attempt}> "
	for _, how := range []struct{ env, args []string }{
		{nil, []string{"--log-line-prefix-template", template}},
		{[]string{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=" + template}, nil},
	} {
		args := slices.Concat(how.args, []string{"--tee", "1", "--role", "r"}, workers(1, "say=x", "exit=0"))
		if code, out, stderr := run(t, how.env, args...); code != 0 || out != "<r/0/0/0> x\n" {
			t.Errorf("exit %d, %q\n%s", code, out, stderr)
		}
	}
}

// Without a log tree there is no error file, and --tee shows what it would keep.
func TestNoLogTree(t *testing.T) {
	dir, env := tempFolder(t)
	args := append([]string{"--log-dir", "/dev/null", "--tee", "3"}, workers(1, "env", "exit=0")...)
	code, out, stderr := run(t, []string{env}, args...)
	if code != 0 || !strings.Contains(out, `"TORCHELASTIC_ERROR_FILE="`) || !strings.HasPrefix(out, "[default0]:[") {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The temporary tree goes with the job, unless it has what the user may want.
func TestTemporaryTree(t *testing.T) {
	for end, kept := range map[string]int{"exit=0": 0, "exit=1": 0, "errorfile=boom@5": 1} {
		dir, env := tempFolder(t)
		run(t, []string{env}, workers(1, end, "exit=1")...)
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != kept {
			t.Errorf("%s: %v are left, want %d", end, left, kept)
		}
	}
}

// A folder that cannot be written to is one line, and no worker runs.
func TestUnwritableLogDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := run(t, nil, append([]string{"--log-dir", filepath.Join(file, "log")}, workers(1, "say=ran")...)...)
	if code != 1 || out != "" || strings.Count(strings.TrimSpace(stderr), "\n") != 0 || !strings.Contains(stderr, file) {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// A console that nobody reads any more ends neither launcher nor workers, and the
// files are whole.
func TestConsoleClosed(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "go")
	j := start(t, nil, append([]string{"--tee", "1", "--log-dir", dir}, workers(1, "say=first", "wait="+fifo, "write=1048576", "say=last", "exit=0")...)...)
	j.line()
	j.closeOutput()
	if err := os.WriteFile(fifo, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := j.cmd.Wait()
	close(j.ended)
	if code := j.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d (%v)\n%s", code, err, j.errors())
	}
	text, err := os.ReadFile(glob(t, filepath.Join(dir, "none_*", "attempt_0", "0", "stdout.log")))
	if err != nil || !strings.HasSuffix(string(text), "last\n") || len(text) != 1048576+len("first\nlast\n") {
		t.Errorf("the file has %d bytes (%v)", len(text), err)
	}
}

// The root cause is the failure that an error file dates first, not the death that
// came first; its file is copied to the launcher's own, with the exit code.
func TestErrorFile(t *testing.T) {
	own := filepath.Join(t.TempDir(), "sub", "own.json")
	up := filepath.Join(t.TempDir(), "up")
	code, _, stderr := run(t, []string{"TORCHELASTIC_ERROR_FILE=" + own},
		workers(2, "rank=0,catch=15", "rank=0,errorfile=the first@1000", "rank=0,touch="+up, "wait="+up, "rank=1,errorfile=the second@1001", "exit=1:4", "told=7")...)
	if code != 7 || !strings.Contains(stderr, "stack of the first") || strings.Index(stderr, "stack of the first") < strings.Index(stderr, "stack of the second") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	text, err := os.ReadFile(own)
	if err != nil || !strings.Contains(string(text), `"errorCode":7`) || !strings.Contains(string(text), "stack of the first") {
		t.Errorf("own error file %s (%v)", text, err)
	}
}

// Signals in every phase: while nodes are awaited, in a restart, in the grace time.
func TestSignalPhases(t *testing.T) {
	port := freePort(t)
	j := start(t, nil, append([]string{"--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port, "--tee", "1"}, workers(1, "say=ran")...)...)
	waitForListener(t, port)
	j.send(syscall.SIGTERM)
	if code, out, stderr := j.wait(); code != 143 || out != "" {
		t.Errorf("in the rendezvous: exit %d, %q\n%s", code, out, stderr)
	}

	// Rank 1 fails, rank 0 takes its time to end: the signal comes in between.
	up := filepath.Join(t.TempDir(), "up")
	j = start(t, nil, append([]string{"--max-restarts", "3"}, workers(2, "rank=0,catch=15", "rank=0,touch="+up, "wait="+up, "exit=1:5", "told", "told=0")...)...)
	if got := j.line(); got != "told 0 15" {
		t.Fatal(got)
	}
	j.send(syscall.SIGTERM)
	if code, out, stderr := j.wait(); code != 143 || out != "told 0 15\n" {
		t.Errorf("in a restart: exit %d, %q\n%s", code, out, stderr)
	}

	// A worker that does not end is killed after the grace time, and the code stays.
	j = start(t, nil, append([]string{"--shutdown-timeout", "0.2"}, workers(1, "catch=15", "say=up", "told", "wait")...)...)
	j.line()
	j.send(syscall.SIGTERM)
	if code, _, stderr := j.wait(); code != 143 {
		t.Errorf("after the grace time: exit %d\n%s", code, stderr)
	}

	// A second Ctrl-C does not wait for the grace time.
	j = start(t, nil, workers(1, "catch=2", "say=up", "told", "wait")...)
	j.line()
	j.send(syscall.SIGINT)
	j.line()
	j.send(syscall.SIGINT)
	if code, _, stderr := j.wait(); code != 130 {
		t.Errorf("a second Ctrl-C: exit %d\n%s", code, stderr)
	}
}
