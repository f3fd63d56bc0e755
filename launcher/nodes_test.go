package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/internal/testwait"
)

// Rank 0 binds MASTER_PORT and the others reach it there, in every kind of job, in a
// second attempt too.
func TestRankZeroOwnsThePort(t *testing.T) {
	for _, flags := range [][]string{nil, {"--standalone"}, {"--master-port", freePort(t)}, {"--rdzv-backend", "c10d"}} {
		args := slices.Concat(flags, []string{"--max-restarts", "1"}, workers(3, "store", "first=1:3", "exit=0"))
		code, out, stderr := run(t, nil, args...)
		// In the first attempt rank 2 may be told to end before it has met rank 0.
		if n := strings.Count(out, "met\n"); code != 0 || n < 3 || n > 4 {
			t.Errorf("%q: exit %d, %q\n%s", flags, code, out, stderr)
		}
	}
	for _, backend := range []string{"static", "c10d"} {
		met := 0
		for i, j := range nodes(t, backend, [2][]string{}, "store", "exit=0") {
			code, out, stderr := j.wait()
			if met += strings.Count(out, "met\n"); code != 0 {
				t.Errorf("%s, node %d: exit %d, %q\n%s", backend, i, code, out, stderr)
			}
		}
		if met != 1 {
			t.Errorf("%s: %d ranks have met rank 0", backend, met)
		}
	}
}

// Nodes may have different numbers of workers: ranks follow one another, and
// OMP_NUM_THREADS is a node's own affair.
func TestUnevenNodes(t *testing.T) {
	port := freePort(t)
	node := func(rank string, n int) *job {
		return start(t, nil, append([]string{"--nnodes", "2", "--master-port", port, "--node-rank", rank}, workers(n, "env", "exit=0")...)...)
	}
	first, second := node("0", 1), node("1", 2)
	for _, c := range []struct {
		*job
		ranks, local, threads string
	}{{first, "0", "1", "(absent)"}, {second, "1 2", "2", "1"}} {
		code, out, stderr := c.wait()
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		var ranks []string
		for line := range strings.Lines(out) {
			ranks = append(ranks, variable(line, "RANK"))
			if variable(line, "WORLD_SIZE") != "3" || variable(line, "LOCAL_WORLD_SIZE") != c.local || variable(line, "OMP_NUM_THREADS") != c.threads || variable(line, "GROUP_WORLD_SIZE") != "2" {
				t.Errorf("a worker of %s: %s", c.ranks, line)
			}
		}
		if slices.Sort(ranks); strings.Join(ranks, " ") != c.ranks {
			t.Errorf("ranks %v, want %s", ranks, c.ranks)
		}
	}
}

// A node with another key is refused in one line, and nothing of its job runs.
func TestKeyMismatch(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	key := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("a key of the job: "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		return "HEADRACE_KEY_FILE=" + path
	}
	args := func(rank string) []string {
		return append([]string{"--nnodes", "2", "--master-port", port, "--node-rank", rank, "--rdzv-conf", "join_timeout=3"}, workers(1, "say=ran")...)
	}
	first := start(t, []string{key("a")}, args("0")...)
	second := start(t, []string{key("b")}, args("1")...)
	for i, j := range []*job{second, first} {
		code, out, stderr := j.wait()
		if code != 1 || out != "" || i == 0 && !strings.Contains(stderr, "key") {
			t.Errorf("exit %d, %q\n%s", code, out, stderr)
		}
	}
}

// A signal to one node's launcher stops the whole job, and every node has its code:
// while workers run, and while a node is awaited.
func TestSignalReachesAllNodes(t *testing.T) {
	for _, backend := range []string{"static", "c10d"} {
		for sent := range 2 {
			jobs := nodes(t, backend, [2][]string{}, "catch=2", "say=up", "told=0")
			jobs[0].line()
			jobs[1].line()
			jobs[sent].send(syscall.SIGINT)
			for i, j := range jobs {
				if code, out, stderr := j.wait(); code != 130 || !strings.HasSuffix(out, " 2\n") {
					t.Errorf("%s, node %d has the signal: node %d exits with %d, %q\n%s", backend, sent, i, code, out, stderr)
				}
			}
		}
	}
	port := freePort(t)
	var jobs []*job
	for _, rank := range []string{"0", "1"} {
		jobs = append(jobs, start(t, nil, append([]string{"--metrics-port", "0", "--nnodes", "3", "--master-addr", "127.0.0.1", "--master-port", port, "--node-rank", rank}, workers(1, "say=ran")...)...))
		waitForListener(t, port)
	}
	testwait.Until(t, "it catches signals", func() bool { return strings.Contains(jobs[1].errors(), "metrics at") })
	jobs[0].send(syscall.SIGTERM)
	for i, j := range jobs {
		// Node 1 may not have joined yet, and then finds nobody until it is told too.
		if i == 1 {
			_ = j.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
		code, out, stderr := j.wait()
		if i == 1 && code == -int(syscall.SIGTERM) {
			code = 143 // node 0 had told it, and the signal came when it caught none any more
		}
		if code != 143 || out != "" {
			t.Errorf("while a node is awaited: node %d exits with %d, %q\n%s", i, code, out, stderr)
		}
	}
}

// Whichever launcher is killed, the others end their workers, in bounded time.
func TestLauncherOfANodeKilled(t *testing.T) {
	for killed := range 2 {
		jobs := nodes(t, "static", [2][]string{}, "pid", "wait")
		var pids [2]int
		for i, j := range jobs {
			pids[i] = j.pids(1)[i]
		}
		if err := jobs[killed].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _, _ = jobs[killed].wait()
		if code, _, stderr := jobs[1-killed].wait(); code != 1 || !strings.Contains(stderr, "headrace: ") {
			t.Errorf("node %d was killed: the other exits with %d\n%s", killed, code, stderr)
		}
		gone(t, pids[0])
		gone(t, pids[1])
	}
}
