package decode

import (
	"math"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// Limits bound a call.
type Limits struct {
	Chunks int   // most chunks
	Bytes  int64 // most bytes that they decode to, together
	// Arena is how many bytes of tables, literals and sequences there is room for;
	// 0 is DefaultArena. A sequence takes 8 bytes, a block of up to 128 KiB 3 KiB.
	Arena int64
	// SMs is how many multiprocessors its kernels take at once; 0 is all. A part of one
	// is the part of the blocks that it holds.
	SMs float64
}

const (
	// A block of a frame is 128 KiB, less where the encoder sees the data change or
	// the writer flushes.
	usualBlock    = 16 << 10
	blocksOfChunk = 4
)

// DefaultArena is enough for the noisiest integers at level 3 (230 sequences a KiB,
// of 8 bytes each, that is 1.8 bytes a byte); most data takes less than half of it.
func (l Limits) DefaultArena() int64 { return l.Bytes/20*37 + 1<<20 }

// check fills in the default.
func (l *Limits) check() error {
	if l.Chunks < 1 || l.Chunks > math.MaxInt32 || l.Bytes < 1 || l.Arena < 0 || l.SMs < 0 || l.blocks() > math.MaxInt32 {
		return nd.Errorf(nd.ErrConfig, "a decoder of %d chunks, %d bytes, an arena of %d bytes, on %g multiprocessors", l.Chunks, l.Bytes, l.Arena, l.SMs)
	}
	if l.Arena == 0 {
		l.Arena = l.DefaultArena()
	}
	l.Arena = (l.Arena + 15) / 16 * 16
	return nil
}

func (l Limits) blocks() int64 { return l.Bytes/usualBlock + blocksOfChunk*int64(l.Chunks) }

// Scratch is how many bytes of device memory a call within these limits works in. By default
// that is 1.9 times Bytes.
func (l Limits) Scratch() (int64, error) {
	if err := l.check(); err != nil {
		return 0, err
	}
	return kernels.ZstdWorkBytes(int(l.blocks()), l.Arena), nil
}
