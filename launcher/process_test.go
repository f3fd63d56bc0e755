package launcher_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher"
)

// The test binary is three programs: the tests, a launcher, and a worker that acts
// as told. All processes of these tests are real.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "launch":
			os.Exit(launchMain(os.Args[2:]))
		case "worker":
			workerMain(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// launchMain is what cmd/headrace does, without cobra.
func launchMain(args []string) int {
	spec, err := launcher.Parse(args, os.LookupEnv)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "headrace:", err)
		return 2
	}
	if spec.Show != "" {
		return 0
	}
	spec.Env, spec.Stdout, spec.Stderr, spec.Adopt = os.Environ(), os.Stdout, os.Stderr, true
	spec.Release = "1.2.3"
	spec.PrintWarning = func(text string) { _, _ = fmt.Fprintln(os.Stderr, "headrace:", text) }
	spec.Program = os.Getenv("TEST_PROGRAM")
	if os.Getenv("TEST_BOUND") != "" {
		launcher.SetKillBound(&spec, 200*time.Millisecond)
	}
	result, err := launcher.Run(context.Background(), spec)
	_, _ = fmt.Fprint(os.Stderr, result.Report())
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "\nheadrace:", err)
	}
	return result.Code
}

// workerMain does its words in order, as a script would.
func workerMain(words []string) {
	caught := make(chan os.Signal, 16)
	for _, word := range words {
		what, arg, _ := strings.Cut(word, "=")
		act(what, arg, caught)
	}
}

func act(what, arg string, caught chan os.Signal) {
	rank := os.Getenv("RANK")
	switch what {
	case "say": // say=TEXT: one line, in one write
		_, _ = os.Stdout.WriteString(strings.ReplaceAll(arg, "%r", rank) + "\n")
	case "err":
		_, _ = os.Stderr.WriteString(strings.ReplaceAll(arg, "%r", rank) + "\n")
	case "pid":
		_, _ = fmt.Fprintf(os.Stdout, "pid %s %d\n", rank, os.Getpid())
	case "env":
		text, _ := json.Marshal(os.Environ())
		_, _ = os.Stdout.Write(append(text, '\n'))
	case "exit": // exit=R:CODE: only that rank, else all
		if r, code, ok := strings.Cut(arg, ":"); ok {
			if r != rank {
				return
			}
			arg = code
		}
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "kill": // kill=R:SIGNAL: that rank kills itself
		if r, n, _ := strings.Cut(arg, ":"); r == rank {
			number, _ := strconv.Atoi(n)
			_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
			select {}
		}
	case "first": // first=R:CODE: that rank, in the first attempt
		if r, n, _ := strings.Cut(arg, ":"); r == rank && os.Getenv("TORCHELASTIC_RESTART_COUNT") == "0" {
			code, _ := strconv.Atoi(n)
			os.Exit(code)
		}
	case "wait": // until a signal kills it, or wait=FILE: until the file is there
		for arg == "" || !exists(arg) {
			time.Sleep(5 * time.Millisecond)
		}
	case "now": // the clock that all processes of a host share
		_, _ = fmt.Fprintf(os.Stdout, "now %s %d\n", rank, monotonic())
	case "store": // rank 0 listens at MASTER_PORT as torch's store does, the others connect
		meetAtStore(rank)
	case "plan": // plan=SEED: compare plans with the other ranks
		checkPlan(arg)
	case "live": // live=GATE: takes part in a live job, as the gate lets it
		if err := liveMain(arg); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(9)
		}
	case "touch":
		_ = os.WriteFile(arg, nil, 0o644)
	case "catch": // catch=N,N: these are told, and do not kill
		for n := range strings.SplitSeq(arg, ",") {
			number, _ := strconv.Atoi(n)
			signal.Notify(caught, syscall.Signal(number))
		}
	case "told": // told=CODE: exit after the first caught signal
		n := <-caught
		_, _ = fmt.Fprintf(os.Stdout, "told %s %d\n", rank, int(n.(syscall.Signal)))
		if arg != "" {
			code, _ := strconv.Atoi(arg)
			os.Exit(code)
		}
	case "write": // write=BYTES: that many on standard output, in lines
		writeMany(arg)
	case "child": // child=WORD,WORD+WORD,…: a process of its own; childsid: in a session of its own
		startChild(arg, nil)
	case "childsid":
		startChild(arg, &syscall.SysProcAttr{Setsid: true})
	case "errorfile": // errorfile=TEXT@SECONDS
		text, at, _ := strings.Cut(arg, "@")
		doc := fmt.Sprintf(`{"message":{"message":%q,"extraInfo":{"py_callstack":"stack of %s","timestamp":%q}}}`, text, text, at)
		_ = os.WriteFile(os.Getenv("TORCHELASTIC_ERROR_FILE"), []byte(doc), 0o644)
	case "rank": // rank=R,WORD…: a word for one rank
		if r, word, _ := strings.Cut(arg, ","); r == rank {
			name, value, _ := strings.Cut(word, "=")
			act(name, value, caught)
		}
	default:
		panic("no such word: " + what)
	}
}

func meetAtStore(rank string) {
	world, _ := strconv.Atoi(os.Getenv("WORLD_SIZE"))
	address := net.JoinHostPort(os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT"))
	if rank != "0" {
		for {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				_, _ = io.Copy(os.Stdout, conn)
				return
			}
			time.Sleep(5 * time.Millisecond) // rank 0 is not there yet
		}
	}
	l, err := net.Listen("tcp", ":"+os.Getenv("MASTER_PORT"))
	if err != nil {
		panic(err)
	}
	for range world - 1 {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte("met\n"))
		_ = conn.Close()
	}
}

