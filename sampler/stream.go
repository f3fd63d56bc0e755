package sampler

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Tail says what becomes of the last positions of an epoch that do not fill a
// global batch.
type Tail uint8

const (
	// TailShort delivers them as a short batch.
	TailShort Tail = iota
	// TailDrop leaves them out of the epoch.
	TailDrop
)

var tailNames = [...]string{TailShort: "short", TailDrop: "drop"}

// String is the name that ParseTail reads.
func (t Tail) String() string {
	if int(t) >= len(tailNames) {
		return fmt.Sprintf("Tail(%d)", t)
	}
	return tailNames[t]
}

// ParseTail reads "short" or "drop".
func ParseTail(name string) (Tail, error) {
	for t, known := range tailNames {
		if name == known {
			return Tail(t), nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "tail %q: one of %s", name, strings.Join(tailNames[:], ", "))
}

// Stream is the sequence of global batches of all epochs. It is a value; two
// equal streams give the same batches at any number of ranks.
type Stream struct {
	N           int64  // samples of an epoch
	Global      int64  // samples of a batch, over all ranks
	Seed        uint64 // with Fingerprint and the epoch it decides the order
	Fingerprint string // of the source
	Shuffle     bool   // false: samples come in the order of the source
	Tail        Tail
}

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
	if len(wrong) > 0 {
		return nd.Errorf(nd.ErrConfig, "stream: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Steps is the number of global batches of an epoch.
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

// Slice is the part of a global batch's positions that one rank of a world
// serves. The slices of all ranks are the batch, and differ in size by one at
// most; in a short batch some may be empty.
func (s Stream) Slice(step int64, rank, world int) nd.Span {
	batch := s.Span(step)
	if rank < 0 || rank >= world {
		return nd.Span{Start: batch.Start, Stop: batch.Start}
	}
	return nd.Span{
		Start: batch.Start + share(batch.Len(), rank, world),
		Stop:  batch.Start + share(batch.Len(), rank+1, world),
	}
}

// share is floor(g·r/w). The product itself may not fit; r·(g mod w) does for
// any real number of ranks.
func share(g int64, r, w int) int64 {
	return g/int64(w)*int64(r) + g%int64(w)*int64(r)/int64(w)
}

// Order is the order of an epoch. Keep it for the epoch: making one costs a few
// hashes, or a table for a small N.
func (s Stream) Order(epoch int64) *Order {
	if !s.Shuffle {
		return Sequential(s.N)
	}
	return New(s.N, EpochKey(s.Fingerprint, s.N, s.Seed, epoch))
}

// Batch is the samples of a global batch, in order.
func (s Stream) Batch(epoch, step int64) []int64 {
	return s.Order(epoch).Samples(s.Span(step))
}

// Samples is the samples at a range of positions.
func (o *Order) Samples(positions nd.Span) []int64 {
	positions = positions.Intersect(nd.Span{Stop: o.n})
	list := make([]int64, positions.Len())
	for i := range list {
		list[i] = o.At(positions.Start + int64(i))
	}
	return list
}

// Place is where a sample comes in an epoch. Step and Rank are -1 for a sample
// that TailDrop leaves out; all three are -1 for one that does not exist.
type Place struct {
	Position int64
	Step     int64
	Rank     int
}

// Where finds the place of a sample among world ranks.
func (s Stream) Where(epoch, sample int64, world int) Place {
	at := Place{s.Order(epoch).Where(sample), -1, -1}
	if at.Position < 0 || s.Global < 1 || at.Position/s.Global >= s.Steps() {
		return at
	}
	at.Step = at.Position / s.Global
	batch := s.Span(at.Step)
	at.Rank = holder(at.Position-batch.Start, batch.Len(), max(1, world))
	return at
}

// holder is the rank whose slice of a batch of g positions holds position p: the
// last r with floor(g·r/w) <= p.
func holder(p, g int64, w int) int {
	lo, hi := 0, w-1
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if share(g, mid, w) <= p {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}
