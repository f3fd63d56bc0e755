package pipeline

import (
	"errors"
	"slices"
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
	padded  bool // some jobs need no chunk
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
	p          *Pipeline
	locator    *locator
	table      *table
	mappings   *mappings   // nil on the host
	compressed *compressed // nil on the host
	slabs      *arena
	plan       plan

	queue    []*sampleState // pushed, not planned yet
	window   []*sampleState // planned, in order; the head is dispatched next
	planned  int            // jobs of the window
	order    []*batchState  // not published, in order
	dropped  []*batchState  // of these, discarded while waves write into them
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
		for _, g := range m.mappings {
			s.loading--
			s.mappings.finish(g)
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
			s.planAhead()
			for s.dispatch() {
				s.planAhead() // the window has moved on
			}
			s.publish()
		} else if s.inflight == 0 && s.loading == 0 || s.p.broken() {
			return
		}
		s.settle(&m)
		<-s.p.inbox.wake
	}
}

// accept takes what was pushed.
func (s *scheduler) accept(m *mail) {
	s.order = append(s.order, m.batches...)
	s.queue = append(s.queue, m.samples...)
	for _, x := range m.samples {
		x.batch.samples = append(x.batch.samples, x)
	}
	for _, b := range m.closed {
		b.closed = true
	}
}

// windowJobs bounds the plans of the look-ahead, of about 150 bytes a job, where
// its number of samples does not: 2^18 jobs are 40 MB.
const windowJobs = 1 << 18

// planAhead plans samples up to the look-ahead while their plans and the indexes
// that they pin are within bounds; one sample is always planned, however large it is.
func (s *scheduler) planAhead() {
	n := 0
	for n < len(s.queue) && s.roomAhead() {
		began := time.Now()
		s.prepare(s.queue[n])
		s.planned += len(s.queue[n].jobs)
		s.p.counts.plan.add(1, time.Since(began), 0, 0)
		n++
	}
	if n > 0 {
		s.queue = slices.Delete(s.queue, 0, n)
	}
}

func (s *scheduler) roomAhead() bool {
	n := len(s.window)
	return n == 0 || n < s.p.cfg.Lookahead && s.planned < windowJobs && s.locator.used < 2*s.locator.limit
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
	x.padded = s.plan.padded
	x.uses = x.uses[:0]
	for i := range s.plan.chunks {
		s.addUse(x, &s.plan.chunks[i])
	}
	s.p.counts.uses.Add(int64(len(x.uses)))
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

// requestMapping sends a mapping to the readers.
func (s *scheduler) requestMapping(g *mapping) {
	s.loading++
	s.p.tasks.put(task{mapping: g})
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
		if c.stays != nil {
			s.compressed.unpin(c.stays, c.err == nil && (c.route.onDevice() || c.source == fromCompressed))
		}
	}
	for _, g := range w.mappings {
		s.mappings.unpin(g)
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
	if errors.Is(err, errChanged) {
		s.locator.forsake(c.object)
	}
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
