//go:build cgo && linux

package nvcomp

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#cgo noescape hr_nvcomp_call
#cgo nocallback hr_nvcomp_call
#include <stdlib.h>
#include "nvcomp.h"
*/
import "C"

import (
	"unsafe"

	"github.com/headrace/headrace/cuda"
)

// library is a loaded nvCOMP. It is C memory and is never freed: a library with
// CUDA in it is not made to be unloaded.
type library struct{ lib *C.hr_nvcomp }

// openLibrary loads the library at path; text is what the loader or the C side
// says about a failure.
func openLibrary(path string) (lib library, version int, code loadStatus, text string) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var v C.int
	var said [512]C.char
	rc := C.hr_nvcomp_load(name, &lib.lib, &v, &said[0], C.size_t(len(said)))
	return lib, int(v), loadStatus(rc), C.GoString(&said[0])
}

// call makes one call of nvCOMP and returns the driver's status.
func (l library) call(on cuda.Lent, which call, w *words) int {
	place := C.hr_nvcomp_place{C.uint64_t(on.Push), C.uint64_t(on.Pop), C.uint64_t(on.Context), C.uint64_t(on.Stream)}
	return int(C.hr_nvcomp_call(l.lib, &place, C.int(which), (*C.uint64_t)(&w[0])))
}
