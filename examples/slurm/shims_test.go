package slurm_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/headrace/headrace/launcher"
	"github.com/headrace/headrace/rank"
)

// The test binary is also Slurm's commands, torchrun, and the trainer: scripts of these names
// are on the PATH of the job, and start it again with shimVar. A "node" is an address of
// loopback, a folder that stands for its local disk, and whatever was started on it.
const (
	shimVar  = "HEADRACE_TEST_SHIM"  // which of them to be
	localVar = "HEADRACE_TEST_LOCAL" // SLURM_TMPDIR of the batch script: each node has its own
	nodesVar = "HEADRACE_TEST_NODES" // folder of the nodes
	tasksVar = "HEADRACE_TEST_TASKS" // of each node, where srun is not told otherwise: 2,1
	gpusVar  = "HEADRACE_TEST_GPUS"  // of each node
)

var shims = map[string]func([]string) error{"srun": srun, "scontrol": scontrol, "sbcast": sbcast, "torchrun": torchrun, "trainer": trainer}

func TestMain(m *testing.M) {
	name := os.Getenv(shimVar)
	if name == "" {
		code := m.Run()
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}
	_ = os.Unsetenv(shimVar)
	runtime.LockOSThread() // children die with the thread that started them
	err := shims[name](os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(code(exit.ProcessState))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func code(p *os.ProcessState) int {
	if s, ok := p.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.ExitCode()
}

func list(name string) (numbers []int) {
	for text := range strings.SplitSeq(os.Getenv(name), ",") {
		n, _ := strconv.Atoi(text)
		numbers = append(numbers, n)
	}
	return numbers
}

// step is what srun was asked for.
type step struct {
	nodes, tasks, perNode int
	noKill                bool
	command               []string
}

// parseStep knows the options of srun(1) that the examples use.
func parseStep(args []string) (s step, err error) {
	plain := map[string]bool{"--overlap": true, "--no-kill": true}
	numbers := map[string]*int{"--nodes": &s.nodes, "--ntasks": &s.tasks, "--ntasks-per-node": &s.perNode, "--cpus-per-task": new(int), "--kill-on-bad-exit": new(int), "--wait": new(int)}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, _ := strings.Cut(args[0], "=")
		args = args[1:]
		s.noKill = s.noKill || name == "--no-kill"
		if plain[name] {
			continue
		}
		to, known := numbers[name]
		if !known {
			return s, fmt.Errorf("unrecognized option '%s'", name)
		}
		if *to, err = strconv.Atoi(value); err != nil {
			return s, err
		}
	}
	s.command = args
	return s, nil
}

// srun starts the tasks of a step, with what Slurm sets for each.
func srun(args []string) error {
	s, err := parseStep(args)
	if err != nil {
		return err
	}
	hosts, err := rank.Hosts(os.Getenv("SLURM_JOB_NODELIST"))
	if err != nil {
		return err
	}
	per := list(tasksVar)
	if s.perNode > 0 {
		per = slices.Repeat([]int{s.perNode}, len(hosts))
	}
	total := 0
	for _, n := range per {
		total += n
	}
	if total != s.tasks || s.nodes != 0 && s.nodes != len(hosts) {
		return fmt.Errorf("%d tasks on %d nodes: the allocation is of %v tasks on %d", s.tasks, s.nodes, per, len(hosts))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGTERM)
	var tasks []*exec.Cmd
	for node, host := range hosts {
		for local := range per[node] {
			cmd := exec.Command(s.command[0], s.command[1:]...)
			cmd.Args, cmd.Env = onNode(node, cmd.Args), onNode(node, append(os.Environ(), taskEnv(hosts, per, node, host, local, len(tasks))...))
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				return err
			}
			note(node, cmd.Process.Pid)
			tasks = append(tasks, cmd)
		}
	}
	go func() {
		for sig := range signals {
			for _, cmd := range tasks {
				_ = cmd.Process.Signal(sig)
			}
		}
	}()
	return waitAll(tasks)
}

// waitAll gives the error of the highest exit code, as srun does.
func waitAll(tasks []*exec.Cmd) (worst error) {
	highest := 0
	for _, cmd := range tasks {
		if err := cmd.Wait(); err != nil && (cmd.ProcessState == nil || code(cmd.ProcessState) > highest) {
			highest, worst = code(cmd.ProcessState), err
		}
	}
	return worst
}

// onNode is words as a node sees them: its disk is its own.
func onNode(node int, words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, os.Getenv(localVar), disk(node))
	}
	return words
}

