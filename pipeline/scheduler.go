package pipeline

import (
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// batchState is a batch in the making.
type batchState struct {
	seq    int64
	meta   Meta
	pushed int // samples, counted by the inbox
	eof    bool
	room   int // look-ahead that an empty batch keeps

	samples    []*sampleState
	closed     bool
	slot       *slot
	dispatched int // samples whose last chunk is in a wave
	inflight   int // waves that write into it
	repaired   bool
	dropped    bool // by Discard or Close
	lastWave   int64
}

// sampleState is a sample between Push and its batch.
type sampleState struct {
	batch  *batchState
	index  int32
	sample sampler.Sample
	seq    int64 // in the order of the window

	uses    []use
	jobs    []job
	axes    []axis
	objects []*object
	waiting int // objects that are not located yet
	next    int // first use that is not in a wave
	begun   bool
	err     error
}

func (s *sampleState) located(*locator) { s.waiting-- }

func (s *sampleState) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// scheduler is the one goroutine that plans samples, forms waves, keeps the
// caches and publishes batches. All its state is its own: others talk to it
// through the inbox. It never reads, decodes or waits for anything but mail.
type scheduler struct {
	p       *Pipeline
	locator *locator
	table   *table
	slabs   *arena
	plan    plan

	window   []*sampleState // planned, in order; the head is dispatched next
	order    []*batchState  // not published, in order
	seq      int64          // of the next sample
	waveSeq  int64
	inflight int     // waves
	unsent   []*wave // in flight but not submitted, in order
	pending  *wave   // formed, waits for room in the slabs
	loading  int     // objects at the readers
	freed    int     // look-ahead to give back
	blocked  time.Time
	spares   []*wave
	plans    []sampleState // memory of delivered samples' plans
}

// run is the scheduler's loop. It ends after Close when nothing is in flight, and
// at once after a fatal error.
func (s *scheduler) run() {
	defer s.stop()
	defer s.p.recoverBug()
	var m mail
	for {
		m = s.p.inbox.take(m)
		for _, o := range m.objects {
			s.loading--
			s.locator.finish(o)
		}
		for _, w := range m.done {
			s.finishWave(w)
		}
		for _, w := range m.read {
			w.ready = true
		}
		s.submit()
		if len(m.discards) > 0 {
			s.discard()
		}
		s.accept(&m)
		if !m.ended {
			s.dispatch()
			s.publish()
		} else if s.inflight == 0 && s.loading == 0 || s.p.broken() {
			return
		}
		s.settle(&m)
		<-s.p.inbox.wake
	}
}

// accept plans what was pushed.
func (s *scheduler) accept(m *mail) {
	s.order = append(s.order, m.batches...)
	for _, x := range m.samples {
		began := time.Now()
		x.batch.samples = append(x.batch.samples, x)
		s.prepare(x)
		s.p.counts.plan.add(1, time.Since(began), 0, 0)
	}
	for _, b := range m.closed {
		b.closed = true
	}
}

// prepare plans one sample, asks for what locates its chunks and appends it to
// the window.
func (s *scheduler) prepare(x *sampleState) {
	if n := len(s.plans); n > 0 {
		m := &s.plans[n-1]
		x.uses, x.jobs, x.axes, x.objects = m.uses, m.jobs, m.axes, m.objects
		s.plans = s.plans[:n-1]
	}
	x.seq = s.seq
	s.seq++
	s.window = append(s.window, x)
	s.p.counts.samples.Add(1)
	s.plan.reset()
	for f := range x.sample.Crops {
		c := &x.sample.Crops[f]
		a := s.p.array(c.Array)
		if err := s.plan.add(a.layout, a.index, int32(f), s.p.fields[f], c); err != nil {
			x.fail(nd.At(err, nd.Place{Array: a.ref.URI}))
			return
		}
	}
	x.jobs = append(x.jobs[:0], s.plan.jobs...)
	x.axes = append(x.axes[:0], s.plan.axes...)
	x.uses = x.uses[:0]
	for i := range s.plan.chunks {
		s.addUse(x, &s.plan.chunks[i])
	}
	for i := range x.uses {
		s.table.add(&x.uses[i])
	}
}

// addUse gives the sample a use of the chunk, or adds the chunk's job to the use
// that the sample has of it already.
func (s *scheduler) addUse(x *sampleState, c *plannedChunk) {
	part := c.hi != 0
	e := s.table.find(chunkKey{c.array, c.leaf}, part)
	if e.owner == x.seq && e.listed {
		u := &x.uses[e.inUse]
		x.jobs[c.firstJob].next = u.firstJob
		u.firstJob = c.firstJob
		return
	}
	e.owner, e.inUse = x.seq, int32(len(x.uses))
	a := s.p.array(int(c.array))
	x.uses = append(x.uses, use{entry: e, sample: x, object: s.hold(x, a, c.holder), index: c.entry, lo: c.lo, hi: c.hi, firstJob: c.firstJob})
	s.p.counts.uses.Add(1)
}

// hold pins the object that locates a chunk, once a sample.
func (s *scheduler) hold(x *sampleState, a *boundArray, number int64) *object {
	for i := len(x.objects) - 1; i >= max(0, len(x.objects)-8); i-- {
		if o := x.objects[i]; o.key.number == number && o.array == a {
			return o
		}
	}
	o := s.locator.pin(a, number)
	x.objects = append(x.objects, o)
	if !o.settled() {
		x.waiting++
		o.waiting = append(o.waiting, x)
	}
	return o
}

// request sends an object to the readers.
func (s *scheduler) request(o *object) {
	s.loading++
	s.p.tasks.put(task{object: o})
}

// dispatch turns the head of the window into waves while there is room for them.
func (s *scheduler) dispatch() {
	for s.inflight < s.p.capacity.waves {
		w := s.pending
		if w == nil {
			if w = s.form(); w == nil {
				return
			}
		}
		if !s.start(w) {
			s.pending = w
			return
		}
		s.pending = nil
	}
}

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
	return w.decoded < s.p.capacity.waveBytes && w.encoded < s.p.limits.waveSlab && len(w.chunks) < maxWaveChunks
}

