//go:build cgo && linux

package cudatest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef int64_t (*fake_call)(const char *, const char *, int64_t, int64_t);
typedef int64_t (*fake_complaint)(int64_t, char *, size_t);

static int64_t call(void *f, const char *what, const char *name, int64_t a, int64_t b) { return ((fake_call)f)(what, name, a, b); }
static int64_t complaint(void *f, int64_t i, char *text, size_t size) { return ((fake_complaint)f)(i, text, size); }
*/
import "C"

import (
	"testing"
	"unsafe"
)

// Control reaches the switches of a loaded fake library.
type Control struct{ switches, complaint unsafe.Pointer }

// Supported skips the test in builds that cannot load a fake library.
func Supported(testing.TB) {}

// Load loads a fake library; whoever opens the same path finds it loaded. symbol is
// its entry for switches, which has one for complaints beside it.
func Load(t testing.TB, path, symbol string) Control {
	t.Helper()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	lib := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if lib == nil {
		t.Fatalf("loading %s: %s", path, C.GoString(C.dlerror()))
	}
	find := func(symbol string) unsafe.Pointer {
		s := C.CString(symbol)
		defer C.free(unsafe.Pointer(s))
		return C.dlsym(lib, s)
	}
	c := Control{find(symbol), find(symbol + "_complaint")}
	if c.switches == nil || c.complaint == nil {
		t.Fatalf("%s has no switches %s", path, symbol)
	}
	return c
}

// Call sets or asks a switch.
func (c Control) Call(what, name string, a, b int) int {
	w, n := C.CString(what), C.CString(name)
	defer C.free(unsafe.Pointer(w))
	defer C.free(unsafe.Pointer(n))
	got := int(C.call(c.switches, w, n, C.int64_t(a), C.int64_t(b)))
	if got < 0 {
		panic("cudatest: the fake library has no switch " + what + " " + name)
	}
	return got
}

// Complaints lists what the library refused without being asked to by a switch.
func (c Control) Complaints() (list []string) {
	var text [512]C.char
	count := int(C.complaint(c.complaint, -1, &text[0], C.size_t(len(text))))
	for i := range count {
		C.complaint(c.complaint, C.int64_t(i), &text[0], C.size_t(len(text)))
		list = append(list, C.GoString(&text[0]))
	}
	return list
}
