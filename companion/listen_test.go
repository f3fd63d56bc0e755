package companion

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "an engine listens at "+path) {
		t.Errorf("in use: %v", err)
	}
	if err := first.UnixListener.Close(); err != nil { // as a killed engine leaves it
		t.Fatal(err)
	}
	second, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	// The first one's late Close must not take the second one's socket away.
	_ = first.Close()
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
