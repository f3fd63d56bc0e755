package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/nd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// quiet is a library that dumps no stacks.
func quiet() *library { return newLibrary(io.Discard) }

// open opens a pipeline without arrays: an object like any other.
func open(t *testing.T, l *library) uint64 {
	t.Helper()
	handle, _, err := l.Open(t.Context(), []byte(`{"open": "pipeline", "on_error": "raise", "reuse": "window"}`))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// isOpen reports whether a handle still stands for an object.
func isOpen(l *library, handle uint64) bool {
	_, err := l.Ask(context.Background(), handle, "stats", nil)
	return !errors.Is(err, nd.ErrClosed)
}

func TestCallGivesItsOutcomeOnce(t *testing.T) {
	l := quiet()
	gate := make(chan struct{})
	call := l.start(func(context.Context) outcome {
		<-gate
		return outcome{handle: 7, json: []byte("{}")}
	})
	if _, st, err := l.wait(call, time.Millisecond); st != again || err != nil {
		t.Errorf("too early: %v %v", st, err)
	}
	close(gate)
	o, st, err := l.wait(call, patience)
	if st != done || err != nil || string(o.json) != "{}" || o.handle != 7 {
		t.Fatalf("got %+v %v %v", o, st, err)
	}
	if _, _, err := l.wait(call, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("waited twice: %v", err)
	}
}

// What a call opens after it was given up is closed; a call that was waited for is
// none any more.
func TestCancelledCallUndoesItself(t *testing.T) {
	l := quiet()
	opened := make(chan uint64, 1)
	call := l.start(func(ctx context.Context) outcome {
		<-ctx.Done()
		handle := open(t, l)
		opened <- handle
		return outcome{handle: handle}
	})
	l.cancel(call)
	l.cancel(call)
	handle := <-opened
	for deadline := time.Now().Add(patience); isOpen(l, handle); {
		if time.Now().After(deadline) {
			t.Fatal("the object was left open")
		}
	}
	if _, _, err := l.wait(call, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("got %v", err)
	}
	kept := open(t, l)
	call = l.start(func(context.Context) outcome { return outcome{handle: kept} })
	if _, _, err := l.wait(call, patience); err != nil {
		t.Fatal(err)
	}
	l.cancel(call)
	if !isOpen(l, kept) {
		t.Error("cancel closed what a call had given")
	}
	l.End()
}

func TestPanicOfACallPoisons(t *testing.T) {
	dump := &strings.Builder{}
	l := newLibrary(dump)
	call := l.start(func(context.Context) outcome { panic("there") })
	if _, st, err := l.wait(call, patience); st != failed || !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v %v", st, err)
	}
	if _, err := l.Guard(func() (status, error) { return done, nil }); !errors.Is(err, nd.ErrBug) {
		t.Errorf("after: %v", err)
	}
	if !strings.Contains(dump.String(), "headrace: panic: there") {
		t.Errorf("dumped %.100q", dump)
	}
}

func TestCloseTakesTheHandleAtOnce(t *testing.T) {
	l := quiet()
	handle := open(t, l)
	call, err := l.closeObject(handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.closeObject(handle); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, st, err := l.wait(call, patience); st != done || err != nil || isOpen(l, handle) {
		t.Errorf("got %v %v", st, err)
	}
	// Nobody has to wait: a close that is given up closes, and leaves nothing behind.
	handle = open(t, l)
	if call, err = l.closeObject(handle); err != nil {
		t.Fatal(err)
	}
	l.cancel(call)
	if n := len(l.mu.calls); n != 0 || isOpen(l, handle) {
		t.Errorf("%d calls are left", n)
	}
}

// There is one release pipe, and what comes out of it is given back.
func TestReleasePipe(t *testing.T) {
	l := quiet()
	fd, err := l.releaseFD()
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := l.releaseFD(); twice != fd || err != nil {
		t.Errorf("a second pipe: %d %v", twice, err)
	}
	handle := open(t, l)
	if _, err := syscall.Write(fd, binary.NativeEndian.AppendUint64(nil, handle)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); isOpen(l, handle); {
		if time.Now().After(deadline) {
			t.Fatal("nothing came out of the pipe")
		}
	}
	if err := syscall.Close(fd); err != nil { // ends the reader
		t.Fatal(err)
	}
}
