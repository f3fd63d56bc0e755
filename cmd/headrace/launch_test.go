package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/testwait"
)

// launched runs headrace launch as a process of its own.
func launched(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := program(t, append([]string{"launch"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code := exitCode(cmd.Run())
	return result{code, stdout.String(), stderr.String()}
}

// The exit codes of the table in docs/launch.md, each with one line that says why.
func TestLaunchExitCodes(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		why  string
		args []string
	}{
		{0, "", []string{"--no-python", "true"}},
		{7, "rank 0 (local rank 0, pid ", []string{"--no-python", "sh", "-c", "exit 7"}},
		{128 + 11, "was killed by signal 11 (SIGSEGV)", []string{"--no-python", "sh", "-c", "kill -11 $$"}},
		{2, "unknown flag --nope", []string{"--nope", "true"}},
		{2, "--nproc-per-node is \"many\"", []string{"--nproc-per-node", "many", "true"}},
		{2, "the script is missing", []string{"--nproc-per-node", "2"}},
		{127, "there is no program", []string{"--no-python", filepath.Join(dir, "absent")}},
		{127, "there is no program absent-program on PATH", []string{"--no-python", "absent-program"}},
		{127, "there is no script", []string{filepath.Join(dir, "absent.py")}},
		{126, "is not executable", []string{"--no-python", plain}},
		{126, "is a folder", []string{"--no-python", dir}},
		{1, "log folder", []string{"--log-dir", filepath.Join(plain, "log"), "--no-python", "true"}},
		{1, "HEADRACE_KEY_FILE: open", []string{"--nnodes", "2", "--no-python", "true"}},
		{1, "--key-file: open", []string{"--key-file", filepath.Join(dir, "no-key"), "--no-python", "true"}},
		{2, "--key-file: the key in", []string{"--key-file", plain, "--live", "--no-python", "true"}},
	} {
		t.Setenv("HEADRACE_KEY_FILE", "")
		if strings.HasPrefix(c.why, "HEADRACE_KEY_FILE") {
			t.Setenv("HEADRACE_KEY_FILE", filepath.Join(dir, "no-key"))
		}
		r := launched(t, c.args...)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		if r.code != c.code || !strings.Contains(lines[len(lines)-1], c.why) || r.stdout != "" {
			t.Errorf("%q: exit %d, want %d, stderr %q", c.args, r.code, c.code, r.stderr)
		}
		if c.why != "" && !strings.HasPrefix(lines[len(lines)-1], "headrace: ") {
			t.Errorf("%q: the last line is %q", c.args, lines[len(lines)-1])
		}
	}
}

// Help, version and completion need no job; cobra's own completion knows the flags,
// and leaves the script's words to the shell.
func TestLaunchShows(t *testing.T) {
	for _, args := range [][]string{{"launch", "--help"}, {"launch", "-h"}, {"help", "launch"}} {
		if r := headrace(t, args...); r.code != 0 || !strings.Contains(r.stdout, "--nproc-per-node") || !strings.Contains(r.stdout, "--companion") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := headrace(t, "launch", "--version"); r.stdout != "headrace "+version+"\n" {
		t.Errorf("%+v", r)
	}
	if r := headrace(t, "launch", "--print-completion", "bash"); !strings.Contains(r.stdout, "--max-restarts") {
		t.Errorf("%+v", r)
	}
	for want, args := range map[string][]string{
		"--max-restarts\n:4\n": {"__complete", "launch", "--max"},
		":0\n":                 {"__complete", "launch", "--tee", "3", "train.py", "--max"},
		"fast\n:4\n":           {"__complete", "launch", "--live", "--live-profile", "f"},
		"c10d\n:4\n":           {"__complete", "launch", "--rdzv_backend=c"},
		"socket\n:4\n":         {"__complete", "launch", "--numa-binding", "s"},
	} {
		var stdout strings.Builder
		if code := run(t.Context(), args, &stdout, io.Discard); code != 0 || stdout.String() != want {
			t.Errorf("%q: exit %d, %q, want %q", args, code, stdout.String(), want)
		}
	}
}

// A stop while the command still starts is a stop, with the signal's code.
func TestLaunchSignals(t *testing.T) {
	for _, n := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := program(t, "launch", "--nproc-per-node", "2", "--no-python", "sh", "-c", `trap "echo told; exit 0" INT TERM; echo up; while :; do sleep 0.01; done`)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(pipe)
		for range 2 {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Signal(n); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil || string(rest) != "told\ntold\n" {
			t.Errorf("%v: %q (%v)", n, rest, err)
		}
		if code := exitCode(cmd.Wait()); code != 128+int(n) {
			t.Errorf("%v: exit %d", n, code)
		}
	}
}

// --companion: an engine a rank listens before its worker starts, is started again
// when it dies, and ends with the job.
func TestLaunchCompanion(t *testing.T) {
	cmd := program(t, "launch", "--companion", "--nproc-per-node", "2", "--no-python", "sh", "-c", `test -S "$HEADRACE_ENGINE" && echo "$HEADRACE_ENGINE"; exec sleep 1000`)
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	var sockets []string
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, strings.TrimSpace(line))
	}
	if slices.Sort(sockets); sockets[0] == sockets[1] {
		t.Errorf("two ranks have the engine %s", sockets[0])
	}
	first := engineAt(t, sockets[0])
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := first
	testwait.Until(t, "another engine", func() bool {
		second = engineAt(t, sockets[0])
		return second != first
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 143 || !strings.Contains(stderr.String(), fmt.Sprintf("pid %d) ended: it is started again", first)) {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
	if err := syscall.Kill(second, 0); err == nil {
		t.Errorf("engine %d outlived the job", second)
		_ = syscall.Kill(second, syscall.SIGKILL)
	}
	if _, err := os.Stat(filepath.Dir(sockets[0])); err == nil {
		t.Errorf("%s is left", filepath.Dir(sockets[0]))
	}
}

// engineAt is the pid of who listens at a socket, once somebody does.
func engineAt(t *testing.T, socket string) int {
	t.Helper()
	var conn net.Conn
	testwait.Until(t, "an engine is at "+socket, func() bool {
		var err error
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	defer conn.Close() //nolint:errcheck // nothing was written
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var who *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return int(who.Pid)
}
