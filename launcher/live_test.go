package launcher_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/testwait"
)

// Live jobs of real launchers and workers on loopback. Those that are named long run where
// SOAK is set (make soak).

func long(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("a long one: SOAK is not set")
	}
}

func (l *live) kill(pid int) {
	l.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) killWorker(name string) {
	l.t.Helper()
	l.mu.Lock()
	pid := l.workers[name].pid
	l.mu.Unlock()
	l.kill(pid)
}

// A worker that is killed is started again alone; the others go on, and each position is
// done once.
func TestLiveWorkerKilled(t *testing.T) {
	l := newLive(t)
	logs := t.TempDir()
	l.startAll(3, "--nnodes", "3", "--max-restarts", "1", "--log-dir", logs, "--redirects", "1")
	l.killWorker("1.0.0")
	l.until("the worker is there again", l.working("1.0.1"))
	l.release()
	for node := range 3 {
		said := []string{"view "}
		if node == 1 {
			said = append(said, "was killed by signal 9 (SIGKILL): it is started again in 100ms, restart 1 of 1 of this node")
		}
		l.ends(node, 0, said...)
	}
	l.exact(6)
	if dirs, _ := filepath.Glob(logs + "/*/attempt_1/*"); len(dirs) != 1 || filepath.Base(dirs[0]) != "0" {
		t.Errorf("folders of second attempts: %v", dirs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.workers) != 7 {
		t.Errorf("there were %d processes: %s", len(l.workers), l.list())
	}
	if a := l.workers["1.0.1"]; a.view == "0" || a.rank != l.workers["1.0.0"].rank {
		t.Errorf("the second process has begun in view %s, rank %s", a.view, a.rank)
	}
}

// Whichever launcher is killed, the one of the rendezvous too, the survivors do the rest.
func TestLiveLauncherKilled(t *testing.T) {
	for name, killed := range map[string]int{"rendezvous": 0, "other": 2} {
		t.Run(name, func(t *testing.T) {
			if killed != 0 {
				long(t)
			}
			l := newLive(t)
			l.startAll(3, "--nnodes", "2:3")
			l.kill(l.nodes[killed].cmd.Process.Pid)
			_, _, _ = l.nodes[killed].wait()
			for node := range 3 {
				if node != killed {
					l.says(node, "(its launcher was lost)")
				}
			}
			l.release()
			for node := range 3 {
				if node != killed {
					l.ends(node, 0)
				}
			}
			l.exact(4)
		})
	}
}

// Two nodes without a third agent: the loss of the one that decides is a safe stop, with
// its reason and a code of its own. With a witness the other goes on.
func TestLiveTwoNodes(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		l := newLive(t)
		l.startAll(2, "--nnodes", "1:2", "--live-timeout", "10", "--metrics-port", "0")
		l.kill(l.nodes[0].cmd.Process.Pid)
		_, _, _ = l.nodes[0].wait()
		l.says(1, "a majority of the 1 voter does not answer")
		if status, text := l.ready(1); status != http.StatusServiceUnavailable || !strings.Contains(text, "a majority of the 1 voter does not answer") {
			t.Errorf("/readyz: %d, %s", status, text)
		}
		l.ends(1, 75, "stopped safely after 10s", "witness")
		if l.mu.Lock(); len(l.over) > 0 {
			t.Errorf("workers have seen the end: %v", l.over)
		}
		l.mu.Unlock()
	})
	t.Run("witness", func(t *testing.T) {
		long(t)
		l := newLive(t)
		l.startAll(2, "--nnodes", "1:2")
		_, at, _ := strings.Cut(l.nodes[0].errors(), "the agent of this node is at ")
		at, _, _ = strings.Cut(at, "\n")
		key, err := os.ReadFile(l.key)
		if err != nil {
			t.Fatal(err)
		}
		w, err := agent.Open(agent.Config{Job: "live", Name: "witness", Contacts: []string{at}, Witness: true, Key: key, Profile: "fast"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close() //nolint:errcheck // it holds nothing
		l.says(1, "3 agents decide")
		l.kill(l.nodes[0].cmd.Process.Pid)
		_, _, _ = l.nodes[0].wait()
		l.says(1, "(its launcher was lost)")
		l.release()
		l.ends(1, 0)
		l.exact(2)
	})
}

// A node comes when the job has begun, by the rendezvous; by an agent where that is gone.
func TestLiveNodeComesLater(t *testing.T) {
	l := newLive(t)
	l.startAll(2, "--nnodes", "1:3")
	l.start("--nnodes", "1:3")
	l.until("the third node works", l.working("2.0.0", "2.1.0"))
	l.says(0, "nobody is at 127.0.0.1:"+l.port+": this node begins the job")
	l.says(0, "6 ranks on 3 nodes")
	l.release()
	for node := range 3 {
		l.ends(node, 0)
	}
	l.exact(6)
}

func TestLiveNodeComesByAnAgent(t *testing.T) {
	long(t)
	l := newLive(t)
	l.startAll(3, "--nnodes", "1:3")
	_, at, _ := strings.Cut(l.nodes[1].errors(), "the agent of this node is at ")
	at, _, _ = strings.Cut(at, "\n")
	l.start("--nnodes", "1:3", "--live-contact", at)
	l.ends(3, 1, "the job has 3 nodes, and takes no more")
	l.kill(l.nodes[0].cmd.Process.Pid)
	_, _, _ = l.nodes[0].wait()
	l.says(1, "(its launcher was lost)")
	l.start("--nnodes", "1:3", "--live-contact", at)
	l.until("the new node works", l.working("4.0.0", "4.1.0"))
	l.release()
	for _, node := range []int{1, 2, 4} {
		l.ends(node, 0)
	}
	l.exact(6)
}

// A launcher that stands still is left behind. When it goes on it finds its way back, and its
// workers are ranks of the job again.
func TestLiveLauncherStopped(t *testing.T) {
	long(t)
	l := newLive(t)
	l.startAll(3, "--nnodes", "1:3")
	l.nodes[2].send(syscall.SIGSTOP)
	l.says(0, "(its launcher was lost)")
	l.nodes[2].send(syscall.SIGCONT)
	l.says(2, "left: ") // it was told that it is out, by a view
	l.release()
	for node := range 3 {
		l.ends(node, 0)
	}
	l.exact(6)
}

// With the budget spent the others do the rest, while MIN nodes have ranks. The node's own
// code is that of its first failure.
func TestLiveBudgetSpent(t *testing.T) {
	t.Run("enough", func(t *testing.T) {
		long(t)
		l := newLive(t)
		l.startAll(3, "--nnodes", "2:3")
		l.killWorker("2.0.0")
		l.says(2, "and is not started again: --max-restarts 0 of this node are used up")
		l.killWorker("2.1.0")
		l.says(0, "4 ranks on 2 nodes, 1 without ranks")
		l.release()
		for node := range 3 {
			l.ends(node, []int{0, 0, 137}[node])
		}
		l.exact(4)
	})
	t.Run("too few", func(t *testing.T) {
		l := newLive(t)
		l.startAll(2, "--nnodes", "2")
		l.killWorker("1.0.0")
		l.killWorker("1.1.0")
		for node := range 2 {
			l.ends(node, 137, "was killed by signal 9")
		}
	})
}

// Ctrl-C on one node stops the job on all; SIGTERM takes that node out.
func TestLiveSignals(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		l := newLive(t)
		l.startAll(3, "--nnodes", "3")
		l.nodes[1].send(syscall.SIGINT)
		for node := range 3 {
			l.ends(node, 130)
		}
	})
	t.Run("without the rendezvous", func(t *testing.T) {
		long(t)
		l := newLive(t)
		l.startAll(3, "--nnodes", "1:3")
		l.kill(l.nodes[0].cmd.Process.Pid)
		_, _, _ = l.nodes[0].wait()
		l.says(1, "(its launcher was lost)")
		l.nodes[1].send(syscall.SIGINT)
		l.ends(1, 130)
		l.ends(2, 130)
	})
	t.Run("leave", func(t *testing.T) {
		long(t)
		l := newLive(t)
		l.startAll(3, "--nnodes", "1:3")
		l.nodes[0].send(syscall.SIGTERM)
		l.ends(0, 143)
		l.says(1, "(it was told to end)")
		l.release()
		l.ends(1, 0)
		l.ends(2, 0)
		l.exact(4)
	})
}

