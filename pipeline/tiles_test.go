package pipeline

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/cuda/kernels"
)

// Tiles cover every element of their nest once, none is larger than a block's work,
// and rows are contiguous, whatever the extents; lists that are full are flushed,
// not overrun.
func TestTilesCoverTheNest(t *testing.T) {
	ownDevice(t) // it has none
	r := rand.New(rand.NewPCG(1, 5))
	var sources []uint64 // of all nests in turn: a map of millions of rows takes most of a test
	for range 300 {
		var n nest
		size := int64(4)
		for range r.IntN(5) {
			extent := 2 + r.IntN([]int{3, 70, 400, 100_000}[r.IntN(4)])
			if size*int64(extent) > 4<<24 {
				break
			}
			copy(n.loops[1:], n.loops[:n.rank])
			n.loops[0] = loop{extent, size, int64(r.IntN(9)-4) * 3}
			n.rank++
			size *= int64(extent)
		}
		list := &tiles{tiles: make([]byte, 0, 7*kernels.TileBytes), loops: make([]byte, 0, 40*kernels.LoopBytes)}
		if grown := int(size/4) - len(sources); grown > 0 {
			sources = append(sources, make([]uint64, grown)...)
		}
		seen := rows(sources[:size/4])
		clear(seen)
		elements, flushed := int64(0), 0
		take := func() error {
			flushed++
			elements += readTiles(t, list, seen)
			list.reset()
			return nil
		}
		list.flush = take
		list.add(kernels.Tile{Dst: 1 << 40, Src: 1 << 41}, &n, 4)
		if err := take(); err != nil || list.err != nil || elements != n.elements() {
			t.Fatalf("%+v: %d elements in %d lists, want %d (%v)", n.loops[:n.rank], elements, flushed, n.elements(), list.err)
		}
		n.row(4)
		n.each(func(dst, src int64) {
			if *seen.at(1<<40 + uint64(dst)) != 1<<41+uint64(src) {
				t.Fatalf("%+v: the row at %d comes from %d, want %d", n.loops[:n.rank], dst, *seen.at(1<<40 + uint64(dst))-1<<41, src)
			}
		})
	}
}

// rows has the source of the row that begins with an element, 0 elsewhere.
type rows []uint64

// at is the place of the row whose first byte is dst, in elements of 4 bytes from 1<<40.
func (r rows) at(dst uint64) *uint64 { return &r[(dst-1<<40)/4] }

// readTiles walks a list of tiles as a kernel does.
func readTiles(t *testing.T, list *tiles, seen rows) (elements int64) {
	t.Helper()
	for i := range list.n {
		tile := list.tiles[i*kernels.TileBytes:]
		dst, src := binary.LittleEndian.Uint64(tile), binary.LittleEndian.Uint64(tile[8:])
		first, rank := binary.LittleEndian.Uint32(tile[16:]), int(binary.LittleEndian.Uint16(tile[20:]))
		n := nest{rank: rank}
		for k := range rank {
			l := list.loops[(int(first)+k)*kernels.LoopBytes:]
			n.loops[k] = loop{int(binary.LittleEndian.Uint32(l[16:])), int64(binary.LittleEndian.Uint64(l)), int64(binary.LittleEndian.Uint64(l[8:]))}
		}
		if m := n.elements(); m > kernels.MaxTile {
			t.Fatalf("a tile of %d elements", m)
		}
		elements += n.elements()
		if n.loops[rank-1].dst != 4 {
			t.Fatalf("the innermost loop of a tile steps %d bytes", n.loops[rank-1].dst)
		}
		n.rank--
		n.each(func(d, s int64) { *seen.at(dst + uint64(d)) = src + uint64(s) })
	}
	return elements
}
