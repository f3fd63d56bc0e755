package pipeline

import (
	"sync/atomic"
	"testing"
	"time"
)

type watchedMemory struct {
	anonymous
	opened *atomic.Bool
	early  *atomic.Bool
}

func (w watchedMemory) Free(mem []byte) error {
	if !w.opened.Load() {
		w.early.Store(true)
	}
	return w.anonymous.Free(mem)
}

type slowEvent struct {
	open   chan struct{}
	opened *atomic.Bool
}

func (e slowEvent) Wait() error { <-e.open; return nil }

// A slot that was released with an event before Close is not unmapped before the
// event has happened.
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
	b := next(t, p)
	e := slowEvent{open: make(chan struct{}), opened: &opened}
	if err := b.Release(e); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		opened.Store(true)
		close(e.open)
	}()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if early.Load() {
		t.Error("the slot's memory was given back while its consumer's event had not happened")
	}
}
