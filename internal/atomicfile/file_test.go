package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/nd"
)

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Until Commit nothing is seen under the target's name, and what was there
// before stays.
func TestWholeOrAbsent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("before Commit the file holds %q", got)
	}
	f.Abort()
	f.Abort()
	if err := f.Commit(); err != nil {
		t.Errorf("Commit after Abort: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("after Abort the file holds %q", got)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "new" {
		t.Errorf("the file holds %q", got)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// A failure names the file and leaves no temporary one.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(filepath.Join(dir, "absent", "x")); !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "folder does not exist") {
		t.Errorf("missing folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "taken"), nil); !errors.Is(err, nd.ErrIO) {
		t.Errorf("a folder has the name: %v", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
	if err := explain("f", syscall.ENOSPC); !strings.Contains(err.Error(), "disk is full") || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full disk: %v", err)
	}
}
