package kernels

import (
	_ "embed" // the image
	"encoding/binary"
	"math"
	"slices"

	"github.com/headrace/headrace/nd"
)

// The kernels of the image, by name. Each takes one parameter struct, by value,
// and any grid: blocks stride over the items of the launch.
const (
	Assemble = "hr_assemble" // AssembleParams, tiles
	Decode   = "hr_decode"   // DecodeParams, chunks
	Gather   = "hr_gather"   // GatherParams, pieces
	Inflate  = "hr_inflate"  // DecodeParams, chunks
	Crc32c   = "hr_crc32c"   // DecodeParams, chunks of any family, behind all that decode them
)

// Threads in a block of each kernel. The kernels are compiled for them: a
// launch with another block is an error of the caller.
const (
	AssembleBlock = 256
	DecodeBlock   = 64
	GatherBlock   = 256
	InflateBlock  = 64
	Crc32cBlock   = 256
)

// MaxTile is the greatest number of elements of a tile: the work of one block.
// More is right, up to 2^27, and slow: the other blocks wait.
const MaxTile = 64 << 10

// MaxRank is the greatest number of loops of a tile.
const MaxRank = 32

// Bytes of the structs in device memory.
const (
	TileBytes           = 48
	LoopBytes           = 24
	ChunkBytes          = 40
	PieceBytes          = 24
	AssembleParamsBytes = 32
	DecodeParamsBytes   = 24
	GatherParamsBytes   = 16
)

// Flags of a tile.
const (
	Big    uint32 = 1 << iota // elements of the source are big-endian, word by word
	Fill                      // Element is written everywhere; Src is not read
	Affine                    // Scale and Offset are applied
)

// NoChunk in Tile.Chunk: the tile depends on no status.
const NoChunk = math.MaxUint32

// A Tile is a box of elements to be copied or converted, or filled: the work of
// one block. Dst and Src are the device addresses of its first element.
type Tile struct {
	Dst, Src      uint64
	Loops         uint32 // index of its outermost loop in the table of loops
	Rank          uint16 // number of its loops; 0 means one element
	From, To      nd.DType
	Flags         uint32
	Chunk         uint32   // status word of the chunk that it reads; skipped if that is not OK
	Scale, Offset float64  // used if Flags has Affine
	Element       [16]byte // used if Flags has Fill: an element of type To
}

// Append writes the tile as the kernels read it.
func (t Tile) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, t.Dst)
	dst = binary.LittleEndian.AppendUint64(dst, t.Src)
	dst = binary.LittleEndian.AppendUint32(dst, t.Loops)
	dst = binary.LittleEndian.AppendUint16(dst, t.Rank)
	dst = append(dst, byte(t.From), byte(t.To))
	dst = binary.LittleEndian.AppendUint32(dst, t.Flags)
	dst = binary.LittleEndian.AppendUint32(dst, t.Chunk)
	if t.Flags&Fill != 0 {
		return append(dst, t.Element[:]...)
	}
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(t.Scale))
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(t.Offset))
}

// A Loop is one loop of a tile: N steps, at least one, of so many bytes on each
// side. The loops of a tile lie one after the other, outermost first. The
// innermost is contiguous in dst: its Dst is the size of an element.
type Loop struct {
	Dst, Src int64
	N        uint32
}

// Append writes the loop as the kernels read it.
func (l Loop) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.Dst))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.Src))
	dst = binary.LittleEndian.AppendUint32(dst, l.N)
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// Flags of a chunk.
const (
	Unchecked uint16 = 1 << iota // checksums that are part of the format are not compared
	Summed                       // a CRC-32C of the bytes at Src, little-endian, follows them: Crc32c compares it
)

// Status words of chunks.
const (
	OK          uint32 = iota
	Corrupt            // its bytes are broken; dst is zero
	Unsupported        // the host must decode it; dst is zero
)

// A Chunk is decoded from Src, SrcBytes long, to Dst, which it must fill to
// DstBytes exactly. Its status is written to word Status of the launch's table.
//
// Typesize is the size of elements whose bytes were put apart (numcodecs' shuffle)
// before they were encoded; 0 and 1 are no such thing. A blosc frame says by itself
// how it was shuffled.
//
// Dst and Scratch begin at a multiple of 16; Scratch is DstBytes long and is needed for blosc and
// for Typesize above 1, but not for Unshuffle. Src may begin anywhere. Of all sources, here and in
// tiles and pieces, the aligned words of 4 bytes that hold a wanted byte must be readable, and the
// aligned vectors of 16 bytes where ZstdKernels decode: memory is allocated so.
type Chunk struct {
	Src, Dst, Scratch  uint64
	SrcBytes, DstBytes uint32
	Status             uint32
	Method, Typesize   uint8
	Flags              uint16
}

// Append writes the chunk as the kernels read it.
func (c Chunk) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, c.Src)
	dst = binary.LittleEndian.AppendUint64(dst, c.Dst)
	dst = binary.LittleEndian.AppendUint64(dst, c.Scratch)
	dst = binary.LittleEndian.AppendUint32(dst, c.SrcBytes)
	dst = binary.LittleEndian.AppendUint32(dst, c.DstBytes)
	dst = binary.LittleEndian.AppendUint32(dst, c.Status)
	dst = append(dst, c.Method, c.Typesize)
	return binary.LittleEndian.AppendUint16(dst, c.Flags)
}

// A Piece is N bytes to be copied. Src may be registered host memory; then Dst
// should lie as Src does within 16 bytes, so that no word crosses the bus twice.
type Piece struct{ Dst, Src, N uint64 }

// Append writes the piece as the kernels read it.
func (p Piece) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.Dst)
	dst = binary.LittleEndian.AppendUint64(dst, p.Src)
	return binary.LittleEndian.AppendUint64(dst, p.N)
}

// AssembleParams is the parameter of Assemble: the addresses of N tiles, of the
// table of loops and of the status words.
type AssembleParams struct {
	Tiles, Loops, Status uint64
	N                    uint32
}

// Append writes the parameter as the kernel reads it.
func (p AssembleParams) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.Tiles)
	dst = binary.LittleEndian.AppendUint64(dst, p.Loops)
	return appendTable(dst, p.Status, p.N)
}

// DecodeParams is the parameter of Decode, Inflate and Crc32c: the addresses of N chunks and of the
// status words.
type DecodeParams struct {
	Chunks, Status uint64
	N              uint32
}

// Append writes the parameter as the kernel reads it.
func (p DecodeParams) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.Chunks)
	return appendTable(dst, p.Status, p.N)
}

// GatherParams is the parameter of Gather: the address of N pieces.
type GatherParams struct {
	Pieces uint64
	N      uint32
}

// Append writes the parameter as the kernel reads it.
func (p GatherParams) Append(dst []byte) []byte { return appendTable(dst, p.Pieces, p.N) }

// appendTable writes an address, a count and its padding: the end of every
// parameter.
func appendTable(dst []byte, address uint64, n uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, address)
	dst = binary.LittleEndian.AppendUint32(dst, n)
	return binary.LittleEndian.AppendUint32(dst, 0)
}

//go:embed kernels.ptx
var ptx []byte

// Images returns the compiled kernels in the order in which a driver should be
// asked to load them. Text ends with a zero byte, as the driver wants it.
func Images() [][]byte { return [][]byte{append(slices.Clip(ptx), 0)} }
