package pipeline

import (
	"syscall"

	"github.com/headrace/headrace/nd"
)

// allocate takes n bytes outside the Go heap: the collector neither scans nor
// counts them, a device driver can register them, and they are given back to the
// system at once when freed. Pages are zero until touched.
func allocate(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	mem, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBudget, "cannot take %d bytes of host memory: %w; lower batch_size, slots or workers", n, err)
	}
	// Large pages are a matter of speed alone: a kernel without them may refuse.
	_ = syscall.Madvise(mem, syscall.MADV_HUGEPAGE)
	return mem, nil
}

// free gives memory of allocate back; it must not be touched afterwards.
func free(mem []byte) error {
	if mem == nil {
		return nil
	}
	return syscall.Munmap(mem)
}
