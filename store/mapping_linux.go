package store

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// Map implements Mapper.
func (f *File) Map(ctx context.Context, key string, off, n int64) ([]byte, uint64, error) {
	name, err := f.name(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	fd, err := f.fds.acquire(ctx, name)
	if err != nil {
		return nil, 0, fileError(err, name.path(), off, int(n))
	}
	defer f.fds.release(fd)
	var info syscall.Stat_t
	if err := fstat(fd.file, &info); err != nil {
		return nil, 0, fileError(err, name.path(), off, int(n))
	}
	if off < 0 || n <= 0 || off%MapGrain != 0 || off > info.Size-n {
		return nil, 0, nd.Errorf(nd.ErrIO, "%s has %d bytes, %d at %d cannot be mapped", name.path(), info.Size, n, off)
	}
	mem, err := syscall.Mmap(int(fd.file.Fd()), off, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, 0, fileError(&os.PathError{Op: "mmap", Path: name.path(), Err: err}, name.path(), off, int(n))
	}
	return mem, versionOf(&info), nil
}

// Unmap ends a mapping of Map.
func Unmap(mem []byte) error { return syscall.Munmap(mem) }

// residentGrain is how far apart the bytes are that Resident looks at: what the
// kernel reads ahead, and so evicts, at once.
const residentGrain = 64 << 10

// Resident implements Mapper. It asks for single bytes that must not wait: mincore
// would say yes to everything of a file that the caller may only read.
func (f *File) Resident(ctx context.Context, key string, off, n int64) (bool, error) {
	name, err := f.name(ctx, key)
	if err != nil {
		return false, err
	}
	fd, err := f.fds.acquire(ctx, name)
	if err != nil {
		return false, fileError(err, name.path(), off, int(n))
	}
	defer f.fds.release(fd)
	var one [1]byte
	for at := off; at < off+n; at += residentGrain {
		switch _, err := unix.Preadv2(int(fd.file.Fd()), [][]byte{one[:]}, at, unix.RWF_NOWAIT); {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fileError(err, name.path(), at, 1)
		}
	}
	return true, nil
}
