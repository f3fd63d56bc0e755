package pipeline

import (
	"strings"
	"testing"
)

// Where the ring cannot be pinned, Open or the first call says so with the field to
// lower, and Close gives back what there is without an error of its own.
func TestRingThatCannotBePinned(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	fake.Fail("cuMemHostRegister", 0, 2)
	p, err := Open(t.Context(), c.cfg)
	if err == nil {
		push(t, p, grid(4)...)
		_, err = p.Next(t.Context())
		if e := p.Close(); e != nil {
			t.Errorf("Close: %v", e)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "HostBytes") {
		t.Errorf("got %v", err)
	}
}

// Releasing too often keeps no events.
func TestDoubleReleaseKeepsNoEvents(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came before
	push(t, p, grid(4)...)
	b := next(t, p)
	release(t, b)
	before := fake.Live().Events
	for range 100 {
		b.ReleaseOn(1) //nolint:errcheck // what it leaves behind is the test
	}
	if n := fake.Live().Events - before; n > 1 {
		t.Errorf("%d events are kept after 100 releases too many", n)
	}
}
