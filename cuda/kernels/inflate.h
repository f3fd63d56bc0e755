// zlib (RFC 1950) and gzip (RFC 1952) to bytes. A block of threads decodes a few chunks at a
// time; a warp of it, a stream. What is refused here is what package codec refuses.
#pragma once
#include "inflate_block.h"
#include "inflate_checksum.h"
#include "shuffle.h"

namespace hr {
namespace inflate {

// The memory of the output is free when the stream is decoded.
HR_FN CRC32::Tables &crcTables(Bench &bench) {
	static_assert(sizeof(CRC32::Tables) <= sizeof bench.output, "the tables of the checksum");
	return *(CRC32::Tables *)bench.output;
}

HR_FN bool isGzip(const u8 *src, u32 n) { return n >= 2 && loadByte(src) == 0x1f && loadByte(src + 1) == 0x8b; }

// Members decodes the members of a gzip stream, one after the other. All lanes of a warp have the
// same in it.
struct Members {
	enum Flag { HEADER_CRC = 1 << 1, EXTRA = 1 << 2, NAME = 1 << 3, COMMENT = 1 << 4, RESERVED = 0xe0 }; // 2.3.1

	Bench &bench;
	const u8 *src;
	u32 left;  // bytes at src
	u8 *dst;
	u32 room;  // bytes at dst
	bool checked;

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

	// header gives its length (2.3).
	HR_FN Status header(u32 &at) const {
		if (left < 10) return CORRUPT;
		u32 flags = loadByte(src + 3);
		if (loadByte(src + 2) != 8 || (flags & RESERVED)) return UNSUPPORTED;
		at = 10;
		if (flags & EXTRA) {
			if (left < 12) return CORRUPT;
			at += 2 + (loadByte(src + 10) | loadByte(src + 11) << 8);
		}
		if ((flags & NAME) && !skipText(at)) return CORRUPT;
		if ((flags & COMMENT) && !skipText(at)) return CORRUPT;
		if (flags & HEADER_CRC) {
			if (at + 2 > left) return CORRUPT;
			if (checked && (CRC32::of(crcTables(bench), src, at) & 0xffff) != (loadByte(src + at) | loadByte(src + at + 1) << 8)) return CORRUPT;
			at += 2;
		}
		return at > left ? CORRUPT : OK;
	}

	HR_FN Status member() {
		u32 at = 0;
		Status status = header(at);
		if (status != OK) return status;
		Stream s(bench, dst, room, src + at, left - at);
		status = s.decode();
		if (status != OK) return status;
		at += s.read();
		if (left - at < 8) return CORRUPT;
		u32 n = room - s.out.room();
		if (readU32(src + at + 4) != n) return CORRUPT;
		if (checked && CRC32::of(crcTables(bench), dst, n) != readU32(src + at)) return CORRUPT;
		src += at + 8;
		left -= at + 8;
		dst += n;
		room -= n;
		return OK;
	}

	// all stops before bytes that begin no member: writers that pad leave them.
	HR_FN Status all() {
		HR_ROLLED while (isGzip(src, left)) {
			Status status = member();
			if (status != OK) return status;
			syncWarp();
		}
		return room == 0 ? OK : CORRUPT;
	}
};

// decodeZlib decodes one stream; bytes behind it do not matter.
HR_FN Status decodeZlib(Bench &bench, u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes, bool checked) {
	if (srcBytes < 2) return CORRUPT;
	u32 method = loadByte(src), flags = loadByte(src + 1);
	if ((method & 15) != 8 || method >> 4 > 7 || (method << 8 | flags) % 31 != 0) return CORRUPT;
	if (flags & 0x20) return UNSUPPORTED; // a preset dictionary
	Stream s(bench, dst, dstBytes, src + 2, srcBytes - 2);
	Status status = s.decode();
	if (status != OK) return status;
	u32 at = 2 + s.read();
	if (srcBytes - at < 4 || s.out.room() != 0) return CORRUPT;
	u32 sum = readU32(src + at);
	return checked && permute(sum, 0, 0x0123) != adler32(dst, dstBytes) ? CORRUPT : OK;
}

// decodeStream is a chunk that is one stream: of either kind, whatever it is said to be.
HR_FN Status decodeStream(Bench &bench, const Chunk &c) {
	u8 *dst = (u8 *)(c.typesize > 1 ? c.scratch : c.dst);
	const u8 *src = (const u8 *)c.src;
	bool checked = !(c.flags & UNCHECKED);
	if (c.srcBytes > 0x0fffffff || c.dstBytes > 0x7fffffff) return UNSUPPORTED; // bits and positions have 32 bits
	if (!isGzip(src, c.srcBytes)) return decodeZlib(bench, dst, c.dstBytes, src, c.srcBytes, checked);
	Members members = {bench, src, c.srcBytes, dst, c.dstBytes, checked};
	return members.all();
}

} // namespace inflate
} // namespace hr

HR_KERNEL(hr::INFLATE_BLOCK, 8) hr_inflate(hr::DecodeParams p) {
	using namespace hr;
	HR_SHARED inflate::Bench bench;
	for (u64 i = block(); i < p.n; i += blocks()) {
		const Chunk &c = ((const Chunk *)p.chunks)[i];
		Status status = c.method == ZLIB || c.method == GZIP ? inflate::decodeStream(bench, c) : UNSUPPORTED;
		syncWarp();
		if (status != OK) {
			zeroBytes((u8 *)c.dst, c.dstBytes, thread(), threads());
		} else if (c.typesize > 1) {
			unshuffle((u8 *)c.dst, (const u8 *)c.scratch, c.dstBytes, c.typesize);
		}
		if (thread() == 0) ((u32 *)p.status)[c.status] = status;
	}
}
