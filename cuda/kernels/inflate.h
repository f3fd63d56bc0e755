// zlib (RFC 1950), gzip (RFC 1952) and blosc 1 frames with zlib inside to bytes. A block of threads
// decodes a few chunks at a time; a warp of it, a stream. What is refused here is what package
// codec refuses.
#pragma once
#include "blosc.h"
#include "inflate_block.h"
#include "inflate_checksum.h"
#include "tasks.h"

namespace hr {
namespace inflate {

enum : u32 { MOST_BYTES = 0x0fffffff }; // of a source: positions in bits have 32 bits

// crcOf is the checksum of bytes in memory. The output's shared memory is free when it is asked
// for.
HR_FN u32 crcOf(WarpShared &shared, const u8 *p, u32 n) {
	static_assert(sizeof(CRC32::Tables) <= sizeof shared.output, "the tables of the checksum");
	return CRC32::of(*(CRC32::Tables *)shared.output, p, n);
}

HR_FN u32 halfOf(const u8 *src) { return loadByte(src) | loadByte(src + 1) << 8; }

HR_FN bool isGzip(const u8 *src, u32 n) { return n >= 2 && halfOf(src) == 0x8b1f; }

// Wrapped is a zlib stream, or members of gzip one after the other, and where it is to be decoded
// to. All lanes of a warp have the same in it.
struct Wrapped {
	enum Flag { HEADER_CRC = 1 << 1, EXTRA = 1 << 2, NAME = 1 << 3, COMMENT = 1 << 4, RESERVED = 0xe0 }; // RFC 1952, 2.3.1
	enum { DICTIONARY = 0x20 };                                                                          // RFC 1950, 2.2

	const u8 *src;
	u32 left; // bytes at src
	u8 *dst;
	u32 room; // bytes at dst
	bool gzip, checked;

	// zlibHeader gives its length.
	HR_FN Status zlibHeader(u32 &at) const {
		if (left < 2) return CORRUPT;
		u32 method = loadByte(src), flags = loadByte(src + 1);
		at = 2;
		if ((method & 15) != 8 || method >> 4 > 7 || (method << 8 | flags) % 31 != 0) return CORRUPT;
		return flags & DICTIONARY ? UNSUPPORTED : OK;
	}

	// skipText goes behind a zero byte.
	HR_FN bool skipText(u32 &at) const {
		HR_ROLLED for (; at < left; at += LANES) {
			u32 zeros = ballot(at + lane() < left && loadByte(src + at + lane()) == 0);
			if (zeros == 0) continue;
			at += lowest(zeros) + 1;
			return true;
		}
		return false;
	}

	HR_FN Status gzipHeader(u32 &at, WarpShared &shared) const {
		if (left < 10) return CORRUPT;
		u32 flags = loadByte(src + 3);
		if (loadByte(src + 2) != 8 || (flags & RESERVED)) return UNSUPPORTED;
		at = 10;
		if (flags & EXTRA) {
			if (left < 12) return CORRUPT;
			at += 2 + halfOf(src + 10);
		}
		if ((flags & NAME) && !skipText(at)) return CORRUPT;
		if ((flags & COMMENT) && !skipText(at)) return CORRUPT;
		if (flags & HEADER_CRC) {
			if (at + 2 > left) return CORRUPT;
			if (checked && (crcOf(shared, src, at) & 0xffff) != halfOf(src + at)) return CORRUPT;
			at += 2;
		}
		return at > left ? CORRUPT : OK;
	}

	// trailer compares what stands behind a stream with what came of it. It gives its length.
	HR_FN bool trailer(const u8 *end, u32 bytes, u32 n, WarpShared &shared, u32 &length) const {
		length = gzip ? 8 : 4;
		if (bytes < length || (gzip && readU32(end + 4) != n)) return false;
		if (!checked) return true;
		u32 sum = readU32(end);
		return gzip ? crcOf(shared, dst, n) == sum : adler32(dst, n) == permute(sum, 0, 0x0123);
	}

	HR_FN Status decodeOne(WarpShared &shared) {
		u32 at = 0, more;
		Status status = gzip ? gzipHeader(at, shared) : zlibHeader(at);
		if (status != OK) return status;
		Stream s(shared, dst, room, src + at, left - at);
		status = s.decode();
		if (status != OK) return status;
		at += s.read();
		u32 n = room - s.out.room();
		if (!trailer(src + at, left - at, n, shared, more)) return CORRUPT;
		syncWarp(); // before the memory is another stream's
		src += at + more;
		left -= at + more;
		dst += n;
		room -= n;
		return OK;
	}

