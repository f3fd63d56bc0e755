package pipeline

import "math/bits"

// arena hands out ranges of a fixed space of bytes. It keeps offsets alone, no
// memory: the space may lie on the host or on a device. The scheme is the
// two-level segregated fit of Masmano et al. (2004): free blocks in lists by
// size class, found by bit scans, merged with their neighbours when freed; alloc
// and free take constant time whatever the number of blocks.
//
// It belongs to one goroutine.
type arena struct {
	size   int64
	used   int64
	blocks []arenaBlock // indexed by block number; 0 is no block
	spare  int32        // list of unused entries of blocks
	heads  [firstClasses][secondClasses]int32
	first  uint64
	second [firstClasses]uint32
}

// arenaBlock is a range of the space; before and after are its neighbours by
// address, prev and next its neighbours in a free list.
type arenaBlock struct {
	off, size     int64
	before, after int32
	prev, next    int32
	free          bool
}

const (
	arenaGrain    = 256 // alignment of every range: a cache line on the host, a vector load on a device
	grainShift    = 8
	secondBits    = 4
	secondClasses = 1 << secondBits
	firstClasses  = 64 - grainShift
)

func newArena(size int64) *arena {
	size &^= arenaGrain - 1
	a := &arena{size: size, blocks: make([]arenaBlock, 1, 64)}
	if size > 0 {
		a.link(a.entry(arenaBlock{size: size}))
	}
	return a
}

// alloc takes a range of at least size bytes; ok is false when none is free.
func (a *arena) alloc(size int64) (block int32, off int64, ok bool) {
	size = (max(size, 1) + arenaGrain - 1) &^ (arenaGrain - 1)
	n := a.find(size)
	if n == 0 {
		return 0, 0, false
	}
	a.unlink(n)
	if rest := a.blocks[n].size - size; rest > 0 {
		a.split(n, size, rest)
	}
	a.used += size
	return n, a.blocks[n].off, true
}

// release gives a block back.
func (a *arena) release(n int32) {
	a.used -= a.blocks[n].size
	if p := a.blocks[n].before; p != 0 && a.blocks[p].free {
		a.unlink(p)
		n = a.merge(p, n)
	}
	if s := a.blocks[n].after; s != 0 && a.blocks[s].free {
		a.unlink(s)
		n = a.merge(n, s)
	}
	a.link(n)
}

// entry stores b in the table and returns its number.
func (a *arena) entry(b arenaBlock) int32 {
	if n := a.spare; n != 0 {
		a.spare = a.blocks[n].next
		a.blocks[n] = b
		return n
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

func (a *arena) split(n int32, size, rest int64) {
	b := a.blocks[n]
	tail := a.entry(arenaBlock{off: b.off + size, size: rest, before: n, after: b.after})
	if b.after != 0 {
		a.blocks[b.after].before = tail
	}
	a.blocks[n].size, a.blocks[n].after = size, tail
	a.link(tail)
}

// merge joins the neighbours p and n into p.
func (a *arena) merge(p, n int32) int32 {
	a.blocks[p].size += a.blocks[n].size
	after := a.blocks[n].after
	a.blocks[p].after = after
	if after != 0 {
		a.blocks[after].before = p
	}
	a.blocks[n] = arenaBlock{next: a.spare}
	a.spare = n
	return p
}

// class is the list that a free block of this size belongs to.
func class(size int64) (f, s int) {
	g := uint64(size) >> grainShift
	top := bits.Len64(g) - 1
	if top < secondBits {
		return 0, int(g)
	}
	return top - secondBits + 1, int(g>>(top-secondBits)) & (secondClasses - 1)
}

// find returns a free block of at least size bytes, 0 if there is none. Rounding
// the size up to the next class makes any block of a list fit; where no such
// list has one, the exact class may still.
func (a *arena) find(size int64) int32 {
	g := uint64(size) >> grainShift
	up := size
	if top := bits.Len64(g) - 1; top > secondBits {
		up += (int64(1)<<(top-secondBits) - 1) << grainShift
	}
	f, s := class(up)
	if m := a.second[f] >> s << s; m != 0 {
		return a.heads[f][bits.TrailingZeros32(m)]
	}
	if m := a.first >> (f + 1) << (f + 1); m != 0 {
		f = bits.TrailingZeros64(m)
		return a.heads[f][bits.TrailingZeros32(a.second[f])]
	}
	f, s = class(size)
	for n := a.heads[f][s]; n != 0; n = a.blocks[n].next {
		if a.blocks[n].size >= size {
			return n
		}
	}
	return 0
}

func (a *arena) link(n int32) {
	f, s := class(a.blocks[n].size)
	head := a.heads[f][s]
	a.blocks[n].free, a.blocks[n].prev, a.blocks[n].next = true, 0, head
	if head != 0 {
		a.blocks[head].prev = n
	}
	a.heads[f][s] = n
	a.second[f] |= 1 << s
	a.first |= 1 << f
}

func (a *arena) unlink(n int32) {
	b := &a.blocks[n]
	b.free = false
	if b.next != 0 {
		a.blocks[b.next].prev = b.prev
	}
	if b.prev != 0 {
		a.blocks[b.prev].next = b.next
		return
	}
	f, s := class(b.size)
	a.heads[f][s] = b.next
	if b.next == 0 {
		a.second[f] &^= 1 << s
		if a.second[f] == 0 {
			a.first &^= 1 << f
		}
	}
}
