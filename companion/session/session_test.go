package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is a session whose stacks go to the returned text.
func quiet() (*Session, *strings.Builder) {
	dump := &strings.Builder{}
	return New(Options{Stderr: dump}), dump
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func fine() (Status, error) { return Done, nil }

// The first panic is dumped with the stacks of all goroutines and refuses every
// call after it, with its own text; later ones are not dumped again.
func TestPanicPoisons(t *testing.T) {
	l, dump := quiet()
	if st, err := l.Guard(fine); st != Done || err != nil {
		t.Fatalf("before: %v %v", st, err)
	}
	for range 2 {
		st, err := l.Guard(func() (Status, error) { panic("first") })
		if st != Failed || !errors.Is(err, nd.ErrBug) || !strings.Contains(err.Error(), "first") {
			t.Errorf("got %v %v", st, err)
		}
	}
	if st, err := l.Guard(fine); st != Failed || !strings.Contains(err.Error(), "earlier call") {
		t.Errorf("after: %v %v", st, err)
	}
	if n := strings.Count(dump.String(), "headrace: panic: first"); n != 1 || !strings.Contains(dump.String(), "goroutine ") {
		t.Errorf("%d dumps, want 1 with stacks:\n%.200s", n, dump)
	}
}

func TestFaultPoisons(t *testing.T) {
	l, _ := quiet()
	var nothing *Session
	if _, err := l.Guard(func() (Status, error) { return Status(len(nothing.mu.held)), nil }); !errors.Is(err, nd.ErrBug) {
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

func TestKindsAreTold(t *testing.T) {
	names := map[string]bool{}
	for i, k := range kinds {
		code, name := KindOf(nd.At(nd.Errorf(k.err, "told"), nd.Place{Array: "a"}))
		if code != int32(i+1) || name != k.name || names[name] {
			t.Errorf("%v is %d %q", k.err, code, name)
		}
		names[name] = true
	}
	if _, name := KindOf(io.ErrUnexpectedEOF); name != "bug" {
		t.Errorf("an error without a kind is %q, want bug", name)
	}
	if _, name := KindOf(errors.Join(nd.ErrIO, nd.ErrClosed)); name != "closed" {
		t.Errorf("of two kinds %q, want what ends more", name)
	}
}

// A token that is lost because the caller had no room is no leak.
func TestRefusedDeliveryIsTakenBack(t *testing.T) {
	l, _ := quiet()
	o := openTest(t, l, 1)
	st, err := l.Next(t.Context(), o.handle, patience, func(Delivery, uint64) error { return nd.ErrBug })
	if st != Failed || !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v %v", st, err)
	}
	if n := o.p.held().Load(); n != 0 {
		t.Errorf("%d batches are out, want 0", n)
	}
	o.close(t)
}

// Tokens come back in any order; what is no token of ours does nothing, nor does
// one that comes twice. A handle among them closes its object.
func TestNumbersGiveBack(t *testing.T) {
	l, _ := quiet()
	o := openTest(t, l, 4)
	var out []uint64
	for range 3 {
		out = append(out, o.next(t))
	}
	thing := newThing()
	handle, err := l.putObject(thing)
	if err != nil {
		t.Fatal(err)
	}
	var numbers bytes.Buffer
	for _, n := range []uint64{out[2], 1 << 60, out[0], out[0], handle, out[1], handle} {
		numbers.Write(binary.NativeEndian.AppendUint64(nil, n))
	}
	l.TakeBack(&numbers)
	if !thing.wasClosed() {
		t.Error("the object is open")
	}
	// All three slots are free again: three more batches can be had at once.
	for range 3 {
		l.GiveBack(o.next(t))
	}
	o.close(t)
}

// The end of a session closes what is open, takes back what is out, and closes what
// comes later; the memory of its batches is freed.
func TestEndLeavesNothing(t *testing.T) {
	quota, memory := NewQuota(1), &counted{}
	l := New(Options{Pipelines: quota, Memory: func() pipeline.Memory { return memory }})
	o := openTest(t, l, 2)
	o.next(t)
	if _, _, err := l.Open(t.Context(), wireRequest(t)); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "1 pipelines") {
		t.Errorf("over the quota: %v", err)
	}
	if memory.live.Load() == 0 {
		t.Error("the memory was not asked for")
	}
	l.End()
	if n, live := quota.Used(), memory.live.Load(); n != 0 || live != 0 {
		t.Errorf("%d pipelines and %d slots are left", n, live)
	}
	late := newThing()
	if _, err := l.putObject(late); !errors.Is(err, nd.ErrClosed) || !late.wasClosed() {
		t.Errorf("after the end: %v", err)
	}
}

// counted counts the slots that are alive.
type counted struct{ live atomic.Int64 }

func (c *counted) Alloc(n int64) ([]byte, error) {
	c.live.Add(1)
	return make([]byte, n), nil
}

func (c *counted) Free([]byte) error {
	c.live.Add(-1)
	return nil
}

func TestObjectsAreBounded(t *testing.T) {
	l := New(Options{Objects: 1})
	first, second := newThing(), newThing()
	handle, err := l.putObject(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.putObject(second); !errors.Is(err, nd.ErrBudget) || !second.wasClosed() {
		t.Errorf("got %v", err)
	}
	l.GiveBack(handle)
	if _, err := l.putObject(newThing()); err != nil {
		t.Error(err)
	}
	l.End()
}

// An engine has one device.
func TestAnotherDeviceIsRefused(t *testing.T) {
	l := New(Options{Device: "cpu"})
	if _, _, err := l.Open(t.Context(), []byte(`{"open": "pipeline", "device": "cuda:0"}`)); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), `"cpu"`) {
		t.Errorf("got %v", err)
	}
}
