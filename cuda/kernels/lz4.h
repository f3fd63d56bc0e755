// LZ4 blocks, a warp each.
//
// A block is a run of sequences: a token (literal count in the high four bits,
// match length - 4 in the low four, 15 continued by bytes up to one below 255),
// the literals, and the distance of the match in 2 bytes. The last sequence ends
// with its literals. What is refused here is what package codec refuses.
#pragma once
#include "sequences.h"

namespace hr {

struct LZ4Format {
	static constexpr bool FIRST_IS_OTHER = false;

	static HR_FN u32 behind(const Window &in, u32 q, u32 limit) {
		u32 token = in.byteOf(q), more = in.byteOf(q + 1), literals = token >> 4, at = q + 3 + literals;
		bool longer = literals == 15;
		if (longer) at += 1 + more;
		return (longer && more == 255) || (token & 15) == 15 ? behindLong(in, q, token, limit) : at;
	}

	static HR_FN u32 behindLong(const Window &in, u32 q, u32 token, u32 limit) {
		u32 literals = token >> 4, length = 0, at = q + 1;
		if (literals == 15 && !in.extend(at, literals, limit)) return limit;
		at += literals + 2;
		if ((token & 15) == 15 && !in.extend(at, length, limit)) return limit;
		return at;
	}

	static HR_FN void read(const Window &in, u32 q, Sequence &s) {
		u32 token = in.byteOf(q), at = q + 1;
		s.literals = token >> 4;
		s.length = token & 15;
		if (s.literals == 15) in.extend(at, s.literals, Window::SIZE);
		s.from = at;
		at += s.literals;
		s.distance = in.byteOf(at) | in.byteOf(at + 1) << 8;
		at += 2;
		if (s.length == 15) in.extend(at, s.length, Window::SIZE);
		s.length += 4;
	}

	static HR_FN Progress one(const Window &in, Recent &out, u32 &at, u32 stop) {
		if (at >= in.end) return WRONG;
		u32 room = stop - out.at;
		u32 token = in.fetch(at++) & 255, literals = token >> 4, length = token & 15;
		if (literals == 15 && !lengthen(in, at, literals, room)) return WRONG;
		if (literals > in.end - at || literals > room) return WRONG;
		out.literals(in.words + at, literals);
		room -= literals;
		at += literals;
		if (at == in.end) return length == 0 && room == 0 ? DONE : WRONG;

		if (in.end - at < 2) return WRONG;
		u32 distance = in.fetch(at) & 0xffff;
		at += 2;
		if (length == 15 && !lengthen(in, at, length, room)) return WRONG;
		length += 4;
		if (distance - 1 >= out.at - out.start || length > room) return WRONG;
		out.match(distance, length);
		return at < in.end ? MORE : room == length ? DONE : WRONG;
	}
};

// decodeLZ4 is compiled on its own, so that what the caller has to remember takes no registers here.
HR_FAR bool decodeLZ4(u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	return decodeStream<LZ4Format>(dst, dstBytes, src, srcBytes);
}

} // namespace hr
