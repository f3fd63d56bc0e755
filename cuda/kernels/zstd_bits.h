// Bitstreams that are read from their end to their begin (4.1, 4.2.2).
#pragma once
#include "zstd.h"

namespace hr {
namespace zstd {

// fetchVector begins to copy 16 bytes of global memory to shared memory, fetchVectorIf if wanted.
// See fetchWord for what ends a group of fetches, and waits for it.
#if defined(HR_GPU)
HR_FN void fetchVector(Place to, const u8 *from) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
HR_FN void fetchVectorIf(bool wanted, Place to, const u8 *from) {
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %0, 0; @q cp.async.ca.shared.global [%1], [%2], 16; }" ::"r"((u32)wanted), "r"(to), "l"(from) : "memory");
}
#else
HR_FN void fetchVector(Place to, const u8 *from) { memcpy((u8 *)to, from, 16); }
#endif

// Bits is a bitstream that a lane reads. A ring in shared memory holds VECTORS pieces of 16
// bytes of it, fetched long before they are needed; a window of WORDS words is read there at
// any position, so that nothing needs to be refilled.
//
// Positions are in bits from the multiple of 16 bytes at or before the stream, less the bits of a
// window: that is what lies below a position, and begins so many bits up. All fetches stay within
// the vectors that hold the stream: what lies before its begin are other bytes, and whoever reads
// them finds by exact() that the stream is corrupt. With ALIGNED, a ring begins at a multiple of
// its 16 * VECTORS.
template <u32 VECTORS, u32 WORDS, bool ALIGNED> struct Bits {
	enum : u32 {
		RING = 16 * VECTORS,
		RING_BYTES = RING + 16, // the first vector stands behind the last one again
		WINDOW = 32 * WORDS,
	};

	const u8 *base;
	i32 at, begin;
	u32 raw[WORDS + 1]; // the words that hold the window, the lowest first
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
		begin = (i32)(8 * lead - WINDOW);
		at = begin + (i32)(8 * (bytes - 1) + highest(last));
#if defined(HR_GPU)
		ring = ringAt;
		next = top();
		HR_ROLLED for (u32 i = 0; i < VECTORS; i++) fetchNext();
		endFetch();
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

	// fill fetches N vectors, if there is room for them: whoever calls it after 128 * N bits at
	// most finds that there never is for more. What is fetched can be read when ready() has been
	// called after as many more fills as that says: then the vectors from top() on, down to that
	// which is VECTORS - 1 below it, are there.
	template <u32 N> HR_FN void fill() {
#if defined(HR_GPU)
		HR_UNROLL for (u32 i = 0; i < N; i++) fetchNext();
		endFetch();
#endif
	}

	template <int PENDING> HR_FN void ready() { awaitFetch<PENDING>(); }

#if defined(HR_GPU)
	// top is the vector that holds the top of the window.
	HR_FN i32 top() const { return (at + (i32)WINDOW - 1) >> 7; }

	HR_FN Place inRing(u32 byte) const {
		u32 offset = byte & (RING - 4);
		return ALIGNED ? within(ring, offset) : ring + offset;
	}

	HR_FN void fetchNext() {
		i32 stop = most(top() - (i32)VECTORS, -1); // the first one that there is no room for, or that is none
		bool wanted = next > stop;
		Place to = inRing(16 * (u32)next);
		const u8 *from = base + 16 * (i64)next;
		fetchVectorIf(wanted, to, from);
		fetchVectorIf(wanted && to == ring, ring + RING, from);
		next = most(next - 1, stop);
	}
#endif

	// look asks for the window at the position, and window gives word i of it, from the top.
	HR_FN void look() {
#if defined(HR_GPU)
		Place p = inRing((u32)(at >> 3));
		HR_UNROLL for (u32 i = 0; i <= WORDS; i++) raw[i] = wordAt(p + 4 * i);
#else
		for (u32 i = 0; i <= WORDS; i++) raw[i] = get(4 * ((at >> 5) + (i32)i));
#endif
	}
	HR_FN u32 window(u32 i) const { return funnel(raw[WORDS - 1 - i], raw[WORDS - i], (u32)at); }

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
