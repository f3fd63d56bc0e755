package pipeline

import (
	"time"
)

// dispatch turns the head of the window into waves while there is room for them;
// it reports whether it sent any.
func (s *scheduler) dispatch() (progress bool) {
	began, waves := time.Now(), int64(0)
	defer func() { s.p.counts.dispatch.add(waves, time.Since(began), 0, 0) }()
	for s.inflight < s.p.capacity.waves {
		w := s.pending
		if w == nil {
			if w = s.form(); w == nil {
				return progress
			}
		}
		if !s.start(w) {
			s.pending = w
			return progress
		}
		s.pending = nil
		waves++
		progress = true
	}
	return progress
}

// start finds room for a wave's bytes and sends its reads on their way; false
// when there is no room yet.
func (s *scheduler) start(w *wave) bool {
	if !s.place(w) {
		return false
	}
	s.inflight++
	s.unsent = append(s.unsent, w)
	s.p.counts.waves.Add(1)
	w.began = time.Now()
	s.p.tell(func(l *Listener) {
		if l.WaveBegin != nil {
			l.WaveBegin(w.info(0))
		}
	})
	w.ready = len(w.reads) == 0
	w.unread.Store(int32(len(w.reads)))
	for i := range w.reads {
		s.p.tasks.put(task{wave: w, read: i})
	}
	s.submit()
	return true
}

// place finds room for the wave: in the ring for what it reads, which it cannot do
// without, and in the decoded arena for the chunks that are worth it.
func (s *scheduler) place(w *wave) bool {
	if w.slabBytes == 0 && w.encoded > 0 {
		w.slabBytes = w.coalesce()
	}
	if w.slabBytes > 0 {
		var ok bool
		if w.slab, w.slabOff, ok = s.slabs.alloc(w.slabBytes); !ok {
			return false
		}
	}
	for i := range w.chunks {
		c := &w.chunks[i]
		if !c.encoded() {
			continue
		}
		if c.source == fromSlab {
			c.off += w.slabOff
		}
		if c.skip == 0 && c.size == c.recipe.size && s.table.worth(c.entry) && s.table.keep(c.entry, c.size) {
			c.keep, c.blockOff, c.latch = true, c.entry.off, &c.entry.latch
		}
	}
	return true
}

// submit gives the backend the waves whose bytes are there, in order.
func (s *scheduler) submit() {
	n := 0
	for n < len(s.unsent) && s.unsent[n].ready {
		s.p.backend.submit(s.unsent[n])
		n++
	}
	if n > 0 {
		s.unsent = append(s.unsent[:0], s.unsent[n:]...)
	}
}