func startChild(words string, attr *syscall.SysProcAttr) {
	list := strings.Split(words, ",")
	for i := range list { // what a child of the child does has + between its words
		list[i] = strings.ReplaceAll(list[i], "+", ",")
	}
	cmd := exec.Command(os.Args[0], append([]string{"worker"}, list...)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// writeMany writes numbered lines of 64 bytes, many in one write.
func writeMany(arg string) {
	total, _ := strconv.Atoi(arg)
	block := make([]byte, 0, 1<<16)
	for i := range total / 64 {
		block = fmt.Appendf(block, "%062d:\n", i)
		if len(block) == cap(block) {
			_, _ = os.Stdout.Write(block)
			block = block[:0]
		}
	}
	_, _ = os.Stdout.Write(block)
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// job is a launcher that runs.
type job struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	pipe   io.Closer
	stderr bytes.Buffer
	mu     sync.Mutex
	ended  chan struct{}

	written sync.Cond // stderr has more
}

// start runs the launcher with these arguments and extra variables.
func start(t *testing.T, env []string, args ...string) *job {
	t.Helper()
	return startProgram(t, env, os.Args[0], append([]string{"launch"}, args...)...)
}

func startProgram(t *testing.T, env []string, program string, args ...string) *job {
	t.Helper()
	j := &job{t: t, ended: make(chan struct{})}
	j.cmd = exec.Command(program, args...)
	j.cmd.Env = append(append(clean(os.Environ()), "TMPDIR="+t.TempDir()), env...) // of two the last one counts
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := j.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.out, j.pipe = bufio.NewReader(pipe), pipe
	j.written.L = &j.mu
	j.cmd.Stderr = &lockedWriter{&j.written, &j.stderr}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-j.ended:
		default: // only where the test failed
			_ = j.cmd.Process.Signal(syscall.SIGTERM)
			_, _ = io.Copy(io.Discard, j.out)
			_ = j.cmd.Wait()
		}
	})
	return j
}

type lockedWriter struct {
	*sync.Cond
	w io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.L.Lock()
	defer l.L.Unlock()
	l.Broadcast()
	return l.w.Write(b)
}

// clean leaves out what a surrounding job or user may have set.
func clean(env []string) []string {
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "PET_"), strings.HasPrefix(name, "TORCH"), strings.HasPrefix(name, "HEADRACE_"), strings.HasPrefix(name, "SLURM_"),
			name == "OMP_NUM_THREADS", name == "CUDA_VISIBLE_DEVICES", name == "RANK", name == "WORLD_SIZE":
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}

// line reads one line of the job's standard output.
func (j *job) line() string {
	j.t.Helper()
	defer j.bound()()
	text, err := j.out.ReadString('\n')
	if err != nil {
		j.t.Fatalf("no more output: %v\n%s", err, j.errors())
	}
	return strings.TrimSuffix(text, "\n")
}

func (j *job) errors() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stderr.String()
}

// waitBound is how long a test waits for a launcher's end, or for its next line: longer than any
// patience that a test gives a launcher.
const waitBound = 2 * time.Minute

// bound ends a launcher that has stuck, by a signal that has Go's runtime write where each of its
// goroutines is. end takes that back.
func (j *job) bound() (end func() bool) {
	return time.AfterFunc(waitBound, func() {
		j.t.Errorf("pid %d neither ends nor says anything for %v", j.cmd.Process.Pid, waitBound)
		_ = j.cmd.Process.Signal(syscall.SIGABRT)
	}).Stop
}

// wait gives the exit code and what is left of standard output.
func (j *job) wait() (code int, stdout, stderr string) {
	j.t.Helper()
	defer j.bound()()
	rest, err := io.ReadAll(j.out)
	if err != nil {
		j.t.Fatal(err)
	}
	err = j.cmd.Wait()
	close(j.ended)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return -int(status.Signal()), string(rest), j.errors()
		}
	} else if err != nil {
		j.t.Fatal(err)
	}
	return j.cmd.ProcessState.ExitCode(), string(rest), j.errors()
}

// closeOutput stops reading the job's standard output.
func (j *job) closeOutput() { _ = j.pipe.Close() }

func (j *job) send(n syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(n); err != nil {
		j.t.Fatal(err)
	}
}

// run starts a job and waits for it.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return start(t, env, args...).wait()
}

// workers is the end of a command line: n workers that do these words.
func workers(n int, words ...string) []string {
	return append([]string{"--nproc-per-node", strconv.Itoa(n), "--no-python", os.Args[0], "worker"}, words...)
}

// pids reads the lines that n workers wrote with the word pid.
func (j *job) pids(n int) map[int]int {
	j.t.Helper()
	found := map[int]int{}
	for len(found) < n {
		var rank, pid int
		if _, err := fmt.Sscanf(j.line(), "pid %d %d", &rank, &pid); err != nil {
			j.t.Fatal(err)
		}
		found[rank] = pid
	}
	return found
}

// gone waits until a process is no more, or a zombie of somebody else's. It must
// have been started by the test's own jobs.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // ESRCH
	}
	defer unix.Close(fd) //nolint:errcheck // a descriptor of ours
	const limit = 10_000
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, limit); n == 0 || err != nil {
		t.Errorf("process %d is still there (%v)", pid, err)
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// tempFolders sets TMPDIR to a folder that can be looked at afterwards.
func tempFolder(t *testing.T) (dir string, env string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "tmp")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, "TMPDIR=" + dir
}

func findPython() (string, error) { return launcher.FindPython(os.Environ()) }
