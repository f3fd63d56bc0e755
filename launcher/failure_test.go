package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// The report has torchrun's form: the others first, the root cause last as [0], a rule
// as wide as the widest row, at most 60.
func TestBanner(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	root := rendezvous.Failure{Rank: 3, LocalRank: 1, Node: 1, Host: "h", PID: 42, ExitCode: 5, Time: at, ErrorFile: "/log/error.json"}
	root.Error = []byte(`{"message":{"message":"ValueError: boom","extraInfo":{"py_callstack":"Traceback:\n  line\n","timestamp":"1"}}}`)
	other := rendezvous.Failure{Rank: 2, LocalRank: 0, Node: 1, Host: "h", PID: 41, Signal: 15, Time: at}
	want := `====================================================
train.py FAILED
----------------------------------------------------
Failures:
[1]:
  time      : 2026-03-04_05:06:07
  host      : h
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 41)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 41
----------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-04_05:06:07
  host      : h
  rank      : 3 (local_rank: 1)
  exitcode  : 5 (pid: 42)
  error_file: /log/error.json
  traceback : Traceback:
    line
====================================================`
	if got := banner("train.py", &root, []rendezvous.Failure{other, root}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := banner(strings.Repeat("x", 100), &root, nil); !strings.HasPrefix(got, strings.Repeat("=", 60)+"\n") || !strings.Contains(got, "  <NO_OTHER_FAILURES>\n") {
		t.Errorf("got\n%s", got)
	}
}

// What an error file may hold: an object, a text, a time as text or number, or
// nonsense, or more than is read, which is named and no more.
func TestErrorDocuments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "error.json")
	p := place{round: rendezvous.Round{Nodes: []rendezvous.Node{{LocalWorld: 1}}}, errorFile: file}
	at := time.Unix(2000, 5)
	const exited = syscall.WaitStatus(3 << 8)
	for _, c := range []struct {
		doc, shown string
		seconds    int64
	}{
		{`{"message":{"message":"m","extraInfo":{"py_callstack":"s","timestamp":"1000"}}}`, "s", 1000},
		{`{"message":{"message":"m","extraInfo":{"timestamp":1000.7}}}`, "m", 1000},
		{`{"message":"plain"}`, "plain", 2000},
		{`{"message":{"message":"m","extraInfo":{"timestamp":"soon"}}}`, "m", 2000},
		{`{"message":{"message":"m","extraInfo":{"timestamp":"-1"}}}`, "m", 2000},
		{`{"other":1}`, "To enable traceback see", 2000},
		{`{"message":`, "To enable traceback see", 2000},
		{``, "To enable traceback see", 2000},
		{`{"message":"` + strings.Repeat("m", maxErrorFile) + `"}`, "To enable traceback see", 2000},
	} {
		if err := os.WriteFile(file, []byte(c.doc), 0o644); err != nil {
			t.Fatal(err)
		}
		f := failureOf(p, "h", 7, exited, at)
		if f.Time.Unix() != c.seconds || !strings.HasPrefix(traceback(f), c.shown) || f.ErrorFile != file || f.ExitCode != 3 {
			t.Errorf("%.80s: %+v, %.80q", c.doc, f, traceback(f))
		}
	}
	if f := failureOf(p, "h", 7, 0, at); f != nil {
		t.Errorf("exit code 0 is the failure %+v", f)
	}
	if f := failureOf(p, "h", 7, syscall.WaitStatus(9), at); f.Signal != 9 || f.ExitCode != 0 {
		t.Errorf("killed by 9: %+v", f)
	}
}

// A worker that makes a pipe of its error file does not hold the launcher up.
func TestErrorFileThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "error.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := readErrorFile(file)
		read <- err
	}()
	select {
	case err := <-read:
		if err == nil {
			t.Error("a pipe was read")
		}
	case <-time.After(10 * time.Second):
		t.Error("the launcher waits for a pipe")
	}
}