// maxWaveChunks bounds a wave of tiny chunks, so that its bookkeeping stays in
// the cache of a core.
const maxWaveChunks = 4096

// ends reports whether the wave must not go on with this batch: under ReuseBatch a
// chunk is shared within a batch and no further.
func (s *scheduler) ends(w *wave, b *batchState) bool {
	return s.p.cfg.Reuse == ReuseBatch && len(w.touched) > 0 && w.touched[len(w.touched)-1] != b
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
		if x.err == nil {
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
		s.putChunk(w, u, waveChunk{source: fromCache, blockOff: e.off, latch: &e.latch})
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
		case len(w.chunks) > 0 && w.encoded+length > s.p.limits.waveSlab:
			return false
		}
		w.encoded += length
		s.putChunk(w, u, waveChunk{source: fromSlab, off: off, length: length})
		s.table.take(u)
	}
	s.putJobs(w, e.slot, u)
	return true
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
	if u.hi != 0 {
		if length != r.size {
			u.sample.fail(nd.At(nd.Errorf(nd.ErrCorrupt, "the chunk has %d bytes, must have %d", length, r.size), s.placeOf(u, off, length)))
			return 0, 0, false
		}
		off, length = off+u.lo, u.hi-u.lo
	}
	if length > s.slabs.size {
		u.sample.fail(nd.At(nd.Errorf(nd.ErrBudget, "the stored bytes of a chunk of %d do not fit the ring of %d: is there something else behind them?", r.size, s.slabs.size), s.placeOf(u, off, length)))
	}
	return off, length, false
}

func (s *scheduler) placeOf(u *use, off, length int64) nd.Place {
	c := waveChunk{object: u.object, leaf: u.entry.key.leaf, stored: off, length: length}
	return c.place()
}

// putChunk adds a chunk to the wave and pins its entry until the wave is done.
func (s *scheduler) putChunk(w *wave, u *use, c waveChunk) {
	e := u.entry
	e.wave, e.slot = w.seq, int32(len(w.chunks))
	s.table.pin(e)
	r := u.object.array.layout.recipe
	c.recipe, c.entry, c.object, c.leaf, c.firstJob = r, e, u.object, e.key.leaf, -1
	c.size = r.size
	if u.hi != 0 {
		c.skip, c.size = u.lo, u.hi-u.lo
	}
	w.decoded += c.size
	w.chunks = append(w.chunks, c)
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

// start finds room for a wave's bytes and sends its reads on their way; false
// when there is no room yet.
func (s *scheduler) start(w *wave) bool {
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
		if c.source != fromSlab {
			continue
		}
		c.off += w.slabOff
		if c.skip == 0 && c.size == c.recipe.size && s.table.worth(c.entry) && s.table.keep(c.entry, c.size) {
			c.keep, c.blockOff, c.latch = true, c.entry.off, &c.entry.latch
		}
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

// finishWave takes a wave back from the backend.
func (s *scheduler) finishWave(w *wave) {
	s.inflight--
	if w.slab != 0 {
		s.slabs.release(w.slab)
	}
	s.p.tell(func(l *Listener) {
		if l.WaveEnd != nil {
			l.WaveEnd(w.info(time.Since(w.began)))
		}
	})
	s.retire(w)
}

// retire ends a wave's hold on chunks and batches.
func (s *scheduler) retire(w *wave) {
	for i := range w.chunks {
		c := &w.chunks[i]
		if c.err != nil {
			s.failChunk(w, c)
		}
		if c.entry != nil {
			s.table.unpin(c.entry)
		}
	}
	for _, b := range w.touched {
		if b.inflight--; b.inflight == 0 && b.dropped {
			s.giveSlot(b)
		}
	}
	w.reset()
	s.spares = append(s.spares, w)
}

// failChunk fails the samples that needed the chunk.
func (s *scheduler) failChunk(w *wave, c *waveChunk) {
	err := c.err
	if c.object != nil {
		err = nd.At(err, c.place())
	}
	for j := c.firstJob; j >= 0; j = w.jobs[j].next {
		w.jobs[j].owner.fail(err)
	}
}

// settle gives back the look-ahead that dispatched samples have left.
func (s *scheduler) settle(m *mail) {
	if s.freed > 0 {
		s.p.inbox.giveRoom(s.freed)
		s.freed = 0
	}
	for _, done := range m.discards {
		close(done)
	}
}
