package pipeline

import (
	"sync/atomic"
	"testing"
)

// watchedMemory says whether it was given back before an event had happened.
type watchedMemory struct {
	anonymous
	opened, early *atomic.Bool
}

func (w watchedMemory) Free(mem []byte) error {
	if !w.opened.Load() {
		w.early.Store(true)
	}
	return w.anonymous.Free(mem)
}

// A slot that was released with an event before Close is not unmapped before the
// event has happened: it happens when Close has come to wait for it.
func TestCloseWaitsForReleasedSlots(t *testing.T) {
	c := newCube(t)
	var opened, early atomic.Bool
	c.cfg.BatchMemory = watchedMemory{opened: &opened, early: &early}
	c.cfg.Slots = 1
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	push(t, p, grid(4)...)
	g := newGate()
	if err := next(t, p).Release(g); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	select {
	case <-g.waited:
		opened.Store(true)
		close(g.opened)
		err = <-closed
	case err = <-closed:
		t.Error("Close did not wait for the consumer")
	}
	if err != nil {
		t.Fatal(err)
	}
	if early.Load() {
		t.Error("the slot's memory was given back while its consumer's event had not happened")
	}
}
