// Package slurm_test runs the scripts of this folder, as they are, on "nodes" of this machine.
package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
)

const crops = 12 * 12 * 2

// job is an allocation and the batch script that runs in it.
type job struct {
	t               *testing.T
	id              string // its ports are made of it, and a rendezvous listens at all addresses: no other job here has it
	dir, out, nodes string
	cmd             *exec.Cmd
	log             bytes.Buffer
	ended           chan error
}

// submitted counts the jobs of this process.
var submitted atomic.Int64

// submit starts a script as slurmd does on the first node of an allocation.
func submit(t *testing.T, script, hosts string, tasks, gpus []int, env []string, words ...string) *job {
	t.Helper()
	headrace, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hr-slurm-") // short: paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, id: fmt.Sprint(int64(os.Getpid())<<4 + submitted.Add(1)&15), dir: dir, out: filepath.Join(dir, "out"), nodes: filepath.Join(dir, "n"), ended: make(chan error, 1)}
	bin, local := filepath.Join(dir, "bin"), filepath.Join(dir, "local")
	for _, d := range []string{j.out, j.nodes, bin} {
		mkdir(t, d)
	}
	for i := range gpus {
		mkdir(t, filepath.Join(j.nodes, strconv.Itoa(i)))
	}
	link(t, filepath.Join(j.nodes, "0"), local) // the script is on the first node
	link(t, headrace, filepath.Join(bin, "headrace"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range shims {
		text := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", shimVar, name, self)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	j.cmd = exec.CommandContext(ctx, "bash", append(append([]string{script}, words...), "trainer", "--data", volume(t), "--out", j.out)...)
	total := 0
	for _, n := range tasks {
		total += n
	}
	j.cmd.Env = append(clean(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID="+j.id, "SLURM_JOB_NODELIST="+hosts,
		"SLURM_JOB_NUM_NODES="+strconv.Itoa(len(gpus)), "SLURM_NTASKS="+strconv.Itoa(total), "SLURM_PROCID=0", "SLURM_CPUS_PER_TASK=1", "SLURM_TMPDIR="+local,
		localVar+"="+local, nodesVar+"="+j.nodes, tasksVar+"="+join2(tasks), gpusVar+"="+join2(gpus))
	j.cmd.Env = append(j.cmd.Env, env...)
	j.cmd.Stdout, j.cmd.Stderr, j.cmd.WaitDelay = &j.log, &j.log, 5*time.Second
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { j.ended <- j.cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		for _, pid := range j.pids("*") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", script, j.log.String())
		}
		_ = os.RemoveAll(dir)
	})
	return j
}

// clean is an environment without what a scheduler or launcher around the test has set.
func clean(env []string) (kept []string) {
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "SLURM") && !strings.HasPrefix(name, "HEADRACE_") && !strings.HasPrefix(name, "PET_") && name != "RANK" && name != "WORLD_SIZE" {
			kept = append(kept, v)
		}
	}
	return kept
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func join2(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

// pids are the processes that were started on a node and are there. They are descendants of
// the script, which reaps none of them: srun does.
func (j *job) pids(node string) (list []int) {
	files, _ := filepath.Glob(filepath.Join(j.nodes, "pid-"+node+"-*"))
	for _, f := range files {
		pid, _ := strconv.Atoi(f[strings.LastIndexByte(f, '-')+1:])
		if exe, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(exe, []byte(j.nodes)) {
			list = append(list, pid)
		}
	}
	return list
}

// wait is the end of the script.
func (j *job) wait() int {
	j.t.Helper()
	err := <-j.ended
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		j.t.Fatal(err)
	}
	return 0
}

// middle waits until so many ranks are in the middle of their work.
func (j *job) middle(ranks int) {
	j.t.Helper()
	for {
		if files, _ := filepath.Glob(filepath.Join(j.out, "at-*")); len(files) >= ranks {
			return
		}
		select {
		case err := <-j.ended:
			j.t.Fatalf("the job ended before its ranks were there: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (j *job) release() {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.out, "go"), nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
}

// results are what the ranks that came to the end left.
func (j *job) results() (list []said) {
	j.t.Helper()
	files, _ := filepath.Glob(filepath.Join(j.out, "rank-*.json"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		var s said
		if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil {
			j.t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// agreed checks that the agents of all ranks have closed the epoch with each crop once.
func agreed(t *testing.T, list []said, ranks int, source string) {
	t.Helper()
	if len(list) != ranks {
		t.Errorf("%d ranks came to the end, want %d", len(list), ranks)
	}
	for _, s := range list {
		if s.Closed.Count != crops || s.Closed.Digest != s.Expected || s.Source != source {
			t.Errorf("rank %d of %d: coverage %d of %d, digest %s, want %s; it is known by %s", s.Rank, s.World, s.Closed.Count, crops, s.Closed.Digest, s.Expected, s.Source)
		}
	}
}

// merged checks that the parts of all ranks together are each crop once.
func merged(t *testing.T, list []said, ranks int) {
	t.Helper()
	var reports []loader.Report
	for _, s := range list {
		reports = append(reports, s.Report)
	}
	sum, err := loader.Merge(reports...)
	if err != nil || len(list) != ranks || !sum.Complete() || sum.Of != crops || sum.Coverage.String() != list[0].Expected {
		t.Errorf("%d ranks, coverage %d of %d, digest %s, %v", len(list), sum.Coverage.Count, sum.Of, sum.Coverage, err)
	}
}

// leftNothing checks that processes, folders and the key are gone.
func (j *job) leftNothing() {
	j.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(j.pids("*")) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			j.t.Fatalf("still there: %v", j.pids("*"))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(j.nodes, "*", "*")); len(left) > 0 {
		j.t.Errorf("left on the nodes: %v", left)
	}
}

// volume is an array of crops.
func volume(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := dataset.Write(context.Background(), root, []dataset.Array{{
		Path: "a", Shape: []int64{48, 48, 8}, Chunk: []int64{16, 16, 8}, Format: 3, DType: nd.U16,
		Field: "mask50", Entropy: 0.5, Seed: 1, Codecs: scenario.Chain{{Name: "zstd"}}, Level: 1,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root + "/a"
}

// hosts is a list of nodes as Slurm writes it, which no other test process has.
func hosts(form string, salt int) string {
	return strings.ReplaceAll(form, "N", fmt.Sprintf("127.%d.%d.", 10+(os.Getpid()>>8)&0x7f, (os.Getpid()+61*salt)&0xff))
}

// allocations are of two and four nodes, with lists of hosts in forms that Slurm writes, and with
// GPUs that differ by node.
var allocations = []struct {
	hosts string
	gpus  []int
}{
	{"N[1-2]", []int{2, 1}},
	{"N[1-2,4],N3", []int{1, 1, 1, 2}},
}

func sum(numbers []int) (n int) {
	for _, x := range numbers {
		n += x
	}
	return n
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// ranks.sbatch: srun starts the ranks, of which nodes have different numbers; the agents hand out
// each crop once, and nothing is left.
func TestRanks(t *testing.T) {
	t.Parallel()
	for i, c := range allocations {
		j := submit(t, "ranks.sbatch", hosts(c.hosts, i), c.gpus, c.gpus, nil)
		j.middle(sum(c.gpus))
		j.release()
		if code := j.wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
		agreed(t, j.results(), sum(c.gpus), "Slurm")
		j.leftNothing()
	}
}

// torchrun.sbatch: the same under torchrun, one a node.
func TestTorchrun(t *testing.T) {
	t.Parallel()
	for i, c := range allocations {
		j := submit(t, "torchrun.sbatch", hosts(c.hosts, 2+i), ones(len(c.gpus)), c.gpus, nil, "--no-python")
		j.middle(sum(c.gpus))
		j.release()
		if code := j.wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
		agreed(t, j.results(), sum(c.gpus), "torchrun")
		j.leftNothing()
	}
}

// launch.sbatch: headrace launch, one a node, static and elastic. Each rank has its part by
// arithmetic, together they have each crop once.
func TestLaunch(t *testing.T) {
	t.Parallel()
	for i, env := range [][]string{nil, {"MIN_NODES=1"}} {
		j := submit(t, "launch.sbatch", hosts("N[1-2]", 4+i), ones(2), ones(2), append(env, "PET_NPROC_PER_NODE=2"), "--no-python")
		j.middle(4)
		j.release()
		if code := j.wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
		merged(t, j.results(), 4)
		j.leftNothing()
	}
}

// A node is lost in the middle, agent and ranks: what its ranks had not committed comes to those
// of the others, and the job is whole. Of two nodes the witness makes a majority.
func TestNodeIsLost(t *testing.T) {
	t.Parallel()
	for i, c := range allocations {
		if i > 0 && os.Getenv("SOAK") == "" {
			continue // the time until a node is given up: make soak has it
		}
		j := submit(t, "ranks.sbatch", hosts(c.hosts, 6+i), c.gpus, c.gpus, nil)
		j.middle(sum(c.gpus))
		last := len(c.gpus) - 1
		for _, pid := range j.pids(strconv.Itoa(last)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		j.release()
		if code := j.wait(); code != 128+9 {
			t.Errorf("exit %d: srun tells that a task was killed", code)
		}
		agreed(t, j.results(), sum(c.gpus)-c.gpus[last], "Slurm")
		j.leftNothing()
	}
}

// The time is nearly up: the ranks are told by USR1, at which these here end, and the job is put
// back into the queue.
func TestRequeue(t *testing.T) {
	t.Parallel()
	for i, script := range []string{"ranks.sbatch", "launch.sbatch"} {
		words := []string{}
		if script == "launch.sbatch" {
			words = []string{"--no-python"}
		}
		j := submit(t, script, hosts("N[1-2]", 8+i), ones(2), ones(2), []string{"PET_NPROC_PER_NODE=1"}, words...)
		j.middle(2)
		if err := j.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		j.wait()
		if id, err := os.ReadFile(filepath.Join(j.nodes, "requeued")); err != nil || string(id) != j.id {
			t.Errorf("%s: requeued %q, %v", script, id, err)
		}
		j.leftNothing()
	}
}

// Scripts are what shellcheck accepts, where there is one.
func TestShellcheck(t *testing.T) {
	check, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("no shellcheck on PATH")
	}
	scripts, _ := filepath.Glob("*.sbatch")
	if out, err := exec.Command(check, scripts...).CombinedOutput(); err != nil || len(scripts) != 3 {
		t.Errorf("%d scripts: %v\n%s", len(scripts), err, out)
	}
}
