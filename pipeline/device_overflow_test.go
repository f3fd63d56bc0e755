package pipeline

import (
	"math"
	"testing"
)

// Sums of budgets must not wrap.
func TestBudgetsThatOverflow(t *testing.T) {
	c := newCube(t)
	fake := onFake(t, &c.cfg)
	c.cfg.DecodedBytes, c.cfg.CompressedBytes = math.MaxInt64-300, math.MaxInt64-300
	p, err := Open(t.Context(), c.cfg)
	if err == nil {
		t.Errorf("DecodedBytes and CompressedBytes of 2^63 open: limits %+v, %d bytes taken", p.limits, fake.Live().Bytes)
		p.Close() //nolint:errcheck // it must not have opened
	}
}
