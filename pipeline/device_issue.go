package pipeline

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// issueWaves is the loop of the issuer.
func (d *device) issueWaves() {
	defer d.p.recoverBug()
	for {
		var w *wave
		select {
		case w = <-d.submitted:
		case <-d.stop:
			return
		}
		select {
		case <-w.stage.ready:
		case <-d.stop:
			return
		}
		began := time.Now()
		d.latest.Store(w.seq) // before the device can read a chunk for the wave
		if err := d.issue(w); err != nil {
			d.p.inbox.end(err) // the device is lost, or we are at fault
			return
		}
		d.p.counts.issue.add(1, time.Since(began), 0, 0)
		d.issued <- w // as many places as stages: it never waits
	}
}

// issue hands all work of a wave to the device: first the copies and the decoders, which
// run while the tiles are built. It blocks only where the assemble work is more than fits
// one launch.
func (d *device) issue(w *wave) error {
	s := w.stage
	s.begin()
	if err := d.awaitPinned(w); err != nil {
		return err
	}
	d.locate(w)
	d.bringReads(w)
	s.bring(d)
	s.commands.Record(s.compute, s.began)
	if err := errors.Join(s.decodeFrames(d), s.decode(d)); err != nil {
		return err
	}
	s.commands.Record(s.compute, s.ended)
	if err := s.run(d); err != nil {
		return err
	}
	d.awaitOthers(s, w)
	for i := range w.chunks {
		d.addJobs(s, w, int32(i))
	}
	d.addPadding(s, w)
	if s.tiles.err != nil {
		return s.tiles.err
	}
	s.assemble(d)
	d.addMoves(s, w)
	if s.table.n > 0 {
		n := int64(len(w.chunks)) * statusBytes
		s.commands.Copy(s.compute, cuda.Address(s.status[:n]), s.table.states, n)
	}
	s.commands.Record(s.compute, s.done)
	return s.run(d)
}

// run enqueues the commands so far.
func (s *stage) run(d *device) error {
	defer s.commands.Reset()
	return d.gpu.Run(&s.commands)
}

// awaitPinned waits for the memory that the wave is copied from, soon after Open.
func (d *device) awaitPinned(w *wave) error {
	if w.slabBytes == 0 {
		return nil
	}
	if err := d.ring.wait(); err != nil {
		return err
	}
	return w.stage.unpacked.wait()
}

func (s *stage) begin() {
	s.commands.Reset()
	s.tiles.reset()
	s.tiles.err = nil
	s.pieces, s.placed = s.pieces[:0], 0
	s.brought, s.fed, s.made = 0, 0, 0
	s.frames.reset()
}

// locate finds the device address of every chunk, and what must be copied and
// decoded so that it is there.
func (d *device) locate(w *wave) {
	s := w.stage
	s.table.lay(w)
	s.order = s.order[:0]
	in := int64(0) // of the stage's room for stored bytes
	for i := range w.chunks {
		c := &w.chunks[i]
		c.at = s.out + cuda.Ptr(c.route.room)
		if c.keep || c.source == fromCache {
			c.at = d.decoded + cuda.Ptr(c.blockOff)
		}
		if c.err != nil {
			continue
		}
		switch c.route.comes {
		case withRead:
			in = align(w.slabBytes)
			s.addChunk(int32(i), c, s.in+cuda.Ptr(c.off-w.slabOff))
		case alone:
			s.order = append(s.order, int32(i))
		case straight:
			if c.route.by == byWorker {
				s.addPiece(c.at, s.unpacked.mem, c.route.unpacked, c.size)
			} else {
				s.addPiece(c.at, d.memoryOf(c), c.off, c.size)
			}
		case before:
			s.addChunk(int32(i), c, d.stored(c))
		}
	}
	d.locateAlone(w, in)
}

