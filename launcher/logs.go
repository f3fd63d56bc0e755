package launcher

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// noLogs is the --log-dir of a job without a log tree.
const noLogs = os.DevNull

// logTree is the folder <log dir>/<run id>_<random>, which holds a folder for each
// attempt, and in it one for each local rank.
type logTree struct {
	dir       string // "" without a tree
	temporary string // folder that was made for it and goes with it, "" for none
}

func newLogTree(s *Spec) (l logTree, err error) {
	if s.LogDir == noLogs {
		return l, nil
	}
	base := s.LogDir
	if base == "" {
		if base, err = makeRandom(os.TempDir(), "torchelastic_"); err != nil {
			return l, nd.Errorf(nd.ErrIO, "log folder: %w", err)
		}
		l.temporary = base
	} else if err := os.MkdirAll(base, 0o755); err != nil {
		return l, nd.Errorf(nd.ErrIO, "log folder: %w", err)
	}
	// A slash would make folders of the run id.
	l.dir, err = makeRandom(base, strings.ReplaceAll(s.RunID, "/", "_")+"_")
	if err != nil {
		return l, nd.Errorf(nd.ErrIO, "log folder: %w", err)
	}
	l.dir, err = filepath.Abs(l.dir)
	return l, err
}

// makeRandom makes a folder with eight random characters at its end.
func makeRandom(in, prefix string) (string, error) {
	for {
		path := filepath.Join(in, prefix+randomName())
		if err := os.Mkdir(path, 0o700); !errors.Is(err, os.ErrExist) {
			return path, err
		}
	}
}

func randomName() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_"
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

// attempt makes the folders of one attempt; those of an earlier one of the same
// number go.
func (l logTree) attempt(restarts, workers int) (attemptDir, error) {
	if l.dir == "" {
		return "", nil
	}
	dir := filepath.Join(l.dir, "attempt_"+strconv.Itoa(restarts))
	if err := os.RemoveAll(dir); err != nil {
		return "", nd.Errorf(nd.ErrIO, "log folder: %w", err)
	}
	for local := range workers {
		if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(local)), 0o755); err != nil {
			return "", nd.Errorf(nd.ErrIO, "log folder: %w", err)
		}
	}
	return attemptDir(dir), nil
}

// attemptOf makes the folder of one local rank's attempt: in a live job each counts its own.
func (l logTree) attemptOf(restarts, local int) (attemptDir, error) {
	if l.dir == "" {
		return "", nil
	}
	dir := filepath.Join(l.dir, "attempt_"+strconv.Itoa(restarts))
	if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(local)), 0o755); err != nil {
		return "", nd.Errorf(nd.ErrIO, "log folder: %w", err)
	}
	return attemptDir(dir), nil
}

// remove deletes a temporary tree, unless files that the user may want are in it.
func (l logTree) remove(keep bool) error {
	if l.temporary == "" || keep {
		return nil
	}
	return os.RemoveAll(l.temporary)
}

// attemptDir is the folder of one attempt, "" without a tree.
type attemptDir string

func (d attemptDir) file(local int, name string) string {
	if d == "" {
		return ""
	}
	return filepath.Join(string(d), strconv.Itoa(local), name)
}

// errorFile is where a worker may leave the reason of its failure.
func (d attemptDir) errorFile(local int) string { return d.file(local, "error.json") }

// create makes a file of the tree, whose folder is new. In a live job ranks share the
// filtered logs of an attempt that each of them has at its own time.
func create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "log file: %w", err)
	}
	return f, nil
}
