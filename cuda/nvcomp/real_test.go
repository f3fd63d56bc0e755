package nvcomp_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda/nvcomp"
	"github.com/headrace/headrace/nd"
)

// realGPU opens the user's nvCOMP on a GPU, if the flags name them.
func realGPU(t *testing.T) *rig {
	t.Helper()
	if *driverFlag != "real" || *libraryFlag == "" {
		t.Skip("needs a GPU and nvCOMP: -cuda.driver=real -nvcomp.library=PATH")
	}
	r := &rig{t: t}
	r.open("", *libraryFlag)
	input, output, temp, err := r.lib.Alignments(nvcomp.Zstd)
	ok(t, err)
	t.Logf("%s, nvCOMP %s, alignments %d, %d, %d", r.Info().Name, r.lib.Version(), input, output, temp)
	for _, n := range []int{input, output, temp} {
		if n < 1 || align%n != 0 {
			t.Fatalf("chunks at multiples of %d do not fit", align)
		}
	}
	return r
}

// decode runs one batch.
func (r *rig) decode(list []sample) *load {
	r.t.Helper()
	var frames [][]byte
	var sizes []int64
	for _, s := range list {
		frames = append(frames, s.frame)
		sizes = append(sizes, s.decoded)
	}
	b := r.prepare(frames, sizes)
	ok(r.t, r.lib.Decompress(nvcomp.Zstd, r.stream, b.Batch))
	r.collect(b)
	return b
}

// Chunks of all levels and sizes decode on the GPU to the bytes that they were
// made of, in one batch.
func TestRealDecompress(t *testing.T) {
	r := realGPU(t)
	var list []sample
	for _, s := range encoded(t) {
		ok(t, nvcomp.CheckZstd(s.frame, s.decoded))
		if s.decoded > 0 {
			list = append(list, s)
		}
	}
	b := r.decode(list)
	bad := 0
	for i, s := range list {
		data, actual, status := b.chunk(i)
		if status != 0 || actual != s.decoded || !bytes.Equal(data, s.text) {
			bad++
			t.Errorf("%s: %s, %d bytes of %d, equal %v", s.name, nvcomp.StatusText(status), actual, s.decoded, bytes.Equal(data, s.text))
		}
	}
	t.Logf("%d of %d chunks are right, %d bytes of scratch", len(list)-bad, len(list), b.TempBytes)
}

// What else passes CheckZstd, one batch
// each: right bytes, or a failure that the caller can see.
func TestRealGolden(t *testing.T) {
	r := realGPU(t)
	s := codec.NewScratch()
	defer s.Close()
	c, err := codec.New("zstd", nil)
	ok(t, err)
	right, seen := 0, 0
	for _, g := range golden(t) {
		if err := nvcomp.CheckZstd(g.frame, g.decoded); errors.Is(err, nd.ErrUnsupported) || g.decoded == 0 {
			continue
		}
		chain, err := codec.NewChain([]codec.Codec{c}, int(g.decoded))
		ok(t, err)
		want, err := chain.Decode(make([]byte, g.decoded), g.frame, s)
		ok(t, err)
		data, actual, status := r.decode([]sample{g}).chunk(0)
		switch {
		case status != 0 || actual != g.decoded:
			seen++
			t.Logf("%s: %s, %d bytes of %d", g.name, nvcomp.StatusText(status), actual, g.decoded)
		case !bytes.Equal(data, want):
			t.Errorf("%s: wrong bytes with a status of success", g.name)
		default:
			right++
		}
	}
	t.Logf("%d chunks are right, %d are refused", right, seen)
}
