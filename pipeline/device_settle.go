package pipeline

import (
	"encoding/binary"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// settleWaves is the loop of the settler.
func (d *device) settleWaves() {
	defer d.p.recoverBug()
	for {
		var w *wave
		select {
		case w = <-d.issued:
		case <-d.stop:
			return
		}
		err := w.stage.done.Wait()
		if err == nil {
			err = d.settle(w)
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
func (d *device) settle(w *wave) error {
	d.checkMappings(w)
	if w.stage.made > 0 {
		d.p.counts.gpuDecode.add(1, d.clock.add(w.stage), w.stage.fed, w.stage.made)
	}
	if err := d.mend(w, d.refused(w)); err != nil {
		return err
	}
	for i := range w.chunks {
		c := &w.chunks[i]
		switch {
		case c.source == fromCache:
			if err := d.settleCached(w, int32(i)); err != nil {
				return err
			}
		case c.encoded():
			d.settleStored(c)
		}
	}
	d.p.counts.copy.add(int64(len(w.stage.pieces)), 0, w.stage.brought, w.stage.brought)
	d.p.counts.assemble.add(int64(len(w.jobs)), 0, w.stage.placed, w.stage.placed)
	return nil
}

// refused lists the chunks that the device did not decode, and those left to the settler.
func (d *device) refused(w *wave) []int32 {
	list := w.stage.frames.failed(w)
	d.p.counts.framed.Add(int64(len(w.stage.frames.chunks) - len(list)))
	for i := range w.chunks {
		c := &w.chunks[i]
		if c.err == nil && (c.route.by == bySettler || c.route.by == byKernel && w.stage.statusOf(i) != kernels.OK) {
			list = append(list, int32(i))
		}
	}
	for _, i := range list {
		if w.chunks[i].route.onDevice() {
			d.p.counts.refused.Add(1)
		}
	}
	return list
}

// settleStored is about a chunk that came to the wave to be decoded.
func (d *device) settleStored(c *waveChunk) {
	if c.route.onDevice() {
		d.p.counts.decode.add(1, 0, c.length, c.size)
	}
	if c.keep {
		c.latch.set(c, c.err)
	}
	if c.err == nil {
		d.p.counts.decoded.Add(1)
	}
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
	return d.runAgain(w, []int32{i})
}

// mend has chunks decoded on the host, by the workers, and places them once more. The
// pinned memory of the wave's stage, whose copies are done, takes as many at a time as it
// holds.
func (d *device) mend(w *wave, list []int32) error {
	for len(list) > 0 {
		n, room := 0, int64(0)
		for ; n < len(list); n++ {
			c := &w.chunks[list[n]]
			if n > 0 && room+c.size > int64(len(w.stage.unpacked.mem)) {
				break
			}
			c.route.by, c.route.unpacked = byNobody, room // it will be decoded
			room += align(c.size)
		}
		if err := d.mendSome(w, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (d *device) mendSome(w *wave, list []int32) error {
	if err := w.stage.unpacked.wait(); err != nil {
		return err
	}
	w.undone.Store(int32(len(list)))
	for _, i := range list {
		d.todo.put(unpackTask{w, int(i)})
	}
	select {
	case <-w.stage.ready:
	case <-d.stop:
		return nd.Errorf(nd.ErrClosed, "the pipeline ended")
	}
	s := d.mender
	s.begin()
	for _, i := range list {
		if c := &w.chunks[i]; c.err == nil {
			s.addPiece(c.at, w.stage.unpacked.mem, c.route.unpacked, c.size)
		}
	}
	s.bring(d)
	if err := d.runAgain(w, list); err != nil {
		return err
	}
	for _, i := range list {
		if c := &w.chunks[i]; c.keep && c.err == nil { // only now: waves up to the latest may have read it before the repair
			c.latch.repaired = d.latest.Load()
		}
	}
	return nil
}

// encodedBytesOf gives the encoded bytes to the processor: those of a mapping, or on the
// device, are read anew.
func (d *device) encodedBytesOf(c *waveChunk) ([]byte, error) {
	if c.source == fromSlab {
		return d.p.slabs[c.off : c.off+c.length], nil
	}
	packed := make([]byte, c.length) // seldom, and at most what a stage has room for
	return packed, c.object.readSame(d.p.ctx, packed, c.stored)
}

// runAgain assembles the jobs of chunks, by the settler's own stage, and waits.
// Later waves that read a chunk in the meantime place it again themselves.
func (d *device) runAgain(w *wave, list []int32) error {
	s := d.mender
	for _, i := range list {
		d.addJobs(s, w, i)
	}
	if s.tiles.err != nil {
		return s.tiles.err
	}
	s.assemble(d)
	s.commands.Record(s.compute, s.done)
	if err := s.run(d); err != nil {
		return err
	}
	return s.done.Wait()
}
