package launcher_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher"
)

// The tests of this file are reports of users of other launchers, each with real
// processes. The comment has the situation.

// Script arguments that look like the beginning of a launcher's flag ended the job
// (pytorch 120601).
func TestScriptArgumentsAreTheScripts(t *testing.T) {
	args := append(workers(1, "say=ran"), "exit=0", "--r=16", "--mo", "0.9", "--nproc-per-node", "7", "--", "-h")
	if code, out, stderr := run(t, nil, args...); code != 0 || out != "ran\n" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// Slurm's notice before the time limit (USR1, USR2) killed the launcher, or was lost
// (pytorch 154849): it is passed on, and the job goes on. So are the other signals
// that a user may send.
func TestForwardedSignals(t *testing.T) {
	for _, n := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM} {
		number := strconv.Itoa(int(n))
		j := start(t, nil, workers(2, "catch="+number, "say=up", "told", "say=goes on", "exit=0")...)
		j.line()
		j.line()
		j.send(n)
		code, out, stderr := j.wait()
		want := []string{"goes on", "goes on", "told 0 " + number, "told 1 " + number}
		if got := sortedLines(out); code != 0 || !slices.Equal(got, want) {
			t.Errorf("%v: exit %d, %q\n%s", n, code, got, stderr)
		}
	}
}

// A notice is for the worker, not for its children: Python's data workers have no
// handler, and would die of it.
func TestNoticeSparesChildren(t *testing.T) {
	j := start(t, nil, workers(1, "catch=10", "child=pid,say=child,wait", "told", "say=still", "exit=0")...)
	child := j.pids(1)[0]
	if got := j.line(); got != "child" {
		t.Fatal(got)
	}
	j.send(syscall.SIGUSR1)
	if first, second := j.line(), j.line(); first != "told 0 10" || second != "still" {
		t.Errorf("%q, %q", first, second)
	}
	if code, _, stderr := j.wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	gone(t, child)
}

// A signal that --signals-to-handle does not list is passed on, even one that stops
// by default; one that it lists stops the job with 128+N.
func TestSignalsToHandle(t *testing.T) {
	args := append([]string{"--signals-to-handle", "SIGUSR1"}, workers(1, "catch=10,15", "say=up", "told", "told=0")...)
	j := start(t, nil, args...)
	j.line()
	j.send(syscall.SIGTERM)
	if got := j.line(); got != "told 0 15" {
		t.Fatal(got)
	}
	j.send(syscall.SIGUSR1)
	if code, out, stderr := j.wait(); code != 128+10 || out != "told 0 10\n" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// nohup: torchrun's own handler undid it.
func TestNohup(t *testing.T) {
	sh := append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "launch"}, workers(1, "catch=15", "say=up", "told=0")...)
	j := startProgram(t, nil, "/bin/sh", sh...)
	j.line()
	j.send(syscall.SIGHUP)
	j.send(syscall.SIGTERM)
	if code, out, stderr := j.wait(); code != 128+15 || out != "told 0 15\n" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// A name that cannot be looked up elsewhere was a silent hang (pytorch 150532), and
