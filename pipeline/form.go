package pipeline

import (
	"slices"
	"time"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// Forming turns the head of the window into a wave. It takes a batch's slot, but no room
// in the ring or the decoded arena, and reads nothing: what a wave holds depends on the
// samples, the indexes and the caches alone. dispatch.go starts it, discard drops it.

// form fills a wave from the head of the window until it is large enough, or the
// head must wait for an index or a slot. It returns nil when there is nothing to
// do.
func (s *scheduler) form() *wave {
	w := s.newWave()
	n := 0
	for n < len(s.window) && s.fits(w) {
		x := s.window[n]
		if x.waiting > 0 || s.ends(w, x.batch) || !s.slotFor(x.batch) {
			break
		}
		s.touch(w, x.batch)
		if !s.put(w, x) {
			break // the wave is full: the rest of the sample follows in the next one
		}
		s.leave(x)
		n++
	}
	if n > 0 {
		s.window = append(s.window[:0], s.window[n:]...)
	}
	if len(w.touched) == 0 {
		s.spares = append(s.spares, w)
		return nil
	}
	return w
}

// fits reports whether a wave may take more.
func (s *scheduler) fits(w *wave) bool {
	c := &s.p.capacity
	return w.decoded < c.decoded && w.unpacked < c.unpacked && w.encoded < s.p.limits.waveSlab && w.encoded+w.mapped < c.encoded && len(w.chunks) < c.chunks
}

// ends reports whether the wave must not go on with this batch: under ReuseBatch a
// chunk is shared within a batch and no further, and a wave of batches that hold all slots
// has the next one wait for their consumers.
func (s *scheduler) ends(w *wave, b *batchState) bool {
	n := len(w.touched)
	if n == 0 || w.touched[n-1] == b {
		return false
	}
	return s.p.cfg.Reuse == ReuseBatch || n >= s.p.capacity.batches
}

func (s *scheduler) newWave() *wave {
	var w *wave
	if n := len(s.spares); n > 0 {
		w, s.spares = s.spares[n-1], s.spares[:n-1]
	} else {
		w = &wave{}
	}
	s.waveSeq++
	w.seq = s.waveSeq
	return w
}

// slotFor gives the batch its slot when its first sample is dispatched.
func (s *scheduler) slotFor(b *batchState) bool {
	if b.slot != nil {
		return true
	}
	if b.slot = s.p.slots.take(); b.slot == nil {
		if s.blocked.IsZero() {
			s.blocked = time.Now()
		}
		return false
	}
	if !s.blocked.IsZero() {
		s.p.counts.slotWait.add(1, time.Since(s.blocked), 0, 0)
		s.blocked = time.Time{}
	}
	return true
}

func (s *scheduler) touch(w *wave, b *batchState) {
	if b.lastWave != w.seq {
		b.lastWave = w.seq
		b.inflight++
		w.touched = append(w.touched, b)
	}
}

// put adds the sample's chunks to the wave; false when not all of them fit.
func (s *scheduler) put(w *wave, x *sampleState) bool {
	if !x.begun {
		x.begun = true
		if x.err == nil && x.padded {
			s.putPadding(w, x)
		}
	}
	for ; x.next < len(x.uses); x.next++ {
		u := &x.uses[x.next]
		if !s.fits(w) && u.entry.wave != w.seq {
			return false
		}
		if !s.putUse(w, u) {
			return false
		}
	}
	return true
}

// leave ends the planner's part for a sample that is in its waves.
func (s *scheduler) leave(x *sampleState) {
	for _, o := range x.objects {
		s.locator.unpin(o)
	}
	clear(x.objects)
	x.objects = x.objects[:0]
	s.planned -= len(x.jobs)
	x.batch.dispatched++
	s.freed++
}

// putPadding adds the sample's jobs that need no chunk.
func (s *scheduler) putPadding(w *wave, x *sampleState) {
	for i := range x.jobs {
		if x.jobs[i].chunk < 0 {
			j := s.putJob(w, x, &x.jobs[i])
			w.jobs[j].chunk = -1
			w.padding++
		}
	}
}

// putJob copies a job of the sample into the wave.
func (s *scheduler) putJob(w *wave, x *sampleState, from *job) int32 {
	n := int32(len(w.jobs))
	j := *from
	j.axes = int32(len(w.axes))
	w.axes = append(w.axes, x.axes[from.axes:from.axes+from.rank]...)
	j.slot, j.sample, j.owner, j.next = x.batch.slot, x.index, x, -1
	if from.chunk >= 0 {
		j.conv = s.p.array(x.sample.Crops[from.field].Array).pairs[from.field].conv
	}
	w.jobs = append(w.jobs, j)
	return n
}

// putUse adds one use to the wave: to the chunk that the wave has already, from
// the decoded cache, as fill, or as a chunk to read. It is false when the chunk
// does not fit this wave any more.
func (s *scheduler) putUse(w *wave, u *use) bool {
	e, x := u.entry, u.sample
	switch {
	case e.wave == w.seq:
		s.p.counts.reused.Add(1)
		s.table.take(u)
	case e.block != 0:
		s.p.counts.reused.Add(1)
		s.putChunk(w, u, &waveChunk{source: fromCache, blockOff: e.off, latch: &e.latch})
		s.table.take(u)
	default:
		off, length, missing := s.find(u)
		switch {
		case x.err != nil:
			s.table.take(u)
			s.table.forget(e)
			return true
		case missing:
			s.p.counts.missing.Add(1)
			c := s.putFill(w, u)
			s.table.take(u)
			s.table.forget(e)
			s.putJobs(w, c, u)
			return true
		case len(w.chunks) > 0 && (w.encoded+length > s.p.limits.waveSlab || w.encoded+w.mapped+length > s.p.capacity.encoded):
			return false
		}
		s.putStored(w, u, off, length)
		s.table.take(u)
	}
	s.putJobs(w, e.slot, u)
	return true
}

// putStored adds a chunk that must be decoded: from the device's cache of stored
// bytes, from a mapping, else by a read.
func (s *scheduler) putStored(w *wave, u *use, off, length int64) {
	r, o := u.object.array.layout.recipe, u.object
	by := s.p.capacity.decoders.of(r, length)
	c := waveChunk{source: fromSlab, off: off, stored: off, length: length}
	if r.packing.method != kernels.Copy && by != byWorker {
		if p := s.compressed.find(u.entry.key, o, length); p != nil {
			c.source, c.off, c.stays = fromCompressed, p.off, p
			s.putChunk(w, u, &c)
			return
		}
		c.stays = s.compressed.admit(u.entry.key, o, length)
	}
	if by == byKernel && length <= s.p.capacity.stored { // else it is the ring's, and the host's
		if g := s.mappings.find(o, off, length, w.seq); g != nil {
			if !slices.Contains(w.mappings, g) {
				w.mappings = append(w.mappings, g)
			}
			w.mapped += length
			c.source, c.off, c.mapping = fromMapped, off-g.start(), g
			s.putChunk(w, u, &c)
			return
		}
	}
	w.encoded += length
	s.putChunk(w, u, &c)
}

// find locates the bytes of a use. What cannot be had fails the sample.
func (s *scheduler) find(u *use) (off, length int64, missing bool) {
	o := u.object
	if o.state == objectFailed {
		u.sample.fail(o.err)
	}
	if u.sample.err != nil {
		return 0, 0, false
	}
	off, length, missing = o.at(u.index)
	if missing {
		return 0, 0, true
	}
	r := o.array.layout.recipe
	if r.raw && length != r.size { // no decoder would see it
		u.sample.fail(nd.At(nd.Errorf(nd.ErrCorrupt, "the chunk has %d bytes, must have %d", length, r.size), s.placeOf(u, off, length)))
		return 0, 0, false
	}
	if err := CheckStored(length, r.size); err != nil {
		u.sample.fail(nd.At(err, s.placeOf(u, off, length)))
		return 0, 0, false
	}
	if u.hi != 0 {
		off, length = off+u.lo, u.hi-u.lo
	}
	if length > s.slabs.size {
		u.sample.fail(nd.At(nd.Errorf(nd.ErrBudget, "the %d stored bytes of a chunk of %d do not fit the ring of %d: raise HostBytes", length, r.size, s.slabs.size), s.placeOf(u, off, length)))
	}
	return off, length, false
}

func (s *scheduler) placeOf(u *use, off, length int64) nd.Place {
	c := waveChunk{object: u.object, leaf: u.entry.key.leaf, stored: off, length: length}
	return c.place()
}

// putChunk adds a chunk to the wave and pins its entry until the wave is done.
func (s *scheduler) putChunk(w *wave, u *use, c *waveChunk) {
	e := u.entry
	e.wave, e.slot = w.seq, int32(len(w.chunks))
	s.table.pin(e)
	r := u.object.array.layout.recipe
	c.recipe, c.entry, c.object, c.leaf, c.firstJob = r, e, u.object, e.key.leaf, -1
	c.size = r.size
	if u.hi != 0 {
		c.skip, c.size = u.lo, u.hi-u.lo
	}
	if c.source == fromCache {
		w.decoded += c.size / s.p.capacity.cached
	} else {
		w.decoded += c.size
	}
	if c.source == fromSlab && s.p.capacity.decoders.of(r, c.length) == byWorker {
		w.unpacked += c.size
	}
	w.chunks = append(w.chunks, *c)
}

func (s *scheduler) putFill(w *wave, u *use) int32 {
	r := u.object.array.layout.recipe
	w.chunks = append(w.chunks, waveChunk{source: fromFill, recipe: r, firstJob: -1})
	return int32(len(w.chunks) - 1)
}

// putJobs hands the jobs of a use to chunk c of the wave.
func (s *scheduler) putJobs(w *wave, c int32, u *use) {
	for i := u.firstJob; i >= 0; i = u.sample.jobs[i].next {
		j := s.putJob(w, u.sample, &u.sample.jobs[i])
		w.jobs[j].chunk = c
		w.jobs[j].next = w.chunks[c].firstJob
		w.chunks[c].firstJob = j
	}
}
