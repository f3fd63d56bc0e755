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

// quiet is a library whose stacks go to the returned text.
func quiet() (*library, *strings.Builder) {
	l, dump := newLibrary(), &strings.Builder{}
	l.stderr = dump
	return l, dump
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func fine() (status, error) { return done, nil }

// The first panic is dumped with the stacks of all goroutines and refuses every
// call after it, with its own text; later ones are not dumped again.
func TestPanicPoisons(t *testing.T) {
	l, dump := quiet()
	if st, err := l.guard(fine); st != done || err != nil {
		t.Fatalf("before: %v %v", st, err)
	}
	for range 2 {
		st, err := l.guard(func() (status, error) { panic("first") })
		if st != failed || !errors.Is(err, nd.ErrBug) || !strings.Contains(err.Error(), "first") {
			t.Errorf("got %v %v", st, err)
		}
	}
	if st, err := l.guard(fine); st != failed || !strings.Contains(err.Error(), "earlier call") {
		t.Errorf("after: %v %v", st, err)
	}
	if n := strings.Count(dump.String(), "headrace: panic: first"); n != 1 || !strings.Contains(dump.String(), "goroutine ") {
		t.Errorf("%d dumps, want 1 with stacks:\n%.200s", n, dump)
	}
}

func TestFaultPoisons(t *testing.T) {
	l, _ := quiet()
	var nothing *library
	if _, err := l.guard(func() (status, error) { return status(len(nothing.mu.objects)), nil }); !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v", err)
	}
}

// thing is an object that knows whether it was closed.
type thing struct{ closed chan struct{} }

func newThing() *thing { return &thing{make(chan struct{})} }

func (o *thing) close() error {
	close(o.closed)
	return nil
}

func (o *thing) wasClosed() bool {
	select {
	case <-o.closed:
		return true
	case <-time.After(patience):
		return false
	}
}

func TestCallGivesItsOutcomeOnce(t *testing.T) {
	l, _ := quiet()
	gate := make(chan struct{})
	call := l.start(func(context.Context) outcome {
		<-gate
		return outcome{object: newThing(), json: []byte("{}")}
	})
	if _, _, st, err := l.wait(call, time.Millisecond); st != again || err != nil {
		t.Errorf("too early: %v %v", st, err)
	}
	close(gate)
	handle, json, st, err := l.wait(call, patience)
	if st != done || err != nil || string(json) != "{}" {
		t.Fatalf("got %s %v %v", json, st, err)
	}
	if _, _, _, err := l.wait(call, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("waited twice: %v", err)
	}
	if _, err := lookup[*thing](l, handle); err != nil {
		t.Error(err)
	}
	if _, err := lookup[stream](l, handle); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("a handle of another kind: %v", err)
	}
}

// What a call opens after it was given up is closed; a call that was waited for
// is none any more.
func TestCancelledCallUndoesItself(t *testing.T) {
	l, _ := quiet()
	opened := newThing()
	call := l.start(func(ctx context.Context) outcome {
		<-ctx.Done()
		return outcome{object: opened}
	})
	l.cancel(call)
	l.cancel(call)
	if !opened.wasClosed() {
		t.Error("the object was left open")
	}
	if _, _, _, err := l.wait(call, 0); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("got %v", err)
	}
	kept := newThing()
	call = l.start(func(context.Context) outcome { return outcome{object: kept} })
	handle, _, _, err := l.wait(call, patience)
	if err != nil {
		t.Fatal(err)
	}
	l.cancel(call)
	l.cancel(handle)
	if l.get(handle) != kept {
		t.Error("cancel took an object for a call")
	}
}

func TestPanicOfACallPoisons(t *testing.T) {
	l, _ := quiet()
	call := l.start(func(context.Context) outcome { panic("there") })
	if _, _, st, err := l.wait(call, patience); st != failed || !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v %v", st, err)
	}
	if _, err := l.guard(fine); !errors.Is(err, nd.ErrBug) {
		t.Errorf("after: %v", err)
	}
}

func TestCloseTakesTheHandleAtOnce(t *testing.T) {
	l, _ := quiet()
	o := newThing()
	handle := l.put(o)
	call, err := l.closeObject(handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.closeObject(handle); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, _, st, err := l.wait(call, patience); st != done || err != nil || !o.wasClosed() {
		t.Errorf("got %v %v", st, err)
	}
	// Nobody has to wait: a close that is given up closes, and leaves nothing behind.
	o = newThing()
	if call, err = l.closeObject(l.put(o)); err != nil {
		t.Fatal(err)
	}
	l.cancel(call)
	if n := len(l.mu.objects); n != 0 || !o.wasClosed() {
		t.Errorf("%d objects are left", n)
	}
}

// Tokens come back over the pipe in any order; what is no token of ours does
// nothing, nor does one that comes twice.
func TestTokensReleaseBatches(t *testing.T) {
	l, _ := quiet()
	fd, err := l.releaseFD()
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := l.releaseFD(); twice != fd || err != nil {
		t.Errorf("a second pipe: %d %v", twice, err)
	}
	o := openTest(t, l, 4)
	var out []uint64
	for range 3 {
		out = append(out, o.next(t))
	}
	send := func(token uint64) {
		if _, err := syscall.Write(fd, binary.NativeEndian.AppendUint64(nil, token)); err != nil {
			t.Error(err)
		}
	}
	for _, token := range []uint64{out[2], 1 << 60, out[0], out[0], out[1]} {
		send(token)
	}
	// All three slots are free again: three more batches can be had at once.
	for range 3 {
		send(o.next(t))
	}
	if err := syscall.Close(fd); err != nil { // ends the reader
		t.Fatal(err)
	}
	o.close(t)
}

func TestKindsAreTold(t *testing.T) {
	names := map[string]bool{}
	for i, k := range kinds {
		code, name := kindOf(nd.At(nd.Errorf(k.err, "told"), nd.Place{Array: "a"}))
		if code != int32(i+1) || name != k.name || names[name] {
			t.Errorf("%v is %d %q", k.err, code, name)
		}
		names[name] = true
	}
	if _, name := kindOf(io.ErrUnexpectedEOF); name != "bug" {
		t.Errorf("an error without a kind is %q, want bug", name)
	}
	if _, name := kindOf(errors.Join(nd.ErrIO, nd.ErrClosed)); name != "closed" {
		t.Errorf("of two kinds %q, want what ends more", name)
	}
}

// A token that is lost because the caller had no room is no leak.
func TestRefusedDeliveryIsTakenBack(t *testing.T) {
	l, _ := quiet()
	o := openTest(t, l, 1)
	s, err := lookup[stream](l, o.handle)
	if err != nil {
		t.Fatal(err)
	}
	st, err := l.next(s, patience, func(delivery, uint64) error { return nd.ErrBug })
	if st != failed || !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v %v", st, err)
	}
	if n := s.held().Load(); n != 0 {
		t.Errorf("%d batches are out, want 0", n)
	}
	o.close(t)
}
