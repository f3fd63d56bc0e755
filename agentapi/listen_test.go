package agentapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Only a socket that its process has left behind may be taken; of anything else it is said what
// is there.
func TestCheckStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := CheckStale(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is there: %v", err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckStale(path); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "somebody listens at "+path) {
		t.Errorf("in use: %v", err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil { // as a process that was killed leaves it
		t.Fatal(err)
	}
	if err := CheckStale(path); err != nil {
		t.Errorf("left behind: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckStale(path); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
}
