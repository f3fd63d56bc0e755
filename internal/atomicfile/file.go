// Package atomicfile writes files that are either whole or absent: the bytes go
// to a temporary file beside the target, which takes the target's name at the
// end.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// File is a file in the making. It is closed by Commit or Abort, whichever comes
// first; the other then does nothing, so that Abort can be deferred.
type File struct {
	path string
	temp *os.File // nil once closed
}

// Create starts a file that will be named path. Its folder must exist.
func Create(path string) (*File, error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return nil, explain(path, err)
	}
	return &File{path, temp}, nil
}

// Write appends p.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.temp.Write(p)
	return n, explain(f.path, err)
}

// Commit gives the file its name, in place of any file that had it.
func (f *File) Commit() error {
	temp := f.temp
	if temp == nil {
		return nil
	}
	f.temp = nil
	err := temp.Chmod(0o644)
	if e := temp.Close(); err == nil { // a full disk may show only here
		err = e
	}
	if err == nil {
		err = os.Rename(temp.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return explain(f.path, err)
}

// Abort drops what was written.
func (f *File) Abort() {
	if f.temp != nil {
		_ = f.temp.Close()
		_ = os.Remove(f.temp.Name())
		f.temp = nil
	}
}

// Write makes a whole file.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

func explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return nd.Errorf(nd.ErrIO, "write %s: the disk is full; make room or choose another place (no partial file is left): %w", path, err)
	case errors.Is(err, os.ErrNotExist):
		return nd.Errorf(nd.ErrIO, "write %s: its folder does not exist: %w", path, err)
	}
	return nd.Errorf(nd.ErrIO, "write %s: %w", path, err)
}
