//go:build cgo && linux

package cuda

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#cgo noescape hr_cuda_call
#cgo nocallback hr_cuda_call
#cgo noescape hr_cuda_run
#cgo nocallback hr_cuda_run
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import "unsafe"

// library is a loaded driver library. It is C memory and is never freed: the
// driver is not made to be unloaded.
type library struct{ cu *C.hr_cuda }

// The lists of ops.go and driver.h have the same length; a test compares the names.
var _ [opCount]struct{} = [C.HR_OPS]struct{}{}

// openLibrary loads the library at path; text is what the loader or the C side
// says about a failure.
func openLibrary(path string) (lib library, version, code int, text string) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var v C.int
	var said [512]C.char
	rc := C.hr_cuda_load(name, &lib.cu, &v, &said[0], C.size_t(len(said)))
	return lib, int(v), int(rc), C.GoString(&said[0])
}

func (l library) canBatch() bool { return C.hr_cuda_can_batch(l.cu) != 0 }

// pushPop gives the addresses of cuCtxPushCurrent and cuCtxPopCurrent.
func (l library) pushPop() (push, pop uintptr) {
	return uintptr(C.hr_cuda_push(l.cu)), uintptr(C.hr_cuda_pop(l.cu))
}

// call does one operation, inside the context unless that is 0. bytes hold no Go
// pointers; the C side keeps neither them nor w.
func (l library) call(context uint64, o op, w *words, bytes []byte) int {
	return int(C.hr_cuda_call(l.cu, C.uint64_t(context), C.int(o), (*C.uint64_t)(&w[0]), unsafe.Pointer(unsafe.SliceData(bytes))))
}

// run enqueues a packed list of commands, see commands.go.
func (l library) run(context uint64, list []uint64, at *[2]uint64) int {
	return int(C.hr_cuda_run(l.cu, C.uint64_t(context), (*C.uint64_t)(unsafe.SliceData(list)), C.uint64_t(len(list)), (*C.uint64_t)(&at[0])))
}
