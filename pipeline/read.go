package pipeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// read is one request to the store: a range of one object that holds the bytes
// of one or more chunks of a wave, and lands at slab in the space of slabs.
type read struct {
	object      *object
	off, length int64
	slab        int64
	first, last int32 // the chunks, as a range of wave.loose
}

const (
	// maxRead caps a coalesced read: beyond it a larger request is not faster, but
	// keeps its chunks waiting.
	maxRead = 4 << 20
	// maxGap is the hole that is read along rather than split: copying 32 KiB out of
	// the page cache takes about as long as a second request.
	maxGap = 32 << 10
)

// coalesce turns the chunks of a wave that must be read into as few reads as
// sensible, in the order of the files. It returns the bytes that they need in the
// space of slabs, and leaves each chunk's off relative to the first of them.
func (w *wave) coalesce() int64 {
	w.loose = w.loose[:0]
	for i := range w.chunks {
		if w.chunks[i].source == fromSlab {
			w.loose = append(w.loose, int32(i))
		}
	}
	slices.SortFunc(w.loose, func(a, b int32) int {
		x, y := &w.chunks[a], &w.chunks[b]
		return cmp.Or(cmp.Compare(x.object.key.array, y.object.key.array),
			cmp.Compare(x.object.root, y.object.root), cmp.Compare(x.off, y.off))
	})
	var total, holes int64
	w.reads = w.reads[:0]
	for k, i := range w.loose {
		c := &w.chunks[i]
		if n := len(w.reads); n > 0 && holes < w.encoded/4+maxGap {
			r := &w.reads[n-1]
			end := max(r.off+r.length, c.off+c.length)
			if gap := c.off - (r.off + r.length); r.object.sameBytes(c.object) && gap <= maxGap && end-r.off <= maxRead {
				holes += max(0, gap)
				total += end - r.off - r.length
				r.length, r.last = end-r.off, int32(k+1)
				continue
			}
		}
		w.reads = append(w.reads, read{object: c.object, off: c.off, length: c.length, slab: total, first: int32(k), last: int32(k + 1)})
		total += c.length
	}
	for i := range w.reads {
		r := &w.reads[i]
		for _, k := range w.loose[r.first:r.last] {
			w.chunks[k].stored = w.chunks[k].off
			w.chunks[k].off += r.slab - r.off
		}
	}
	return total
}

// sameBytes reports whether the ranges of both objects lie in the same file or
// in the same memory.
func (o *object) sameBytes(p *object) bool {
	if o == p {
		return true
	}
	return o.key.array == p.key.array && o.root == p.root && o.blob == nil && p.blob == nil
}

// task is what a reader takes: an object to locate, a mapping to make or to give
// back, or a read of a wave.
type task struct {
	object  *object
	mapping *mapping
	wave    *wave
	read    int
}

// readTasks is the loop of one reader. It ends when the tasks are closed.
func (p *Pipeline) readTasks() {
	defer p.recoverBug()
	scratch := codec.NewScratch()
	defer scratch.Close()
	for {
		t, ok := p.tasks.take()
		if !ok {
			return
		}
		if t.object != nil {
			t.object.load(p.ctx, scratch, !p.cfg.NoVerify)
			p.inbox.putObject(t.object)
			continue
		}
		if t.mapping != nil {
			p.sched.mappings.run(p.ctx, t.mapping)
			p.inbox.putMapping(t.mapping)
			continue
		}
		r := &t.wave.reads[t.read]
		p.fetch(t.wave, r)
		p.backend.look(t.wave, r)
		if t.wave.unread.Add(-1) == 0 {
			p.inbox.putRead(t.wave)
		}
	}
}

// fetch reads a range. Where that fails its chunks are read one by one, so that
// only those fail whose own bytes cannot be had.
func (p *Pipeline) fetch(w *wave, r *read) {
	began := time.Now()
	at := w.slabOff + r.slab
	err := r.object.readSame(p.ctx, p.slabs[at:at+r.length], r.off)
	if err != nil {
		p.fetchEach(w, r, err)
	}
	p.counts.read.add(1, time.Since(began), r.length, r.length)
}

func (p *Pipeline) fetchEach(w *wave, r *read, err error) {
	chunks := w.loose[r.first:r.last]
	for _, i := range chunks {
		c := &w.chunks[i]
		if len(chunks) > 1 {
			err = c.object.readSame(p.ctx, p.slabs[c.off:c.off+c.length], c.stored)
		}
		if err != nil {
			w.fail(int(i), err)
		}
	}
}

// place is where chunk c lies, for error messages.
func (c *waveChunk) place() nd.Place {
	o := c.object
	return nd.Place{
		Array: o.array.ref.URI, Chunk: coordinates(o.array.layout.coordinate(len(o.array.meta.Levels)-1, c.leaf)),
		File: o.file, Offset: c.stored, Length: c.length,
	}
}