// locateAlone has chunks copied one by one, to in and on: in the order of the files,
// where neighbours are one piece, and aligned as they are there, or as the library
// wants it.
func (d *device) locateAlone(w *wave, in int64) {
	s := w.stage
	slices.SortFunc(s.order, func(a, b int32) int { return cmp.Compare(d.stored(&w.chunks[a]), d.stored(&w.chunks[b])) })
	for _, i := range s.order {
		c := &w.chunks[i]
		var at cuda.Ptr
		if c.stays != nil {
			at = d.compressed + cuda.Ptr(c.stays.off)
		} else {
			if c.route.by == byLibrary {
				in = (in + frameGrain - 1) &^ (frameGrain - 1)
			} else {
				in += (int64(d.stored(c)) - in) & 15
			}
			at = s.in + cuda.Ptr(in)
			in += c.length
		}
		s.addPiece(at, d.memoryOf(c), c.off, c.length)
		s.addChunk(i, c, at)
	}
}

// addChunk has the chunk decoded from where its bytes will lie; elements that are
// stored as they are will be used from there.
func (s *stage) addChunk(i int32, c *waveChunk, at cuda.Ptr) {
	if c.route.onDevice() {
		s.fed, s.made = s.fed+c.length, s.made+c.size
	}
	switch c.route.by {
	case byLibrary:
		s.frames.add(i, c, at)
	case byKernel:
		s.table.add(i, c, at, s.scratch+cuda.Ptr(c.route.room))
	default:
		c.at = at
	}
}

// bringReads copies what the device needs of each read in one piece.
func (d *device) bringReads(w *wave) {
	s := w.stage
	for i := range w.reads {
		r := &w.reads[i]
		first, last := int64(math.MaxInt64), int64(0)
		for _, k := range w.loose[r.first:r.last] {
			if c := &w.chunks[k]; c.route.comes == withRead {
				first, last = min(first, c.off), max(last, c.off+c.length)
			}
		}
		if first < last {
			s.addPiece(s.in+cuda.Ptr(first-w.slabOff), d.p.slabs, first, last-first)
		}
	}
}

// stored is where the encoded bytes of a chunk lie, on the host or on the device.
func (d *device) stored(c *waveChunk) cuda.Ptr {
	if c.source == fromCompressed {
		return d.compressed + cuda.Ptr(c.off)
	}
	return cuda.Address(d.memoryOf(c)) + cuda.Ptr(c.off)
}

// memoryOf is the host's memory that the encoded bytes of a chunk lie in, at its off.
func (d *device) memoryOf(c *waveChunk) []byte {
	if c.source == fromMapped {
		return c.mapping.mem
	}
	return d.p.slabs
}

// addPiece has n bytes of registered memory copied. It joins pieces that are
// neighbours on both sides, for a large copy runs faster than small ones, but not
// across memory that was registered apart: the driver refuses that.
func (s *stage) addPiece(dst cuda.Ptr, from []byte, off, n int64) {
	s.brought += n
	memory, src := s.pieceOf, cuda.Address(from[off:])
	s.pieceOf = cuda.Address(from)
	if k := len(s.pieces); k > 0 && s.pieceOf == memory {
		last := &s.pieces[k-1]
		if end := cuda.Ptr(last.N); dst == last.Dst+end && src == last.Src+end {
			last.N += uint64(n)
			return
		}
	}
	s.pieces = append(s.pieces, cuda.Piece{Dst: dst, Src: src, N: uint64(n)})
}

// bring copies descriptors of chunks and bytes to the device.
func (s *stage) bring(d *device) {
	if s.table.n > 0 {
		s.commands.Copy(s.copies, s.table.at, cuda.Address(s.table.list), int64(len(s.table.bytes())))
	}
	pieces := s.pieces
	if d.gathers {
		pieces = s.gather(d)
	}
	s.commands.CopyBatch(s.copies, pieces)
	s.awaitCopies()
}

// awaitCopies has the kernels that follow wait for the copies so far.
func (s *stage) awaitCopies() {
	s.commands.Record(s.copies, s.copied)
	s.commands.Await(s.compute, s.copied)
}

// awaitOthers lets the jobs wait for the last consumers of the slots, and for the
// chunks that earlier waves keep: those are decoded on streams of their own. The
// event that it leaves stands for all waves up to this one.
func (d *device) awaitOthers(s *stage, w *wave) {
	for _, b := range w.touched {
		d.awaitSlot(s, b.slot)
	}
	if d.before != nil {
		s.commands.Await(s.compute, d.before)
	}
	s.commands.Record(s.compute, s.kept)
	d.before = s.kept
}

