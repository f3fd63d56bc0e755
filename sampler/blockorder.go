package sampler

import (
	"sort"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// shelf is the blocks of an epoch laid end to end in their order: place q of a
// shelf is a sample, block j of it starts at place start(j).
type shelf struct {
	blocks *Blocks
	order  *Order  // shuffled index of a block -> block
	starts []int64 // of shuffled blocks, and the end; nil for blocks of one size

	// Of blocks of one size the last is shorter by lack, and comes at index short.
	short, lack int64
}

func newShelf(blocks *Blocks, order *Order) shelf {
	s := shelf{blocks: blocks, order: order}
	count := blocks.Len()
	if blocks.size > 0 {
		s.short, s.lack = order.Where(count-1), count*blocks.size-blocks.n
		return s
	}
	s.starts = make([]int64, count+1)
	for j := range count {
		s.starts[j+1] = s.starts[j] + blocks.Span(order.At(j)).Len()
	}
	return s
}

// start is the place of the first sample of shuffled block j, 0 <= j <= Len.
func (s *shelf) start(j int64) int64 {
	switch {
	case s.starts != nil:
		return s.starts[j]
	case j > s.short:
		return j*s.blocks.size - s.lack
	}
	return j * s.blocks.size
}

// at is the shuffled block that holds a place; it is among those of a range.
func (s *shelf) at(place int64, among nd.Span) int64 {
	if s.starts != nil {
		ends := s.starts[among.Start+1 : among.Stop+1]
		return among.Start + int64(sort.Search(len(ends), func(j int) bool { return ends[j] > place }))
	}
	whole := uint64(place) // as if the short block were not: near 2^63 it needs all bits
	if place >= s.start(s.short+1) {
		whole += uint64(s.lack)
	}
	j, _ := s.blocks.by.divide(whole)
	return int64(j)
}

// blockOrder is an order in two levels. Blocks are shuffled as wholes; each window
// of so many blocks in a row is shuffled sample by sample. So the samples of a
// window come from exactly that many blocks, whatever the number of samples is.
type blockOrder struct {
	shelf
	window int64 // blocks
	key    Key
	plain  bool                        // not shuffled, the windows are there all the same
	recent atomic.Pointer[windowOrder] // positions come in a row: nearly always the right one
}

// windowOrder is the shuffle within one window. A window's samples have the same
// numbers as positions and as places, in another order.
type windowOrder struct {
	places nd.Span
	blocks nd.Span // shuffled indices
	order  *Order
}

func newBlockOrder(blocks *Blocks, window int64, key Key) *blockOrder {
	order := New(blocks.Len(), subKey("headrace/blocks/1", key))
	return &blockOrder{shelf: newShelf(blocks, order), window: window, key: key}
}

// plainBlocks is the order of the source with its blocks and windows.
func plainBlocks(blocks *Blocks, window int64) *blockOrder {
	return &blockOrder{shelf: newShelf(blocks, Sequential(blocks.Len())), window: window, plain: true}
}

func (b *blockOrder) forward(position int64) int64 {
	w := b.windowAt(position)
	place := w.places.Start + w.order.At(position-w.places.Start)
	return b.sample(place, b.at(place, w.blocks))
}

// places sets list to the places of the samples at positions in a row, as far as
// they are in one window, and returns what it has set.
func (b *blockOrder) places(first int64, list []int64) (*windowOrder, []int64) {
	w := b.windowAt(first)
	list = list[:min(int64(len(list)), w.places.Stop-first)]
	w.order.samples(first-w.places.Start, list)
	for i := range list {
		list[i] += w.places.Start
	}
	return w, list
}

func (b *blockOrder) samples(first int64, list []int64) {
	for len(list) > 0 {
		w, places := b.places(first, list)
		for i, place := range places {
			places[i] = b.sample(place, b.at(place, w.blocks))
		}
		first, list = first+int64(len(places)), list[len(places):]
	}
}

// sample is what lies at a place, which is in shuffled block j.
func (b *blockOrder) sample(place, j int64) int64 {
	return b.blocks.Span(b.order.At(j)).Start + place - b.start(j)
}

func (b *blockOrder) backward(sample int64) int64 {
	block := b.blocks.Of(sample)
	place := b.start(b.order.Where(block)) + sample - b.blocks.Span(block).Start
	w := b.windowAt(place)
	return w.places.Start + w.order.Where(place-w.places.Start)
}

// windowAt is the window that holds a place, which is a position of it too.
func (b *blockOrder) windowAt(place int64) *windowOrder {
	if w := b.recent.Load(); w != nil && place >= w.places.Start && place < w.places.Stop {
		return w
	}
	count := b.blocks.Len()
	number := b.at(place, nd.Span{Stop: count}) / b.window
	w := &windowOrder{blocks: nd.Span{Start: number * b.window}}
	w.blocks.Stop = w.blocks.Start + min(b.window, count-w.blocks.Start)
	w.places = nd.Span{Start: b.start(w.blocks.Start), Stop: b.start(w.blocks.Stop)}
	if b.plain {
		w.order = Sequential(w.places.Len())
	} else {
		w.order = New(w.places.Len(), subKey("headrace/window/1", b.key, uint64(number)))
	}
	b.recent.Store(w)
	return w
}

// subKey is a key of its own for a part of an order.
func subKey(domain string, key Key, numbers ...uint64) Key {
	h := newHash(domain)
	h.bytes(key[:])
	for _, x := range numbers {
		h.word(x)
	}
	return h.sum()
}
