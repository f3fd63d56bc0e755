package sampler

// tableLimit is the largest n whose order is kept as a table, 8 KiB with its
// inverse: uniform over all permutations, which a network on a grid of few cells
// only comes near, and twenty times faster to look up.
const tableLimit = 1024

// Order is a permutation of the samples 0 … n-1: which sample each position of
// an epoch holds, and where each sample is. It takes constant memory and
// constant time for any n and is safe for concurrent use.
type Order struct {
	n        int64
	shuffled bool

	at, where []int32 // n <= tableLimit
	feistel   feistel // above

	blocks *blockOrder // instead, where samples are shuffled by blocks
}

// New is the seeded order of n samples; each key gives another. A negative n
// counts as 0.
func New(n int64, key Key) *Order {
	o := &Order{n: max(0, n), shuffled: true}
	if o.n > tableLimit {
		o.feistel = newFeistel(uint64(n), key)
	} else {
		o.at, o.where = shuffle(int(o.n), key)
	}
	return o
}

// NewBlocked is the seeded order that shuffles blocks as wholes, and then the
// samples of each window of so many blocks in a row. Blocks of one size cost
// constant memory, others 8 bytes each. A window below 1 counts as 1.
//
// A look-up in the window of the one before takes constant time; another window
// costs a few hashes first, or a table for a small one.
func NewBlocked(blocks *Blocks, window int, key Key) *Order {
	return &Order{n: blocks.n, shuffled: true, blocks: newBlockOrder(blocks, max(1, int64(window)), key)}
}

// Sequential is the order in which position p holds sample p.
func Sequential(n int64) *Order { return &Order{n: max(0, n)} }

// Len is the number of samples.
func (o *Order) Len() int64 { return o.n }

// At is the sample at a position, -1 if there is no such position.
func (o *Order) At(pos int64) int64 {
	switch {
	case pos < 0 || pos >= o.n:
		return -1
	case !o.shuffled:
		return pos
	case o.at != nil:
		return int64(o.at[pos])
	case o.blocks != nil:
		return o.blocks.forward(pos)
	}
	return int64(o.feistel.forward(uint64(pos)))
}

// samples sets list to the samples at positions in a row, which must exist. A full
// shuffle has several look-ups under way at a time: that takes a third of the time
// of as many calls of At.
func (o *Order) samples(first int64, list []int64) {
	switch {
	case o.blocks != nil:
		o.blocks.samples(first, list)
	case !o.shuffled || o.at != nil:
		for i := range list {
			list[i] = o.At(first + int64(i))
		}
	default:
		o.feistel.row(uint64(first), list)
	}
}

// Where is the position of a sample, -1 if there is no such sample.
func (o *Order) Where(index int64) int64 {
	switch {
	case index < 0 || index >= o.n:
		return -1
	case !o.shuffled:
		return index
	case o.where != nil:
		return int64(o.where[index])
	case o.blocks != nil:
		return o.blocks.backward(index)
	}
	return int64(o.feistel.backward(uint64(index)))
}

// shuffle is Fisher and Yates', with its inverse.
func shuffle(n int, key Key) (at, where []int32) {
	at, where = make([]int32, n), make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	w := newWords(key)
	for i := n - 1; i > 0; i-- {
		j := below(w.next, uint64(i)+1)
		at[i], at[j] = at[j], at[i]
	}
	for pos, index := range at {
		where[index] = int32(pos)
	}
	return at, where
}
