package atomicfile

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/nd"
)

func put(t *testing.T, path, text string, perm os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); string(got) != want || err != nil {
		t.Errorf("%s holds %q (%v), want %q", filepath.Base(path), got, err, want)
	}
}

// A pipe is written to and stays a pipe; so does what a link to it leads to.
func TestPipeIsWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes with names here: " + err.Error())
	}
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "link"} {
		got := make(chan string)
		go func() {
			file, err := os.Open(pipe)
			if err != nil {
				t.Error(err)
			}
			text, _ := io.ReadAll(file)
			_ = file.Close()
			got <- string(text)
		}()
		if err := Write(filepath.Join(dir, name), []byte("hello")); err != nil {
			t.Error(err)
		}
		if text := <-got; text != "hello" {
			t.Errorf("%s: the reader got %q", name, text)
		}
		if there, err := os.Lstat(pipe); err != nil || there.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("%s: the pipe is now %v, %v", name, there.Mode(), err)
		}
	}
	if err := Write(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
}

// A link stays a link, the file that it leads to is replaced where it lies, or
// made.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "far", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"one": "two", "two": "far/x", "new": "far/made", "absolute": filepath.Join(dir, "far", "x"),
		"folder": "far/deep", "up": "folder/../x", "loop": "loop", "lost": "absent/x",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"one": "far/x", "absolute": "far/x", "up": "far/x", "new": "far/made"} {
		if target == "far/x" {
			put(t, filepath.Join(dir, target), "old", 0o640)
		}
		path := filepath.Join(dir, name)
		before, _ := os.Readlink(path)
		if err := Write(path, []byte(name)); err != nil {
			t.Error(err)
		}
		if after, err := os.Readlink(path); err != nil || after != before {
			t.Errorf("link %s became %q, %v", name, after, err)
		}
		holds(t, filepath.Join(dir, target), name)
	}
	for _, name := range []string{"loop", "lost"} {
		if err := Write(filepath.Join(dir, name), nil); !errors.Is(err, nd.ErrIO) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, filepath.Join(dir, "far")); len(got) != 3 {
		t.Errorf("left behind: %v", got)
	}
}

// Whoever may read the old file may read the new one, and nobody else; a file
// that is read-only stays as it is, for root too.
func TestPermissionsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for _, perm := range []os.FileMode{0o600, 0o664, 0o755} {
		put(t, path, "old", perm)
		if err := Write(path, []byte("new")); err != nil {
			t.Error(err)
		}
		if there, err := os.Stat(path); err != nil || there.Mode().Perm() != perm {
			t.Errorf("%o became %o, %v", perm, there.Mode().Perm(), err)
		}
	}
	put(t, path, "precious", 0o444)
	if err := Write(path, []byte("new")); !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only: %v", err)
	}
	holds(t, path, "precious")
}

// A file with a temporary name, which file systems without nameless files get,
// becomes whole like the others.
func TestNamedTemporary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, text := range []string{"first", "second"} {
		file, temp, err := named(path)
		if err != nil {
			t.Fatal(err)
		}
		f := &File{path: path, target: path, temp: temp, perm: 0o644, file: file}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		if got := names(t, dir); got[0] != filepath.Base(temp) {
			t.Errorf("files %v, want %s", got, temp)
		}
		if err := f.Commit(); err != nil {
			t.Error(err)
		}
		holds(t, path, text)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

var childDir = flag.String("child", "", "be the child of TestKilled, in this folder")

// TestChild is the process that TestKilled kills: it holds a file of each kind.
func TestChild(t *testing.T) {
	if *childDir == "" {
		return // run by TestKilled
	}
	f, err := Create(filepath.Join(*childDir, "nameless"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := named(filepath.Join(*childDir, "named")); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "named", f.temp != "") // where this fails the parent says so
	_, _ = io.ReadAll(os.Stdin)                           // until killed
}

// A process that is killed leaves nothing, or on file systems without nameless
// files what the next run removes. What a living process writes is not touched,
// nor files that only look alike.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestChild$", "-child="+dir)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // of a process that is gone
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	written := 1
	if line == "named true\n" { // a file system without nameless files
		written = 2
	}
	alike := []string{".named.tmp", ".named.tmpx1", "named.tmp1", ".other.tmp1.npy"}
	for _, name := range alike {
		put(t, filepath.Join(dir, name), "", 0o600)
	}
	target := filepath.Join(dir, "named")
	RemoveStale(target)
	if got := names(t, dir); len(got) != len(alike)+written {
		t.Errorf("while the child writes there are %v", got)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // says that it was killed
	RemoveStale(filepath.Join(dir, "other"))
	if got := names(t, dir); len(got) != len(alike)+written {
		t.Errorf("after the stale files of another target were removed there are %v", got)
	}
	RemoveStale(target)
	RemoveStale(filepath.Join(dir, "nameless"))
	if got := names(t, dir); len(got) != len(alike) {
		t.Errorf("left behind: %v", got)
	}
	put(t, filepath.Join(dir, ".y.tmp77"), "", 0o600)
	RemoveStaleIn(filepath.Dir(dir))
	if got := names(t, dir); len(got) != len(alike) {
		t.Errorf("left behind in the folder: %v", got)
	}
}
