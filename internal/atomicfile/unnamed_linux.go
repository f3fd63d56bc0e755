package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// temporary makes a file in the folder of target: without a name where the file
// system can, so that a process that is killed leaves nothing.
func temporary(target string) (file *os.File, name string, err error) {
	fd, err := unix.Open(filepath.Dir(target), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return named(target) // NFS and some others refuse; what else is wrong shows again
	}
	file = os.NewFile(uintptr(fd), target)
	if _, err := os.Stat(inProc(file)); err != nil {
		_ = file.Close()
		return named(target) // without /proc it could not be named later
	}
	_, _ = hold(file) // for the moment that it has a temporary name
	return file, "", nil
}

// inProc is a path that leads to an open file; see open(2), O_TMPFILE.
func inProc(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// link gives a file without a name one that is free.
func link(file *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, inProc(file), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: inProc(file), New: name, Err: err}
	}
	return nil
}

// hold marks an open file as in use until it is closed or its process ends;
// false means that another has it. A file system may be without locks.
func hold(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
