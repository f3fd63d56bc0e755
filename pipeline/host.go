package pipeline

import (
	"runtime"
	"sync"
	"time"

	"github.com/headrace/headrace/codec"
)

// host is the backend without a device: workers that decode a chunk into their
// own scratch, or into the decoded arena where it is kept, and place its parts
// while it is still in the core's cache.
//
// Workers take tasks strictly in the order of the waves and of the chunks within
// them. So a worker that waits for a chunk of an earlier wave waits for one that
// another worker has begun: it cannot wait for ever.
type host struct {
	p     *Pipeline
	began time.Time // the workers' clock starts here

	decoded []byte // the arena of kept chunks

	mu    sync.Mutex
	work  *sync.Cond
	queue []*wave // submitted, with tasks left
	done  bool

	workers sync.WaitGroup
	latched *sync.Cond // a latch was set; on mu
	waiting int        // workers that wait for a latch
}

func newHost(p *Pipeline) *host {
	h := &host{p: p, began: time.Now()}
	h.work = sync.NewCond(&h.mu)
	h.latched = sync.NewCond(&h.mu)
	return h
}

func (h *host) start() {
	for range h.p.cfg.Workers {
		h.workers.Go(h.workTasks)
	}
}

// tasks are the chunks of a wave, then one task for its padding, then one for its
// moves.
func (w *wave) tasks() int {
	n := len(w.chunks)
	if w.padding > 0 {
		n++
	}
	if len(w.moves) > 0 {
		n++
	}
	return n
}

// look does nothing: the decoders look for themselves.
func (h *host) look(*wave, *read) {}

func (h *host) submit(w *wave) {
	n := w.tasks()
	if n == 0 {
		h.p.inbox.putDone(w)
		return
	}
	w.undone.Store(int32(n))
	h.mu.Lock()
	h.queue = append(h.queue, w)
	h.mu.Unlock()
	h.work.Broadcast()
}

// close waits for the workers. Waves in hand are finished; only after a fatal
// error some may wait for chunks that will never come, and fail.
func (h *host) close() {
	h.mu.Lock()
	h.done = true
	h.mu.Unlock()
	h.work.Broadcast()
	h.latched.Broadcast()
	h.workers.Wait()
}

// grain is the decoded bytes that a worker takes at once: enough to make the
// hand-out cheap where chunks are tiny, little enough to share a wave evenly.
const grain = 64 << 10

// claim takes the next tasks of the oldest wave; n is 0 when the backend ends.
func (h *host) claim() (w *wave, first, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) == 0 {
		if h.done {
			return nil, 0, 0
		}
		h.work.Wait()
	}
	w = h.queue[0]
	first = w.claimed
	total := w.tasks()
	for bytes := int64(0); first+n < total && bytes < grain; n++ {
		if i := first + n; i < len(w.chunks) {
			bytes += max(1024, w.chunks[i].size)
		}
	}
	if w.claimed += n; w.claimed == total {
		h.queue = append(h.queue[:0], h.queue[1:]...)
	}
	return w, first, n
}

// worker is one goroutine's memory.
type worker struct {
	h       *host
	scratch *codec.Scratch
	chunk   []byte // a decoded chunk that is not kept
	rows    []byte // gathered rows
	last    time.Duration
	done    work // by the tasks in hand
}

// work is what a worker has done since it last told the shared counters.
type work struct {
	decode, assemble         time.Duration
	encoded, decoded, placed int64 // bytes
	chunks, jobs             int64
}

// lap is the time since the last lap.
func (k *worker) lap() time.Duration {
	now := time.Since(k.h.began)
	d := now - k.last
	k.last = now
	return d
}

func (h *host) workTasks() {
	defer h.p.recoverBug()
	k := &worker{h: h, scratch: codec.NewScratch()}
	defer k.scratch.Close()
	for {
		w, first, n := h.claim()
		if n == 0 {
			return
		}
		k.lap()
		for i := first; i < first+n; i++ {
			k.task(w, i)
		}
		k.count()
		if w.undone.Add(int32(-n)) == 0 {
			h.p.inbox.putDone(w)
		}
		// A decoder in C holds one of the runtime's processors, with the goroutines
		// that wait for it, until the runtime's monitor takes it away, which can be
		// milliseconds. The scheduler and the readers must come in between, or the
		// next wave is late and cores idle (docs/decisions/005-worker-yield.md).
		runtime.Gosched()
	}
}

func (k *worker) task(w *wave, i int) {
	switch {
	case i < len(w.chunks):
		k.doChunk(w, i)
	case i == len(w.chunks) && w.padding > 0:
		k.doPadding(w)
	default:
		k.doMoves(w)
	}
}

