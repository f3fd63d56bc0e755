package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// A frame may be far larger than what it decodes to: blocks of no bytes are well
// formed. It must not be copied over what lies behind the stage's room.
func TestFrameLargerThanTheStage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: nd.U16, codec: "zstd"})
	frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x40, 0x00, 0x00, 0x01} // window 1 KiB, content 512
	frame[4], frame[5] = 0x40, 0x00
	frame = append(frame[:6], 0x00, 0x01) // 512-256, two bytes
	for range 10 << 20 {
		frame = append(frame, 0, 0, 0)
	}
	head := uint32(512<<3 | 1)
	frame = append(frame, byte(head), byte(head>>8), byte(head>>16))
	for y := range 16 { // chunk 0/0
		frame = append(frame, a.values[y*128:y*128+32]...)
	}
	a.files["c/0/0"] = frame
	cfg := Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 4, Reuse: ReuseNone, OnError: Skip,
		Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.U16}},
	}
	withLibrary(t, &cfg)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came before
	p.allFrames()
	d := p.backend.(*device)
	push(t, p, at(0, 1, 1), at(1, 20, 20), at(2, 40, 40), at(3, 2, 40))
	b, err := p.Next(t.Context())
	for i, s := range d.stages {
		for _, piece := range s.pieces {
			if piece.Dst >= s.in && piece.Dst < s.out && piece.Dst+cuda.Ptr(piece.N) > s.out {
				t.Errorf("stage %d: a piece of %d bytes at %d of the %d of its room", i, piece.N, piece.Dst-s.in, s.out-s.in)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Errs() {
		t.Log(e)
	}
	release(t, b)
}

// The library gets no frame that is longer than an encoder makes it: to look into one
// of nothing but empty blocks would keep a reader busy for as long as the frame is.
func TestLongFramesAreNotLookedInto(t *testing.T) {
	c := newCube(t)
	withLibrary(t, &c.cfg)
	p, err := Open(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()                                     //nolint:errcheck // the test is about what came before
	frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x10} // one segment, 16 bytes of content
	block := append([]byte{16<<3 | 1, 0, 0}, make([]byte, 16)...)
	d := p.backend.(*device)
	for _, empty := range []int{0, 300, 10_000} { // blocks before the last
		long := append(append(frame[:6:6], make([]byte, 3*empty)...), block...)
		copy(p.slabs, long)
		w := &wave{loose: []int32{0}, chunks: []waveChunk{{recipe: &recipe{packing: packing{method: kernels.Zstd}}, size: 16, length: int64(len(long))}}}
		d.frames.largest = 16
		d.look(w, &read{first: 0, last: 1})
		if got, want := w.chunks[0].sound, int64(len(long)) <= longestFrame(16); got != want {
			t.Errorf("%d empty blocks: sound %v, want %v", empty, got, want)
		}
	}
}
