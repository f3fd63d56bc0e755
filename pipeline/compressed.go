package pipeline

// compressed keeps the stored bytes of chunks on the device, so that a chunk whose
// decoded bytes had to go is decoded again without a read or a copy. Least recently
// used out; a chunk whose bytes are as large as it is decoded is not kept, for the
// decoded cache does as well. It belongs to the scheduler's goroutine.
type compressed struct {
	arena   *arena
	entries map[chunkKey]*compressedChunk
	idle    compressedChunk // ring of entries without waves, the last used first
	counts  *counters
}

// compressedChunk is one chunk's stored bytes.
type compressedChunk struct {
	key         chunkKey
	version     uint64 // of the file
	block       int32
	off, length int64
	pins        int  // waves in flight
	there       bool // a wave has brought and used them
	prev, next  *compressedChunk
}

func newCompressed(bytes int64, counts *counters) *compressed {
	if bytes == 0 {
		return nil
	}
	c := &compressed{arena: newArena(bytes), entries: map[chunkKey]*compressedChunk{}, counts: counts}
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	return c
}

// find gives the bytes of a chunk and pins them, nil if they are not there.
func (c *compressed) find(key chunkKey, o *object, length int64) *compressedChunk {
	if c == nil {
		return nil
	}
	p := c.entries[key]
	if p == nil || !p.there {
		return nil
	}
	if p.version != o.version || p.length != length {
		if p.pins == 0 {
			c.drop(p)
		}
		return nil
	}
	c.pin(p)
	c.counts.compressedHits.Add(1)
	return p
}

// admit finds room for the bytes of a chunk that a wave is about to bring, and pins
// it; nil where there is none.
func (c *compressed) admit(key chunkKey, o *object, length int64) *compressedChunk {
	if c == nil || length > c.arena.size || c.entries[key] != nil {
		return nil
	}
	block, off, ok := c.arena.alloc(length)
	for !ok {
		oldest := c.idle.prev
		if oldest == &c.idle {
			return nil
		}
		c.drop(oldest)
		block, off, ok = c.arena.alloc(length)
	}
	p := &compressedChunk{key: key, version: o.version, block: block, off: off, length: length, pins: 1}
	c.entries[key] = p
	return p
}

func (c *compressed) pin(p *compressedChunk) {
	if p.pins++; p.pins == 1 {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// unpin ends a wave's interest; good says whether the bytes served it.
func (c *compressed) unpin(p *compressedChunk, good bool) {
	p.there = good
	if p.pins--; p.pins > 0 {
		return
	}
	p.prev, p.next = &c.idle, c.idle.next
	c.idle.next.prev = p
	c.idle.next = p
	if !good {
		c.drop(p)
	}
}

// drop forgets an entry without waves.
func (c *compressed) drop(p *compressedChunk) {
	p.prev.next, p.next.prev = p.next, p.prev
	c.arena.release(p.block)
	delete(c.entries, p.key)
}
