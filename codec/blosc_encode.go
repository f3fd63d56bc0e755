package codec

import (
	"encoding/binary"

	"github.com/headrace/headrace/nd"
	"github.com/klauspost/compress/snappy"
)

// Encode writes the frame that c-blosc 1.21 would, down to the sizes of blocks
// and the rule for splitting; the compressed bytes differ with the compressor's
// implementation.
func (b blosc) Encode(dst, src []byte) ([]byte, error) {
	if len(src) > bloscMaxBytes {
		return nil, nd.Errorf(nd.ErrUnsupported, "blosc: %d bytes, a frame holds at most %d", len(src), bloscMaxBytes)
	}
	compressor, err := b.compressor()
	if err != nil {
		return nil, err
	}
	f := bloscFrame{
		compressor: compressor,
		typesize:   b.typesize,
		nbytes:     len(src),
	}
	if f.typesize < 1 || f.typesize > 255 {
		f.typesize = 1
	}
	f.blocksize = b.chooseBlock(f)
	f.flags = b.flags(f)
	if b.clevel > 0 && len(src) >= bloscMinSplit {
		frame, err := b.encodeBlocks(f, src)
		if err != nil {
			return nil, err
		}
		if len(frame) < len(src)+bloscHeader {
			return append(dst, frame...), nil
		}
	}
	f.flags |= bloscMemcpyed
	return append(f.appendHeader(dst, bloscHeader+len(src)), src...), nil
}

func (b blosc) compressor() (int, error) {
	for i := range bloscFormats {
		if b.cname == bloscFormat(i) || b.cname == "lz4hc" && i == bloscLZ4 {
			return i, nil
		}
	}
	return 0, nd.Errorf(nd.ErrUnsupported, "blosc: compressor %q", b.cname)
}

func (b blosc) flags(f bloscFrame) byte {
	flags := byte(f.compressor << 5)
	switch b.shuffle {
	case bloscBytes:
		flags |= bloscShuffle
	case bloscBits:
		flags |= bloscBitShuffle
	}
	if f.compressor == bloscZstd || !bloscSplits(f.typesize, f.blocksize) {
		flags |= bloscDontSplit
	}
	return flags
}

// chooseBlock is c-blosc's choice: more for compressors that look far and for
// higher levels, a multiple of the element.
func (b blosc) chooseBlock(f bloscFrame) int {
	const l1 = 32 << 10
	size := f.nbytes
	switch {
	case b.blocksize > 0:
		size = max(b.blocksize, bloscMinSplit)
	case f.nbytes >= l1:
		size = l1
		far := f.compressor == bloscZlib || f.compressor == bloscZstd || b.cname == "lz4hc"
		if far {
			size *= 2
		}
		switch {
		case b.clevel <= 0:
			size /= 4
		case b.clevel == 1:
			size /= 2
		case b.clevel == 3:
			size *= 2
		case b.clevel == 4 || b.clevel == 5:
			size *= 4
		case b.clevel >= 6:
			size *= 8
		}
		if b.clevel >= 9 && far {
			size *= 2
		}
		if b.clevel > 0 && f.compressor != bloscZstd && bloscSplits(f.typesize, size) {
			size = min(max(min(size, 1<<18)*f.typesize, 1<<16), 1<<20)
		}
	}
	size = min(size, f.nbytes)
	if size > f.typesize {
		size -= size % f.typesize
	}
	return size
}

func (f *bloscFrame) appendHeader(dst []byte, cbytes int) []byte {
	dst = append(dst, bloscVersion, bloscLZVersion, f.flags, byte(f.typesize))
	for _, n := range []int{f.nbytes, f.blocksize, cbytes} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return dst
}

func (b blosc) encodeBlocks(f bloscFrame, src []byte) ([]byte, error) {
	frame := make([]byte, bloscHeader+4*f.blocks())
	shuffled := make([]byte, f.blocksize)
	for i := range f.blocks() {
		binary.LittleEndian.PutUint32(frame[bloscHeader+4*i:], uint32(len(frame)))
		start, stop := f.block(i)
		block := src[start:stop]
		switch f.filter(len(block)) {
		case bloscBytes:
			Shuffle(shuffled[:len(block)], block, f.typesize)
			block = shuffled[:len(block)]
		case bloscBits:
			BitShuffle(shuffled[:len(block)], block, f.typesize)
			block = shuffled[:len(block)]
		}
		raw := len(block) / f.streams(len(block))
		for ; len(block) > 0; block = block[raw:] {
			stream, err := b.encodeStream(f.compressor, block[:raw])
			if err != nil {
				return nil, err
			}
			if len(stream) >= raw {
				stream = block[:raw]
			}
			frame = binary.LittleEndian.AppendUint32(frame, uint32(len(stream)))
			frame = append(frame, stream...)
		}
	}
	copy(frame, f.appendHeader(nil, len(frame)))
	return frame, nil
}

func (b blosc) encodeStream(compressor int, src []byte) ([]byte, error) {
	switch compressor {
	case bloscLZ4:
		return encodeLZ4(src, b.cname == "lz4hc")
	case bloscSnappy:
		return snappy.Encode(nil, src), nil
	case bloscZlib:
		return deflateCodec{"zlib", b.clevel}.Encode(nil, src)
	case bloscZstd:
		// c-blosc spreads its nine levels over zstd's.
		level := 2*b.clevel - 1
		if b.clevel >= 9 {
			level = 22
		}
		return encodeZstd(nil, src, level, false)
	}
	return encodeBloscLZ(src), nil
}