// assemble launches the tiles that were added. Their tables take the stream of the wave's
// other copies: those of the next wave are not on it yet. On a stream of their own they
// would wait for these, milliseconds, since one engine copies to the device.
func (s *stage) assemble(d *device) {
	t := &s.tiles
	if t.n == 0 {
		return
	}
	s.commands.Copy(s.copies, s.tilesAt, cuda.Address(t.tiles), int64(len(t.tiles)))
	s.commands.Copy(s.copies, s.loopsAt, cuda.Address(t.loops), int64(len(t.loops)))
	s.awaitCopies()
	s.params = kernels.AssembleParams{Tiles: uint64(s.tilesAt), Loops: uint64(s.loopsAt), Status: uint64(s.table.states), N: uint32(t.n)}.Append(s.params[:0])
	s.launch(s.compute, &d.kernel.assemble, t.n)
}

// flush runs what there is and waits for it, since the lists are full.
func (s *stage) flush(d *device) error {
	s.assemble(d)
	s.commands.Record(s.compute, s.done)
	if err := s.run(d); err != nil {
		return err
	}
	s.tiles.reset()
	return s.done.Wait()
}

// addJobs adds the tiles of a chunk's jobs.
func (d *device) addJobs(s *stage, w *wave, i int32) {
	c := &w.chunks[i]
	if c.err != nil || c.route.by == bySettler {
		return // the samples fail, or the settler places it
	}
	for k := c.firstJob; k >= 0; k = w.jobs[k].next {
		j := &w.jobs[k]
		f := d.p.fields[j.field]
		base, stride := j.conv.tile(), c.recipe.stride
		if c.source == fromFill {
			base, stride = fillTile(f.dtype, j.conv.fill), nil
		} else {
			base.Src = uint64(c.at) - uint64(c.skip)
			if c.route.by == byKernel {
				base.Chunk = uint32(i)
			}
		}
		d.addJob(s, w, j, base, stride)
	}
}

func (d *device) addPadding(s *stage, w *wave) {
	if w.padding == 0 {
		return
	}
	for i := range w.jobs {
		if j := &w.jobs[i]; j.chunk < 0 {
			f := d.p.fields[j.field]
			d.addJob(s, w, j, fillTile(f.dtype, f.padElem), nil)
		}
	}
}

func (d *device) addJob(s *stage, w *wave, j *job, base kernels.Tile, stride []int64) {
	f := d.p.fields[j.field]
	base.Dst = uint64(d.sample(j.slot, f, j.sample))
	n := &s.nest
	n.build(w.axes[j.axes:j.axes+j.rank], f, stride)
	s.tiles.add(base, n, int64(f.dtype.Size()))
	s.placed += n.elements() * int64(f.dtype.Size())
}

// sample is where a sample of a field lies.
func (d *device) sample(s *slot, f *fieldLayout, i int32) cuda.Ptr {
	return s.addr + cuda.Ptr(f.offset) + cuda.Ptr(int64(i)*int64(f.sampleBytes))
}

// addMoves closes the gaps of samples that are left out. Samples move forward one
// after the other, in one stream, so none is overwritten before it was moved.
func (d *device) addMoves(s *stage, w *wave) {
	for _, m := range w.moves {
		for _, f := range d.p.fields {
			s.commands.Copy(s.compute, d.sample(m.slot, f, m.to), d.sample(m.slot, f, m.from), int64(f.sampleBytes))
		}
	}
}

// awaitSlot makes the device wait for the slot's last consumers. Events of a GPU
// cost the host no wait.
func (d *device) awaitSlot(s *stage, sl *slot) {
	if !sl.dirty.Load() {
		return
	}
	for _, after := range sl.take() {
		if e, ok := after.(*pooledEvent); ok && e.pool == d.events {
			s.commands.Await(s.compute, e.Event)
			s.owed = append(s.owed, e)
			continue
		}
		after.Wait() //nolint:errcheck // a lost device has no more use of the memory either
	}
}
