// The end of what a thread block has decoded, in shared memory: most matches are near, and
// a load from there costs a tenth of one from memory. Output is made there, and goes to
// memory in whole lines.
#pragma once
#include "zstd_bits.h"

namespace hr {
namespace zstd {

// Shape is how much a thread block of so many threads works on at a time. A batch makes up to MOST
// bytes, of up to LITERALS literals.
template <u32 BLOCK_, u32 MOST_, u32 KEPT_, u32 SIZE_, u32 RING_> struct Shape {
	enum : u32 {
		BLOCK = BLOCK_,
		WARPS = LANES > 1 ? BLOCK / LANES : 1,
		THREADS = WARPS * LANES,
		LINE = 128,   // of memory
		MOST = MOST_,
		KEPT = KEPT_, // at least so many bytes behind the batch before are here, or all
		SIZE = SIZE_,
		PAD = 32,     // read with the last bytes, and not used
		RING = RING_, // bytes of literals
		LITERALS = RING / 2 - 2 * PAD,
		SEATS = 4 * THREADS, // sequences: a power of two, and more than two batches
	};
	// What is kept does not reach into the place that it is moved to.
	static_assert(SIZE - MOST >= 2 * KEPT + 32, "slide");
	// What is no more here is in memory, though the last batch is not.
	static_assert(KEPT >= MOST + 2 * LINE, "far matches");
	static_assert(SIZE + PAD <= 1 << 16, "an index is 16 bits of an entry");
};

// Pair is eight bytes that are read and written as one.
struct alignas(8) Pair {
	u32 low, high;
};

#if defined(HR_GPU)
HR_FN Pair pairOf(Place p) {
	Pair v;
	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.low), "=r"(v.high) : "r"(p));
	return v;
}
HR_FN u32 byteOf(Place p) {
	u32 v;
	asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(p));
	return v;
}
HR_FN void putByte(Place p, u32 v) { asm volatile("st.shared.u8 [%0], %1;" ::"r"(p), "r"(v) : "memory"); }
HR_FN void putWordOf(Place p, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(p), "r"(v) : "memory"); }
// putFew writes the n low bytes of a word, up to all, at any address: none if n is not positive.
HR_FN void putFew(Place p, u32 v, i32 n) {
	asm volatile("{ .reg .pred q; .reg .u32 t;\n"
	             "setp.gt.s32 q, %2, 0; @q st.shared.u8 [%0], %1;\n"
	             "setp.gt.s32 q, %2, 1; shr.u32 t, %1, 8; @q st.shared.u8 [%0+1], t;\n"
	             "setp.gt.s32 q, %2, 2; shr.u32 t, %1, 16; @q st.shared.u8 [%0+2], t;\n"
	             "setp.gt.s32 q, %2, 3; shr.u32 t, %1, 24; @q st.shared.u8 [%0+3], t; }"
	             ::"r"(p), "r"(v), "r"(n)
	             : "memory");
}
HR_FN void fetchPair(Place to, const u8 *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory"); }
// fetchLiterals fetches 16 aligned bytes, of which those from first and before stop are wanted.
HR_FN void fetchLiterals(Place to, const u8 *from, const u8 *, const u8 *) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// fetchFew fetches the pairs that hold a byte of the n, up to 16, at from, lead bytes behind a multiple of eight: none if n is 0.
HR_FN void fetchFew(Place to, const u8 *from, u32 lead, u32 n) {
	u32 reach = n > 0 ? lead + n : 0;
	HR_UNROLL for (u32 i = 0; i < 3; i++) {
		asm volatile("{ .reg .pred q; setp.ne.u32 q, %2, 0; @q cp.async.ca.shared.global [%0], [%1], 8; }" ::"r"(to + 8 * i), "l"(from - lead + 8 * i),
		             "r"((u32)(reach > 8 * i))
		             : "memory");
	}
}
#else
HR_FN Pair pairOf(Place p) {
	Pair v;
	memcpy(&v, p, sizeof v);
	return v;
}
HR_FN u32 byteOf(Place p) { return *p; }
HR_FN void putByte(Place p, u32 v) { *(u8 *)p = (u8)v; }
HR_FN void putWordOf(Place p, u32 v) { memcpy((u8 *)p, &v, 4); }
HR_FN void putFew(Place p, u32 v, i32 n) {
	for (i32 i = 0; i < least(n, 4); i++) putByte(p + i, v >> 8 * i);
}
HR_FN void fetchPair(Place to, const u8 *from) { fetchPart(to, from, 8, 0, 8); }
HR_FN void fetchLiterals(Place to, const u8 *from, const u8 *first, const u8 *stop) {
	u32 head = first > from ? (u32)(first - from) : 0, tail = stop < from + 16 ? (u32)(stop - from) : 16;
	fetchPart(to, from, 16, head, tail);
}
HR_FN void fetchFew(Place to, const u8 *from, u32 lead, u32 n) {
	if (n > 0) fetchPart(to, from - lead, (lead + n + 7) & ~7u, lead, lead + n);
}
#endif

// FrameState is what execution knows of the frame that it is in.
struct FrameState {
	u32 start;      // position
	u32 repeats[3]; // 3.1.1.5

	HR_FN void begin(u32 at) {
		start = at;
		repeats[0] = 1;
		repeats[1] = 4;
		repeats[2] = 8;
	}

	// resolve gives the distance of an offset; 0 is corrupt.
	HR_FN u32 resolve(u32 offset) const {
		if (!(offset & INHERITED)) return offset;
		u32 slot = offset >> INHERITED_SLOT & 3, less = INHERITED_BIAS - (offset & (2 * INHERITED_BIAS - 1));
		u32 r = slot == 0 ? repeats[0] : slot == 1 ? repeats[1] : repeats[2];
		return r > less ? r - less : 0;
	}

	HR_FN void follow(const u32 *offsets) {
		u32 a = resolve(offsets[0]), b = resolve(offsets[1]), c = resolve(offsets[2]);
		repeats[0] = a;
		repeats[1] = b;
		repeats[2] = c;
	}
};

// ExecuteDesk is the shared memory of a thread block. What is read by the byte has its place first.
template <class S> struct ExecuteDesk {
	alignas(16) u8 history[S::SIZE + S::PAD];
	alignas(16) u8 literals[S::RING + S::PAD]; // the begin stands behind the end again
	alignas(16) u8 staged[24 * S::THREADS];    // far matches: three pairs for each thread
	Pair sequences[S::SEATS];                  // Packed
	Pair waiting[S::THREADS];                  // matches. A warp's begin at its first thread's
	u32 waits[S::WARPS];                       // how many these are
	u32 ready[S::WARPS];                       // how many sequences of a warp belong to the next batch; WRONG if one is corrupt
	u32 hand, status, sum;
	FrameState frame;                          // of the block that is executed
	const u8 *packed, *text;                   // its sequences and literals, see Fetched
};

template <class S> HR_FN ExecuteDesk<S> &desk() {
	HR_SHARED ExecuteDesk<S> d;
	return d;
}

// Positions count from the multiple of 16 at or before the begin of the output.
template <class S> struct History {
	u8 *base;    // position 0, a multiple of 16
	u32 start;   // of the output
	u32 at;      // behind it
	u32 flushed; // bytes before are in memory, or on their way; a multiple of 16, or start
	u32 origin;  // the first position that is here, a multiple of 16

	static HR_FN u8 *bytes() { return desk<S>().history; }

	HR_FN void open(u8 *dst) {
		start = at = flushed = (u32)(u64)dst & 15;
		base = dst - start;
		origin = 0;
	}

	// flushBytes writes those before a position one by one.
	HR_FN void flushBytes(u32 stop) {
		HR_ROLLED for (u32 i = flushed + thread(); i < stop; i += S::THREADS) storeByte(base + i, bytes()[i - origin]);
		flushed = most(flushed, stop);
	}

	// flushTo is called when the bytes up to stop, a multiple of 16, are made, with a barrier behind them.
	HR_FN void flushTo(u32 stop) {
		if (stop <= flushed) return;
		if (flushed & 15) flushBytes((flushed | 15) + 1); // at the begin: others write the bytes before
		const u8 *here = bytes() - origin;
		HR_ROLLED for (u32 v = flushed + 16 * thread(); v < stop; v += 16 * S::THREADS) storeVector(base + v, getVector(here + v).w);
		flushed = stop;
	}

	// flush is for all bytes.
	HR_FN void flush() {
		flushTo(at & ~15u);
		u32 whole = flushed;
		flushBytes(at);
		flushed = whole;
	}

	// originBehind is what origin will be when the bytes up to stop are made.
	HR_FN u32 originBehind(u32 stop) const { return stop - origin > S::SIZE - S::MOST ? (stop - S::KEPT) & ~15u : origin; }

	// made says that the bytes up to stop are made. A barrier is behind them, and the next bytes
	// may be made at once.
	HR_FN void made(u32 stop) {
		at = stop;
		u32 whole = at & ~(S::LINE - 1u), to = originBehind(at);
		if (whole > flushed) flushTo(whole);
		if (to != origin) slide(to);
	}

	HR_FN void slide(u32 to) {
		u8 *all = bytes();
		HR_ROLLED for (u32 v = 16 * thread(); v < at - to; v += 16 * S::THREADS) moveVector(all + v, all + (to - origin) + v);
		origin = to;
		syncBlock();
	}

	// skip goes behind n bytes that are in memory already, or that this thread block has just written there.
	HR_FN void skip(u32 n) {
		syncBlock();
		at += n;
		flushed = most(at & ~15u, start);
		origin = at > S::KEPT ? (at - S::KEPT) & ~15u : 0;
		u8 *all = bytes();
		HR_ROLLED for (u32 v = origin + 16 * thread(); v < at; v += 16 * S::THREADS) {
			if (v >= start && v + 16 <= at) { // what is before the output may be written by others now
				Vector w;
				loadVector(w.w, base + v);
				putVector(all + (v - origin), w);
			} else {
				HR_ROLLED for (u32 i = most(v, start); i < least(v + 16, at); i++) all[i - origin] = (u8)loadByte(base + i);
			}
		}
		syncBlock();
	}

	HR_FN void append(const u8 *src, u32 n);
	HR_FN void repeat(u32 distance, u32 n);
};

// Memory, Recent and Literals are where bytes may come from.
struct Memory {
	const u8 *p;

	HR_FN u32 byte(u32 i) const { return loadByte(p + i); }
	HR_FN u32 word(u32 i) const {
		Run<1> run;
		run.load(p + i);
		return run.word(0);
	}
};
struct Recent {
	Place p;
	u32 at; // behind p, a multiple of four

	HR_FN u32 byte(u32 i) const { return byteOf(p + at + i); }
	HR_FN u32 word(u32 i) const { return wordFrom(p, at + i); }
};
template <u32 RING> struct Literals {
	Place p;
	u32 at;

	HR_FN u32 byte(u32 i) const { return byteOf(p + ((at + i) & (RING - 1))); }
	HR_FN u32 word(u32 i) const { return wordFrom(p, (at + i) & (RING - 1)); }
};

// place copies n bytes to index to of the history, four at a time. It is the part of worker id of count workers.
template <class From> HR_FN void place(Place history, u32 to, const From &from, u32 n, u32 id, u32 count) {
	u32 head = least((0 - to) & 3, n), tail = head + ((n - head) & ~3u);
	Place out = history + to;
	if (id < head) putByte(out + id, from.byte(id));
	if (LANES == 1) {
		for (u32 i = 1; i < head; i++) putByte(out + i, from.byte(i));
	}
	HR_ROLLED for (u32 i = head + 4 * id; i < tail; i += 4 * count) putWordOf(out + i, from.word(i));
	HR_ROLLED for (u32 i = tail + id; i < n; i += count) putByte(out + i, from.byte(i));
}

// What follows is compiled on its own, since it is used in several places and seldom.

// appended copies n bytes of memory. Many go past the history.
template <class S> HR_FAR History<S> appended(History<S> out, const u8 *src, u32 n) {
	if (n <= S::MOST) {
		Memory from = {src};
		place(constantPlaceOf(out.bytes()), out.at - out.origin, from, n, thread(), S::THREADS);
		syncBlock();
		out.made(out.at + n);
		return out;
	}
	out.flush();
	copyBytes(out.base + out.at, src, n, thread(), S::THREADS);
	out.skip(n);
	return out;
}

// repeated appends a match. It is for long ones: it works on memory.
template <class S> HR_FAR History<S> repeated(History<S> out, u32 distance, u32 n) {
	out.flush();
	u32 done = 0;
	HR_ROLLED while (done < n) {
		u32 some = least(n - done, distance);
		u8 *to = out.base + out.at + done;
		syncBlock();
		copyBytes(to, to - distance, some, thread(), S::THREADS);
		done += some;
		distance *= 2; // which lies as far in the repeated bytes
	}
	out.skip(n);
	return out;
}

template <class S> HR_FN void History<S>::append(const u8 *src, u32 n) {
	if (n > 0) *this = appended(*this, src, n);
}
template <class S> HR_FN void History<S>::repeat(u32 distance, u32 n) {
	if (n > 0) *this = repeated(*this, distance, n);
}

// Few is up to MOST bytes on their way to the history. All lanes of a warp load, then put.
struct Few {
	enum : u32 { MOST = 16, LOADED = 3 };

	Place from; // a multiple of four
	u32 raw[LOADED]; // the others are loaded when they are put
	u32 shift;
	i32 n;

	HR_FN u32 part(u32 i) const { return partAt(from + 4 * i, (i32)(shift / 8 - 4 * i), (i32)(shift / 8 + n - 4 * i)); }

	// load begins with the count bytes at index at behind p. Of the words there it reads those that hold one of
	// them: others may write the rest of such a word only behind a barrier.
	HR_FN void load(Place p, u32 at, u32 count) {
		from = p + (at & ~3u);
		shift = 8 * (at & 3);
		n = (i32)count;
		HR_UNROLL for (u32 i = 0; i < LOADED; i++) raw[i] = part(i);
	}

	// repeatable tells if a lane can put a match that is longer than its distance: all its words are the
	// same. Runs of a value of one, two or four bytes are such.
	static HR_FN bool repeatable(u32 distance) { return bitAt(distance) & (1 << 1 | 1 << 2 | 1 << 4); }

	// repeat makes count bytes of those that are loaded, as many as a repeatable distance.
	HR_FN void repeat(u32 distance, u32 count) {
		u32 word = permute(funnel(raw[0], raw[1], shift), 0, distance == 1 ? 0 : distance == 2 ? 0x1010 : 0x3210);
		HR_UNROLL for (u32 i = 0; i < LOADED; i++) raw[i] = word;
		shift = 0;
		n = (i32)count;
	}

	HR_FN void putEight(Place to) const {
		putFew(to, funnel(raw[0], raw[1], shift), n);
		if (ballot(n > 4)) putFew(to + 4, funnel(raw[1], raw[2], shift), n - 4);
	}

	HR_FN void put(Place to) const {
		putEight(to);
		if (!ballot(n > 8)) return;
		u32 next = part(3);
		putFew(to + 8, funnel(raw[2], next, shift), n - 8);
		if (!ballot(n > 12)) return;
		putFew(to + 12, funnel(next, part(4), shift), n - 12);
	}
};

} // namespace zstd
} // namespace hr
