package nvcomp

import (
	"math"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// Format is a compression format.
type Format uint8

// Zstd is Zstandard: a chunk is one or more frames, see CheckZstd.
const Zstd Format = 0

func (f Format) String() string {
	if f == Zstd {
		return "zstd"
	}
	return "unknown format"
}

// Batch is the work of one Decompress: arrays of N entries in device memory. They,
// and the memory that they point to, stay as they are until the stream has passed
// the call.
type Batch struct {
	Sources          cuda.Ptr // addresses of encoded chunks
	SourceBytes      cuda.Ptr // uint64
	Destinations     cuda.Ptr // addresses of room for decoded chunks
	DestinationBytes cuda.Ptr // uint64, bytes of that room
	ActualBytes      cuda.Ptr // uint64, written: decoded bytes
	Statuses         cuda.Ptr // int32, written: see StatusText
	N                int
	Temp             cuda.Ptr // scratch, any content
	TempBytes        int64    // at least what the library's TempBytes says
}

// Alignments says of which numbers the addresses of encoded chunks, decoded chunks
// and scratch must be multiples.
func (l *Library) Alignments(f Format) (input, output, temp int, err error) {
	w := words{uint64(f)}
	err = l.query(callAlignments, &w, "the alignments")
	return int(w[1]), int(w[2]), int(w[3]), err
}

// TempBytes says how much scratch a batch of so many chunks needs: maxChunk is the
// size of the largest decoded chunk, total that of all together. A total that is
// too high costs many times as much scratch. Chunks need not exist yet.
func (l *Library) TempBytes(f Format, chunks int, maxChunk, total int64) (int64, error) {
	if chunks < 0 || maxChunk < 0 || total < 0 {
		return 0, nd.Errorf(nd.ErrBug, "scratch for %d chunks of at most %d bytes, %d in all", chunks, maxChunk, total)
	}
	w := words{uint64(f), uint64(chunks), uint64(maxChunk), uint64(total)}
	if err := l.query(callTemp, &w, "the size of the scratch"); err != nil {
		return 0, err
	}
	if w[1] > math.MaxInt64 {
		return 0, nd.Errorf(nd.ErrDevice, "nvCOMP %s asks for %d bytes of scratch", l.Version(), w[1])
	}
	return int64(w[1]), nil
}

func (l *Library) query(which call, w *words, what string) error {
	return l.call(which, l.stream, w, "asking nvCOMP for "+what)
}

// Decompress enqueues the decoding of a batch and does not wait. An error means
// that nothing useful was enqueued; what became of each chunk is in the batch's
// Statuses and ActualBytes once the stream is there.
func (l *Library) Decompress(f Format, stream *cuda.Stream, b Batch) error {
	if b.N == 0 {
		return nil
	}
	if b.N < 0 || b.TempBytes < 0 || b.Temp == 0 && b.TempBytes > 0 {
		return nd.Errorf(nd.ErrBug, "a batch of %d chunks with %d bytes of scratch at %#x", b.N, b.TempBytes, uint64(b.Temp))
	}
	for _, p := range [...]cuda.Ptr{b.Sources, b.SourceBytes, b.Destinations, b.DestinationBytes, b.ActualBytes, b.Statuses} {
		if p == 0 {
			return nd.Errorf(nd.ErrBug, "a batch that lacks an array: %+v", b)
		}
	}
	w := words{
		uint64(f), uint64(b.Sources), uint64(b.SourceBytes), uint64(b.Destinations), uint64(b.DestinationBytes),
		uint64(b.ActualBytes), uint64(b.Statuses), uint64(b.N), uint64(b.Temp), uint64(b.TempBytes),
	}
	return l.call(callDecompress, stream, &w, "decoding with nvCOMP")
}

// call makes one call of the library on a stream, inside the device's context.
func (l *Library) call(which call, stream *cuda.Stream, w *words, what string) error {
	if Format(w[0]) != Zstd {
		return nd.Errorf(nd.ErrBug, "%s: format %d", what, w[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.gpu.Lend(stream, what, func(on cuda.Lent) int { return l.lib.call(on, which, w) })
	if err != nil {
		return err
	}
	if status := int32(w[0]); status != 0 {
		return nd.Errorf(kind(status), "%s %s on GPU %d: %s", what, l.Version(), l.gpu.Info().Ordinal, StatusText(status))
	}
	return nil
}
