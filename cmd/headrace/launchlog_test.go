package main

import (
	"bufio"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A launcher whose lines nobody reads, as behind a pager, starts its workers all the same and
// ends them at the first signal.
func TestLaunchDoesNotWaitForItsReader(t *testing.T) {
	for _, flags := range [][]string{nil, {"--live", "--live-profile", "fast"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
		if err == nil {
			_, err = w.Write(make([]byte, size)) // it is full from the begin
		}
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{"launch", "--nproc-per-node", "2"}, flags...) // without OMP_NUM_THREADS there is a line to write
		cmd := program(t, append(args, "--no-python", "sh", "-c", "echo up; exec sleep 1000")...)
		cmd.Stderr = w
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		lines := bufio.NewReader(out)
		for range 2 {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("%v: no worker is started: %v", flags, err)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(cmd.Wait()); code != 128+int(syscall.SIGTERM) {
			t.Errorf("%v: exit %d", flags, code)
		}
		stuck.Stop()
		_, _ = r.Close(), w.Close() // of no more use
	}
}

// Where the reader has gone the exit code is still that of the workers.
func TestLaunchOutlivesItsReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "launch", "--nproc-per-node", "2", "--no-python", "sh", "-c", "exit 7")
	cmd.Stderr = w
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), w.Close() // of no more use
	if code := exitCode(cmd.Wait()); code != 7 {
		t.Errorf("exit %d", code)
	}
}
