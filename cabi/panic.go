//go:build headrace_panic

package main

// #include "headrace.h"
import "C"

import "context"

// hr_test_panic only panics, in one of the ways in which the library can: here,
// by a fault, or on the goroutine of a call. It is in builds for tests alone.
//
//export hr_test_panic
func hr_test_panic(how C.int32_t, call *C.uint64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		switch how {
		case 0:
			panic("a panic on purpose")
		case 1:
			var l *library
			return status(len(l.mu.calls)), nil
		}
		*call = C.uint64_t(lib.start(func(context.Context) outcome { panic("a panic on purpose") }))
		return done, nil
	})
}
