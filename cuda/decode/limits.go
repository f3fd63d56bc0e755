package decode

import (
	"errors"
	"math"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// Limits bound a call.
type Limits struct {
	Chunks int   // most chunks, below 2^31
	Bytes  int64 // most bytes that they decode to, together; up to [MaxBytes]
	// Arena is how many bytes of tables, literals and sequences of zstd there is room
	// for; 0 is DefaultArena. A sequence takes 8 bytes, a block of up to 128 KiB 3 KiB.
	Arena int64
	// Blocks is how many blocks of zstd there is room for; 0 is one for each 16 KiB and
	// four more for each chunk. A stream of a blosc frame has a block at least.
	Blocks int
	// Shuffled is how many of Bytes may be of shuffled chunks: of blosc frames, and of those
	// whose Typesize says so. A Decoder has a second buffer for them. 0 is all, less is none.
	Shuffled int64
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

// MaxBytes bounds Limits.Bytes and Limits.Arena: more than any GPU can address, and far enough from 2^63 that
// no sum of sizes overflows.
const MaxBytes = 1 << 48

// DefaultArena is enough for the noisiest integers at level 3 (230 sequences a KiB,
// of 8 bytes each, that is 1.8 bytes a byte); most data takes less than half of it. Bytes that are out of range count as the
// next that are not.
func (l Limits) DefaultArena() int64 { return min(max(l.Bytes, 0), MaxBytes)/20*37 + 1<<20 }

// check fills in the defaults. Its error names all fields that are out of range.
func (l *Limits) check() error {
	var errs []error
	within := func(field string, value, least, most int64) {
		if value < least || value > most {
			errs = append(errs, nd.Errorf(nd.ErrConfig, "%s is %d: must be in %d to %d", field, value, least, most))
		}
	}
	within("Chunks", int64(l.Chunks), 1, math.MaxInt32)
	within("Bytes", l.Bytes, 1, MaxBytes)
	within("Arena", l.Arena, 0, MaxBytes)
	within("Blocks", int64(l.Blocks), 0, math.MaxInt32)
	if !(l.SMs >= 0 && l.SMs <= math.MaxInt32) { // so that NaN is none
		errs = append(errs, nd.Errorf(nd.ErrConfig, "SMs is %g: must be in 0 to %d", l.SMs, math.MaxInt32))
	}
	if len(errs) == 0 && l.blocks() > math.MaxInt32 {
		errs = append(errs, nd.Errorf(nd.ErrConfig, "Blocks is 0, which for %d chunks of %d bytes is %d: give one of at most %d", l.Chunks, l.Bytes, l.blocks(), math.MaxInt32))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if l.Arena == 0 {
		l.Arena = l.DefaultArena()
	}
	l.Arena = (l.Arena + 15) / 16 * 16
	if l.Shuffled == 0 || l.Shuffled > l.Bytes {
		l.Shuffled = l.Bytes
	}
	return nil
}

// blocks is how many blocks of zstd there is room for. The fields are in range.
func (l Limits) blocks() int64 {
	if l.Blocks > 0 {
		return int64(l.Blocks)
	}
	return l.Bytes/usualBlock + blocksOfChunk*int64(l.Chunks)
}

// Scratch is how many bytes of device memory a call of zstd within these limits works in. By
// default that is 1.9 times Bytes.
func (l Limits) Scratch() (int64, error) {
	if err := l.check(); err != nil {
		return 0, err
	}
	return kernels.ZstdWorkBytes(int(l.blocks()), l.Arena), nil
}

// second is the size of the buffer that shuffled chunks go by way of: each begins at a multiple
// of 16.
func (l Limits) second() int64 {
	if l.Shuffled < 0 {
		return 0
	}
	return l.Shuffled + 16*int64(l.Chunks)
}
