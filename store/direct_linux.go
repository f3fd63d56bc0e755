package store

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func directSupported() error { return nil }

// directAlign is what offsets and lengths of direct reads of a file are multiples
// of. Kernels from 6.1 on tell it for each file (statx, STATX_DIOALIGN), and say
// 0 where there are none; before, 4096 suits every disk.
func directAlign(file *os.File) (int64, bool) {
	var info unix.Statx_t
	err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &info)
	if err != nil || info.Mask&unix.STATX_DIOALIGN == 0 {
		return 4096, true
	}
	n := int64(info.Dio_offset_align)
	ok := n > 0 && n <= maxAlign && n&(n-1) == 0 && int(info.Dio_mem_align) <= os.Getpagesize()
	return n, ok
}

// setDirect sets or clears O_DIRECT of an open file. O_NONBLOCK, which the open
// needed, goes: io_uring would take it for a wish to fail rather than wait.
func setDirect(file *os.File, on bool) error {
	flags := 0
	if on {
		flags = unix.O_DIRECT
	}
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETFL, flags)
	return err
}

func pread(file *os.File, b *block, n int, off int64) (int, error) {
	for {
		got, err := syscall.Pread(int(file.Fd()), b.mem[:n], off)
		if !errors.Is(err, syscall.EINTR) {
			return got, err
		}
	}
}

func mapBlock() ([]byte, error) {
	return unix.Mmap(-1, 0, BlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func unmapBlock(mem []byte) error { return unix.Munmap(mem) }