	// decode stops before bytes that begin no member: writers that pad leave them. Behind a zlib
	// stream no byte matters.
	HR_FN Status decode(WarpShared &shared) {
		Status status;
		do {
			status = decodeOne(shared);
		} while (status == OK && gzip && isGzip(src, left));
		return status == OK && room > 0 ? CORRUPT : status;
	}
};

// Task is a chunk as the threads of a block share it.
struct Task {
	Chunk chunk;
	Frame frame;
	u32 status;  // the worst of all parts
	u32 streams; // of a block of the frame
	u32 items;   // streams that warps decode, each on its own

	HR_FN void begin(const Chunk &c) {
		chunk = c;
		items = 0;
		status = prepare();
		if (c.srcBytes > MOST_BYTES || c.dstBytes > 0x7fffffff) status = UNSUPPORTED;
		if (status != OK) items = 0;
	}

	HR_FN Status prepare() {
		if (chunk.method == ZLIB || chunk.method == GZIP) {
			items = 1;
			return OK;
		}
		if (chunk.method != BLOSC_ZLIB) return UNSUPPORTED;
		Status status = frame.parse((const u8 *)chunk.src, chunk.srcBytes, 1 << Frame::ZLIB_STREAMS);
		if (status != OK) return status;
		if (frame.nbytes != chunk.dstBytes) return CORRUPT;
		if (frame.plain()) return OK;
		streams = frame.streams(frame.blocksize);
		items = frame.blocks * streams;
		return OK;
	}

	// find gives a part of the chunk. Nothing is left of it where it is not of the frame, or plain,
	// which is copied here.
	HR_FN Status find(u32 item, Wrapped &w) const {
		const u8 *src = (const u8 *)chunk.src;
		w = {src, chunk.srcBytes, (u8 *)(chunk.typesize > 1 ? chunk.scratch : chunk.dst), chunk.dstBytes,
		    isGzip(src, chunk.srcBytes), !(chunk.flags & UNCHECKED)};
		if (chunk.method != BLOSC_ZLIB) return OK;
		u32 b = item / streams, s = item % streams, length = frame.blockBytes(b),
		    count = frame.streams(length), at;
		w.room = 0;
		if (s >= count) return OK;
		if (length % count != 0 || !frame.find(b, s, at, w.left)) return CORRUPT;
		w.src = frame.data + at;
		w.room = length / count;
		w.dst = frame.decoded(chunk, b) + (u64)s * w.room;
		w.gzip = false;
		if (w.left != w.room) return OK;
		copyBytes(w.dst, w.src, w.room, lane(), LANES);
		w.room = 0;
		return OK;
	}

	// decode is the part of a warp.
	HR_FN void decode(WarpShared &shared, u32 item) {
		Wrapped w;
		Status s = find(item, w);
		if (s == OK && (w.room > 0 || chunk.method != BLOSC_ZLIB)) s = w.decode(shared);
		if (s != OK && lane() == 0) raise(&status, s);
	}

	HR_FN u32 worst() const { return status; }

	HR_FN void finish() const {
		u8 *dst = (u8 *)chunk.dst;
		if (status != OK) {
			zeroBytes(dst, chunk.dstBytes, thread(), threads());
		} else if (chunk.method != BLOSC_ZLIB) {
			if (chunk.typesize > 1)
				unshuffle(dst, (const u8 *)chunk.scratch, chunk.dstBytes, chunk.typesize, thread(),
				    threads());
		} else if (frame.plain()) {
			copyBytes(dst, frame.data + Frame::HEADER, chunk.dstBytes, thread(), threads());
		} else {
			frame.unshuffle(chunk, 0, 1, thread(), threads());
		}
	}
};

} // namespace inflate
} // namespace hr

HR_KERNEL(hr::INFLATE_BLOCK, 8) hr_inflate(hr::DecodeParams p) {
	using namespace hr;
	typedef Tasks<inflate::Task> Tasks;
	HR_SHARED Tasks shared;
	HR_SHARED inflate::WarpShared warps[INFLATE_BLOCK / 32];
	for (u64 i = (u64)block() * Tasks::CHUNKS; i < p.n; i += (u64)blocks() * Tasks::CHUNKS) {
		shared.begin((const Chunk *)p.chunks + i, least<u64>(Tasks::CHUNKS, p.n - i));
		u32 t, item;
		HR_ROLLED while (shared.take(t, item)) shared.tasks[t].decode(warps[warp()], item);
		shared.finish((u32 *)p.status);
	}
}
