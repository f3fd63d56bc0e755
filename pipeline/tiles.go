package pipeline

import (
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// tiles is the assemble work of a wave as the device reads it: tiles, and the
// table of their loops. Their memory is fixed; when it is full, flush launches
// what there is and empties it.
type tiles struct {
	tiles, loops []byte // their capacity is the limit
	n            int
	flush        func() error
	err          error // of flush
}

func (t *tiles) reset() { t.tiles, t.loops, t.n = t.tiles[:0], t.loops[:0], 0 }

// add splits the nest into tiles of at most kernels.MaxTile elements. What the
// tiles have in common is in base, whose Dst and Src are those of the sample and
// of the chunk; elem is the size of an element of the destination.
func (t *tiles) add(base kernels.Tile, n *nest, elem int64) {
	base.Dst += uint64(n.dst)
	base.Src += uint64(n.src)
	loops := n.loops[:n.rank]
	var row [maxRank + 1]loop
	if n.rank == 0 || loops[n.rank-1].dst != elem {
		// The kernel wants contiguous rows: here they have one element.
		loops = append(append(row[:0], loops...), loop{1, elem, 0})
	}
	t.split(base, loops)
}

// split cuts the outermost loop, or steps into it where one turn of it is too much.
func (t *tiles) split(base kernels.Tile, loops []loop) {
	inner := int64(1)
	for _, l := range loops[1:] {
		inner *= int64(l.n)
	}
	outer := loops[0]
	if len(loops) > 1 && inner > kernels.MaxTile/2 && outer.n > 1 {
		for range outer.n {
			t.split(base, loops[1:])
			base.Dst += uint64(outer.dst)
			base.Src += uint64(outer.src)
		}
		return
	}
	if len(loops) > 1 && outer.n == 1 && inner > kernels.MaxTile {
		t.split(base, loops[1:])
		return
	}
	step := max(1, int(kernels.MaxTile/inner))
	for at := 0; at < outer.n; at += step {
		t.emit(base, loop{min(step, outer.n-at), outer.dst, outer.src}, loops[1:])
		base.Dst += uint64(int64(step) * outer.dst)
		base.Src += uint64(int64(step) * outer.src)
	}
}

func (t *tiles) emit(tile kernels.Tile, outer loop, inner []loop) {
	if t.err != nil {
		return
	}
	if len(t.tiles)+kernels.TileBytes > cap(t.tiles) || len(t.loops)+(1+len(inner))*kernels.LoopBytes > cap(t.loops) {
		if t.err = t.flush(); t.err != nil {
			return
		}
	}
	tile.Loops = uint32(len(t.loops) / kernels.LoopBytes)
	tile.Rank = uint16(1 + len(inner))
	t.loops = outer.device().Append(t.loops)
	for i := range inner {
		t.loops = inner[i].device().Append(t.loops)
	}
	t.tiles = tile.Append(t.tiles)
	t.n++
}

func (l loop) device() kernels.Loop { return kernels.Loop{Dst: l.dst, Src: l.src, N: uint32(l.n)} }

// tile is what all tiles of a conversion have in common.
func (c *conversion) tile() kernels.Tile {
	t := kernels.Tile{From: c.elem, To: c.out, Chunk: kernels.NoChunk}
	if c.big {
		t.Flags |= kernels.Big
	}
	if c.affine != nil {
		t.Flags |= kernels.Affine
		t.Scale, t.Offset = c.affine.Scale, c.affine.Offset
	}
	return t
}

// fillTile writes one element, of type d, everywhere.
func fillTile(d nd.DType, element []byte) kernels.Tile {
	t := kernels.Tile{From: d, To: d, Flags: kernels.Fill, Chunk: kernels.NoChunk}
	copy(t.Element[:], element)
	return t
}
