package pipeline

import (
	"container/heap"
	"iter"
	"math"
)

// An entry is a distinct chunk that the look-ahead window or the decoded cache
// knows of.
type entry struct {
	key        chunkKey
	listed     bool // in the table under its key; a part of a raw chunk is not
	head, tail *use // uses not dispatched yet, in the order of the window

	block    int32 // of the decoded arena, 0 if the chunk is not kept
	off      int64
	latch    latch
	pins     int // waves in flight that read or write the block
	lastUse  int64
	lastPart *batchState // batch of the last dispatched use
	place    int         // in the heap of victims, -1 if not there

	wave  int64 // wave being filled that holds the chunk already
	slot  int32 // its number there
	owner int64 // sample that was planned last with this chunk
	inUse int32 // the use of that sample
}

type chunkKey struct {
	array int32
	leaf  int64
}

// use is one sample's need of one chunk.
type use struct {
	entry    *entry
	next     *use // next use of the same chunk
	sample   *sampleState
	object   *object
	index    int64 // of the chunk in the object's table
	lo, hi   int64
	firstJob int32
}

// table maps chunks to entries and decides which decoded chunks stay in the
// arena: of all that could go, the one whose next use is farthest away goes
// first, which no policy can beat within the window (Belady 1966). Chunks without
// a known next use stay under ReuseCache alone, least recently used out first.
// It belongs to the scheduler's goroutine.
type table struct {
	reuse   Reuse
	entries []map[int64]*entry // by array, then by chunk: maps of integers are the fast ones
	spare   []*entry
	arena   *arena
	victims victims
	counts  *counters
}

func newTable(reuse Reuse, bytes int64, counts *counters) *table {
	return &table{reuse: reuse, arena: newArena(bytes), counts: counts}
}

// find returns the entry of a chunk. An entry of its own, equal to no other, is
// given for a part of a raw chunk and where nothing is reused.
func (t *table) find(key chunkKey, part bool) *entry {
	alone := part || t.reuse == ReuseNone
	if !alone {
		for int(key.array) >= len(t.entries) {
			t.entries = append(t.entries, map[int64]*entry{})
		}
		if e := t.entries[key.array][key.leaf]; e != nil {
			return e
		}
	}
	var e *entry
	if n := len(t.spare); n > 0 {
		e, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		e = &entry{}
	}
	e.key, e.listed, e.place, e.wave, e.owner = key, !alone, -1, -1, -1
	if !alone {
		t.entries[key.array][key.leaf] = e
	}
	return e
}

// add appends a use at the end of the window.
func (t *table) add(u *use) {
	e := u.entry
	if e.head == nil {
		e.head, e.tail = u, u
		if e.place >= 0 {
			heap.Fix(&t.victims, e.place)
		}
		return
	}
	e.tail.next = u
	e.tail = u
}

// take removes the first use of its chunk, which u must be.
func (t *table) take(u *use) {
	e := u.entry
	e.head = u.next
	if e.head == nil {
		e.tail = nil
	}
	u.next = nil
	e.lastUse, e.lastPart = u.sample.seq, u.sample.batch
}

// worth reports whether the policy keeps the chunk for what is known to come.
func (t *table) worth(e *entry) bool {
	switch t.reuse {
	case ReuseCache:
		return e.listed
	case ReuseWindow:
		return e.head != nil
	case ReuseBatch:
		return e.head != nil && e.head.sample.batch == e.lastPart
	default:
		return false
	}
}

// keep finds room for the decoded chunk, evicting chunks that are needed later
// than this one; ok is false where there is none.
func (t *table) keep(e *entry, size int64) bool {
	if size > t.arena.size {
		return false
	}
	for {
		if block, off, ok := t.arena.alloc(size); ok {
			e.block, e.off = block, off
			e.latch.state.Store(0)
			e.latch.err, e.latch.repaired = nil, 0
			t.counts.peakUsed.Store(max(t.counts.peakUsed.Load(), t.arena.used))
			return true
		}
		if len(t.victims) == 0 || !later(t.victims[0], e) {
			return false
		}
		t.free(t.victims[0])
	}
}

// pin keeps the block from being evicted while a wave is in flight.
func (t *table) pin(e *entry) {
	if e.pins++; e.pins == 1 && e.place >= 0 {
		heap.Remove(&t.victims, e.place)
	}
}

// unpin ends a wave's interest; a chunk that failed, or that the policy does not
// keep, is dropped with the last one.
func (t *table) unpin(e *entry) {
	if e.pins--; e.pins > 0 {
		return
	}
	switch {
	case e.block == 0:
		t.forget(e)
	case e.latch.err != nil || !t.worth(e):
		t.free(e)
	default:
		heap.Push(&t.victims, e)
	}
}

// free gives the block of an entry without pins back.
func (t *table) free(e *entry) {
	if e.place >= 0 {
		heap.Remove(&t.victims, e.place)
	}
	t.arena.release(e.block)
	e.block = 0
	t.forget(e)
}

// forget drops an entry that nothing refers to any more.
func (t *table) forget(e *entry) {
	if e.head != nil || e.pins > 0 || e.block != 0 {
		return
	}
	if e.listed {
		delete(t.entries[e.key.array], e.key.leaf)
		e.listed = false
	}
	e.lastPart = nil
	t.spare = append(t.spare, e)
}

// clear forgets all uses of the window; what lies in the cache stays.
func (t *table) clear() {
	for e := range t.all() {
		e.head, e.tail = nil, nil
		if e.pins == 0 && e.block != 0 && !t.worth(e) {
			t.free(e)
		} else {
			t.forget(e)
		}
	}
	heap.Init(&t.victims)
}

// all lists the entries that are in the table under their key.
func (t *table) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, m := range t.entries {
			for _, e := range m {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// nextUse is the number of the sample that needs the chunk next.
func (e *entry) nextUse() int64 {
	if e.head == nil {
		return math.MaxInt64
	}
	return e.head.sample.seq
}

// later reports whether a should be evicted before b.
func later(a, b *entry) bool {
	if x, y := a.nextUse(), b.nextUse(); x != y {
		return x > y
	}
	return a.lastUse < b.lastUse
}

// victims is a heap of the entries that may be evicted, the next one on top.
type victims []*entry

func (v victims) Len() int           { return len(v) }
func (v victims) Less(i, j int) bool { return later(v[i], v[j]) }
func (v victims) Swap(i, j int)      { v[i], v[j] = v[j], v[i]; v[i].place, v[j].place = i, j }

// Push is heap.Interface's.
func (v *victims) Push(x any) {
	e := x.(*entry)
	e.place = len(*v)
	*v = append(*v, e)
}

// Pop is heap.Interface's.
func (v *victims) Pop() any {
	e := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	e.place = -1
	return e
}
