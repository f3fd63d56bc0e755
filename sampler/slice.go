package sampler

import "github.com/headrace/headrace/nd"

// CheckWorld says whether a number of ranks can serve the stream.
func (s Stream) CheckWorld(world int) error {
	if world < 1 || world > maxWorld {
		return nd.Errorf(nd.ErrConfig, "stream: %d ranks, must be in 1 to %d", world, maxWorld)
	}
	if r := s.replicas(); world%r != 0 {
		return nd.Errorf(nd.ErrConfig, "stream: Replicas is %d, which does not divide %d ranks: change one of them", r, world)
	}
	if n := s.Nodes; n > 0 && (world%n != 0 || world/n%s.replicas() != 0) {
		return nd.Errorf(nd.ErrConfig, "stream: %d ranks in groups of %d replicas on %d nodes: each node must have as many whole groups; take Nodes 0 for slices without locality", world, s.replicas(), n)
	}
	return nil
}

func (s Stream) replicas() int { return max(1, s.Replicas) }

// group is the replica group of a rank, and how many groups there are. ok is false
// for a rank that the world does not have, and for a world that CheckWorld refuses.
func (s Stream) group(rank, world int) (group, groups int, ok bool) {
	r := s.replicas()
	if rank < 0 || rank >= world || world > maxWorld || world%r != 0 || s.Nodes > 0 && world/r%s.Nodes != 0 {
		return 0, 1, false
	}
	return rank / r, world / r, true
}

// Slice is the part of a global batch's positions that one rank of a world
// serves. The slices of all replica groups are the batch, and differ in size by
// one at most; in a short batch some may be empty. It does not hold where ranks
// read what lies on their node: Epoch.Positions holds always.
func (s Stream) Slice(step int64, rank, world int) nd.Span {
	return s.Split(s.Span(step), rank, world)
}

// Split is one rank's part of any range of positions, such as what is left of a
// batch after a resume within it.
func (s Stream) Split(batch nd.Span, rank, world int) nd.Span {
	group, groups, ok := s.group(rank, world)
	if !ok {
		return nd.Span{Start: batch.Start, Stop: batch.Start}
	}
	return nd.Span{
		Start: batch.Start + share(batch.Len(), group, groups),
		Stop:  batch.Start + share(batch.Len(), group+1, groups),
	}
}

// MaxRows is the most rows that a batch of any rank has: what its memory must
// hold. It is 0 for a world that CheckWorld refuses.
func (s Stream) MaxRows(world int) int64 {
	_, groups, ok := s.group(0, world)
	if !ok || s.Global < 1 {
		return 0
	}
	return (s.Global-1)/int64(groups) + 1
}

// Weight is what a rank multiplies the mean loss of its samples of a global batch by,
// so that the mean over all ranks, as data parallel trainers take it of gradients, is
// the mean over the samples of the batch: the rank's samples, times replica groups,
// over those of the batch. It is 1 where all ranks have as many, also in a short batch,
// and 0 for a rank without a sample. A sample that was left out counts as one with no
// loss, since the other ranks do not know of it.
func (s Stream) Weight(step int64, samples int64, world int) float64 {
	batch := s.Span(step).Len()
	_, groups, ok := s.group(0, world)
	if !ok || batch == 0 {
		return 0
	}
	return float64(samples) * float64(groups) / float64(batch)
}

// share is floor(g·r/w). The product itself may not fit; r·(g mod w) does for
// maxWorld ranks.
func share(g int64, r, w int) int64 {
	return g/int64(w)*int64(r) + g%int64(w)*int64(r)/int64(w)
}

// holder is the slice of a batch of g positions, cut in w, that holds position p:
// the last r with floor(g·r/w) <= p.
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
