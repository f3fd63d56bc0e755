package pipeline

import (
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// A driver before CUDA 12.8 has no batched copy, and for scattered pieces a call each costs
// more than the bytes. A kernel of few blocks that reads the host's memory brings them
// about as fast as the copy engine brings pieces of gatherMost.
const (
	gatherBlocks = 8
	gatherMost   = 1 << 20
	// gatherLeast is the number of pieces below which their calls cost less than a
	// launch and its table.
	gatherLeast = 4
)

// mustGather reports whether pieces are to be gathered: kernels must reach what is
// registered by its host address.
func mustGather(i cuda.Info) bool { return !i.BatchCopy && i.HostPointers }

// gather has the wave's small pieces copied by a kernel, and gives the rest. It
// changes the order of the pieces, which have none.
func (s *stage) gather(d *device) (rest []cuda.Piece) {
	s.gathered = s.gathered[:0]
	n := 0
	for i, p := range s.pieces {
		if p.N < gatherMost {
			s.pieces[n], s.pieces[i] = p, s.pieces[n]
			n++
		}
	}
	if n < gatherLeast {
		return s.pieces
	}
	for _, p := range s.pieces[:n] {
		s.gathered = kernels.Piece{Dst: uint64(p.Dst), Src: uint64(p.Src), N: p.N}.Append(s.gathered)
	}
	s.commands.Copy(s.copies, s.gatheredAt, cuda.Address(s.gathered), int64(len(s.gathered)))
	s.params = kernels.GatherParams{Pieces: uint64(s.gatheredAt), N: uint32(n)}.Append(s.params[:0])
	s.launch(s.copies, &d.kernel.gather, n)
	return s.pieces[n:]
}
