package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// zstdCodec reads zstd frames (RFC 8878). The level and checksum are the
// encoder's; decoding follows the frames.
//
// The frames are walked here before a byte is decoded, so that the two decoders
// (libzstd, and klauspost's as its pure Go twin) see one plain, complete frame a
// call and cannot differ in what they let through: legacy formats, dictionaries,
// torn headers, blocks beyond the window, skippable frames.
//
// Inside of blocks they differ in one thing that is known, and that no encoder writes. Weights of
// Huffman codes may come with an FSE table (RFC 8878, 4.2.1.2) that has states for weights above 11, which no code has. If
// they are not used, libzstd decodes the block where the table's accuracy log is 5 and refuses
// it, having no room for the table, where that is 6; klauspost decodes both. The GPU's kernels go by libzstd.
type zstdCodec struct {
	level    int
	checksum bool
}

func newZstd(set settings) (Codec, error) {
	return zstdCodec{level: set.hint("level", 0), checksum: set.flag("checksum")}, nil
}

func (zstdCodec) Name() string { return "zstd" }

// Decode accepts any number of frames one after another, skippable ones too.
func (zstdCodec) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	n, err := decodeZstd(dst, src, s)
	if err != nil {
		return nil, failed("zstd", len(dst), err)
	}
	return dst[:n], nil
}

func decodeZstd(dst, src []byte, s *Scratch) (int, error) {
	if s.zstd == nil {
		s.zstd = newZstdDecoder()
	}
	return decodeFrames(dst, src, s.zstd.decode)
}

// decodeFrames decodes the frames of src one by one into dst.
func decodeFrames(dst, src []byte, decode func(dst, frame []byte) (int, error)) (n int, err error) {
	if len(src) == 0 {
		return 0, errors.New("no bytes, not even an empty frame")
	}
	for at := 0; at < len(src); {
		f, err := parseZstdFrame(src[at:])
		if err != nil {
			return 0, fmt.Errorf("frame at byte %d of %d: %w", at, len(src), err)
		}
		room := dst[n:]
		if f.content >= 0 && f.content < int64(len(room)) {
			room = room[:f.content]
		}
		if f.content > int64(len(room)) || f.plain > int64(len(room)) {
			return 0, errRoom
		}
		if !f.skippable {
			got, err := decode(room, src[at:at+f.size])
			if err != nil {
				return 0, fmt.Errorf("frame at byte %d of %d: %w", at, len(src), err)
			}
			n += got
		}
		at += f.size
	}
	return n, nil
}

// zstdFrame is what can be told of a frame without decoding it.
type zstdFrame struct {
	skippable bool
	size      int   // bytes of the frame in the stream
	content   int64 // Frame_Content_Size, -1 if absent
	plain     int64 // bytes that its raw and RLE blocks alone decode to

	compressed int // number of the other blocks
}

const (
	zstdMagic         = 0xFD2FB528
	zstdSkippable     = 0x184D2A50 // low four bits are free
	zstdMaxBlock      = 128 << 10
	zstdMaxWindowLog  = 31 // libzstd's limit on 64-bit machines
	zstdBlockRaw      = 0
	zstdBlockRLE      = 1
	zstdBlockReserved = 3
)

func parseZstdFrame(src []byte) (f zstdFrame, err error) {
	if len(src) < 8 {
		return f, errTorn
	}
	magic := binary.LittleEndian.Uint32(src)
	switch {
	case magic == zstdMagic:
	case magic&^0xF == zstdSkippable:
		f.skippable, f.content = true, 0
		size := 8 + int64(binary.LittleEndian.Uint32(src[4:]))
		if size > int64(len(src)) {
			return f, errTorn
		}
		f.size = int(size)
		return f, nil
	case magic == 0xFD2FB51E, magic >= 0xFD2FB522 && magic <= 0xFD2FB527:
		return f, unsupported("legacy format before zstd 0.8 (magic %08x)", magic)
	default:
		return f, fmt.Errorf("magic %08x is not zstd's", magic)
	}
	header, window, err := f.parseHeader(src)
	if err != nil {
		return f, err
	}
	return f, f.walkBlocks(src, header, min(window, zstdMaxBlock))
}

// parseHeader reads the Frame_Header (RFC 8878, 3.1.1.1) and gives its end and
// the window size.
func (f *zstdFrame) parseHeader(src []byte) (end int, window int64, err error) {
	descriptor := src[4]
	if descriptor&0x08 != 0 {
		return 0, 0, errors.New("reserved bit of the frame header is set")
	}
	single := descriptor&0x20 != 0
	dictSize := [4]int{0, 1, 2, 4}[descriptor&3]
	contentSize := [4]int{0, 2, 4, 8}[descriptor>>6]
	if single && contentSize == 0 {
		contentSize = 1
	}
	at := 5
	if !single {
		log := 10 + int(src[5]>>3)
		if log > zstdMaxWindowLog {
			return 0, 0, unsupported("window of 2^%d bytes, at most 2^%d is read", log, zstdMaxWindowLog)
		}
		window = int64(1)<<log + int64(1)<<log/8*int64(src[5]&7)
		at++
	}
	if len(src) < at+dictSize+contentSize {
		return 0, 0, errTorn
	}
	if id := littleEndian(src[at : at+dictSize]); id != 0 {
		return 0, 0, unsupported("needs dictionary %d", id)
	}
	at += dictSize
	f.content = -1
	if contentSize > 0 {
		n := littleEndian(src[at : at+contentSize])
		if contentSize == 2 {
			n += 256
		}
		if n > math.MaxInt64 {
			return 0, 0, fmt.Errorf("content size %d", n)
		}
		f.content = int64(n)
	}
	if single {
		window = f.content
	}
	return at + contentSize, window, nil
}

// walkBlocks finds the end of the frame whose blocks start at byte at.
func (f *zstdFrame) walkBlocks(src []byte, at int, maxBlock int64) error {
	for last := false; !last; {
		if len(src) < at+3 {
			return errTorn
		}
		header := littleEndian(src[at : at+3])
		last = header&1 != 0
		kind, size := header>>1&3, int64(header>>3)
		at += 3
		if kind == zstdBlockReserved {
			return fmt.Errorf("reserved block type at its byte %d", at-3)
		}
		if size > maxBlock {
			return fmt.Errorf("block of %d bytes at its byte %d, at most %d are legal", size, at-3, maxBlock)
		}
		switch kind {
		case zstdBlockRaw:
			f.plain += size
		case zstdBlockRLE:
			f.plain += size
			size = 1
		default:
			f.compressed++
		}
		at += int(size)
	}
	if src[4]&0x04 != 0 {
		at += 4
	}
	if at > len(src) {
		return errTorn
	}
	f.size = at
	return nil
}

// Encode uses this build's encoder.
func (z zstdCodec) Encode(dst, src []byte) ([]byte, error) {
	return encodeZstd(dst, src, z.level, z.checksum)
}

// littleEndian reads up to eight bytes.
func littleEndian(b []byte) (n uint64) {
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n
}
