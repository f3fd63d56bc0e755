package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// library is what outlives a call: the objects behind the handles, the batches
// that are out, and the poison. A c-shared library has no other root to hang them
// on than a variable; there is one, lib, and only the exports touch it.
type library struct {
	mu struct {
		sync.Mutex
		last    uint64
		objects map[uint64]any
	}
	poison   atomic.Pointer[string]
	stderr   io.Writer // where the first panic is dumped
	releases releases
}

// object is what a handle from hr_open stands for.
type object interface{ close() error }

func newLibrary() *library {
	l := &library{stderr: os.Stderr}
	l.mu.objects = map[uint64]any{}
	return l
}

// put makes a handle for an object. Handles are never used twice.
func (l *library) put(object any) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last++
	l.mu.objects[l.mu.last] = object
	return l.mu.last
}

// get is the object of a handle, nil if it has none.
func (l *library) get(handle uint64) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.objects[handle]
}

// take removes the object of a handle: of several callers one gets it.
func (l *library) take(handle uint64) (any, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.mu.objects[handle]
	delete(l.mu.objects, handle)
	return o, ok
}

// lookup is the object of a handle as a T.
func lookup[T any](l *library, handle uint64) (T, error) {
	t, ok := l.get(handle).(T)
	if !ok {
		return t, nd.Errorf(nd.ErrClosed, "handle %d was closed", handle)
	}
	return t, nil
}

// guard runs the body of an export. It refuses once the library is poisoned, and
// turns a panic into the poison.
func (l *library) guard(body func() (status, error)) (st status, err error) {
	if p := l.poison.Load(); p != nil {
		return failed, nd.Errorf(nd.ErrBug, "an earlier call panicked (%s); start a new process", *p)
	}
	defer func() {
		if r := recover(); r != nil {
			st, err = failed, l.panicked(r)
		}
	}()
	return body()
}

// panicked poisons the library with what recover returned.
func (l *library) panicked(r any) error {
	text := fmt.Sprint(r)
	if l.poison.CompareAndSwap(nil, &text) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		_, _ = fmt.Fprintf(l.stderr, "headrace: panic: %s\n\n%s\n", text, stacks) // there is nowhere else to say it
	}
	return nd.Errorf(nd.ErrBug, "panic: %s; please report the stacks on stderr", text)
}
