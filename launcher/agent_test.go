package launcher

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Folders of launchers that were killed go; those in use, young ones and what is no
// launcher's stay.
func TestDeadFoldersGo(t *testing.T) {
	base := t.TempDir()
	make1 := func(name string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "agent")
	}
	listen := func(path string) net.Listener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return l
	}
	live := listen(make1("headrace-live"))
	defer live.Close() //nolint:errcheck // it served nobody
	if err := listen(make1("headrace-dead")).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(make1("headrace-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		names, _ := filepath.Glob(filepath.Join(base, "*"))
		return len(names)
	}
	if removeDead(base, time.Now().Add(-time.Minute)); left() != 3 {
		t.Error("a young folder went")
	}
	if removeDead(base, time.Now().Add(time.Minute)); left() != 2 {
		t.Errorf("%d folders are left, want 2", left())
	}
	if _, err := os.Stat(filepath.Join(base, "headrace-dead")); err == nil {
		t.Error("the dead launcher's folder is there")
	}
}
