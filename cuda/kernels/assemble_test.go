package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// A scene is a launch of Assemble in the making: tiles over one source and one
// destination, and what package codec makes of the same.
type scene struct {
	src, dst, want []byte
	tiles, loops   []byte
	nTiles, nLoops int
	status         []byte
}

// The buffers of a launch, in order.
const (
	sceneSrc = iota
	sceneDst
	sceneTiles
	sceneLoops
	sceneStatus
)

func newScene(src []byte, dst int) *scene {
	s := &scene{src: src, dst: bytes.Repeat([]byte{0xee}, dst), status: make([]byte, 8)}
	s.want = bytes.Clone(s.dst)
	return s
}

// add appends a tile whose addresses are offsets, and does its work on want.
func (s *scene) add(tile Tile, loops []Loop, convert func(dst, src []byte)) {
	dst, src := int(tile.Dst), int(tile.Src)
	if convert != nil {
		walk(loops, int64(dst), int64(src), func(d, e int64) { convert(s.want[d:], s.src[e:]) })
	}
	tile.Dst, tile.Src = place(sceneDst, dst), place(sceneSrc, src)
	tile.Loops, tile.Rank = uint32(s.nLoops), uint16(len(loops))
	s.tiles = tile.Append(s.tiles)
	s.nTiles++
	for _, l := range loops {
		s.loops = l.Append(s.loops)
		s.nLoops++
	}
}

// walk calls visit for each element of nested loops.
func walk(loops []Loop, dst, src int64, visit func(dst, src int64)) {
	if len(loops) == 0 {
		visit(dst, src)
		return
	}
	for i := range int64(loops[0].N) {
		walk(loops[1:], dst+i*loops[0].Dst, src+i*loops[0].Src, visit)
	}
}

// check runs the scene, which stays as it is, and reports whether all is as wanted.
func (s *scene) check(t *testing.T, m *machine, grid int) bool {
	t.Helper()
	dst := bytes.Clone(s.dst)
	params := AssembleParams{
		Tiles: place(sceneTiles, 0), Loops: place(sceneLoops, 0), Status: place(sceneStatus, 0), N: uint32(s.nTiles),
	}.Append(nil)
	m.run(t, kernelAssemble, grid, AssembleBlock, params, [][]byte{bytes.Clone(s.src), dst, bytes.Clone(s.tiles), s.loops, s.status})
	for i := range s.want {
		if dst[i] != s.want[i] {
			stop := min(i+16, len(s.want))
			t.Errorf("byte %d of %d: % x, want % x", i, len(s.want), dst[i:stop], s.want[i:stop])
			return false
		}
	}
	return true
}

// reference is one element by the slow rules of package codec.
func reference(tile Tile) func(dst, src []byte) {
	var affine *codec.Affine
	if tile.Flags&Affine != 0 {
		affine = &codec.Affine{Scale: tile.Scale, Offset: tile.Offset}
	}
	return func(dst, src []byte) {
		codec.ConvertRef(dst, tile.To, src, tile.From, tile.Flags&Big != 0, affine)
	}
}

// edges are elements at and around every bound of the rules: limits of the
// integers, ties, subnormals, infinities, NaNs with payloads and signs.
func edges(d nd.DType, big bool) []byte {
	var out []byte
	add := func(w uint64, size int) {
		for i := range size {
			shift := 8 * i
			if big {
				shift = 8 * (size - 1 - i)
			}
			out = append(out, byte(w>>shift))
		}
	}
	r := rand.New(rand.NewPCG(7, uint64(d)))
	word := d.Word()
	for _, base := range edgeBits(d) {
		for _, off := range []uint64{^uint64(0), 0, 1} {
			add(base+off, word)
		}
	}
	for range 60 {
		add(r.Uint64(), word)
	}
	for len(out)%(4*d.Size()) != 0 {
		add(0, word)
	}
	return out
}

func edgeBits(d nd.DType) []uint64 {
	var bits []uint64
	for k := range 8 * d.Word() {
		bits = append(bits, 1<<k, ^uint64(0)<<k)
	}
	values := []float64{
		0, math.Copysign(0, -1), 1, 0.5, 1.5, -0.99, 127.5, 255.9, 32767.5, 65503.9, 65504, 65519.9, 65520, 65535.5, 1 << 31, 1 << 32,
		1 << 53, 1 << 63, 1 << 64, 3e38, 3.41e38, 1e39, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-126, 0x1p-149, 0x1.8p-149, 0x1p-1074,
		math.Inf(1), math.NaN(),
	}
	for _, v := range append(values, 2049, 4098.5, 0x1.004p0, 0x1.0040000001p0, 0x1.01p0, 0x1.018p0, 0x1.0100000001p0) {
		switch d {
		case nd.F32, nd.C64:
			b := uint64(math.Float32bits(float32(v)))
			bits = append(bits, b, b|1<<31)
		case nd.F64, nd.C128:
			b := math.Float64bits(v)
			bits = append(bits, b, b|1<<63)
		case nd.BF16:
			b := uint64(math.Float32bits(float32(v)) >> 16)
			bits = append(bits, b, b|1<<15)
		}
	}
	if d == nd.F16 {
		for i := uint64(0); i < 1<<16; i += 97 {
			bits = append(bits, i)
		}
	}
	return bits
}

