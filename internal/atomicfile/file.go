// Package atomicfile writes files that are either whole or absent: the bytes go
// to a file without a name, or with a temporary one, which takes the target's
// name at the end.
package atomicfile

import (
	"errors"
	"os"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// File is a file in the making. It is closed by Commit or Abort, whichever comes
// first; the other then does nothing, so that Abort can be deferred.
type File struct {
	path   string // as the caller named it
	target string // path with links followed; "" where the bytes go straight to path
	temp   string // the name of file so far, "" while it has none
	perm   os.FileMode
	file   *os.File // nil once closed
}

// Create starts a file that will be named path. Its folder must exist. A regular
// file of that name is replaced at the end and keeps its permission bits; a link
// to one stays a link. What else has the name, a pipe or a device, is never
// replaced: the bytes are written to it as they come.
func Create(path string) (*File, error) {
	f := &File{path: path, perm: 0o644}
	there, err := os.Stat(path)
	switch {
	case err == nil && !there.Mode().IsRegular():
		f.file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return f.started(err)
	case err == nil:
		f.perm = there.Mode().Perm()
		err = writable(path, f.perm)
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err == nil {
		f.target, err = follow(path)
	}
	if err == nil {
		f.file, f.temp, err = temporary(f.target)
	}
	return f.started(err)
}

func (f *File) started(err error) (*File, error) {
	if err != nil {
		return nil, explain(f.path, err)
	}
	return f, nil
}

// errReadOnly is a file whose owner does not want it written. A rename would not
// ask, and root may write any file.
var errReadOnly = errors.New("it is read-only; make it writable or choose another name")

func writable(path string, perm os.FileMode) error {
	if perm&0o200 == 0 {
		return errReadOnly
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// Write appends p.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	return n, explain(f.path, err)
}

// Commit gives the file its name, in place of any regular file that had it.
func (f *File) Commit() error {
	file := f.file
	if file == nil {
		return nil
	}
	f.file = nil
	var err error
	if f.target != "" {
		err = f.name(file)
	}
	if e := file.Close(); err == nil { // a full disk may show only here
		err = e
	}
	if f.temp != "" {
		if err == nil {
			err = os.Rename(f.temp, f.target)
		}
		if err != nil {
			_ = os.Remove(f.temp)
		}
	}
	return explain(f.path, err)
}

// name names a file that has no name: as its target where that name is free, as
// a temporary one else.
func (f *File) name(file *os.File) error {
	err := file.Chmod(f.perm)
	if err != nil || f.temp != "" {
		return err
	}
	if err = link(file, f.target); !errors.Is(err, os.ErrExist) {
		return err
	}
	temp := f.target
	for errors.Is(err, os.ErrExist) {
		temp = temporaryName(f.target)
		err = link(file, temp)
	}
	if err == nil {
		f.temp = temp
	}
	return err
}

// Abort drops what was written, but for what went straight to a pipe or device.
func (f *File) Abort() {
	if f.file == nil {
		return
	}
	_ = f.file.Close()
	if f.temp != "" {
		_ = os.Remove(f.temp)
	}
	f.file = nil
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
