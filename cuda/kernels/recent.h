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
template <u32 SIZE_, u32 PIECE_, u32 FLUSH_> struct RecentBytes {
	enum : u32 {
		SIZE = SIZE_,
		PIECE = PIECE_, // most bytes written between two calls of wrote
		FLUSH = FLUSH_,
		KEPT = (SIZE - PIECE) / 32 * 16 - 32, // left when there is no more room for PIECE bytes
	};
	// What is flushed needs not be kept, and a match that begins before what is kept is flushed
	// as a whole, though a batch was parsed before the last one was written.
	static_assert(KEPT >= 2 * PIECE + FLUSH, "far matches are in memory");

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
			HR_ROLLED for (u32 i = most(v, flushed); i < least(v + 16, stop); i++) storeByte(base + i, *here(i));
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
	HR_FN u32 keptAt(u32 stop) const { return stop - origin > SIZE - PIECE ? most(oldest, (stop - KEPT) & ~15u) : oldest; }

	// slide makes room. What is kept does not reach into the place that it moves to.
	HR_FN void slide() {
		u32 to = (at - KEPT) & ~15u;
		u8 *from = here(to);
		HR_ROLLED for (u32 v = 16 * lane(); v < at - to; v += 16 * LANES) putVector(bytes + v, getVector(from + v));
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

	// copy writes n bytes to a position, up to PIECE: those that lie distance before, which
	// repeat. No lane reads what another writes.
	HR_FN void copy(u32 to, u32 distance, u32 n, bool far) const {
		u32 from = to - distance;
		HR_ROLLED for (u32 i = lane(); i < n; i += LANES) {
			u32 j = from + (distance < n ? i - distance * quotient(i, distance) : i);
			*here(to + i) = (u8)(far ? loadByte(base + j) : *here(j));
		}
	}

	// match appends a match of any length.
	HR_FN void match(u32 distance, u32 n) {
		HR_ROLLED while (n > 0) {
			u32 some = least<u32>(n, PIECE);
			copy(at, distance, some, at - distance < oldest);
			wrote(some);
			n -= some;
		}
	}
};

} // namespace hr
