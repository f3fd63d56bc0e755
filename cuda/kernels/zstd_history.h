// The end of what a thread block has decoded, in shared memory: most matches are near, and
// a load from there costs a tenth of one from memory. Output is made there, and goes to
// memory in whole lines.
#pragma once
#include "zstd.h"

namespace hr {
namespace zstd {

// Positions count from the multiple of 16 at or before the begin of the output.
struct History {
	enum : u32 {
		SIZE = 16 << 10,
		KEPT = 6 << 10,           // at least so many bytes before at are here, or all
		LINE = 128,               // of memory
		MOST = KEPT / 2 - LINE,   // bytes that are made between two calls of made
		PAD = 16,                 // read with the last bytes, and not used
	};
	// What is kept does not reach into the place that it is moved to.
	static_assert(SIZE - MOST >= 2 * KEPT + 32, "slide");

	u8 *base;    // position 0, a multiple of 16
	u32 start;   // of the output
	u32 at;      // behind it
	u32 flushed; // bytes before are in memory, or on their way; a multiple of 16, or start
	u32 origin;  // the first position that is here, a multiple of 16

	static HR_FN u8 *bytes() {
		HR_SHARED Vector all[(SIZE + PAD) / sizeof(Vector)];
		return (u8 *)all;
	}

	HR_FN void open(u8 *dst) {
		start = at = flushed = (u32)(u64)dst & 15;
		base = dst - start;
		origin = 0;
	}

	// Bytes before oldest are in memory, and those that lie up to MOST behind it: they
	// were flushed no later than with the piece before the last, and barriers lie between.
	HR_FN u32 oldest() const { return origin; }

	// flushBytes writes those before a position one by one.
	HR_FN void flushBytes(u32 stop) {
		HR_ROLLED for (u32 i = flushed + thread(); i < stop; i += threads()) storeByte(base + i, bytes()[i - origin]);
		flushed = most(flushed, stop);
	}

	// flushTo is called when the bytes up to stop, a multiple of 16, are made, with a barrier
	// behind them.
	HR_FN void flushTo(u32 stop) {
		if (stop <= flushed) return;
		if (flushed & 15) flushBytes((flushed | 15) + 1); // at the begin: others write the bytes before
		const u8 *here = bytes() - origin;
		HR_ROLLED for (u32 v = flushed + 16 * thread(); v < stop; v += 16 * threads()) storeVector(base + v, getVector(here + v).w);
		flushed = stop;
	}

	// flush is for all bytes.
	HR_FN void flush() {
		flushTo(at & ~15u);
		u32 whole = flushed;
		flushBytes(at);
		flushed = whole;
	}

	// made says that the bytes up to stop are made. A barrier is behind them, and the next bytes
	// may be made at once.
	HR_FN void made(u32 stop) {
		at = stop;
		u32 whole = at & ~(LINE - 1);
		if (whole > flushed) flushTo(whole);
		if (at - origin > SIZE - MOST) slide();
	}

	HR_FN void slide() {
		u32 to = (at - KEPT) & ~15u;
		u8 *all = bytes();
		HR_ROLLED for (u32 v = 16 * thread(); v < at - to; v += 16 * threads()) putVector(all + v, getVector(all + (to - origin) + v));
		origin = to;
		syncBlock();
	}

	// skip goes behind n bytes that are in memory already, or that this thread block has just
	// written there.
	HR_FN void skip(u32 n) {
		syncBlock();
		at += n;
		flushed = most(at & ~15u, start);
		origin = at > KEPT ? (at - KEPT) & ~15u : 0;
		u8 *all = bytes();
		HR_ROLLED for (u32 v = origin + 16 * thread(); v < at; v += 16 * threads()) {
			if (v + 16 <= at) {
				Vector w;
				loadVector(w.w, base + v);
				putVector(all + (v - origin), w);
			} else {
				HR_ROLLED for (u32 i = v; i < at; i++) all[i - origin] = (u8)loadByte(base + i);
			}
		}
		syncBlock();
	}

