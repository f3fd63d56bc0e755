// The end of what a warp has decoded, in shared memory: LZ4 and zstd copy most matches
// from there.
#pragma once
#include "bytes.h"

namespace hr {

// sumBelow is the sum of n over a lane and those below it.
HR_FN u32 sumBelow(u32 n) {
	HR_UNROLL for (u32 d = 1; d < LANES; d *= 2) {
		u32 below = shuffle(n, (lane() - d) & (LANES - 1));
		if (lane() >= d) n += below;
	}
	return n;
}

// quotient is a / b for a below 2^11: so small that the quotient plus a half b-th is
// further from a whole number than the error.
HR_FN u32 quotient(u32 a, u32 b) { return (u32)(((float)a + 0.5f) * reciprocal((float)b)); }

// RecentBytes is the last bytes of the output, in shared memory. Positions count from the multiple of
// 16 at or before dst.
template <u32 SIZE_, u32 PIECE_, u32 FLUSH_, u32 KEPT_ = (SIZE_ - PIECE_) / 32 * 16 - 32> struct RecentBytes {
	enum : u32 {
		SIZE = SIZE_,
		PIECE = PIECE_, // most bytes written between two calls of wrote
		FLUSH = FLUSH_,
		KEPT = KEPT_, // left when there is no more room for PIECE bytes
	};
	// What is flushed needs not be kept, and a match that begins before what is kept is flushed
	// as a whole, though a batch was parsed before the last one was written.
	static_assert(KEPT >= 2 * PIECE + FLUSH, "far matches are in memory");
	static_assert(KEPT + 16 * LANES + 16 <= SIZE - PIECE,
	    "what is moved does not reach into the place of what is moved with it");
	static constexpr bool OVERLAPS = 2 * KEPT + 16 > SIZE - PIECE; // but perhaps of what was moved before

	u8 *bytes;    // those from origin on
	u8 *base;     // position 0
	u32 start, at; // positions of the first and of the next byte
	u32 flushed;
	u32 origin; // a multiple of 16
	u32 oldest; // no byte before it is here

	HR_FN RecentBytes() {}
	HR_FN RecentBytes(u8 *shared, u8 *dst) {
		bytes = shared;
		start = at = flushed = oldest = (u32)(u64)dst & 15;
		origin = 0;
		base = dst - at;
	}

	HR_FN u8 *here(u32 position) const { return bytes + (position - origin); }

	// flushTo writes the bytes before a position to memory. Barriers before and behind
	// it are the caller's.
	HR_FN void flushTo(u32 stop) {
		HR_ROLLED for (u32 v = (flushed & ~15u) + 16 * lane(); v < stop; v += 16 * LANES) {
			if (v >= flushed && v + 16 <= stop) {
				storeVector(base + v, getVector(here(v)).w);
				continue;
			}
			HR_ROLLED for (u32 i = most(v, flushed); i < least(v + 16, stop); i++)
				storeByte(base + i, *here(i));
		}
		flushed = stop;
	}

	// wrote is called behind up to PIECE bytes.
	HR_FN void wrote(u32 n) {
		at += n;
		syncWarp();
		if (at - flushed >= FLUSH) {
			flushTo(at & ~(FLUSH - 1));
			syncWarp();
		}
		if (at - origin > SIZE - PIECE) slide();
	}

	// keptAt is the first position that is here for sure when the bytes before stop are written.
	HR_FN u32 keptAt(u32 stop) const {
		return stop - origin > SIZE - PIECE ? most(oldest, (stop - KEPT) & ~15u) : oldest;
	}

	// slide makes room.
	HR_FN void slide() {
		u32 to = (at - KEPT) & ~15u;
		u8 *from = here(to);
		HR_ROLLED for (u32 i = 0; i < at - to; i += 16 * LANES) {
			u32 v = i + 16 * lane();
			if (v < at - to) moveVector(bytes + v, from + v);
			if (OVERLAPS) syncWarp();
		}
		origin = to;
		oldest = most(oldest, to);
		syncWarp();
	}

	// place writes n bytes of the block to a position.
	HR_FN void place(u32 to, const u8 *src, u32 n) const {
		HR_ROLLED for (u32 i = lane(); i < n; i += 4 * LANES) {
			u32 v[4];
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k * LANES < n) v[k] = loadByte(src + i + k * LANES);
			}
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k * LANES < n) *here(to + i + k * LANES) = (u8)v[k];
			}
		}
	}

	// skip goes behind n bytes, at least 2 * PIECE, that are in memory. All before is flushed.
	HR_FN void skip(u32 n) {
		syncWarp();
		flushed = at += n;
		oldest = at - PIECE;
		origin = oldest & ~15u;
		place(oldest, base + oldest, PIECE);
		syncWarp();
	}

	// literals appends n bytes of the block. Many go past this, but for the last of them, so that
	// a match in them is near or in memory as a whole.
	HR_FN void literals(const u8 *src, u32 n) {
		if (n >= 2 * PIECE) {
			flushTo(at);
			copyBytes(base + at, src, n, lane(), LANES);
			skip(n);
			return;
		}
		HR_ROLLED while (n > 0) {
			u32 some = least<u32>(n, PIECE);
			place(at, src, some);
			wrote(some);
			src += some;
			n -= some;
		}
	}

	// repeat writes n bytes to a position, up to PIECE, of which those before are here:
	// those that lie distance before. No lane reads what another writes.
	HR_FN void repeat(u32 to, u32 distance, u32 n) const {
		const u8 *from = here(to - distance);
		HR_ROLLED for (u32 i = lane(); i < n; i += LANES)
			*here(to + i) = from[distance < n ? i - distance * quotient(i, distance) : i];
	}

	// copy is the same for a position that is a multiple of 4, and a distance of nearly half a
	// PIECE, a word a lane. Up to three bytes more are written.
	HR_FN void copy(u32 to, u32 distance, u32 n) const {
		enum : u32 { WORDS = PIECE / 512, STEP = 4 * LANES * WORDS };
		static_assert(WORDS > 0 && STEP + 8 < (PIECE - 15) / 2, "what is read was written before the step");
		u32 shift = 8 * ((to - distance) & 3);
		const u8 *from = here((to - distance) & ~3u);
		HR_ROLLED for (u32 i = 0; i < n; i += STEP) {
			u32 w[WORDS];
			HR_UNROLL for (u32 k = 0; k < WORDS; k++) {
				u32 j = i + 4 * (LANES * k + lane());
				if (j < n) w[k] = funnel(getWord(from + j), getWord(from + j + 4), shift);
			}
			HR_UNROLL for (u32 k = 0; k < WORDS; k++) {
				u32 j = i + 4 * (LANES * k + lane());
				if (j < n) putWord(here(to + j), w[k]);
			}
			syncWarp();
		}
	}

	// match appends a match of any length. Behind the first piece of what repeats, it repeats after a
	// multiple of the distance too.
	HR_FN void match(u32 distance, u32 n) {
		u32 some = least(n, PIECE - (at & 15));
		u32 long_ = distance <= some ? distance * quotient(some, distance) : distance;
		HR_ROLLED for (bool first = true; n > 0; first = false) {
			if (distance > at - oldest) place(at, base + at - distance, some);
			else if (first) repeat(at, distance, some);
			else copy(at, long_, some);
			wrote(some);
			n -= some;
			some = least<u32>(n, PIECE);
		}
	}
};

} // namespace hr
