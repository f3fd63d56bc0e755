package export

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample writes an array of 3 axes and gives its path and its values.
func sample(t *testing.T) (dataset.Array, string) {
	t.Helper()
	a := dataset.Array{
		Path: "a", Shape: []int64{17, 9, 23}, Chunk: []int64{4, 5, 8}, Shard: []int64{8, 10, 16}, DType: nd.U16, Format: 3,
		Codecs: scenario.Chain{{Name: "lz4"}}, Field: "mask50", Entropy: 1, Seed: 5,
	}
	root := t.TempDir()
	if err := dataset.Write(context.Background(), root, []dataset.Array{a}, nil); err != nil {
		t.Fatal(err)
	}
	return a, filepath.Join(root, "a")
}

// Whatever the size of the slabs, the output is the whole crop: here the crop in
// one slab is the oracle of the crop in many.
func TestSlabsDoNotChangeBytes(t *testing.T) {
	a, dir := sample(t)
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		s := Spec{Array: pipeline.ArrayRef{URI: dir}, Chunk: a.Chunk, DType: nd.F32, Axes: r.Perm(3), Flip: r.Uint32N(8), Pad: pipeline.PadReflect}
		for _, n := range a.Shape {
			start := r.Int64N(2*n) - n/2
			s.Box = append(s.Box, nd.Span{Start: start, Stop: start + 1 + r.Int64N(n)})
		}
		var whole, parts bytes.Buffer
		if err := s.Write(t.Context(), &whole); err != nil {
			t.Fatal(err)
		}
		s.SlabBytes = 4 + r.Int64N(4000)
		done := int64(0)
		s.Report = func(d, total int64) {
			if d <= done || total != int64(whole.Len()) {
				t.Errorf("reported %d of %d after %d", d, total, done)
			}
			done = d
		}
		if err := s.Write(t.Context(), &parts); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.Bytes(), parts.Bytes()) || done != int64(whole.Len()) {
			t.Errorf("box %v axes %v flip %b in slabs of %d bytes: other bytes", s.Box, s.Axes, s.Flip, s.SlabBytes)
		}
	}
}

// failing is a writer that fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (w *failing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A writer that fails, a cancelled context and an impossible box end the export
// with their own reason.
func TestEndsWithTheReason(t *testing.T) {
	a, dir := sample(t)
	s := Spec{Array: pipeline.ArrayRef{URI: dir}, Chunk: a.Chunk, DType: nd.U16, Box: nd.Whole(a.Shape), SlabBytes: 500}
	if err := s.Write(t.Context(), &failing{1500}); !errors.Is(err, errFull) {
		t.Errorf("failing writer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Report = func(int64, int64) { cancel() }
	if err := s.Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Report = nil
	s.Box = slices.Clone(s.Box)
	s.Box[0].Stop++
	if err := s.Write(t.Context(), io.Discard); !errors.Is(err, nd.ErrShape) {
		t.Errorf("outside: %v", err)
	}
	s.Box[0] = nd.Span{Start: 3, Stop: 3}
	if err := s.Write(t.Context(), &failing{}); err != nil {
		t.Errorf("an empty box writes nothing: %v", err)
	}
}