// doChunk decodes a chunk and places it where the jobs say.
func (k *worker) doChunk(w *wave, i int) {
	c := &w.chunks[i]
	if c.source == fromFill {
		k.doFill(w, c)
		return
	}
	src, err := k.bytesOf(c)
	if err != nil {
		w.fail(i, err)
		return
	}
	for j := c.firstJob; j >= 0; j = w.jobs[j].next {
		k.place(w, &w.jobs[j], c, src)
		k.done.jobs++
	}
	k.done.assemble += k.lap()
}

// bytesOf is the decoded chunk.
func (k *worker) bytesOf(c *waveChunk) ([]byte, error) {
	if c.source == fromCache {
		if err := k.h.await(c.latch); err != nil {
			return nil, err
		}
		k.lap() // waiting is nobody's work
		return k.h.decoded[c.blockOff : c.blockOff+c.size], nil
	}
	if c.err != nil { // it could not be read
		k.h.settle(c, c.err)
		return nil, c.err
	}
	src, err := k.decodeChunk(c)
	k.h.settle(c, err)
	k.done.decode += k.lap()
	k.done.encoded += c.length
	k.done.decoded += int64(len(src))
	k.done.chunks++
	return src, err
}

func (k *worker) decodeChunk(c *waveChunk) ([]byte, error) {
	packed := k.h.p.slabs[c.off : c.off+c.length]
	if c.size != c.recipe.size { // a part of a raw chunk, read as it lies
		return packed, nil
	}
	var kept []byte
	if c.keep {
		kept = k.h.decoded[c.blockOff : c.blockOff+c.size : c.blockOff+c.size]
	}
	dst := kept
	if !c.recipe.raw && (!c.keep || c.size <= nearBytes) {
		dst = k.room(c.size)
	}
	src, err := c.recipe.chain.Decode(dst, packed, k.scratch)
	if err == nil && c.keep && len(src) > 0 && &src[0] != &kept[0] {
		copy(kept, src)
	}
	return src, err
}

// nearBytes is the largest chunk that is decoded into the worker's own memory and
// copied from there to where it is kept: decoders look back at what they wrote,
// and that memory is in the core's cache where the arena is not.
const nearBytes = 1 * mib

// room is the worker's memory for a chunk of n bytes.
func (k *worker) room(n int64) []byte {
	if int64(len(k.chunk)) < n {
		k.chunk = make([]byte, k.h.p.limits.chunk)
	}
	return k.chunk[:n]
}

// settle tells the jobs of later waves that a kept chunk is there, or why not.
func (h *host) settle(c *waveChunk, err error) {
	if !c.keep {
		return
	}
	c.latch.set(c, err)
	h.mu.Lock()
	wake := h.waiting > 0
	h.mu.Unlock()
	if wake {
		h.latched.Broadcast()
	}
}

// await waits for a chunk that an earlier task decodes.
func (h *host) await(l *latch) error {
	if l.state.Load() == 0 {
		h.mu.Lock()
		h.waiting++
		for l.state.Load() == 0 && !h.done {
			h.latched.Wait()
		}
		h.waiting--
		h.mu.Unlock()
		if l.state.Load() == 0 {
			return h.p.inbox.reason()
		}
	}
	return l.err
}

// doFill writes the fill value for a chunk that is not stored.
func (k *worker) doFill(w *wave, c *waveChunk) {
	for j := c.firstJob; j >= 0; j = w.jobs[j].next {
		job := &w.jobs[j]
		k.fill(w, job, job.conv.fill)
		k.done.jobs++
	}
	k.done.assemble += k.lap()
}

func (k *worker) doPadding(w *wave) {
	for i := range w.jobs {
		if j := &w.jobs[i]; j.chunk < 0 {
			k.fill(w, j, k.h.p.fields[j.field].padElem)
			k.done.jobs++
		}
	}
	k.done.assemble += k.lap()
}

func (k *worker) doMoves(w *wave) {
	for _, m := range w.moves {
		for _, f := range k.h.p.fields {
			at := func(i int32) []byte {
				return m.slot.mem[f.offset+int(i)*f.sampleBytes:][:f.sampleBytes]
			}
			copy(at(m.to), at(m.from))
		}
	}
}

// count adds what the last tasks took to the counters that all workers share.
func (k *worker) count() {
	c, d := &k.h.p.counts, &k.done
	c.decode.add(d.chunks, d.decode, d.encoded, d.decoded)
	c.assemble.add(d.jobs, d.assemble, d.placed, d.placed)
	c.decoded.Add(d.chunks)
	*d = work{}
}