// A pair is a conversion of package codec.
type pair struct {
	from, to nd.DType
	flags    uint32
	affine   *codec.Affine
}

func (p pair) String() string {
	return fmt.Sprintf("%v to %v, flags %d, affine %v", p.from, p.to, p.flags, p.affine)
}

func pairs() []pair {
	var all []pair
	for _, from := range nd.DTypes() {
		for _, to := range nd.DTypes() {
			for _, affine := range []*codec.Affine{nil, {Scale: 0.37, Offset: -11.25}, {Scale: 1e300, Offset: 1}, {Scale: 0, Offset: -0.5}} {
				flags := uint32(0)
				if affine != nil {
					flags = Affine
				}
				all = append(all, pair{from, to, flags, affine}, pair{from, to, flags | Big, affine})
			}
		}
	}
	return all
}

// scene converts the edges of a type: once in contiguous rows (the vector path, if
// the pair has one) and once backwards (the general path).
func (p pair) scene() *scene {
	tile := Tile{From: p.from, To: p.to, Flags: p.flags, Chunk: NoChunk}
	if p.affine != nil {
		tile.Scale, tile.Offset = p.affine.Scale, p.affine.Offset
	}
	src, in, out := edges(p.from, p.flags&Big != 0), p.from.Size(), p.to.Size()
	n := len(src) / in
	s := newScene(src, 2*n*out+32)
	convert := reference(tile)
	if _, err := codec.Converter(p.from, p.to, p.flags&Big != 0, p.affine); err != nil {
		convert = nil // must be left alone
	}
	tile.Dst = 16
	s.add(tile, []Loop{{Dst: int64(out), Src: int64(in), N: uint32(n)}}, convert)
	tile.Dst, tile.Src = uint64(16+n*out), uint64((n-1)*in)
	s.add(tile, []Loop{{Dst: int64(out), Src: -int64(in), N: uint32(n)}}, nil)
	for i := range n { // the same values, in the other order
		copy(s.want[16+(2*n-1-i)*out:][:out], s.want[16+i*out:])
	}
	return s
}

// Every pair of types, byte order and scaling gives codec's bytes at all edges.
func TestConversions(t *testing.T) {
	scenes := map[pair]*scene{}
	for _, p := range pairs() {
		scenes[p] = p.scene()
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for p, s := range scenes {
			if !s.check(t, m, 1) {
				t.Fatal(p)
			}
		}
	})
}

// randomLoops makes loops over an element of size out in dst,
// and the bytes that they span there.
func randomLoops(r *rand.Rand, rank, in, out int) (loops []Loop, dstSpan, srcLow, srcHigh int64) {
	loops = make([]Loop, rank)
	dstSpan = int64(out)
	for k := rank - 1; k >= 0; k-- {
		l := Loop{N: 1 + r.Uint32N(5), Dst: dstSpan}
		if k == rank-1 {
			l.N = 1 + r.Uint32N(70)
		} else {
			l.Dst += int64(r.IntN(3) * out)
		}
		switch r.IntN(4) {
		case 0:
			l.Src = int64(r.IntN(9)-4) * int64(in)
		case 1:
			l.Src = int64(r.IntN(200) - 100) // any alignment
		default:
			l.Src = srcHigh - srcLow + int64(in)
			if k == rank-1 {
				l.Src = int64(in)
			}
		}
		reach := int64(l.N-1) * l.Src
		srcLow, srcHigh = srcLow+min(reach, 0), srcHigh+max(reach, 0)
		dstSpan = int64(l.N-1)*l.Dst + dstSpan
		loops[k] = l
	}
	return loops, dstSpan, srcLow, srcHigh
}

