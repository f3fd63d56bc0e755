// The bits of a deflate stream (RFC 1951), in shared memory: any part of them by any lane.
#pragma once
#include "abi.h"
#include "bytes.h"

namespace hr {
namespace inflate {

// Input is a stream, of which the bytes from base on are in shared memory. Positions are in bits
// from the multiple of 16 bytes at or before the stream. Bits that are not of it are 0.
struct Input {
	enum : u32 {
		SPAN = 19, // words of it that a lane decodes at a time, at most
		BEYOND = 32, // bytes that are looked at behind them
		SIZE = 128 * SPAN + BEYOND + 16,
	};

	u8 *bytes;
	const u8 *words;
	u32 first, end; // bytes
	u32 base;       // a multiple of 16

	HR_FN Input(u8 *shared, const u8 *src, u32 n) {
		bytes = shared;
		first = (u32)(u64)src & 15;
		words = src - first;
		end = first + n;
		base = (end + 16) & ~15u; // nothing is here
	}

	HR_FN bool torn(u32 bit) const { return bit > 8 * end; }

	// load is 16 bytes at a multiple of 16.
	HR_FN Vector load(u32 at) const {
		Vector v = {{0, 0, 0, 0}};
		if (at >= first && at < end && end - at >= 16) {
			loadVector(v.w, words + at);
			return v;
		}
		HR_UNROLL for (u32 i = 0; i < 16; i++) {
			if (at + i >= first && at + i < end) v.w[i / 4] |= loadByte(words + at + i) << 8 * (i & 3);
		}
		return v;
	}

	// cover has n bytes here from that of a bit on; at most SIZE - 15.
	HR_FN void cover(u32 bit, u32 n) {
		u32 at = bit / 8;
		if (at >= base && at + n <= base + SIZE) return;
		base = at & ~15u;
		syncWarp(); // the last ones are read
		HR_ROLLED for (u32 i = 16 * lane(); i < SIZE; i += 16 * LANES) putVector(bytes + i, load(base + i));
		u32 ahead = base + SIZE + 128 * lane(); // a line of the cache each
		if (128 * lane() < SIZE && ahead < end) prefetch(words + ahead);
		syncWarp();
	}

	HR_FN Place placeOfBit(u32 bit) const { return placeOf(bytes) + (bit / 32 * 4 - base); }

	// peek is 32 bits from a bit on.
	HR_FN u32 peek(u32 bit) const {
		Place p = placeOfBit(bit);
		return funnel(wordAt(p), wordAt(p + 4), bit & 31);
	}
};

// Bits reads on from a bit. What it reads must be covered, with 12 bytes behind it.
struct Bits {
	u32 low, high; // those in hand
	u32 count;     // how many, at least 32 behind fill
	u32 behind;    // position behind them
	Place next;    // of the word there

	HR_FN Bits(const Input &in, u32 bit) {
		next = in.placeOfBit(bit);
		low = funnel(wordAt(next), 0, bit & 31);
		high = 0;
		count = 32 - (bit & 31);
		behind = (bit & ~31u) + 32;
		next += 4;
	}

	HR_FN void fill() {
		if (count >= 32) return;
		u32 w = wordAt(next);
		low |= w << count;
		high = funnelLeft(w, 0, count);
		count += 32;
		behind += 32;
		next += 4;
	}

	// skip goes n bits on, up to 31, which must be in hand.
	HR_FN void skip(u32 n) {
		low = funnel(low, high, n);
		high >>= n;
		count -= n;
	}

	HR_FN u32 at() const { return behind - count; }
};

} // namespace inflate
} // namespace hr
