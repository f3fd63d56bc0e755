package pipeline

import (
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
)

// chunkTable is the chunks of a wave that kernels decode, as these read them: those of
// a family beside each other. A chunk's status has the chunk's number in the wave.
type chunkTable struct {
	list   []byte   // pinned, of deviceChunks
	at     cuda.Ptr // on the device
	states cuda.Ptr // there, the statuses
	count  [families]int
	next   [families]int // where the next chunk of a family goes
	n      int
}

// lay makes room for the chunks of a wave.
func (t *chunkTable) lay(w *wave) {
	t.count, t.n = [families]int{}, 0
	for i := range w.chunks {
		if c := &w.chunks[i]; c.err == nil && c.route.by == byKernel {
			t.count[c.recipe.packing.family()]++
		}
	}
	for f, n := range t.count {
		t.next[f] = t.n
		t.n += n
	}
}

// add has chunk i of the wave decoded from src.
func (t *chunkTable) add(i int32, c *waveChunk, src, scratch cuda.Ptr) {
	p := c.recipe.packing
	f := p.family()
	kernels.Chunk{
		Src: uint64(src), Dst: uint64(c.at), Scratch: uint64(scratch), SrcBytes: uint32(c.length), DstBytes: uint32(c.size),
		Status: uint32(i), Method: p.method, Typesize: p.typesize, Flags: p.flags,
	}.Append(t.list[:t.next[f]*kernels.ChunkBytes])
	t.next[f]++
}

// bytes is the table as it goes to the device.
func (t *chunkTable) bytes() []byte { return t.list[:t.n*kernels.ChunkBytes] }

// decode enqueues the kernels of the wave's chunks, one family after the other: the
// waves in flight fill the device.
func (s *stage) decode(d *device) error {
	t := &s.table
	at := t.at
	for f, n := range t.count {
		if n == 0 {
			continue
		}
		switch family(f) {
		case familyDecode:
			s.launchTable(&d.kernel.decode, at, n)
		case familyInflate:
			s.launchTable(&d.kernel.inflate, at, n)
		case familyZstd:
			if err := s.zstd.Append(&s.commands, s.compute, at, t.states, n); err != nil {
				return err
			}
		}
		at += cuda.Ptr(n * kernels.ChunkBytes)
	}
	return nil
}

// launchTable enqueues a kernel for n chunks of the table, from one on.
func (s *stage) launchTable(k *kernel, at cuda.Ptr, n int) {
	s.params = kernels.DecodeParams{Chunks: uint64(at), Status: uint64(s.table.states), N: uint32(n)}.Append(s.params[:0])
	s.launch(s.compute, k, n)
}

// openDecoders finds out which kernels the arrays need.
func (d *device) openDecoders() (err error) {
	d.decoders.library = d.frames != nil
	for _, a := range *d.p.arrays.Load() {
		d.decoders.need(a.layout.recipe.packing)
	}
	if d.decoders.zstd {
		d.zstd, err = decode.NewZstd(d.gpu, d.module)
	}
	return err
}

// zstdLimits bounds the zstd chunks of a wave, which decode to so many bytes.
func (d *device) zstdLimits(decoded int64) decode.Limits {
	l := decode.Limits{Chunks: deviceChunks, Bytes: decoded}
	if n := d.p.cfg.SMs; n > 0 {
		l.SMs = float64(min(n, d.gpu.Info().SMs)) / deviceWaves
	}
	return l
}
