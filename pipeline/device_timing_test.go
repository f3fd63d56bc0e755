package pipeline

import (
	"testing"
	"time"
)

// Open with the default budgets on a GPU, the first batch, whose waves wait for pinned
// memory, and Close: on the second pipeline and later the context is there already, as
// in a trainer.
func BenchmarkOpen(b *testing.B) {
	c := newCube(b)
	if c.cfg = onDevice(b, c.cfg); *testDevice != "" {
		c.cfg.DeviceBytes, c.cfg.HostBytes = 0, 0
	}
	var open, first, end time.Duration
	for b.Loop() {
		began := time.Now()
		p, err := Open(b.Context(), c.cfg)
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		push(b, p, grid(4)...)
		release(b, next(b, p))
		came := time.Now()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		open, first, end = open+opened.Sub(began), first+came.Sub(opened), end+time.Since(came)
	}
	for name, d := range map[string]time.Duration{"ms-open": open, "ms-first": first, "ms-close": end} {
		b.ReportMetric(d.Seconds()*1e3/float64(b.N), name)
	}
}
