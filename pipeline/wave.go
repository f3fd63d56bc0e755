package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// A wave is the unit of work between the planner and a backend: chunks to fetch
// and decode, and the jobs that place parts of them into samples. It is a value:
// a backend needs nothing else and decides nothing. The planner fills it, the
// readers fill the bytes it points to, the backend executes it and reports a
// status for each chunk; then the planner takes it back.
type wave struct {
	seq    int64
	chunks []waveChunk
	jobs   []job
	axes   []axis // of all jobs, rank entries each
	moves  []move

	encoded, decoded int64 // bytes
	mapped           int64 // encoded bytes that come from mappings
	unpacked         int64 // decoded bytes that a device leaves to the host
	padding          int   // jobs without a chunk

	// The scheduler's and the readers' part.
	slab      int32 // block of the slab arena, 0 if the wave reads nothing
	slabOff   int64
	slabBytes int64
	loose     []int32 // chunks to read, in the order of the files
	reads     []read
	unread    atomic.Int32 // reads not finished
	ready     bool         // all reads are done
	mappings  []*mapping   // pinned
	touched   []*batchState
	began     time.Time

	// The backends' part.
	claimed int          // tasks handed out
	undone  atomic.Int32 // tasks not finished
	stage   *stage       // the device's memory for the wave
}

// source is where the bytes of a chunk come from.
type source uint8

const (
	// fromSlab: encoded bytes in the ring of slabs.
	fromSlab source = iota
	// fromMapped: encoded bytes in a registered mapping of the file.
	fromMapped
	// fromCompressed: encoded bytes in a device's cache of them.
	fromCompressed
	// fromCache: decoded already, or being decoded by an earlier wave, at blockOff.
	fromCache
	// fromFill: not stored; every element is the recipe's fill value.
	fromFill
)

// waveChunk is one chunk of a wave.
type waveChunk struct {
	recipe *recipe
	source source
	// Encoded bytes within the space of slabs for fromSlab, within the mapping for
	// fromMapped.
	off, length int64
	mapping     *mapping
	stays       *compressedChunk // where the encoded bytes stay on the device, nil if they do not
	// skip is the number of leading bytes of the decoded chunk that were left out
	// when a raw chunk was read in part; size is the number of decoded bytes there
	// are after them.
	skip, size int64
	// blockOff is where the decoded chunk lies, or is to be left, in the decoded
	// arena; keep says that it must be left there. Otherwise the backend may drop
	// it after the wave's jobs.
	blockOff int64
	keep     bool
	// latch tells the jobs of later waves that a kept chunk is there.
	latch *latch
	// firstJob starts the list of jobs that read this chunk, linked by job.next.
	firstJob int32
	err      error // why the chunk could not be read or decoded

	// The device backend's part: where the decoded bytes are or will be, and the way
	// there.
	at    cuda.Ptr
	route route
	sound bool // a frame that the library may have; the readers' word

	// The planner's and the readers' part.
	entry  *entry
	object *object
	leaf   int64 // number of the chunk on its grid
	stored int64 // offset of its bytes within the object's file
}

// encoded reports whether the chunk comes to the wave to be decoded.
func (c *waveChunk) encoded() bool {
	return c.source == fromSlab || c.source == fromMapped || c.source == fromCompressed
}

// job places the part of one chunk that one sample needs. Along each axis of the
// array it copies n elements, from index src of the chunk on in steps of step
// (1, -1 for a flip or a reflection, 0 to repeat), to index dst of the crop.
type job struct {
	chunk  int32 // -1: no chunk, write the field's padding value
	next   int32 // next job of the same chunk, -1 at the end
	slot   *slot
	sample int32 // position in the batch
	field  int32
	axes   int32 // first of the job's entries in wave.axes
	rank   int32
	conv   *conversion // from the chunk's element to the field's
	owner  *sampleState
}

// axis is one axis of a job.
type axis struct{ dst, src, n, step int32 }

// move copies sample from to sample to of one slot, for all fields.
type move struct {
	slot     *slot
	from, to int32
}

// latch is set once a kept chunk was decoded; err says how. On a device, whose
// waves end in order, repaired is the last wave that may have read the chunk
// before the host had to repair it.
type latch struct {
	state    atomic.Uint32 // 0 not yet, 1 done
	err      error         // valid once state is 1
	repaired int64
}

// set tells what became of the chunk; whoever meets the error later learns where it
// lies from here.
func (l *latch) set(c *waveChunk, err error) {
	if err != nil {
		err = nd.At(err, c.place())
	}
	l.err = err
	l.state.Store(1)
}

// fail records why chunk i cannot be used.
func (w *wave) fail(i int, err error) {
	w.chunks[i].err = err
}

func (w *wave) info(took time.Duration) WaveInfo {
	return WaveInfo{w.seq, len(w.chunks), len(w.jobs), len(w.reads), w.encoded, w.decoded, took}
}

// reset empties the wave for another use, keeping its memory.
func (w *wave) reset() {
	clear(w.chunks)
	clear(w.jobs)
	clear(w.reads)
	clear(w.touched)
	clear(w.mappings)
	w.mappings, w.mapped = w.mappings[:0], 0
	w.chunks, w.jobs, w.axes, w.moves = w.chunks[:0], w.jobs[:0], w.axes[:0], w.moves[:0]
	w.loose, w.reads, w.touched = w.loose[:0], w.reads[:0], w.touched[:0]
	w.encoded, w.decoded, w.unpacked, w.padding = 0, 0, 0, 0
	w.slab, w.slabOff, w.slabBytes, w.ready, w.claimed, w.stage = 0, 0, 0, false, 0, nil
}