// ready asks a node's /readyz.
func (l *live) ready(node int) (status int, text string) { return l.page(node, "/readyz") }

// page asks the port of a node's --metrics-port.
func (l *live) page(node int, path string) (status int, text string) {
	l.t.Helper()
	_, at, _ := strings.Cut(l.nodes[node].errors(), "metrics at ")
	at, _, _ = strings.Cut(at, "/metrics")
	r, err := http.Get(at + path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// A job of one node needs no rendezvous, and nobody else. What a worker that was killed has
// left behind is gone before another takes its place.
func TestLiveOneNode(t *testing.T) {
	l := newLive(t)
	j := start(t, []string{"TEST_NODE=0"}, append([]string{"--live", "--live-profile", "fast", "--max-restarts", "1", "--metrics-port", "0"}, workers(2, "child=pid,wait", "live="+l.l.Addr().String())...)...)
	l.nodes = append(l.nodes, j)
	children := j.pids(2)
	l.until("both work", l.working("0.0.0", "0.1.0"))
	l.killWorker("0.1.0")
	gone(t, children[1])
	l.until("the worker is there again", l.working("0.1.1"))
	l.shows(0)
	if err := syscall.Kill(children[0], 0); err != nil {
		t.Errorf("the child of the other worker: %v", err)
	}
	l.release()
	l.ends(0, 0)
	gone(t, children[0])
	l.exact(2)
}

// shows expects the page and the metrics of a node's agent beside its launcher's, each once.
func (l *live) shows(node int) {
	l.t.Helper()
	for path, want := range map[string][]string{
		"/":           {"<title>"},
		"/healthz":    {"ok"},
		"/readyz":     {"ok"},
		"/debug/view": {`"status": "running"`, `"version": "1.2.3"`},
		"/metrics":    {`,job="` + filepath.Base(os.Args[0]) + `",`, "headrace_launcher_workers 2\n", "headrace_job_ranks 2\n", "headrace_agent_member 1\n", `headrace_loader_samples_total{local_rank="1",rank="1"} 12`},
	} {
		status, text := l.page(node, path)
		if path == "/metrics" {
			testwait.Until(l.t, "the stats come", func() bool {
				status, text = l.page(node, path)
				return strings.Contains(text, "headrace_loader_samples_total")
			})
		}
		for _, w := range want {
			if status != http.StatusOK || strings.Count(text, w) != 1 {
				l.t.Errorf("%s: %d, not once %q in\n%s", path, status, w, text)
			}
		}
	}
}

// A port that is named and taken is told with its flag, and who has it: TCP's and UDP's, which an
// agent needs both.
func TestPortsInUse(t *testing.T) {
	l, tcp := listenSomewhere(t)
	defer l.Close() //nolint:errcheck // it was never used
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was never used
	_, udp, _ := net.SplitHostPort(conn.LocalAddr().String())
	for _, c := range []struct{ flag, port string }{{"--metrics-port", tcp}, {"--live-port", tcp}, {"--live-port", udp}} {
		code, _, stderr := run(t, nil, append([]string{"--live", c.flag, c.port}, workers(1, "exit=0")...)...)
		if want := fmt.Sprintf("%s: port %s is in use by pid %d (", c.flag, c.port, os.Getpid()); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit %d, want %q in\n%s", code, want, stderr)
		}
	}
}

// What cannot work is refused before anything starts.
func TestLiveRefuses(t *testing.T) {
	for why, args := range map[string][]string{
		"--key-file":                   {"--live", "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "192.0.2.1:29400"},
		"--rdzv-backend c10d":          {"--live", "--nnodes", "2"},
		"need --live":                  {"--live-contact", "127.0.0.1:1"},
		"--live-contact is \"host\"":   {"--live", "--live-contact", "host"},
		"--live-profile is \"faster\"": {"--live", "--live-profile", "faster"},
	} {
		if code, _, stderr := run(t, nil, append(args, workers(1, "exit=0")...)...); code != 2 || !strings.Contains(stderr, why) {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}
