package sampler

import "github.com/headrace/headrace/nd"

// Epoch is one epoch of a stream: its order, and which rank reads what. Keep it
// for the epoch. It is safe for concurrent use.
type Epoch struct {
	Stream
	Number int64
	order  *Order
	local  *locality // nil where ranks read slices
}

// Epoch makes what is kept for one epoch.
func (s Stream) Epoch(number int64) *Epoch {
	order := s.Order(number)
	return &Epoch{Stream: s, Number: number, order: order, local: s.locality(order)}
}

// Order is the epoch's order: Order().At(p) is the sample at position p.
func (e *Epoch) Order() *Order { return e.order }

// Positions is the positions of a global batch that one rank serves, rising. Over
// the replica groups of a world they are the batch's, each once; their number is
// that of Slice. With Nodes the first call for a batch looks at all of it.
func (e *Epoch) Positions(step int64, rank, world int) []int64 {
	return e.Part(e.Span(step), rank, world)
}

// Part is Positions for any range of positions, such as what is left of a batch
// after a resume within it.
func (e *Epoch) Part(batch nd.Span, rank, world int) []int64 {
	group, groups, ok := e.group(rank, world)
	if ok && e.local != nil {
		return e.local.share(batch, groups).part(group, e.Nodes)
	}
	slice := e.Split(batch, rank, world)
	list := make([]int64, slice.Len())
	for i := range list {
		list[i] = slice.Start + int64(i)
	}
	return list
}

// Spans is a rising list of positions as the fewest spans.
func Spans(positions []int64) []nd.Span {
	var spans []nd.Span
	for _, p := range positions {
		if k := len(spans) - 1; k >= 0 && spans[k].Stop == p {
			spans[k].Stop++
			continue
		}
		spans = append(spans, nd.Span{Start: p, Stop: p + 1})
	}
	return spans
}

// Place is where a sample comes in an epoch. Step and Rank are -1 for a sample
// that TailDrop leaves out; all three are -1 for one that does not exist. With
// Replicas, Rank is the first of the ranks that get it.
type Place struct {
	Position int64
	Step     int64
	Rank     int
}

// Where finds the place of a sample among world ranks. A world that CheckWorld
// refuses has no ranks: Rank is -1.
func (e *Epoch) Where(sample int64, world int) Place {
	at := Place{e.order.Where(sample), -1, -1}
	if at.Position < 0 || at.Position >= e.Delivered().Stop {
		return at
	}
	at.Step = at.Position / e.Global
	_, groups, ok := e.group(0, world)
	batch := e.Span(at.Step)
	switch {
	case !ok:
	case e.local != nil:
		at.Rank = e.local.share(batch, groups).group(at.Position, e.Nodes) * e.replicas()
	default:
		at.Rank = holder(at.Position-batch.Start, batch.Len(), groups) * e.replicas()
	}
	return at
}

// HomeReads is how many samples of a global batch are read on the home node of
// their block; all others are read elsewhere or fetched. It is 0 without Nodes.
func (e *Epoch) HomeReads(step int64, world int) int64 {
	_, groups, ok := e.group(0, world)
	if !ok || e.local == nil {
		return 0
	}
	return e.local.share(e.Span(step), groups).home
}

// Where is Epoch.Where for a single look-up.
func (s Stream) Where(epoch, sample int64, world int) Place {
	return s.Epoch(epoch).Where(sample, world)
}
