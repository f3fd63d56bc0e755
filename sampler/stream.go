package sampler

import (
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Stream is the sequence of global batches of all epochs. It is a value; two
// equal streams give the same batches at any number of ranks.
//
// The first block of fields decides which sample is in which batch and enters
// PlanHash. The second only decides who reads it, and may change when a run is
// resumed.
type Stream struct {
	N           int64  // samples of an epoch
	Global      int64  // samples of a batch, over all ranks
	Seed        uint64 // with Fingerprint and the epoch it decides the order
	Fingerprint string // of the source
	Shuffle     bool   // false: samples come in the order of the source
	Tail        Tail

	// Block and Blocks shuffle by blocks, so that reads stay together: Block is their
	// number of samples, the last may have less; Blocks are those of a source. One of
	// them is given, or neither.
	Block  int64
	Blocks *Blocks
	// Window is the number of blocks whose samples are mixed. DefaultWindow is good
	// for data that are alike within a block.
	Window int

	// Replicas is the number of ranks that get the same samples, as tensor or
	// sequence parallel ranks need; 0 is 1. Ranks qR … qR+R-1 are one group, and
	// the number of ranks must be a multiple of R.
	Replicas int

	// Nodes, if not 0, is how many machines the ranks lie on, as many on each, in a
	// row. Samples then go to the home node of their block as far as that leaves the
	// ranks' numbers of samples as they are: Epoch.Positions. It wants blocks.
	Nodes int
}

// Limits of what costs memory or is counted in machine words.
const (
	maxWorld  = math.MaxInt32 // ranks
	maxNodes  = 1 << 20       // 8 bytes each, and a hash each for every block
	maxShared = 1 << 28       // samples of a batch that nodes share out: 4 bytes each
)

// DefaultWindow mixes a batch of 256 from 162 blocks on average, against 226 of a
// full shuffle over 1000 blocks; with 64 it is 63.
const DefaultWindow = 256

// Validate reports everything that is wrong with the stream.
func (s Stream) Validate() error {
	var wrong []string
	if s.N < 0 {
		wrong = append(wrong, fmt.Sprintf("N is %d, must be at least 0", s.N))
	}
	if s.Global < 1 {
		wrong = append(wrong, fmt.Sprintf("Global is %d, must be at least 1", s.Global))
	}
	if int(s.Tail) >= len(tailNames) {
		wrong = append(wrong, fmt.Sprintf("Tail is %d, must be one of %s", s.Tail, strings.Join(tailNames[:], ", ")))
	}
	wrong = append(wrong, s.checkBlocks()...)
	if s.Replicas < 0 {
		wrong = append(wrong, fmt.Sprintf("Replicas is %d, must be at least 0", s.Replicas))
	}
	if s.Nodes < 0 || s.Nodes > maxNodes {
		wrong = append(wrong, fmt.Sprintf("Nodes is %d, must be in 0 to %d", s.Nodes, maxNodes))
	}
	if s.Nodes > 0 && s.Global > maxShared {
		wrong = append(wrong, fmt.Sprintf("Global is %d, with Nodes at most %d", s.Global, maxShared))
	}
	if s.Nodes > 0 && s.Block == 0 && s.Blocks == nil {
		wrong = append(wrong, fmt.Sprintf("Nodes is %d without blocks: it is blocks that have a home, give Block or Blocks", s.Nodes))
	}
	if len(wrong) > 0 {
		return nd.Errorf(nd.ErrConfig, "stream: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func (s Stream) checkBlocks() (wrong []string) {
	if s.Block < 0 {
		wrong = append(wrong, fmt.Sprintf("Block is %d, must be at least 0", s.Block))
	}
	if s.Block > 0 && s.Blocks != nil {
		wrong = append(wrong, fmt.Sprintf("Block is %d and Blocks are given: give one of them", s.Block))
	}
	if s.Blocks != nil && s.Blocks.n != s.N {
		wrong = append(wrong, fmt.Sprintf("Blocks have %d samples, N is %d", s.Blocks.n, s.N))
	}
	blocked := s.Block > 0 || s.Blocks != nil
	if blocked && s.Window < 1 {
		wrong = append(wrong, fmt.Sprintf("Window is %d, must be at least 1 block", s.Window))
	}
	if !blocked && s.Window != 0 {
		wrong = append(wrong, fmt.Sprintf("Window is %d without blocks: give Block or Blocks", s.Window))
	}
	return wrong
}

// blocks is the blocks of either kind, nil without.
func (s Stream) blocks() *Blocks {
	if s.Block > 0 {
		return equalBlocks(s.N, s.Block)
	}
	return s.Blocks
}

// Steps is the number of global batches of an epoch, and of the batches that each
// rank gets.
func (s Stream) Steps() int64 {
	if s.N <= 0 || s.Global < 1 {
		return 0
	}
	if s.Tail == TailDrop {
		return s.N / s.Global
	}
	return (s.N-1)/s.Global + 1
}

// Span is the positions of a global batch; it is empty for a step that the epoch
// does not have.
func (s Stream) Span(step int64) nd.Span {
	if step < 0 || step >= s.Steps() {
		return nd.Span{}
	}
	first := step * s.Global
	return nd.Span{Start: first, Stop: first + min(s.Global, s.N-first)}
}

// Delivered is the positions that an epoch delivers: all but those of TailDrop.
func (s Stream) Delivered() nd.Span {
	if s.Steps() == 0 {
		return nd.Span{}
	}
	return nd.Span{Stop: s.Span(s.Steps() - 1).Stop}
}

// Order is the order of an epoch. Keep it for the epoch: making one costs a few
// hashes, or a table for a small N.
func (s Stream) Order(epoch int64) *Order {
	if !s.Shuffle {
		return Sequential(s.N)
	}
	key := EpochKey(s.Fingerprint, s.N, s.Seed, epoch)
	if blocks := s.blocks(); blocks != nil {
		return NewBlocked(blocks, s.Window, key)
	}
	return New(s.N, key)
}

// Batch is the samples of a global batch, in order.
func (s Stream) Batch(epoch, step int64) []int64 {
	return s.Order(epoch).Samples(s.Span(step))
}

// Samples is the samples at a range of positions.
func (o *Order) Samples(positions nd.Span) []int64 {
	positions = positions.Intersect(nd.Span{Stop: o.n})
	list := make([]int64, positions.Len())
	o.samples(positions.Start, list)
	return list
}
