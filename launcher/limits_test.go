package launcher_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/launcher"
)

// Times are the best of some tries, which end where one is as short as it has to be: the machine that
// tests has other work.
func best(tries int, goal time.Duration, measure func() time.Duration) time.Duration {
	shortest := time.Hour
	for n := 0; n < tries && shortest > goal; n++ {
		shortest = min(shortest, measure())
	}
	return shortest
}

// Eight workers run at most 0.15 s later than the same programs started by hand.
func TestStartsSoon(t *testing.T) {
	script := []string{"-c", "echo up; read nothing"}
	byHand := best(5, 0, func() time.Duration {
		began := time.Now()
		for range 8 {
			cmd := exec.Command("/bin/sh", script...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	})
	ours := best(10, byHand+150*time.Millisecond, func() time.Duration {
		began := time.Now()
		j := start(t, nil, "--nproc-per-node", "8", "--no-python", "/bin/sh", "-c", "echo up; sleep 1000")
		for range 8 {
			j.line()
		}
		took := time.Since(began)
		j.send(syscall.SIGTERM)
		_, _, _ = j.wait()
		return took
	})
	t.Logf("by hand %v, launched %v", byHand, ours)
	if ours > byHand+150*time.Millisecond {
		t.Errorf("eight workers run after %v, by hand after %v", ours, byHand)
	}
}

// 256 workers, teed, on one host, with a launcher of less than 64 MiB.
func TestManyWorkers(t *testing.T) {
	const n = 256
	dir := t.TempDir()
	j := start(t, nil, "--nproc-per-node", strconv.Itoa(n), "--tee", "3", "--log-dir", dir, "--no-python", "/bin/sh", "-c", "echo up; echo err >&2; exec sleep 1000")
	for range n {
		j.line()
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", j.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	peak, _ := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	t.Logf("the launcher's peak is %d KiB", peak)
	if peak > 64<<10 && !raced {
		t.Errorf("the launcher of %d workers took %d KiB", n, peak)
	}
	j.send(syscall.SIGTERM)
	if code, _, stderr := j.wait(); code != 143 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "none_*", "attempt_0", "*", "stdout.log")); len(files) != n {
		t.Errorf("%d log files", len(files))
	}
}

// cycles is how many times a job starts and stops: 100, or what CYCLES says (2000 in
// a soak).
func cycles() int {
	if n, err := strconv.Atoi(os.Getenv("CYCLES")); err == nil {
		return n
	}
	return 100
}

// Jobs that start and stop leave no process, file, descriptor or goroutine behind.
func TestNothingIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, _ := tempFolder(t)
	t.Setenv("TMPDIR", dir)
	spec := inProcess(t, "--nproc-per-node", "2", "--tee", "3", "--max-restarts", "1", "--no-python", "/bin/sh", "-c", `echo $RANK; sleep 1000 & exit $RANK`)
	spec.Stderr = spec.Stdout
	spec.LogDir = filepath.Join(dir, "log")
	before, groups := descriptors(t), controlGroups()
	for range cycles() {
		result, err := launcher.Run(context.Background(), spec)
		if result.Code != 1 && result.Code != 143 {
			t.Fatalf("exit code %d: %v", result.Code, err)
		}
		if err := os.RemoveAll(spec.LogDir); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	if left, err := exec.Command("pgrep", "-P", strconv.Itoa(os.Getpid())).Output(); err == nil && strings.Count(string(left), "\n") > 1 { // pgrep itself
		t.Errorf("processes are left: %s", left)
	}
	if after := controlGroups(); !slices.Equal(groups, after) {
		t.Errorf("control groups are left: %v", after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	runtime.GC()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// controlGroups lists those of this process.
func controlGroups() []string {
	names, _ := filepath.Glob("/sys/fs/cgroup/*/headrace-" + strconv.Itoa(os.Getpid()) + "-*")
	more, _ := filepath.Glob("/sys/fs/cgroup/headrace-" + strconv.Itoa(os.Getpid()) + "-*")
	return append(names, more...)
}

// teeBytes is what each rank writes: 64 MiB, or what TEE_BYTES says (1 GB in a soak).
func teeBytes() int {
	if n, err := strconv.Atoi(os.Getenv("TEE_BYTES")); err == nil {
		return n / 64 * 64
	}
	return 64 << 20
}

// All that a worker writes is in its file and on the console, in bounded memory.
func TestTeeLosesNothing(t *testing.T) {
	total, dir := teeBytes(), t.TempDir()
	j := start(t, nil, append([]string{"--tee", "1", "--log-dir", dir}, workers(2, "write="+strconv.Itoa(total), "say=end", "exit=0")...)...)
	lines := map[string]int{}
	began := time.Now()
	var peak int
	for ended := 0; ended < 2; {
		prefix, text, ok := strings.Cut(j.line(), "]:")
		switch {
		case !ok:
			t.Fatal("a line without a prefix")
		case text == "end":
			ended++
			peak = residentPeak(t, j.cmd.Process.Pid)
		default:
			if n, err := strconv.Atoi(strings.TrimLeft(strings.TrimSuffix(text, ":"), "0") + "0"); err != nil || n/10 != lines[prefix] {
				t.Fatalf("line %d of %s is %q", lines[prefix], prefix, text)
			}
			lines[prefix]++
		}
	}
	if code, _, stderr := j.wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	t.Logf("%d bytes a rank in %v, the launcher's peak is %d KiB", total, time.Since(began), peak)
	for local := range 2 {
		info, err := os.Stat(glob(t, filepath.Join(dir, "none_*", "attempt_0", strconv.Itoa(local), "stdout.log")))
		if want := int64(total + len("end\n")); err != nil || info.Size() != want || lines["[default"+strconv.Itoa(local)] != total/64 {
			t.Errorf("rank %d: %d bytes (%v), want %d; %d lines", local, info.Size(), err, want, lines["[default"+strconv.Itoa(local)])
		}
	}
	if peak > 64<<10 && !raced {
		t.Errorf("the launcher took %d KiB", peak)
	}
}

func residentPeak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	peak, err := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// A worker's death is seen, and the others are told, within 20 ms.
func TestDeathIsSeenAtOnce(t *testing.T) {
	const goal = 20 * time.Millisecond
	took := best(25, goal, func() time.Duration { // others may keep the machine busy for seconds
		file := filepath.Join(t.TempDir(), "up")
		j := start(t, nil, workers(2, "rank=1,catch=15", "rank=1,touch="+file, "wait="+file, "rank=0,now", "exit=0:3", "told", "now", "exit=0")...)
		var died, told int64
		for died == 0 || told == 0 {
			var rank, at int64
			if n, _ := fmt.Sscanf(j.line(), "now %d %d", &rank, &at); n < 2 {
				continue
			}
			if rank == 0 {
				died = at
			} else {
				told = at
			}
		}
		if code, _, stderr := j.wait(); code != 3 {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		return time.Duration(told - died)
	})
	t.Logf("from the last words of one to the signal at the other: %v", took)
	if took > goal {
		t.Errorf("%v until the other worker was told", took)
	}
}
