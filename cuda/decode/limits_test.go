package decode_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// Limits that are out of range are refused before a size is worked out from them, and the error names
// every field.
func TestLimitsOutOfRange(t *testing.T) {
	r := open(t)
	good := decode.Limits{Chunks: 1, Bytes: 1000}
	for _, c := range []struct {
		of    func(*decode.Limits)
		names string
	}{
		{func(l *decode.Limits) { l.Chunks = 0 }, "Chunks"},
		{func(l *decode.Limits) { l.Chunks = 1 << 31 }, "Chunks"},
		{func(l *decode.Limits) { l.Bytes = math.MaxInt64 }, "Bytes"},
		{func(l *decode.Limits) { l.Bytes, l.Blocks = math.MaxInt64, 1 }, "Bytes"},
		{func(l *decode.Limits) { l.Bytes = decode.MaxBytes }, "Blocks"}, // as many as that many bytes are thought to have
		{func(l *decode.Limits) { l.Arena = math.MaxInt64 }, "Arena"},
		{func(l *decode.Limits) { l.Arena = math.MaxInt64 - 14 }, "Arena"},
		{func(l *decode.Limits) { l.Arena = -1 }, "Arena"},
		{func(l *decode.Limits) { l.Blocks = math.MaxInt }, "Blocks"},
		{func(l *decode.Limits) { l.Blocks = -1 }, "Blocks"},
		{func(l *decode.Limits) { l.SMs = math.NaN() }, "SMs"},
		{func(l *decode.Limits) { l.SMs = math.Inf(1) }, "SMs"},
		{func(l *decode.Limits) { l.SMs = -1 }, "SMs"},
		{func(l *decode.Limits) { *l = decode.Limits{Arena: -1, Blocks: -1, SMs: math.NaN()} }, "Chunks Bytes Arena Blocks SMs"},
	} {
		l := good
		c.of(&l)
		n, err := l.Scratch()
		_, opened := decode.Open(r.Device, l, kernels.LZ4)
		for _, err := range []error{err, opened} {
			if !errors.Is(err, nd.ErrConfig) {
				t.Errorf("%+v: scratch of %d bytes, %v", l, n, err)
				continue
			}
			for name := range strings.FieldsSeq(c.names) {
				if !strings.Contains(err.Error(), name+" is ") {
					t.Errorf("%+v: %v names no %s", l, err, name)
				}
			}
		}
	}
}

// At the limits of Limits, sizes are right: they do not overflow.
func TestLimitsAtTheirEnds(t *testing.T) {
	for _, l := range []decode.Limits{
		{Chunks: math.MaxInt32, Bytes: decode.MaxBytes, Arena: decode.MaxBytes, Blocks: math.MaxInt32, SMs: math.MaxInt32, Shuffled: math.MaxInt64},
		{Chunks: 1, Bytes: decode.MaxBytes, Blocks: 1, Shuffled: math.MinInt64},
	} {
		if n := must(l.Scratch())(t); n < decode.MaxBytes {
			t.Errorf("%+v: scratch of %d bytes", l, n)
		}
	}
	if n := (decode.Limits{Bytes: math.MaxInt64}).DefaultArena(); n < decode.MaxBytes {
		t.Errorf("an arena of %d bytes", n)
	}
	// There is no GPU with so much memory.
	r := open(t)
	if _, err := decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: decode.MaxBytes, Blocks: 1}, kernels.LZ4); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("%v", err)
	}
}
