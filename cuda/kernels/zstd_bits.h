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
HR_FN void fetchVector(Place to, const u8 *from) { fetchPart(to, from, 16, 0, 16); }
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

// Queue is a bitstream that a lane reads in codes of up to 11 bits. The next bits are at the top
// of a register, so that the search for a code, whose length the next one waits for, reads shared
// memory once, in the table. The ring, which is like that of Bits, is read beside that, for a
// word that is needed later.
template <u32 VECTORS> struct Queue {
	enum : u32 { RING = 16 * VECTORS }; // bytes; a ring begins at a multiple of them

	const u8 *base;
	u32 high, low; // the next bits, from the top of high, and zeros behind them
	u32 ahead;     // the word that follows them
	u32 gone;      // in the low byte: 32 less the number of bits in high and low
	i32 at;        // byte of the word ahead, from the multiple of 16 bytes at or before the stream
	i32 begin;     // bit of the stream's begin
#if defined(HR_GPU)
	Place ring;
	i32 next; // the vector to be fetched
#else
	const u8 *end;
#endif

	// open is false if the stream has no end mark.
	HR_FN bool open(const u8 *stream, u32 bytes, Place ringAt) {
		if (bytes == 0 || bytes > MAX_BLOCK) return false;
		u32 last = loadByte(stream + bytes - 1);
		if (last == 0) return false;
		u32 lead = (u32)(u64)stream & 15;
		base = stream - lead;
		begin = (i32)(8 * lead);
		i32 top = begin + (i32)(8 * (bytes - 1) + highest(last)) - 1;
		at = (top >> 5) * 4;
#if defined(HR_GPU)
		ring = ringAt;
		next = at >> 4;
		HR_ROLLED for (u32 i = 0; i < VECTORS; i++) fetchNext();
		endFetch();
		awaitFetch<0>();
#else
		(void)ringAt;
		end = stream + bytes;
#endif
		gone = 31 - (top & 31);
		high = get() << gone;
		low = 0;
		at -= 4;
		ahead = get();
		refill(0);
		return true;
	}

	// skip goes behind a code. Of n, the low five bits count.
	HR_FN void skip(u32 n) {
		high = funnelLeft(low, high, n);
		low = funnelLeft(0, low, n);
	}

	// refill is told by a low byte how many bits were skipped since the last one, 22 at most.
	// It leaves 33 at least: two codes can be skipped, and the next one found.
	HR_FN void refill(u32 skipped) {
		gone += skipped;
#if defined(HR_GPU)
		// The compiler would branch, and lanes refill at different times.
		asm("{ .reg .pred q; .reg .u32 t; and.b32 t, %3, 128; setp.eq.u32 q, t, 0; shf.l.wrap.b32 t, %4, 0, %3;"
		    "@q or.b32 %0, %0, t; @q shf.l.wrap.b32 %1, 0, %4, %3; @q sub.u32 %3, %3, 32; @q sub.s32 %2, %2, 4; }"
		    : "+r"(high), "+r"(low), "+r"(at), "+r"(gone)
		    : "r"(ahead));
#else
		if (!(gone & 128)) {
			high |= funnelLeft(ahead, 0, gone);
			low = funnelLeft(0, ahead, gone);
			gone -= 32;
			at -= 4;
		}
#endif
		ahead = get();
	}

	// exact tells, behind a refill, if all bits were skipped and no more.
	HR_FN bool exact() const { return 8 * (at + 4) + 32 - (i8)(u8)gone == begin; }

#if defined(HR_GPU)
	HR_FN u32 get() const { return wordAt(within(ring, (u32)at & (RING - 4))); }

	HR_FN void fetchNext() {
		i32 stop = most((at >> 4) - (i32)VECTORS, -1);
		fetchVectorIf(next > stop, within(ring, 16 * (u32)next & (RING - 16)), base + 16 * (i64)next);
		next = most(next - 1, stop);
	}
	template <u32 N> HR_FN void fill() {
		HR_UNROLL for (u32 i = 0; i < N; i++) fetchNext();
		endFetch();
	}
#else
	HR_FN u32 get() const {
		u32 v = 0;
		for (i32 i = 0; i < 4; i++) {
			if (8 * (at + i) >= begin && base + at + i < end) v |= (u32)base[at + i] << 8 * i;
		}
		return v;
	}
	template <u32 N> HR_FN void fill() {}
#endif
	template <int PENDING> HR_FN void ready() { awaitFetch<PENDING>(); }
};

} // namespace zstd
} // namespace hr