func disk(node int) string { return filepath.Join(os.Getenv(nodesVar), strconv.Itoa(node)) }

// note keeps who was started on a node.
func note(node, pid int) {
	_ = os.WriteFile(filepath.Join(os.Getenv(nodesVar), fmt.Sprintf("pid-%d-%d", node, pid)), nil, 0o600)
}

// taskEnv is what Slurm sets for one task, as slurmstepd does: see srun(1), OUTPUT
// ENVIRONMENT VARIABLES.
func taskEnv(hosts []string, per []int, node int, host string, local, number int) []string {
	total, counts := 0, make([]string, len(per))
	for i, n := range per {
		total += n
		counts[i] = strconv.Itoa(n)
	}
	perNode := strings.Join(counts, ",")
	if len(slices.Compact(slices.Clone(counts))) == 1 && len(counts) > 1 {
		perNode = fmt.Sprintf("%s(x%d)", counts[0], len(counts))
	}
	set := map[string]any{
		"SLURM_STEP_ID": 0, "SLURM_STEPID": 0, "SLURM_STEP_NODELIST": os.Getenv("SLURM_JOB_NODELIST"), "SLURM_STEP_NUM_NODES": len(hosts),
		"SLURM_STEP_NUM_TASKS": total, "SLURM_STEP_TASKS_PER_NODE": perNode, "SLURM_PROCID": number, "SLURM_LOCALID": local, "SLURM_NODEID": node,
		"SLURMD_NODENAME": host, "SLURM_GPUS_ON_NODE": list(gpusVar)[node], "CUDA_VISIBLE_DEVICES": "",
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, fmt.Sprintf("%s=%v", name, set[name]))
	}
	return env
}

// scontrol unfolds lists of hosts, and notes that the job was requeued.
func scontrol(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "show" && args[1] == "hostnames":
		hosts, err := rank.Hosts(args[2])
		fmt.Println(strings.Join(hosts, "\n"))
		return err
	case len(args) == 2 && args[0] == "requeue":
		return os.WriteFile(filepath.Join(os.Getenv(nodesVar), "requeued"), []byte(args[1]), 0o600)
	}
	return fmt.Errorf("invalid keyword: %v", args)
}

// sbcast copies a file to the disk of each node.
func sbcast(args []string) error {
	if len(args) != 3 || args[0] != "--preserve" {
		return fmt.Errorf("what is %v", args)
	}
	info, err := os.Stat(args[1])
	if err != nil {
		return err
	}
	for node := range list(gpusVar) {
		from, err := os.Open(args[1])
		if err != nil {
			return err
		}
		to, err := os.OpenFile(onNode(node, args[2:])[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
		if err != nil {
			return err
		}
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
		_, _ = to.Close(), from.Close()
	}
	return nil
}

// torchrun starts the workers of its node. Its command line is read by the parser of
// headrace launch, which is held against torchrun's own elsewhere.
func torchrun(args []string) error {
	s, err := launcher.Parse(args, func(string) (string, bool) { return "", false })
	if err != nil {
		return err
	}
	if s.MaxNodes != len(list(gpusVar)) || s.MasterPort == 0 || s.RunID != os.Getenv("SLURM_JOB_ID") {
		return fmt.Errorf("%d nodes, port %d, job %s", s.MaxNodes, s.MasterPort, s.RunID)
	}
	before, world := 0, 0
	for node, n := range list(gpusVar) {
		if node < s.NodeRank {
			before += n
		}
		world += n
	}
	var workers []*exec.Cmd
	for local := range s.Workers {
		cmd := exec.Command(s.Script, s.Args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("RANK=%d", before+local), fmt.Sprintf("WORLD_SIZE=%d", world), fmt.Sprintf("LOCAL_RANK=%d", local),
			fmt.Sprintf("LOCAL_WORLD_SIZE=%d", s.Workers), fmt.Sprintf("GROUP_RANK=%d", s.NodeRank), fmt.Sprintf("GROUP_WORLD_SIZE=%d", s.MaxNodes),
			"TORCHELASTIC_RUN_ID="+s.RunID, "MASTER_ADDR="+s.MasterAddr, fmt.Sprintf("MASTER_PORT=%d", s.MasterPort))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		workers = append(workers, cmd)
	}
	return waitAll(workers)
}

// buildDir is where build has put it.
var buildDir string

// build makes the headrace command, once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "headrace-build-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	out, err := exec.Command("go", "build", "-o", dir, "../../cmd/headrace").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "headrace"), nil
})
