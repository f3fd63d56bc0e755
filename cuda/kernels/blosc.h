// The container of blosc 1: what its header tells, and where streams lie. The formats of
// the streams are their decoders'. codec/blosc_frame.go has the format in full.
#pragma once
#include "abi.h"
#include "bytes.h"
#include "shuffle.h"

namespace hr {

// Frame is a frame of blosc 1: a header of 16 bytes, the start of each block, and
// blocks of one stream or of one for each byte of the element, each behind its length.
// All threads that need it parse it, each the same.
struct Frame {
	enum { HEADER = 16, SHUFFLED = 1, MEMCPYED = 2, BIT_SHUFFLED = 4, RESERVED = 8, UNSPLIT = 16 };
	enum Format { BLOSCLZ_STREAMS, LZ4_STREAMS, SNAPPY_STREAMS, ZLIB_STREAMS, ZSTD_STREAMS };
	enum Filter { NONE, BYTES, BITS };

	const u8 *data;
	u32 flags, typesize, nbytes, blocksize, cbytes;
	u32 blocks;

	// parse checks all that the header tells. formats has a bit for each format of streams that
	// the caller knows.
	HR_FN Status parse(const u8 *src, u32 n, u32 formats) {
		if (n < HEADER) return CORRUPT;
		data = src;
		flags = loadByte(src + 2);
		typesize = loadByte(src + 3);
		nbytes = readU32(src + 4);
		blocksize = readU32(src + 8);
		cbytes = readU32(src + 12);
		// What the host may read, or has more to say about.
		if (loadByte(src) != 2 || (flags & RESERVED) || (flags & (SHUFFLED | BIT_SHUFFLED)) == (SHUFFLED | BIT_SHUFFLED)) return UNSUPPORTED;
		if (!(flags & MEMCPYED) && (!(formats >> format() & 1) || loadByte(src + 1) != 1)) return UNSUPPORTED;
		if (cbytes > n || cbytes < HEADER || nbytes > 0x7fffffff - HEADER) return CORRUPT;
		if (nbytes > 0 && (typesize == 0 || blocksize == 0 || blocksize > nbytes)) return CORRUPT;
		if ((flags & MEMCPYED) && cbytes != nbytes + HEADER) return CORRUPT;
		blocks = 0;
		if (plain()) return OK;
		blocks = (nbytes - 1) / blocksize + 1;
		return blocks > (cbytes - HEADER) / 4 ? CORRUPT : OK;
	}

	HR_FN u32 format() const { return flags >> 5; }

	// plain frames have their bytes behind the header, never shuffled, whatever the flags say.
	HR_FN bool plain() const { return (flags & MEMCPYED) || nbytes == 0; }

	HR_FN u32 blockBytes(u32 b) const { return least(blocksize, nbytes - b * blocksize); }

	// streams is the number of streams of a block of the given length. Only the
	// last one can be shorter than blocksize.
	HR_FN u32 streams(u32 length) const {
		bool split = !(flags & UNSPLIT) && length == blocksize && typesize <= 16 && length / typesize >= 128;
		return split ? typesize : 1;
	}

	HR_FN Filter filter(u32 length) const {
		if (flags & SHUFFLED) return typesize > 1 ? BYTES : NONE;
		u32 n = length / typesize;
		return (flags & BIT_SHUFFLED) && n > 0 && n % 8 == 0 ? BITS : NONE;
	}

	// begin gives where the first stream of a block begins, with its length.
	HR_FN bool begin(u32 b, u32 &at) const {
		at = readU32(data + HEADER + 4 * (u64)b);
		return at >= HEADER + 4 * (u64)blocks && at < cbytes && at <= 0x7fffffff;
	}

	// next goes behind the length of a stream, of n bytes.
	HR_FN bool next(u32 &at, u32 &n) const {
		if (cbytes - at < 4) return false;
		n = readU32(data + at);
		at += 4;
		return n > 0 && n <= cbytes - at && n <= 0x7fffffff;
	}

	// find gives the bytes of stream s of block b.
	HR_FN bool find(u32 b, u32 s, u32 &at, u32 &n) const {
		if (!begin(b, at)) return false;
		for (;; s--) {
			if (!next(at, n)) return false;
			if (s == 0) return true;
			at += n;
		}
	}

	// decoded is where the streams of a block are decoded to: what is shuffled goes by way of the
	// scratch memory.
	HR_FN u8 *decoded(const Chunk &c, u32 b) const {
		return (u8 *)(filter(blockBytes(b)) == NONE ? c.dst : c.scratch) + (u64)b * blocksize;
	}

	// unshuffle makes every step-th block of the chunk of what it has been decoded to, from
	// block first on. It is the part of worker id of count.
	HR_FN void unshuffle(const Chunk &c, u32 first, u32 step, u32 id, u32 count) const {
		HR_ROLLED for (u32 b = first; b < blocks; b += step) {
			u32 length = blockBytes(b);
			u64 start = (u64)b * blocksize;
			u8 *dst = (u8 *)c.dst + start;
			const u8 *src = (const u8 *)c.scratch + start;
			switch (filter(length)) {
			case BYTES: hr::unshuffle(dst, src, length, typesize, id, count); break;
			case BITS: bitUnshuffle(dst, src, length, typesize, id, count); break;
			default: break;
			}
		}
	}
};

} // namespace hr
