//go:build cgo && linux

package nvcomptest

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

// control reaches the switches of a loaded copy.
type control struct{ switches, complaint unsafe.Pointer }

// supported skips the test in builds that cannot load the library.
func supported(testing.TB) {}

// open loads the library; nvcomp.Open of the same path finds it loaded.
func open(t testing.TB, path string) control {
	t.Helper()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	lib := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if lib == nil {
		t.Fatalf("loading the fake nvCOMP: %s", C.GoString(C.dlerror()))
	}
	find := func(symbol string) unsafe.Pointer {
		s := C.CString(symbol)
		defer C.free(unsafe.Pointer(s))
		return C.dlsym(lib, s)
	}
	c := control{find("hr_fake_nvcomp"), find("hr_fake_nvcomp_complaint")}
	if c.switches == nil || c.complaint == nil {
		t.Fatal("the fake nvCOMP has no switches")
	}
	return c
}

func (c control) call(what, name string, a, b int) int {
	w, n := C.CString(what), C.CString(name)
	defer C.free(unsafe.Pointer(w))
	defer C.free(unsafe.Pointer(n))
	got := int(C.call(c.switches, w, n, C.int64_t(a), C.int64_t(b)))
	if got < 0 {
		panic("nvcomptest: the fake nvCOMP has no switch " + what + " " + name)
	}
	return got
}

func (c control) complaints() (list []string) {
	var text [256]C.char
	count := int(C.complaint(c.complaint, -1, &text[0], C.size_t(len(text))))
	for i := range count {
		C.complaint(c.complaint, C.int64_t(i), &text[0], C.size_t(len(text)))
		list = append(list, C.GoString(&text[0]))
	}
	return list
}
