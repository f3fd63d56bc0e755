package loader

import "github.com/headrace/headrace/sampler"

// again counts how many of the samples that a rank takes are of storage blocks that it has
// read before in the epoch: what a lane that is cut up loses. It is a bit a block.
type again struct {
	blocks *sampler.Blocks // of the source; nil: of so many samples each
	size   int64           // 0: there are no blocks
	seen   []uint64
	share  Locality
}

// Locality is how many samples a rank of lanes has taken, and how many of them were of storage
// blocks that it had read before, in the same epoch.
type Locality struct{ Samples, Again int64 }

// Share is the part that was read before; 0 before there is a sample.
func (l Locality) Share() float64 {
	if l.Samples == 0 {
		return 0
	}
	return float64(l.Again) / float64(l.Samples)
}

// newAgain is for the blocks of the stream, or else of the source; without either nothing is
// counted.
func newAgain(s *sampler.Stream, source sampler.Source) again {
	if s.Block > 0 && s.N/s.Block < mostBlocks {
		return again{size: s.Block, seen: make([]uint64, (s.N/s.Block)/64+1)}
	}
	blocks := s.Blocks
	if s.Block > 0 {
		return again{}
	}
	if blocked, ok := source.(sampler.Blocked); ok && blocks == nil {
		blocks = blocked.Blocks()
	}
	if blocks == nil || blocks.Len() > mostBlocks {
		return again{}
	}
	return again{blocks: blocks, seen: make([]uint64, blocks.Len()/64+1)}
}

// mostBlocks bounds the bits to 8 MiB.
const mostBlocks = 1 << 26

// begin is the begin of an epoch.
func (a *again) begin() { clear(a.seen) }

func (a *again) add(sample int64) {
	if a.seen == nil {
		return
	}
	var block int64
	if a.blocks != nil {
		block = a.blocks.Of(sample)
	} else {
		block = sample / a.size
	}
	word, bit := &a.seen[block/64], uint64(1)<<(block%64)
	a.share.Samples++
	if *word&bit != 0 {
		a.share.Again++
	}
	*word |= bit
}
