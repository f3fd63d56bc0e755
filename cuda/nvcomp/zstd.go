package nvcomp

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/nd"
)

// CheckZstd walks over the headers of the zstd frame of a chunk (RFC 8878) without
// decoding: the frame, its blocks, and in compressed blocks the sections of literals
// and of sequences. A nil error says that the chunk is one frame, that all of it is
// well formed and lies within the chunk, and that it can decode to the given number
// of bytes and to no other if the frame tells. ErrUnsupported is what other decoders may well read: it is for
// the host. For a chunk that passes nothing is allocated.
func CheckZstd(frame []byte, decoded int64) error {
	if decoded < 0 {
		return nd.Errorf(nd.ErrBug, "a chunk of %d bytes", decoded)
	}
	if decoded > math.MaxInt32 || len(frame) > math.MaxInt32 {
		return unsupported("chunk of %d bytes, %d decoded: at most %d", len(frame), decoded, math.MaxInt32)
	}
	if len(frame) == 0 {
		return unsupported("no frame in a chunk of no bytes")
	}
	end, sum, err := checkFrame(frame, 0)
	if err != nil {
		return err
	}
	if sum.most < 0 || end != len(frame) {
		// nvCOMP 5.2 gives 0 bytes of one such chunk and an illegal address for the
		// next (H200, 2026-11-30).
		return unsupported("chunk of more than one frame, or of a skippable one")
	}
	if decoded < sum.least || decoded > sum.most {
		return corrupt("the frame decodes to %d up to %d bytes, expected %d", sum.least, sum.most, decoded)
	}
	return nil
}

// extent is how many bytes something can decode to.
type extent struct{ least, most int64 }

func exactly(n int64) extent { return extent{n, n} }

func (e extent) plus(other extent) extent { return extent{e.least + other.least, e.most + other.most} }

const (
	magicFrame     = 0xFD2FB528
	magicSkippable = 0x184D2A50 // the low four bits are free
	maxBlock       = 128 << 10  // Block_Maximum_Size, whatever the window
	maxWindow      = 128 << 20  // that of level 22, the most without long mode
)

// checkFrame checks the frame at byte at of src. A skippable frame has an extent
// below 0.
func checkFrame(src []byte, at int) (end int, decoded extent, err error) {
	if len(src)-at < 8 {
		return 0, extent{}, torn(src, at, "frame")
	}
	magic := binary.LittleEndian.Uint32(src[at:])
	if magic&^0xF == magicSkippable {
		size := 8 + int64(binary.LittleEndian.Uint32(src[at+4:]))
		if size > int64(len(src)-at) {
			return 0, extent{}, torn(src, at, "skippable frame")
		}
		return at + int(size), exactly(-1), nil
	}
	if magic != magicFrame {
		return 0, extent{}, corrupt("magic %08x of the frame at byte %d", magic, at)
	}
	h, err := parseHeader(src, at)
	if err != nil {
		return 0, extent{}, err
	}
	end, decoded, err = checkBlocks(src, h.end, min(h.window, maxBlock))
	if err != nil {
		return 0, extent{}, err
	}
	if h.checksum {
		end += 4
	}
	if end > len(src) {
		return 0, extent{}, torn(src, at, "frame")
	}
	if h.content >= 0 {
		if h.content < decoded.least || h.content > decoded.most {
			return 0, extent{}, corrupt("frame at byte %d gives its size as %d, its blocks decode to %d up to %d bytes", at, h.content, decoded.least, decoded.most)
		}
		decoded = exactly(h.content)
	}
	return end, decoded, nil
}

// header is a Frame_Header.
type header struct {
	end      int   // where the first block begins
	window   int64 // Window_Size
	content  int64 // Frame_Content_Size, -1 if it is not given
	checksum bool
}

// parseHeader reads the Frame_Header (3.1.1.1) of the frame at byte at, of which
// eight bytes are there.
func parseHeader(src []byte, at int) (h header, err error) {
	descriptor := src[at+4]
	if descriptor&0x08 != 0 {
		return h, corrupt("reserved bit in the header of the frame at byte %d", at)
	}
	if descriptor&0x13 != 0 {
		return h, unsupported("dictionary or unused bit in the header of the frame at byte %d", at)
	}
	single, sizeBytes := descriptor&0x20 != 0, [...]int{0, 2, 4, 8}[descriptor>>6]
	if single && sizeBytes == 0 {
		sizeBytes = 1
	}
	h.content, h.checksum, h.end = -1, descriptor&0x04 != 0, at+5
	if !single {
		log := 10 + int(src[at+5]>>3)
		h.window = int64(1)<<log + int64(1)<<log/8*int64(src[at+5]&7)
		h.end++
	}
	if len(src)-h.end < sizeBytes {
		return h, torn(src, at, "frame")
	}
	if sizeBytes > 0 {
		n := littleEndian(src[h.end : h.end+sizeBytes])
		if sizeBytes == 2 {
			n += 256
		}
		if n > math.MaxInt32 {
			return h, unsupported("frame at byte %d that gives its size as %d", at, n)
		}
		h.content = int64(n)
		h.end += sizeBytes
	}
	if single {
		h.window = h.content
	} else if h.window > maxWindow {
		return h, unsupported("window of %d bytes in the frame at byte %d, at most %d", h.window, at, maxWindow)
	}
	return h, nil
}

// checkBlocks checks the blocks (3.1.1.2) from byte at on, of a frame whose blocks
// have and decode to at most limit bytes; end is behind the last one.
func checkBlocks(src []byte, at int, limit int64) (end int, decoded extent, err error) {
	var t tables
	for last := false; !last; {
		if len(src)-at < 3 {
			return 0, extent{}, torn(src, at, "block")
		}
		head := littleEndian(src[at : at+3])
		last = head&1 != 0
		kind, size := head>>1&3, int64(head>>3)
		if size > limit {
			return 0, extent{}, corrupt("block of %d bytes at byte %d, at most %d", size, at, limit)
		}
		stored := size
		if kind == 1 {
			stored = 1
		}
		if int64(len(src)-at-3) < stored {
			return 0, extent{}, torn(src, at, "block")
		}
		part := exactly(size)
		switch {
		case kind == 3:
			err = corrupt("reserved type of the block at byte %d", at)
		case kind == 2:
			part, err = checkCompressed(src[at+3:at+3+int(size)], at, limit, &t)
		case kind == 1 && size == 0:
			err = unsupported("block at byte %d that repeats a byte no times", at)
		}
		if err != nil {
			return 0, extent{}, err
		}
		decoded = decoded.plus(part)
		at += 3 + int(stored)
	}
	return at, decoded, nil
}

// littleEndian reads up to eight bytes.
func littleEndian(b []byte) (n uint64) {
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n
}

func corrupt(format string, args ...any) error {
	return nd.Errorf(nd.ErrCorrupt, "zstd: "+format, args...)
}

func unsupported(format string, args ...any) error {
	return nd.Errorf(nd.ErrUnsupported, "zstd for nvCOMP: "+format, args...)
}

func torn(src []byte, at int, what string) error {
	return corrupt("%s at byte %d goes beyond the chunk's %d bytes", what, at, len(src))
}
