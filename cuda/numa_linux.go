package cuda

import (
	"syscall"
	"unsafe"
)

// PreferNode has the pages of mapped memory that nobody has touched yet come from a
// NUMA node, and from others where that one is full (mbind(2), MPOL_PREFERRED).
func PreferNode(mem []byte, node int) error {
	const (
		preferred = 1
		bits      = 1024 // nodes in a mask, as many as Linux is ever built for
	)
	if node < 0 || node >= bits {
		return syscall.EINVAL
	}
	var mask [bits / 64]uint64
	mask[node/64] = 1 << (node % 64)
	// The kernel reads one bit less than it is told.
	_, _, errno := syscall.Syscall6(syscall.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		preferred, uintptr(unsafe.Pointer(&mask)), bits+1, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
