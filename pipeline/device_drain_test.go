package pipeline

import (
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// A wave whose issue fails half-way has copies on the streams that nobody waits for:
// Close does, before it frees what they read.
func TestHalfAWaveIsDrained(t *testing.T) {
	const outOfMemory = 2
	for nth := range 8 {
		c := newCube(t)
		fake := onFake(t, &c.cfg)
		fake.Lazy(true)
		p, err := Open(t.Context(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		fake.Fail("cuStreamWaitEvent", 1+nth, outOfMemory)
		for err == nil {
			push4(p)
			var b *Batch
			if b, err = p.Next(t.Context()); err == nil {
				release(t, b)
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("call %d fails: Close: %v", 1+nth, err)
		}
		if live := fake.Live(); live != (cudatest.Live{}) {
			t.Errorf("call %d fails: %+v is held", 1+nth, live)
		}
	}
}
