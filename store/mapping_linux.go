package store

import (
	"context"
	"os"
	"syscall"
	"unsafe"

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

// Resident reports whether all of a mapping is in the page cache, without touching
// it (mincore).
func Resident(mem []byte) (bool, error) {
	if len(mem) == 0 {
		return true, nil
	}
	pages := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		return false, os.NewSyscallError("mincore", errno)
	}
	for _, p := range pages {
		if p&1 == 0 {
			return false, nil
		}
	}
	return true, nil
}
