package atomicfile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxLinks is how many links to links are followed, as in Linux.
const maxLinks = 40

// follow is the name that path stands for once every link at its end is
// followed. That file need not exist: a link may lead to one that is to be made.
func follow(path string) (string, error) {
	for range maxLinks {
		there, err := os.Lstat(path)
		if err != nil || there.Mode()&os.ModeSymlink == 0 {
			return path, nil //nolint:nilerr // the name is free, or making the file says why not
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			// Not filepath.Join: "a/../b" is not "b" where a is a link.
			folder, _ := filepath.Split(path)
			to = folder + to
		}
		path = to
	}
	return "", &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// A temporary file lies beside its target: ".NAME.tmp" and a number.
func prefix(target string) (folder, start string) {
	folder, base := filepath.Split(target)
	return folder, "." + base + ".tmp"
}

func temporaryName(target string) string {
	folder, start := prefix(target)
	return folder + start + strconv.FormatUint(uint64(rand.Uint32()), 10)
}

// named makes a temporary file with a name. It is held until it is closed, so
// that RemoveStale can tell it from one whose process is gone.
func named(target string) (*os.File, string, error) {
	for {
		name := temporaryName(target)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		held, err := hold(file)
		if _, gone := os.Lstat(name); gone == nil && (held || err != nil) {
			return file, name, nil
		}
		_ = file.Close() // RemoveStale of another process came first
	}
}
