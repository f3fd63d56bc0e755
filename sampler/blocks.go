package sampler

import (
	"math"
	"sort"

	"github.com/headrace/headrace/nd"
)

// MaxBlocks is the most blocks of unequal size that a source may have: they cost
// 8 bytes each, and as much again for an epoch's order.
const MaxBlocks = 1 << 26

// Blocks cut the samples 0 … n-1 of a source into runs that lie together in
// storage, one after the other: the samples of a shard, say. It is never changed
// and safe for concurrent use.
type Blocks struct {
	size int64   // of all blocks but the last, which may be shorter; 0: see ends
	by   divisor // size
	n    int64   // samples
	ends []int64 // block b is the samples [ends[b-1], ends[b])
}

// Blocked is a source that knows its blocks. A Stream takes them as its Blocks.
type Blocked interface {
	Source
	Blocks() *Blocks
}

// NewBlocks makes blocks of the given numbers of samples, each at least 1.
func NewBlocks(sizes []int64) (*Blocks, error) {
	if len(sizes) > MaxBlocks {
		return nil, nd.Errorf(nd.ErrBudget, "blocks: %d, at most %d", len(sizes), MaxBlocks)
	}
	b := &Blocks{ends: make([]int64, len(sizes))}
	for i, n := range sizes {
		if n < 1 || n > math.MaxInt64-b.n {
			return nil, nd.Errorf(nd.ErrConfig, "blocks: block %d has %d samples after %d: at least 1, and 63 bits in all", i, n, b.n)
		}
		b.n += n
		b.ends[i] = b.n
	}
	return b, nil
}

// equalBlocks cuts n samples into blocks of one size.
func equalBlocks(n, size int64) *Blocks {
	return &Blocks{size: size, by: newDivisor(uint64(size)), n: max(0, n)}
}

// Len is the number of blocks.
func (b *Blocks) Len() int64 {
	switch {
	case b.size == 0:
		return int64(len(b.ends))
	case b.n == 0:
		return 0
	}
	return (b.n-1)/b.size + 1
}

// Samples is the number of samples.
func (b *Blocks) Samples() int64 { return b.n }

// Span is the samples of a block, 0 <= block < Len.
func (b *Blocks) Span(block int64) nd.Span {
	if b.size > 0 {
		start := block * b.size
		return nd.Span{Start: start, Stop: start + min(b.size, b.n-start)}
	}
	span := nd.Span{Stop: b.ends[block]}
	if block > 0 {
		span.Start = b.ends[block-1]
	}
	return span
}

// Of is the block of a sample, 0 <= sample < Samples.
func (b *Blocks) Of(sample int64) int64 {
	if b.size > 0 {
		block, _ := b.by.divide(uint64(sample))
		return int64(block)
	}
	return int64(sort.Search(len(b.ends), func(i int) bool { return b.ends[i] > sample }))
}
