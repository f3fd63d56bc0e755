// Bitstreams that are read from their end to their begin (4.1, 4.2.2).
#pragma once
#include "zstd.h"

namespace hr {
namespace zstd {

#if defined(HR_GPU)
// fetchVector begins to copy 16 bytes of global memory to shared memory.
HR_FN void fetchVector(Place to, const u8 *from) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
HR_FN void endFetch() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// awaitFetch waits for all but the last PENDING groups of fetches of this thread.
template <int PENDING> HR_FN void awaitFetch() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
#endif

// Bits is a bitstream that a lane reads. A ring in shared memory holds VECTORS pieces of 16
// bytes of it, fetched long before they are needed; a window of WORDS words is read there at
// any position, so that nothing needs to be refilled.
//
// Positions are in bits from the multiple of 16 bytes at or before the stream, less the bits
// of a window: that is what lies below a position, and begins so many bits up. All reads stay within
// the vectors that hold the stream: what lies before its begin are other bytes, and
// whoever reads them finds by exact() that the stream is corrupt.
template <u32 VECTORS, u32 WORDS> struct Bits {
	enum { RING_BYTES = 16 * VECTORS + 16, WINDOW = 32 * WORDS }; // the first vector stands behind the last one again

	const u8 *base;
	i32 at, begin;
	u32 window[WORDS]; // from its top
#if defined(HR_GPU)
	Place ring;
	i32 next; // the vector to be fetched
#else
	const u8 *end;
	i32 first; // byte of base where the stream begins
#endif

	// open is false if the stream has no end mark.
	HR_FN bool open(const u8 *stream, u32 bytes, Place ringAt) {
		if (bytes == 0 || bytes > MAX_BLOCK) return false;
		u32 last = loadByte(stream + bytes - 1);
		if (last == 0) return false;
		u32 lead = (u32)(u64)stream & 15;
		base = stream - lead;
		begin = (i32)(8 * lead) - WINDOW;
		at = begin + (i32)(8 * (bytes - 1) + highest(last));
#if defined(HR_GPU)
		ring = ringAt;
		next = (at + WINDOW - 1) >> 7;
		fill();
		awaitFetch<0>();
#else
		(void)ringAt;
		first = (i32)lead;
		end = stream + bytes;
#endif
		return true;
	}

	HR_FN bool exact() const { return at == begin; }

	HR_FN void skip(u32 n) { at -= (i32)n; }

	// fill fetches what there is room for. What it fetches can be read when ready() has been called
	// after as many more fills as that says.
	HR_FN void fill() {
#if defined(HR_GPU)
		i32 stop = ((at + WINDOW - 1) >> 7) - (i32)VECTORS;
		HR_ROLLED while (next > stop) {
			u32 slot = (u32)next & (VECTORS - 1);
			const u8 *from = base + 16 * most(next, 0);
			fetchVector(ring + 16 * slot, from);
			if (slot == 0) fetchVector(ring + 16 * VECTORS, from);
			next--;
		}
		endFetch();
#endif
	}

	template <int PENDING> HR_FN void ready() {
#if defined(HR_GPU)
		awaitFetch<PENDING>();
#endif
	}

	// peek loads the window.
	HR_FN void peek() {
		u32 raw[WORDS + 1]; // the lowest first
#if defined(HR_GPU)
		Place p = ring + ((u32)(at >> 3) & (16 * VECTORS - 4));
		HR_UNROLL for (u32 i = 0; i <= WORDS; i++) raw[i] = wordAt(p + 4 * i);
#else
		for (u32 i = 0; i <= WORDS; i++) raw[i] = get(4 * ((at >> 5) + (i32)i));
#endif
		HR_UNROLL for (u32 i = 0; i < WORDS; i++) window[i] = funnel(raw[WORDS - 1 - i], raw[WORDS - i], (u32)at & 31);
	}

#if !defined(HR_GPU)
	u32 get(i32 byte) const {
		u32 v = 0;
		for (i32 i = 0; i < 4; i++) {
			if (byte + i >= first && base + byte + i < end) v |= (u32)base[byte + i] << 8 * i;
		}
		return v;
	}
#endif
};

} // namespace zstd
} // namespace hr