// Boxes of any rank and layout: flips, steps of 0, big steps, rows at any alignment
// on both sides, several tiles, fills, and tiles of failed chunks.
func TestBoxes(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		r := rand.New(rand.NewPCG(1, 9))
		types := nd.DTypes()
		common := []nd.DType{nd.U8, nd.U16, nd.I16, nd.F32, nd.BF16, nd.F16}
		for round := range 300 {
			s := newScene(make([]byte, 1), 0)
			var tiles []func(base int)
			var size int64
			srcSize := int64(0)
			for range 1 + r.IntN(4) {
				from, to := common[r.IntN(len(common))], []nd.DType{nd.F32, nd.BF16, nd.F16}[r.IntN(3)]
				if r.IntN(3) == 0 {
					from = types[r.IntN(len(types))]
					to = from
				}
				loops, span, low, high := randomLoops(r, r.IntN(7), from.Size(), to.Size())
				tile := Tile{From: from, To: to, Chunk: NoChunk, Flags: r.Uint32N(2) * Big, Scale: 1.5, Offset: 3}
				if r.IntN(4) == 0 && !to.Complex() && to != nd.Bool {
					tile.Flags |= Affine
				}
				tile.Dst = uint64(size + int64(r.IntN(4)*to.Size()) + 15)
				if r.IntN(8) > 0 { // else it is nowhere near aligned
					tile.Dst = tile.Dst / uint64(to.Size()) * uint64(to.Size())
				}
				tile.Src = uint64(r.IntN(9)) + uint64(-low)
				size = int64(tile.Dst) + span + 3
				srcSize = max(srcSize, int64(tile.Src)+high+int64(from.Size()))
				convert := reference(tile)
				switch r.IntN(6) {
				case 0:
					tile.Flags |= Fill
					element := tile.Element[:to.Size()]
					for i := range element {
						element[i] = byte(r.Uint32())
					}
					convert = func(dst, _ []byte) { copy(dst, element) }
				case 1:
					tile.Chunk = 0
				case 2:
					tile.Chunk, convert = 1, nil // its chunk has failed
				}
				tiles = append(tiles, func(int) { s.add(tile, loops, convert) })
			}
			*s = *newScene(randomBytes(r, int(srcSize)), int(size))
			binary.LittleEndian.PutUint32(s.status[4:], Corrupt)
			for i, add := range tiles {
				add(i)
			}
			if !s.check(t, m, 1+r.IntN(3)) {
				t.Fatalf("round %d", round)
			}
		}
	})
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Crops as they come: a part of a chunk of u16 to f32, at every alignment of the
// rows, and a tile beyond MaxTile, which must be right if slow.
func TestCrops(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		r := rand.New(rand.NewPCG(3, 3))
		src := randomBytes(r, 2*8*32*64)
		for x := range 9 {
			for _, w := range []int{1, 3, 16, 55} {
				s := newScene(src, 4*6*20*w+64)
				tile := Tile{From: nd.U16, To: nd.F32, Chunk: NoChunk, Dst: uint64(4 * (x % 4)), Src: uint64(2 * (64 + x))}
				s.add(tile, []Loop{
					{Dst: int64(4 * 20 * w), Src: 2 * 32 * 64, N: 6},
					{Dst: int64(4 * w), Src: 2 * 64, N: 20},
					{Dst: 4, Src: 2, N: uint32(w)},
				}, reference(tile))
				s.check(t, m, 1)
			}
		}
		n := 3*MaxTile + 5
		s := newScene(randomBytes(r, n), 2*n)
		tile := Tile{From: nd.U8, To: nd.U8, Chunk: NoChunk}
		s.add(tile, []Loop{{Dst: 2, Src: 1, N: uint32(n)}, {Dst: 1, Src: 1, N: 1}}, reference(tile))
		s.check(t, m, 1)
	})
}

// Pieces are copied at any alignment of both sides, and nothing beside them.
func TestGather(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		r := rand.New(rand.NewPCG(5, 5))
		src := randomBytes(r, 70_000)
		dst := make([]byte, 150_000)
		want := bytes.Clone(dst)
		var pieces []byte
		at, n := 0, 0
		for _, size := range []int{0, 1, 15, 16, 17, 31, 1000, 4096, 40_000, 33} {
			for range 3 {
				from := r.IntN(len(src) - size + 1)
				at += r.IntN(20)
				if at+size > len(dst) {
					break
				}
				copy(want[at:], src[from:from+size])
				pieces = Piece{Dst: place(1, at), Src: place(0, from), N: uint64(size)}.Append(pieces)
				n++
				at += size
			}
		}
		m.run(t, kernelGather, 3, GatherBlock, GatherParams{Pieces: place(2, 0), N: uint32(n)}.Append(nil), [][]byte{src, dst, pieces})
		if !bytes.Equal(dst, want) {
			t.Error("other bytes")
		}
		if n < 25 {
			t.Error(fmt.Sprint("only ", n, " pieces"))
		}
	})
}
