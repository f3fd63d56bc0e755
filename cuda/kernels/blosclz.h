// Streams of blosclz, a warp each.
//
// A stream is a list of instructions of one control byte and what follows it:
//
//	000lllll              l+1 literals follow
//	lllooooo [more] code  match of l+2 bytes at distance (o<<8 | code) + 1
//
// A match whose l is 7 is lengthened by bytes up to the first one below 255. A distance with
// all 13 bits set is far: two more bytes, high one first, are added to it. The first
// control byte is always literals. What is refused here is what package codec refuses.
#pragma once
#include "sequences.h"

namespace hr {

struct BloscLZFormat {
	enum : u32 { LITERALS = 32, NEAR = 8191 };
	static constexpr bool FIRST_IS_OTHER = true;

	static HR_FN u32 behind(const Window &in, u32 q, u32 limit) {
		u32 control = in.byteOf(q), at = q + 1, length = 0;
		if (control < LITERALS) return at + control + 1;
		if (control >= 7 << 5 && !in.extend(at, length, limit)) return limit;
		u32 code = in.byteOf(at++);
		return code == 255 && (control & 31) == 31 ? at + 2 : at;
	}

	static HR_FN void read(const Window &in, u32 q, Sequence &s) {
		u32 control = in.byteOf(q), at = q + 1;
		s.from = at;
		s.literals = s.length = 0;
		s.distance = LANES; // near, but not among the lanes
		if (control < LITERALS) {
			s.literals = control + 1;
			return;
		}
		s.length = (control >> 5) + 2;
		if (s.length == 9) in.extend(at, s.length, Window::SIZE);
		s.distance = (control & 31) << 8 | in.byteOf(at);
		if (s.distance == NEAR) s.distance += in.byteOf(at + 1) << 8 | in.byteOf(at + 2);
		s.distance++;
	}

	static HR_FN Progress one(const Window &in, Recent &out, u32 &at, u32 stop) {
		if (at >= in.end) return WRONG;
		u32 room = stop - out.at, control = in.fetch(at) & 255;
		if (at == in.first) control &= LITERALS - 1;
		at++;
		if (control < LITERALS) {
			u32 n = control + 1;
			if (n > in.end - at || n > room) return WRONG;
			out.literals(in.words + at, n);
			at += n;
		} else {
			u32 length = (control >> 5) + 2;
			if (length == 9 && !lengthen(in, at, length, room)) return WRONG;
			if (at >= in.end) return WRONG;
			u32 distance = (control & 31) << 8 | (in.fetch(at++) & 255);
			if (distance == NEAR) {
				if (in.end - at < 2) return WRONG;
				u32 w = in.fetch(at);
				distance += (w & 255) << 8 | (w >> 8 & 255);
				at += 2;
			}
			if (++distance > out.at - out.start || length > room) return WRONG;
			out.match(distance, length);
		}
		return at < in.end ? MORE : out.at == stop ? DONE : WRONG;
	}
};

// decodeBloscLZ is compiled on its own, as decodeLZ4 is.
HR_FAR bool decodeBloscLZ(u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	return decodeStream<BloscLZFormat>(dst, dstBytes, src, srcBytes);
}

} // namespace hr
