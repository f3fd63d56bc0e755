package launcher_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/internal/testwait"
)

// engineScript is a program that is started in place of the engine.
func engineScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return "TEST_PROGRAM=" + path
}

// until waits for a file, and returns what is in it.
func until(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	testwait.Until(t, path+" is written", func() (there bool) {
		text, _ = os.ReadFile(path)
		return strings.HasSuffix(string(text), "\n")
	})
	return strings.TrimSpace(string(text))
}

// Engines that take their time: a notice changes nothing, a stop is a stop, and no
// worker has run.
func TestStopWhileEnginesStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	program := engineScript(t, "trap '' USR1; echo $$ > "+file+"; exec sleep 1000")
	j := start(t, []string{program}, append([]string{"--companion"}, workers(2, "say=ran")...)...)
	pid, err := strconv.Atoi(until(t, file))
	if err != nil {
		t.Fatal(err)
	}
	j.send(syscall.SIGUSR1)
	j.send(syscall.SIGTERM)
	if code, out, stderr := j.wait(); code != 143 || out != "" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("engine %d outlived the launcher", pid)
		gone(t, pid)
	}
}

// An engine that cannot start is one line, and no worker runs.
func TestEngineThatCannotStart(t *testing.T) {
	code, out, stderr := run(t, []string{engineScript(t, "exit 1"), "OMP_NUM_THREADS=1"}, append([]string{"--companion"}, workers(2, "say=ran")...)...)
	if code != 1 || out != "" || !strings.Contains(stderr, "an engine of --companion did not start") {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// An engine stays over a restart of its worker, whose next life finds it warm.
func TestEngineStaysOverRestarts(t *testing.T) {
	dir := t.TempDir()
	program := engineScript(t, "echo started >> "+filepath.Join(dir, "log")+"; echo ready; exec sleep 1000")
	code, out, stderr := run(t, []string{program}, append([]string{"--companion", "--max-restarts", "1"}, workers(1, "env", "first=0:3", "exit=0")...)...)
	if code != 0 || strings.Count(out, "HEADRACE_ENGINE=") != 2 {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(text) != "started\n" {
		t.Errorf("the engine's starts: %q (%v)", text, err)
	}
}