// one that is not there yet was fatal at once (pytorch 73682): it is tried until the
// join deadline, and then named in one line.
func TestUnresolvableMaster(t *testing.T) {
	began := time.Now()
	args := append([]string{"--nnodes", "2", "--node-rank", "1", "--master-addr", "no-such-host.invalid", "--rdzv-conf", "join_timeout=2"}, workers(1, "say=ran")...)
	code, out, stderr := run(t, nil, args...)
	if code != 1 || out != "" || !strings.Contains(stderr, "no-such-host.invalid") {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
	if d := time.Since(began); d < 2*time.Second || d > 12*time.Second {
		t.Errorf("gave up after %v, the join timeout is 2 s", d)
	}
}

// A job of one node has nobody to wait for.
func TestUnresolvableMasterAlone(t *testing.T) {
	code, out, stderr := run(t, nil, append([]string{"--master-addr", "no-such-host.invalid"}, workers(1, "say=ran")...)...)
	if code != 1 || out != "" || !strings.Contains(stderr, "no-such-host.invalid") || strings.Count(strings.TrimSpace(stderr), "\n") != 0 {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}

// nodes starts two launchers of one job on this host.
func nodes(t *testing.T, backend string, flags [2][]string, words ...string) [2]*job {
	t.Helper()
	port := freePort(t)
	var jobs [2]*job
	for i := range jobs {
		args := []string{"--nnodes", "2", "--master-port", port, "--node-rank", strconv.Itoa(i)}
		if backend == "c10d" {
			args = []string{"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:" + port, "--rdzv-id", "j" + port, "--rdzv-conf", "keep_alive_interval=1"}
		}
		jobs[i] = start(t, nil, slices.Concat(args, flags[i], workers(1, words...))...)
	}
	return jobs
}

// The rendezvous of a static job does nothing once it is over, so one rank failed
// and the other node's ran on (pytorch 146371): any failure reaches all nodes, and
// all exit with the root cause's code.
func TestFailureReachesAllNodes(t *testing.T) {
	for _, backend := range []string{"static", "c10d"} {
		jobs := nodes(t, backend, [2][]string{}, "exit=1:9", "wait")
		for i, j := range jobs {
			if code, _, stderr := j.wait(); code != 9 || !strings.Contains(stderr, "rank 1 ") {
				t.Errorf("%s: node %d exits with %d\n%s", backend, i, code, stderr)
			}
		}
	}
}

// A node was lost and the others waited for ever (pytorch 111646).
func TestLostNode(t *testing.T) {
	port := freePort(t)
	node := func() *job {
		flags := "--nnodes 1:2 --max-restarts 1 --rdzv-backend c10d --rdzv-id x --rdzv-conf keep_alive_interval=1,last_call_timeout=1 --rdzv-endpoint 127.0.0.1:" + port
		return start(t, nil, append(strings.Fields(flags), workers(1, "pid", "wait")...)...)
	}
	first := node()
	alone := first.pids(1)[0] // after the last call for others
	second := node()          // a member more: all start again
	gone(t, alone)
	both := first.pids(1)[0]
	other := second.pids(1)[1]
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = second.wait()
	gone(t, other) // its launcher was killed: the kernel ends it
	gone(t, both)
	again := first.pids(1)[0] // alone once more
	first.send(syscall.SIGTERM)
	if code, _, stderr := first.wait(); code != 143 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	gone(t, again)
}

// Nodes that left and came back got around --max-restarts (pytorch 147064): the
// budget is the job's. Both nodes count the same.
func TestRestartBudgetIsTheJobs(t *testing.T) {
	budget := []string{"--max-restarts", "2"}
	jobs := nodes(t, "static", [2][]string{budget, budget}, "env", "exit=0:6", "wait")
	for i, j := range jobs {
		code, out, stderr := j.wait()
		if code != 6 {
			t.Errorf("node %d exits with %d\n%s", i, code, stderr)
		}
		counts := regexp.MustCompile(`TORCHELASTIC_RESTART_COUNT=(\d)`).FindAllStringSubmatch(out, -1)
		// A worker of node 1 may be told to end before it has said anything.
		if len(counts) > 3 || i == 0 && len(counts) != 3 || !slices.IsSortedFunc(counts, func(a, b []string) int { return strings.Compare(a[1], b[1]) }) {
			t.Errorf("node %d has the restart counts %v", i, counts)
		}
	}
}

// --node-rank 0 got rank 1 (pytorch 182223, 150660): it is honoured whoever comes
// first.
func TestNodeRankIsHonoured(t *testing.T) {
	port := freePort(t)
	var jobs [2]*job
	for i := range jobs {
		rank := 1 - i
		jobs[rank] = start(t, nil, append([]string{"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:" + port, "--rdzv-id", "r" + port, "--node-rank", strconv.Itoa(rank)}, workers(1, "say=%r")...)...)
	}
	for rank, j := range jobs {
		if code, out, stderr := j.wait(); code != 0 || out != strconv.Itoa(rank)+"\n" {
			t.Errorf("node rank %d: exit %d, rank %q\n%s", rank, code, out, stderr)
		}
	}
}

// The threads that copied a worker's output stopped before its end, and the last
// lines were lost (pytorch 143823).
func TestLastLinesAreKept(t *testing.T) {
	dir := t.TempDir()
	args := append([]string{"--tee", "3", "--log-dir", dir}, workers(2, "write=1048576", "say=last of %r", "kill=0:9", "exit=1")...)
	code, out, _ := run(t, nil, args...)
	if code != 137 && code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, rank := range []string{"0", "1"} {
		file := glob(t, filepath.Join(dir, "none_*", "attempt_0", rank, "stdout.log"))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// A rank may be told to end while it writes; what it wrote is there, and one of
		// them has written all.
		shown := strings.Count(out, "[default"+rank+"]:")
		if lines := bytes.Count(text, []byte("\n")); lines != shown {
			t.Errorf("rank %s: %d lines in the file, %d on the console", rank, lines, shown)
		}
	}
	if !strings.Contains(out, "]:last of ") {
		t.Error("the last line of the first failure is missing")
	}
}

func glob(t *testing.T, pattern string) string {
	t.Helper()
	names, _ := filepath.Glob(pattern)
	if len(names) != 1 {
		t.Fatalf("%s: %d files", pattern, len(names))
	}
	return names[0]
}

// A worker that waits in the kernel wedged the launcher for ever (pytorch 185414): it
// is named, and the launcher ends. A process that the freezer of cgroup version 1
// holds does not see SIGKILL, as one in state D.
func TestUnkillableWorker(t *testing.T) {
	freezer := filepath.Join("/sys/fs/cgroup/freezer", "headrace-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(freezer, 0o755); err != nil {
		t.Skip("no freezer of cgroup version 1 that this user may write to: " + err.Error())
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(freezer, file), []byte(text), 0); err != nil {
			t.Skip("this freezer cannot be used: " + err.Error())
		}
	}
	j := start(t, []string{"TEST_BOUND=1"}, append([]string{"--shutdown-timeout", "0.1"}, workers(1, "pid", "wait")...)...)
	pid := j.pids(1)[0]
	write("cgroup.procs", strconv.Itoa(pid))
	write("freezer.state", "FROZEN")
	defer func() {
		write("freezer.state", "THAWED")
		gone(t, pid)
		for os.Remove(freezer) != nil && t.Context().Err() == nil {
			runtime.Gosched() // until the kernel has let go of the process
		}
	}()
	j.send(syscall.SIGTERM)
	j.cmd.WaitDelay = 100 * time.Millisecond
	err := j.cmd.Wait() // the frozen worker holds the pipe of standard output
	close(j.ended)
	if code := j.cmd.ProcessState.ExitCode(); code != 143 || !strings.Contains(j.errors(), strconv.Itoa(pid)) {
		t.Errorf("exit %d (%v)\n%s", code, err, j.errors())
	}
}

// Grandchildren, such as 126 data workers, kept the GPUs (pytorch 113231): all
// descendants end, those with a session of their own too, however the job ends.
func TestTreesEnd(t *testing.T) {
	for name, end := range map[string]string{"success": "exit=0", "failure": "exit=3", "crash": "kill=0:11", "signal": "wait"} {
		dir := t.TempDir()
		up := func(s string) string { return filepath.Join(dir, s) }
		j := start(t, nil, workers(1, "child=pid,child=pid+touch="+up("a")+"+wait,wait", "childsid=catch=15,pid,touch="+up("b")+",wait",
			"wait="+up("a"), "wait="+up("b"), "pid", end)...)
		var pids []int
		for len(pids) < 4 {
			var rank, pid int
			if _, err := fmt.Sscanf(j.line(), "pid %d %d", &rank, &pid); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		if end == "wait" {
			j.send(syscall.SIGTERM)
		}
		_, _, _ = j.wait()
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil {
				t.Errorf("%s: process %d outlived the launcher", name, pid)
				gone(t, pid)
			}
		}
	}
}

// Two jobs on one host met at port 29500 (pytorch 126510, ROCm/iris 458): without a
// port of its own the second one takes another.
func TestTwoJobsOnOneHost(t *testing.T) {
	ports := map[string]bool{}
	for range 3 {
		j := start(t, nil, workers(1, "env", "catch=15", "say=up", "told=0")...)
		env := j.line()
		j.line()
		defer func() {
			j.send(syscall.SIGTERM)
			_, _, _ = j.wait()
		}()
		ports[regexp.MustCompile(`MASTER_PORT=\d+`).FindString(env)] = true
	}
	if len(ports) != 3 {
		t.Errorf("three jobs have the ports %v", ports)
	}
}

// An explicit port that is taken is refused with the pid of who has it: another job's
// launcher, or any process that listens.
func TestPortIsTaken(t *testing.T) {
	port := freePort(t)
	first := start(t, nil, append([]string{"--master-port", port}, workers(1, "catch=15", "say=up", "told=0")...)...)
	first.line()
	code, _, stderr := run(t, nil, append([]string{"--master-port", port}, workers(1, "say=ran")...)...)
	if code != 1 || !strings.Contains(stderr, strconv.Itoa(first.cmd.Process.Pid)) {
		t.Errorf("a job's port: exit %d\n%s", code, stderr)
	}
	first.send(syscall.SIGTERM)
	_, _, _ = first.wait()

	l, port := listenSomewhere(t)
	defer l.Close() //nolint:errcheck // it was never used
	code, _, stderr = run(t, nil, append([]string{"--master-port", port}, workers(1, "say=ran")...)...)
	if code != 1 || !strings.Contains(stderr, strconv.Itoa(os.Getpid())) {
		t.Errorf("a listener's port: exit %d\n%s", code, stderr)
	}
}

// PR_SET_PDEATHSIG fires when the thread that started the child ends, and Go ends
// threads (golang/go 27505): workers outlive the threads of their launcher.
func TestWorkersOutliveThreads(t *testing.T) {
	spec := inProcess(t, workers(1, "pid", "wait")...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	spec.Stdout = w
	ctx, stop := cancelled(t)
	done := make(chan launcher.Result)
	go func() {
		runtime.LockOSThread() // and never unlocks: its thread ends with it
		result, _ := launcher.Run(ctx, spec)
		done <- result
	}()
	var rank, pid int
	if _, err := fmt.Fscanf(r, "pid %d %d\n", &rank, &pid); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(ended)
		}()
		<-ended
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // a descriptor of ours
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200); n != 0 {
		t.Error("the worker ended with a thread")
	}
	stop()
	if result := <-done; result.Code != 143 {
		t.Errorf("exit code %d", result.Code)
	}
	gone(t, pid)
	_ = w.Close()
	_ = r.Close()
}

// torchrun's workers were orphans once it was killed: they led sessions of their own
// and heard of nothing.
func TestLauncherKilled(t *testing.T) {
	j := start(t, nil, workers(3, "catch=15", "pid", "wait")...)
	pids := j.pids(3)
	if err := j.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = j.wait()
	for _, pid := range pids {
		gone(t, pid)
	}
}

// The signals of Go's runtime, and of pipes, are nobody's message: they reach no
// worker and end nothing.
func TestRuntimeSignals(t *testing.T) {
	j := start(t, nil, workers(1, "catch=10,13,17,23", "say=up", "told", "exit=0")...)
	j.line()
	for _, n := range []syscall.Signal{syscall.SIGURG, syscall.SIGCHLD, syscall.SIGPIPE} {
		j.send(n)
	}
	j.send(syscall.SIGUSR1) // comes after them
	if code, out, stderr := j.wait(); code != 0 || out != "told 0 10\n" {
		t.Errorf("exit %d, %q\n%s", code, out, stderr)
	}
}
