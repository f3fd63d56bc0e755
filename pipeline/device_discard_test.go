package pipeline

import (
	"runtime"
	"testing"

	"github.com/headrace/headrace/nd"

	"github.com/headrace/headrace/cuda/cudatest"
)

// A batch that was discarded while its wave was in flight must give its slot back
// when the device is lost before the wave ends: else the context stays for good.
func TestDiscardedBatchOfLostDevice(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	push(t, p, grid(4)...)
	release(t, next(t, p))
	d := p.backend.(*device)
	d.events.mu.Lock() // the settler stops in finish
	push(t, p, grid(4)...)
	for d.p.counts.waves.Load() < 2 || d.latest.Load() < 2 {
		runtime.Gosched()
	}
	if err := p.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.p.inbox.end(nd.Errorf(nd.ErrDevice, "lost"))
	for closed := false; !closed; runtime.Gosched() { // the scheduler has ended
		p.tasks.mu.Lock()
		closed = p.tasks.closed
		p.tasks.mu.Unlock()
	}
	d.events.mu.Unlock()
	if err := p.Close(); err != nil {
		t.Log(err)
	}
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("after Close %+v is held", live)
	}
}
