package pipeline

import (
	"github.com/headrace/headrace/cuda"
)

// route is the way of a wave's chunk through the device. It is decided once, when the
// wave gets its stage: its bytes are in place then. Where these are is the chunk's
// source, where the decoded ones land its keep, and where stored ones stay its stays.
type route struct {
	by    decoder
	comes carriage
	room  int64 // its place in the stage: offset in out and in scratch
	// unpacked is the offset of the decoded bytes in the stage's pinned memory, where
	// a worker decodes.
	unpacked int64
}

// decoder is who decodes a chunk.
type decoder uint8

const (
	byNobody  decoder = iota // it is decoded, or was never encoded, or it failed
	byKernel                 // with the wave's chunks of its family
	byLibrary                // as one of the wave's frames
	byWorker                 // on the host, before the wave is issued
	bySettler                // on the host, after the wave
)

// carriage is how the bytes of a chunk come to the device.
type carriage uint8

const (
	notAtAll carriage = iota
	withRead          // as stored, in one piece with its read
	alone             // as stored, in a piece of its own
	straight          // as decoded, to where the jobs read them
	before            // as stored, by an earlier wave
)

// decide gives each chunk of the wave its route, and the number of those that are
// tasks of the workers.
func (d *device) decide(w *wave) (tasks int32) {
	s := w.stage
	fits := w.slabBytes <= s.room.encoded
	frames, loose := d.framesOf(w, fits)
	var room, unpacked int64
	for i := range w.chunks {
		c := &w.chunks[i]
		if c.err != nil || !c.encoded() {
			continue
		}
		r := &c.route
		r.by, r.room, r.unpacked = d.decoderOf(c, fits, frames > 0), room, unpacked
		room += align(c.size)
		switch {
		case r.by == byLibrary:
			frames--
		case r.by == byWorker && unpacked+c.size > int64(len(s.unpacked.mem)):
			r.by = bySettler // more frames were refused than anyone expects
		case r.by == byWorker:
			unpacked += align(c.size)
			tasks++
		}
		r.comes = c.carriage(loose)
	}
	return tasks
}

// decoderOf picks who decodes the chunk. fits says that the stage has room for the
// bytes of the slab: otherwise all of these are the host's.
func (d *device) decoderOf(c *waveChunk, fits, library bool) decoder {
	by := d.decoders.of(c.recipe, c.length)
	switch {
	case c.source == fromSlab && !fits:
		return byWorker
	case c.recipe.raw && (c.keep || d.stored(c)%cuda.Ptr(c.recipe.elem.Word()) == 0):
		return byNobody // stored bytes keep their alignment on the device
	case by == byKernel, by == byLibrary && library && d.frames.takes(c):
		return by
	case c.source == fromSlab:
		return byWorker
	}
	return bySettler // the host does not have its bytes
}

// carriage picks how the chunk comes. loose says that nothing comes with its read.
func (c *waveChunk) carriage(loose bool) carriage {
	switch {
	case c.route.by == bySettler:
		return notAtAll
	case c.source == fromCompressed:
		return before
	case c.route.by == byWorker || c.route.by == byNobody && c.keep:
		return straight
	case c.source == fromSlab && c.stays == nil && !loose:
		return withRead
	}
	return alone
}

// onDevice reports whether the device decoded the chunk, or was to.
func (r *route) onDevice() bool { return r.by == byKernel || r.by == byLibrary }
