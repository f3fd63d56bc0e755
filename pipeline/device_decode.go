package pipeline

import (
	"errors"

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
	count  [kernels.Families]int
	next   [kernels.Families]int // where the next chunk of a family goes
	n      int
	summed bool // a chunk has a checksum behind it that is to be compared
}

// lay makes room for the chunks of a wave.
func (t *chunkTable) lay(w *wave) {
	t.count, t.n, t.summed = [kernels.Families]int{}, 0, false
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
		Src: uint64(src), Dst: uint64(c.at), Scratch: uint64(scratch), SrcBytes: uint32(c.length - p.sum), DstBytes: uint32(c.size),
		Status: uint32(i), Method: p.method, Typesize: p.typesize, Flags: p.flags,
	}.Append(t.list[:t.next[f]*kernels.ChunkBytes])
	t.next[f]++
	t.summed = t.summed || p.flags&kernels.Summed != 0
}

// bytes is the table as it goes to the device.
func (t *chunkTable) bytes() []byte { return t.list[:t.n*kernels.ChunkBytes] }

// decode enqueues the kernels of the wave's chunks, one family after the other, and last
// the one that compares checksums: the waves in flight fill the device.
func (s *stage) decode(d *device) error {
	t := &s.table
	at := t.at
	for f, n := range t.count {
		if n == 0 {
			continue
		}
		switch kernels.Family(f) {
		case kernels.DecodeFamily:
			s.launchTable(&d.kernel.decode, at, n)
		case kernels.InflateFamily:
			s.launchTable(&d.kernel.inflate, at, n)
		case kernels.ZstdFamily:
			if err := d.decodeZstd(s, at, n); err != nil {
				return err
			}
		}
		at += cuda.Ptr(n * kernels.ChunkBytes)
	}
	if t.summed {
		s.launchTable(&d.kernel.crc32c, t.at, t.n)
	}
	return nil
}

// zstdCall is the memory that one wave's zstd chunks are decoded in, and when it is free.
type zstdCall struct {
	call *decode.Call
	done *cuda.Event
}

// decodeZstd enqueues the kernels of zstd. Waves take the calls in turn: the next one on
// a call begins when the one before has decoded.
func (d *device) decodeZstd(s *stage, at cuda.Ptr, n int) error {
	c := &d.calls[d.turn]
	d.turn = (d.turn + 1) % len(d.calls)
	s.commands.Await(s.compute, c.done)
	if err := c.call.Append(&s.commands, s.compute, at, s.table.states, n); err != nil {
		return err
	}
	s.commands.Record(s.compute, c.done)
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

// zstdBlock is the size of blocks for whose number there is room: streams of blosc frames, of
// a part of a block for each byte of an element, are the small ones. A block's
// place in the lists is 4 % of that.
const zstdBlock = 4 << 10

// zstdLimits bounds the zstd chunks of a wave.
func (d *device) zstdLimits(r room) decode.Limits {
	l := decode.Limits{Chunks: r.chunks, Bytes: r.decoded, Blocks: int(r.decoded/zstdBlock) + 4*r.chunks}
	if n := d.p.cfg.SMs; n > 0 {
		l.SMs = float64(min(n, d.gpu.Info().SMs)) / deviceCalls
	}
	return l
}

// workBytes is what one zstd call works in, for the chunks of a stage.
func (d *device) workBytes(r room) (int64, error) {
	if d.zstd == nil {
		return 0, nil
	}
	n, err := d.zstdLimits(r).Scratch()
	return align(n), err
}

// openCalls lays the calls out from at on, and gives the end.
func (d *device) openCalls(at cuda.Ptr, r room) (cuda.Ptr, error) {
	work, err := d.workBytes(r)
	if err != nil || work == 0 {
		return at, err
	}
	for range deviceCalls {
		d.calls = append(d.calls, zstdCall{})
		c := &d.calls[len(d.calls)-1]
		if c.call, err = d.zstd.NewCall(d.zstdLimits(r), at); err != nil {
			return at, err
		}
		if c.done, err = d.gpu.NewEvent(false); err != nil {
			return at, err
		}
		at += cuda.Ptr(work)
	}
	return at, nil
}

func (c *zstdCall) free() error {
	var errs []error
	if c.call != nil {
		errs = append(errs, c.call.Close())
	}
	if c.done != nil {
		errs = append(errs, c.done.Close())
	}
	return errors.Join(errs...)
}
