package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame of blosc version 1:
//
//	| header, 16 bytes | bstarts: int32 a block | block | block | ...
//
// or, for bytes that do not compress ("memcpyed"), the header and the plain
// bytes. Integers are little-endian. Block i starts bstarts[i] bytes from the
// start of the frame (blocks may lie in any order) and is one stream, or, if it
// is split, one for each byte of the element: int32 size, then the compressed
// bytes; a size that equals the decoded one means plain bytes.
const (
	bloscHeader    = 16
	bloscVersion   = 2 // of the frame format; 3 and up are blosc2's
	bloscLZVersion = 1 // of every compressor's format
	bloscMaxBytes  = 1<<31 - 1 - bloscHeader

	bloscShuffle    = 0x01
	bloscMemcpyed   = 0x02
	bloscBitShuffle = 0x04
	bloscReserved   = 0x08
	bloscDontSplit  = 0x10

	// A block is split if its streams are not too many and not too short.
	bloscMaxSplits = 16
	bloscMinSplit  = 128
)

// The compressors, numbered as in the upper three bits of the flags.
const (
	bloscBloscLZ = iota
	bloscLZ4
	bloscSnappy
	bloscZlib
	bloscZstd
	bloscFormats
)

// bloscFrame is the header of a frame, checked, with the bytes it describes.
type bloscFrame struct {
	data       []byte // the frame, without what may follow it
	flags      byte
	compressor int
	typesize   int
	nbytes     int // decoded
	blocksize  int // decoded
}

// parseBlosc checks a header and everything that can be told from it.
func parseBlosc(src []byte) (f bloscFrame, err error) {
	if len(src) < bloscHeader {
		return f, fmt.Errorf("%d bytes cannot hold the header", len(src))
	}
	f.flags, f.typesize = src[2], int(src[3])
	f.compressor = int(f.flags >> 5)
	nbytes, blocksize, cbytes := headerSize(src[4:]), headerSize(src[8:]), headerSize(src[12:])
	if err := f.checkVersion(src[0], src[1]); err != nil {
		return f, err
	}
	switch {
	case cbytes > int64(len(src)):
		return f, fmt.Errorf("truncated: %d bytes of %d", len(src), cbytes)
	case cbytes < bloscHeader:
		return f, fmt.Errorf("compressed size %d is below that of the header", cbytes)
	case nbytes > bloscMaxBytes:
		return f, fmt.Errorf("decoded size %d, at most %d are legal", nbytes, bloscMaxBytes)
	case nbytes > 0 && f.typesize == 0:
		return f, errors.New("typesize 0")
	case nbytes > 0 && (blocksize == 0 || blocksize > nbytes):
		return f, fmt.Errorf("block size %d, decoded size %d", blocksize, nbytes)
	case f.flags&bloscMemcpyed != 0 && cbytes != nbytes+bloscHeader:
		return f, fmt.Errorf("%d plain bytes in a frame of %d", nbytes, cbytes)
	}
	f.nbytes, f.blocksize = int(nbytes), int(blocksize)
	f.data = src[:cbytes]
	if !f.plain() && bloscHeader+4*f.blocks() > len(f.data) {
		return f, fmt.Errorf("%d blocks do not fit %d bytes", f.blocks(), cbytes)
	}
	return f, nil
}

func headerSize(b []byte) int64 { return int64(binary.LittleEndian.Uint32(b)) }

// checkVersion tells what no blosc 1 writes from what is broken.
func (f *bloscFrame) checkVersion(version, lzVersion byte) error {
	both := byte(bloscShuffle | bloscBitShuffle)
	switch {
	case version > bloscVersion || version == bloscVersion && f.flags&both == both:
		return unsupported("this is a blosc2 frame (version %d, flags %#02x)", version, f.flags)
	case version < bloscVersion:
		return unsupported("frame version %d, only %d is read", version, bloscVersion)
	case f.flags&bloscReserved != 0:
		return unsupported("reserved flag %#02x", bloscReserved)
	case f.flags&bloscMemcpyed != 0:
		return nil
	case f.compressor >= bloscFormats || lzVersion != bloscLZVersion:
		return unsupported("compressor %d, version %d", f.compressor, lzVersion)
	}
	return nil
}

// plain reports whether the decoded bytes follow the header as they are: never
// shuffled, whatever the flags say.
func (f *bloscFrame) plain() bool { return f.flags&bloscMemcpyed != 0 || f.nbytes == 0 }

func (f *bloscFrame) blocks() int { return (f.nbytes + f.blocksize - 1) / f.blocksize }

// block returns the range of decoded bytes of block i.
func (f *bloscFrame) block(i int) (start, stop int) {
	start = i * f.blocksize
	return start, min(start+f.blocksize, f.nbytes)
}

// streams is the number of streams that a block of the given length has.
func (f *bloscFrame) streams(length int) int {
	if f.flags&bloscDontSplit == 0 && length == f.blocksize && bloscSplits(f.typesize, length) {
		return f.typesize
	}
	return 1
}

func bloscSplits(typesize, blocksize int) bool {
	return typesize <= bloscMaxSplits && blocksize/typesize >= bloscMinSplit
}

// encoded returns the bytes from the start of block i to the end of the frame.
func (f *bloscFrame) encoded(i int) ([]byte, error) {
	start := int64(int32(binary.LittleEndian.Uint32(f.data[bloscHeader+4*i:])))
	if first := int64(bloscHeader + 4*f.blocks()); start < first || start >= int64(len(f.data)) {
		return nil, fmt.Errorf("it starts at byte %d, not within %d to %d", start, first, len(f.data))
	}
	return f.data[start:], nil
}

// nextStream cuts the first stream off the bytes of a block.
func nextStream(block []byte) (stream, rest []byte, err error) {
	if len(block) < 4 {
		return nil, nil, errTorn
	}
	size := int64(int32(binary.LittleEndian.Uint32(block)))
	if block = block[4:]; size < 1 || size > int64(len(block)) {
		return nil, nil, fmt.Errorf("a stream of %d bytes, %d are left", size, len(block))
	}
	return block[:size], block[size:], nil
}

// The three ways in which a block may be shuffled.
type bloscFilter int

const (
	bloscNoFilter bloscFilter = iota
	bloscBytes
	bloscBits
)

// filter is how a block of the given length was shuffled. A block that a shuffle
// would leave as it is counts as not shuffled: it is decoded in place.
func (f *bloscFrame) filter(length int) bloscFilter {
	switch {
	case f.flags&bloscShuffle != 0 && f.typesize > 1:
		return bloscBytes
	case f.flags&bloscBitShuffle != 0:
		if n := length / f.typesize; n > 0 && n%8 == 0 {
			return bloscBits
		}
	}
	return bloscNoFilter
}