	// append copies n bytes of memory. Many go past the history.
	HR_FN void append(const u8 *src, u32 n);

	// repeat appends a match. It is for long ones: it works on memory.
	HR_FN void repeat(u32 distance, u32 n) {
		flush();
		u32 done = 0;
		HR_ROLLED while (done < n) {
			u32 some = least(n - done, distance);
			u8 *to = base + at + done;
			syncBlock();
			copyBytes(to, to - distance, some, thread(), threads());
			done += some;
			distance *= 2; // which lies as far in the repeated bytes
		}
		skip(n);
	}
};

// Memory and Recent are where bytes may come from.
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
	u32 at; // in the history's bytes

	HR_FN u32 byte(u32 i) const { return History::bytes()[at + i]; }
	HR_FN u32 word(u32 i) const {
		const u8 *p = History::bytes() + ((at + i) & ~3u);
		return funnel(getWord(p), getWord(p + 4), 8 * ((at + i) & 3));
	}
};

// place copies n bytes to the history's bytes, four at a time. It is the part of worker id of count
// workers.
template <class From> HR_FN void place(u32 to, const From &from, u32 n, u32 id, u32 count) {
	u8 *out = History::bytes() + to;
	u32 head = least((0 - to) & 3, n), tail = head + ((n - head) & ~3u);
	HR_ROLLED for (u32 i = id; i < head; i += count) out[i] = (u8)from.byte(i);
	HR_ROLLED for (u32 i = head + 4 * id; i < tail; i += 4 * count) putWord(out + i, from.word(i));
	HR_ROLLED for (u32 i = tail + id; i < n; i += count) out[i] = (u8)from.byte(i);
}

HR_FN void History::append(const u8 *src, u32 n) {
	if (n == 0) return;
	if (n <= MOST) {
		Memory from = {src};
		place(at - origin, from, n, thread(), threads());
		syncBlock();
		made(at + n);
		return;
	}
	flush();
	copyBytes(base + at, src, n, thread(), threads());
	skip(n);
}

// Few is up to MOST bytes on their way to the history. All lanes of a warp load, then put.
struct Few {
	enum : u32 { MOST = 16, WORDS = MOST / 4 };

	u32 raw[WORDS + 1];
	u32 shift, n;

#if defined(HR_GPU)
	// load loads count bytes from p if far, else those from index here of the history's bytes. here
	// has the alignment of p. Only words that hold one of them are read. The loads are written as
	// one stream without branches, so that all are on their way before one is waited for.
	HR_FN void load(bool far, const u8 *p, u32 here, u32 count) {
		u32 lead = here & 3, reach = count > 0 ? lead + count : 0;
		const u8 *nearBy = History::bytes() + (here - lead);
		p -= lead;
		n = count;
		shift = 8 * lead;
		HR_UNROLL for (u32 i = 0; i <= WORDS; i++) {
			raw[i] = 0;
			if (!far && reach > 4 * i) raw[i] = getWord(nearBy + 4 * i);
		}
		HR_UNROLL for (u32 i = 0; i <= WORDS; i++) loadWordIf(far && reach > 4 * i, raw[i], p + 4 * i);
	}
#else
	HR_FN void load(bool far, const u8 *p, u32 here, u32 count) {
		n = count;
		shift = 0;
		if (count > 0) memcpy(raw, far ? p : History::bytes() + here, count);
	}
#endif

	HR_FN void put(u32 to) const {
		u8 *out = History::bytes() + to;
		HR_UNROLL for (u32 i = 0; i < WORDS; i++) {
			if (i >= 2 && !ballot(n > 4 * i)) break;
			putFew(out + 4 * i, funnel(raw[i], raw[i + 1], shift), (i32)(n - 4 * i));
		}
	}
};

} // namespace zstd
} // namespace hr
