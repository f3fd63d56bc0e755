package companion

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSocketIsPrivateFromTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

// A live engine keeps its path; that of a dead one is taken over.
func TestSocketInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "somebody listens at "+path) {
		t.Errorf("in use: %v", err)
	}
	if err := first.UnixListener.Close(); err != nil { // as a killed engine leaves it
		t.Fatal(err)
	}
	second, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// An engine whose socket was removed takes no other one's away when it ends.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// An engine that does not answer is no dead one: it may be stopped, or busy with many
// clients at once.
func TestSocketOfAnEngineThatDoesNotAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test's
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), 0) })
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	for { // until nobody else may wait
		conn, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		defer conn.Close() //nolint:errcheck // a test's
	}
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "somebody may listen at "+path) {
		t.Errorf("got %v", err)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
		t.Errorf("the socket is another: %v", err)
	}
}

func TestLongestPath(t *testing.T) {
	short := t.TempDir()
	folder := filepath.Join(short, strings.Repeat("x", maxPath-2-len(short)-1))
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "s")
	if len(path) != maxPath {
		t.Fatalf("%d bytes", len(path))
	}
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                           "is no socket",
		filepath.Join(dir, "absent/s"): "folder of the socket",
		"/" + strings.Repeat("x", 200): "at most 107",
	} {
		if _, err := listen(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "kept" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if _, err := Listen(Config{Device: "cuda:0", Driver: filepath.Join(dir, "none"), Socket: filepath.Join(dir, "s")}); err == nil || !strings.Contains(err.Error(), "no NVIDIA driver") {
		t.Errorf("got %v", err)
	}
}
