package pipeline

import (
	"encoding/binary"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda/kernels"
)

// settleWaves is the loop of the settler.
func (d *device) settleWaves() {
	defer d.p.recoverBug()
	scratch := codec.NewScratch()
	defer scratch.Close()
	for {
		var w *wave
		select {
		case w = <-d.issued:
		case <-d.stop:
			return
		}
		err := w.stage.done.Wait()
		if err == nil {
			err = d.settle(w, scratch)
		}
		if err != nil {
			d.p.inbox.end(err) // the device is lost, or we are at fault
			return
		}
		d.finish(w)
	}
}

// finish gives the stage back, then the wave.
func (d *device) finish(w *wave) {
	d.events.put(w.stage.owed...)
	w.stage.owed = w.stage.owed[:0]
	d.mu.Lock()
	d.idle = append(d.idle, w.stage)
	d.admit()
	d.mu.Unlock()
	d.p.inbox.putDone(w)
}

// settle looks at what became of the wave's chunks. What the device could not
// decode the host decodes: it has the last word on what is corrupt, with the same
// error as ever. An error of settle's own is the device's.
func (d *device) settle(w *wave, scratch *codec.Scratch) error {
	d.checkMappings(w)
	if w.stage.made > 0 {
		d.p.counts.gpuDecode.add(1, d.clock.add(w.stage), w.stage.fed, w.stage.made)
	}
	failed := w.stage.frames.failed(w)
	for _, i := range failed {
		if err := d.mend(w, i, scratch); err != nil {
			return err
		}
	}
	d.p.counts.framed.Add(int64(len(w.stage.frames.chunks) - len(failed)))
	for i := range w.chunks {
		c := &w.chunks[i]
		switch c.source {
		case fromCache:
			if err := d.settleCached(w, int32(i)); err != nil {
				return err
			}
		case fromSlab, fromMapped, fromCompressed:
			if err := d.settleStored(w, int32(i), scratch); err != nil {
				return err
			}
		}
	}
	d.p.counts.copy.add(int64(len(w.stage.pieces)), 0, w.stage.brought, w.stage.brought)
	d.p.counts.assemble.add(int64(len(w.jobs)), 0, w.stage.placed, w.stage.placed)
	return nil
}

// settleStored is about a chunk that the wave decoded, or left to the settler.
func (d *device) settleStored(w *wave, i int32, scratch *codec.Scratch) error {
	c := &w.chunks[i]
	switch {
	case c.err != nil:
	case c.route.by == bySettler || c.route.by == byKernel && w.stage.statusOf(int(i)) != kernels.OK:
		if err := d.mend(w, i, scratch); err != nil {
			return err
		}
	case c.route.by == byWorker:
		d.p.counts.onHost.Add(1)
	case c.route.onDevice():
		d.p.counts.decode.add(1, 0, c.length, c.size)
	}
	if c.keep {
		c.latch.set(c, c.err)
	}
	if c.err == nil {
		d.p.counts.decoded.Add(1)
	}
	return nil
}

func (s *stage) statusOf(i int) uint32 {
	return binary.LittleEndian.Uint32(s.status[i*statusBytes : (i+1)*statusBytes])
}

// settleCached is about a chunk that an earlier wave decoded, and settled, after
// this wave may have read it.
func (d *device) settleCached(w *wave, i int32) error {
	c := &w.chunks[i]
	if c.latch.err != nil {
		w.fail(int(i), c.latch.err)
		return nil
	}
	if c.latch.repaired < w.seq {
		return nil
	}
	d.again.Add(1)
	d.mender.begin()
	return d.runAgain(w, i)
}

// mend decodes a chunk on the host and places it once more.
func (d *device) mend(w *wave, i int32, scratch *codec.Scratch) error {
	c := &w.chunks[i]
	s := d.mender
	if c.route.onDevice() {
		d.p.counts.refused.Add(1)
	}
	c.route.by = byNobody // it will be decoded, and was not the device's to decode
	packed, err := d.encodedBytesOf(c)
	if err == nil {
		err = d.unpack(c, packed, s.unpacked.mem[:c.size], scratch)
	}
	if err != nil {
		w.fail(int(i), err)
		return nil
	}
	d.p.counts.onHost.Add(1)
	s.begin()
	if err := s.unpacked.wait(); err != nil {
		return err
	}
	s.addPiece(c.at, s.unpacked.mem, 0, c.size)
	s.bring(d)
	if err := d.runAgain(w, i); err != nil {
		return err
	}
	if c.keep { // only now: waves up to the latest may have read it before the repair
		c.latch.repaired = d.latest.Load()
	}
	return nil
}

// encodedBytesOf gives the encoded bytes to the processor: those of a mapping are
// read anew.
func (d *device) encodedBytesOf(c *waveChunk) ([]byte, error) {
	if c.source == fromSlab {
		return d.p.slabs[c.off : c.off+c.length], nil
	}
	packed := make([]byte, c.length) // seldom, and at most what a stage has room for
	return packed, c.object.readSame(d.p.ctx, packed, c.stored)
}

// runAgain assembles the jobs of one chunk, by the settler's own stage, and waits.
// Later waves that read the chunk in the meantime place it again themselves.
func (d *device) runAgain(w *wave, i int32) error {
	s := d.mender
	d.addJobs(s, w, i)
	if s.tiles.err != nil {
		return s.tiles.err
	}
	s.assemble(d)
	s.commands.Record(s.compute, s.done)
	if err := d.gpu.Run(&s.commands); err != nil {
		return err
	}
	return s.done.Wait()
}
