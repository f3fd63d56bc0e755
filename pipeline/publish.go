package pipeline

import (
	"io"
	"slices"

	"github.com/headrace/headrace/sampler"
)

// complete reports whether nothing more will be written into the batch.
func (b *batchState) complete() bool {
	return b.closed && b.dispatched == b.pushed && b.inflight == 0
}

// publish hands finished batches to Next, in the order of Push.
func (s *scheduler) publish() {
	n := 0
	for ; n < len(s.order); n++ {
		b := s.order[n]
		if b.eof {
			s.p.out.put(published{err: io.EOF, room: b.room})
			continue
		}
		if !b.complete() || s.repair(b) {
			break
		}
		s.emit(b)
	}
	if n > 0 {
		clear(s.order[:n])
		s.order = append(s.order[:0], s.order[n:]...)
	}
}

// repair makes up for bad samples, by one more wave: Skip closes the gaps that
// they leave, Fill writes fill values in their place. It is false when there is
// nothing to do.
func (s *scheduler) repair(b *batchState) bool {
	if b.repaired || s.p.cfg.OnError == Raise {
		return false
	}
	w := s.newWave()
	if s.p.cfg.OnError == Skip {
		w.closeGaps(b)
	} else {
		s.fillBad(w, b)
	}
	if len(w.moves) == 0 && len(w.chunks) == 0 {
		s.spares = append(s.spares, w)
		return false
	}
	b.repaired = true
	s.touch(w, b)
	s.start(w)
	return true
}

func (w *wave) closeGaps(b *batchState) {
	to := int32(0)
	for from, x := range b.samples {
		if x.err != nil {
			continue
		}
		if int32(from) != to {
			w.moves = append(w.moves, move{b.slot, int32(from), to})
		}
		to++
	}
}

func (s *scheduler) fillBad(w *wave, b *batchState) {
	for _, x := range b.samples {
		if x.err == nil {
			continue
		}
		for f := range x.sample.Crops {
			a := s.p.array(x.sample.Crops[f].Array)
			c := int32(len(w.chunks))
			w.chunks = append(w.chunks, waveChunk{source: fromFill, recipe: a.layout.recipe, firstJob: int32(len(w.jobs))})
			crop := s.p.fields[f].crop
			j := job{
				chunk: c, next: -1, slot: b.slot, sample: x.index, field: int32(f), owner: x,
				axes: int32(len(w.axes)), rank: int32(len(crop)), conv: a.pairs[f].conv,
			}
			for _, n := range crop {
				w.axes = append(w.axes, axis{n: int32(n)})
			}
			w.jobs = append(w.jobs, j)
		}
	}
}

// emit turns a finished batch into what Next returns.
func (s *scheduler) emit(b *batchState) {
	out := &Batch{seq: b.seq, meta: b.meta, fields: s.p.fields, slot: b.slot, place: s.p.backend, free: s.p.releaseSlot}
	failed := s.failures(b)
	if len(failed) > 0 && s.p.cfg.OnError == Raise {
		s.giveSlot(b)
		s.p.out.put(published{err: &BatchError{Meta: b.meta, Samples: failed}, room: b.room})
		return
	}
	out.samples = make([]sampler.Sample, 0, len(b.samples))
	for _, x := range b.samples {
		if x.err == nil || s.p.cfg.OnError == Fill {
			out.samples = append(out.samples, x.sample)
		}
		s.recycle(x)
	}
	for _, e := range failed {
		out.errs = append(out.errs, e)
	}
	if len(out.samples) == 0 && b.slot != nil {
		s.giveSlot(b)
		out.slot = nil
	}
	out.refs.Store(1)
	s.p.counts.batches.Add(1)
	s.p.tell(func(l *Listener) {
		if l.BatchReady != nil {
			l.BatchReady(BatchReady{b.meta, len(out.samples), len(failed)})
		}
	})
	s.p.out.put(published{batch: out, room: b.room})
}

// failures lists the bad samples of a batch and tells of them.
func (s *scheduler) failures(b *batchState) []*SampleError {
	var failed []*SampleError
	for _, x := range b.samples {
		if x.err == nil {
			continue
		}
		failed = append(failed, &SampleError{x.sample.ID, x.err})
		s.p.counts.failed.Add(1)
		s.p.tell(func(l *Listener) {
			if l.SampleFailed != nil {
				l.SampleFailed(SampleFailed{b.meta, x.sample.ID, x.err})
			}
		})
	}
	return failed
}

// recycle keeps the memory of a delivered sample's plan for another one.
func (s *scheduler) recycle(x *sampleState) {
	clear(x.uses)
	clear(x.jobs)
	spare := sampleState{uses: x.uses[:0], jobs: x.jobs[:0], axes: x.axes[:0], objects: x.objects[:0]}
	if len(s.plans) < s.p.cfg.Lookahead {
		s.plans = append(s.plans, spare)
	}
}

// giveSlot takes the slot of a batch that nobody gets. A later batch may wait for
// it, so the scheduler looks again.
func (s *scheduler) giveSlot(b *batchState) {
	if b.slot != nil {
		s.p.slots.give(b.slot)
		b.slot = nil
		s.p.inbox.ring()
	}
}

// discard drops everything that was not delivered. Waves in flight end on their
// own; what they decode stays in the cache as far as the policy keeps it.
func (s *scheduler) discard() {
	if w := s.pending; w != nil {
		s.pending = nil
		s.retire(w)
	}
	for _, x := range s.window {
		for _, o := range x.objects {
			s.locator.unpin(o)
		}
		x.objects = nil
	}
	s.dropped = slices.DeleteFunc(s.dropped, func(b *batchState) bool { return b.slot == nil })
	s.freed += len(s.window) + len(s.queue)
	clear(s.queue)
	s.queue, s.window, s.planned = s.queue[:0], s.window[:0], 0
	s.table.clear()
	for _, b := range s.order {
		s.freed += b.room
		if b.dropped = true; b.inflight == 0 {
			s.giveSlot(b)
		} else {
			s.dropped = append(s.dropped, b)
		}
	}
	clear(s.order)
	s.order = s.order[:0]
	for _, q := range s.p.out.drain() {
		s.freed += q.room
		if q.batch != nil {
			q.batch.Release(nil) //nolint:errcheck // nobody else has seen the batch
		}
	}
}

// stop ends the pipeline's other goroutines once the scheduler has.
func (s *scheduler) stop() {
	s.p.tasks.close()
	s.p.backend.close()
	for _, b := range append(s.order, s.dropped...) {
		s.giveSlot(b)
	}
	s.p.shut()
}
