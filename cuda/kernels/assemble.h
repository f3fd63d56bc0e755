// Tiles: boxes of elements that are copied, converted or filled, a block of
// threads each.
//
// Rows, the innermost loop, are contiguous in dst. Where they are so in src too,
// dst is written in vectors of 16 bytes: a thread finds the places of several
// vectors, loads all of them, then converts and stores. Vectors that are not all of
// the row, its first and its last, are loaded and stored element by element.
// Everything else takes the general path, a thread an element.
#pragma once
#include "abi.h"
#include "convert.h"

namespace hr {

// Divisor divides by a number that is the same for all threads.
struct Divisor {
	u32 n, inverse; // 0: divide

	// Quotients of numbers up to top.
	HR_FN void set(u32 divisor, u64 top) {
		n = divisor;
		// ceil(2^32/n) is too great by less than n/2^32 of itself: right while
		// top*n stays below 2^32.
		inverse = n > 1 && top * n < 1ull << 32 ? 0xffffffffu / n + 1 : 0;
	}
	HR_FN u32 quotient(u32 v) const { return inverse ? mulHigh(v, inverse) : n == 1 ? v : v / n; }
};

// Rows is what threads need to find a row of a tile.
struct Rows {
	u8 *dst;
	const u8 *src;
	i64 dstStep, srcStep; // from element to element
	u32 outer;            // loops around a row
	u32 count;
	u32 n;      // elements of a row
	u64 places; // the bits that are set in the address of any row
};

// Job is a tile as the threads of a block share it.
struct Job {
	Tile tile;
	Rows rows;
	Loop loops[MAX_RANK];
	Divisor extents[MAX_RANK];

	// find gives the addresses of rows: of each r it leaves nothing.
	template <int N> HR_FN void find(u32 (&r)[N], u8 *(&dst)[N], const u8 *(&src)[N]) const {
		HR_UNROLL for (int i = 0; i < N; i++) {
			dst[i] = rows.dst;
			src[i] = rows.src;
		}
		HR_ROLLED for (u32 k = rows.outer; k-- > 0;) {
			const Divisor d = extents[k];
			i64 dstStep = loops[k].dst, srcStep = loops[k].src;
			HR_UNROLL for (int i = 0; i < N; i++) {
				u32 q = k == 0 ? 0 : d.quotient(r[i]);
				u32 step = r[i] - q * d.n;
				dst[i] += (i64)step * dstStep;
				src[i] += (i64)step * srcStep;
				r[i] = q;
			}
		}
	}
};

// The following are operations on rows: IN and OUT are the bytes of an element on
// each side, N the elements of a vector of 16 bytes of dst, load and loadPart take what one is
// made of, the second no more than the elements from first to stop, and make makes it. A
// thread has AT_ONCE vectors in hand.

// Conversion is that of the common pairs: u8, u16, i16, f16, bf16, f32 to f32, bf16,
// f16. The sizes of the types are known when compiling; among types of a size the
// threads choose, all the same, once a vector. (A loop for each pair would be eight
// times the code, and a driver would take ten seconds to load it.)
template <int IN_, int OUT_> struct Conversion {
	enum { IN = IN_, OUT = OUT_, N = 16 / OUT, WORDS = N * IN / 4, AT_ONCE = 2 };
	typedef Run<WORDS> Raw;

	u32 from, to, flags;
	Affine affine;

	static HR_FN u32 element(const u32 *w, int i) {
		u32 v = w[i * IN / 4] >> 8 * (i * IN % 4);
		return IN < 4 ? v & ((1u << 8 * (IN % 4)) - 1) : v;
	}

	// widen makes elements floats, as bits; exact.
	template <int COUNT> HR_FN void widen(const u32 *w, u32 *f32) const {
		if (IN == 4) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) f32[i] = element(w, i);
		} else if (IN == 1 || from == U16) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) f32[i] = bitsOf((float)element(w, i));
		} else if (from == I16) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) f32[i] = bitsOf((float)(i16)element(w, i));
		} else if (from == BF16) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) f32[i] = bf16ToF32(element(w, i));
		} else {
			HR_UNROLL for (int i = 0; i < COUNT; i++) f32[i] = f16ToF32(element(w, i));
		}
	}

	// narrow makes floats elements of the destination.
	template <int COUNT> HR_FN void narrow(u32 *v) const {
		if (flags & AFFINE) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) {
				u64 y = scaled(f32ToF64(v[i]), affine.scale, affine.offset);
				if (OUT == 4) v[i] = f64ToF32(y);
				else v[i] = to == BF16 ? f32ToBF16(f64ToF32(y)) : f64ToF16(y);
			}
		} else if (OUT == 2 && to == BF16) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) v[i] = f32ToBF16(v[i]);
		} else if (OUT == 2) {
			HR_UNROLL for (int i = 0; i < COUNT; i++) v[i] = f32ToF16(v[i]);
		}
	}

	static HR_FN void load(Raw &raw, const u8 *src) { raw.load(src); }
	static HR_FN void loadPart(Raw &raw, const u8 *src, i32 first, i32 stop) {
		raw.loadPart(src, first * IN, stop * IN);
	}

	HR_FN void make(u32 (&out)[4], const Raw &raw) const {
		u32 w[WORDS], v[N];
		HR_UNROLL for (int i = 0; i < 4; i++) out[i] = 0;
		HR_UNROLL for (int i = 0; i < WORDS; i++) w[i] = raw.word(i);
		if (IN > 1 && (flags & BIG)) {
			HR_UNROLL for (int i = 0; i < WORDS; i++) w[i] = permute(w[i], 0, IN == 2 ? 0x2301 : 0x0123);
		}
		widen<N>(w, v);
		narrow<N>(v);
		HR_UNROLL for (int i = 0; i < N; i++) out[i * OUT / 4] |= v[i] << 8 * (i * OUT % 4);
	}
};

// Bytes copies bytes, reversing those of each word if word is above 1.
struct Bytes {
	enum { IN = 1, OUT = 1, N = 16, AT_ONCE = 2 };
	typedef Run<4> Raw;

	u32 word;

	static HR_FN void load(Raw &raw, const u8 *src) { raw.load(src); }
	static HR_FN void loadPart(Raw &raw, const u8 *src, i32 first, i32 stop) {
		raw.loadPart(src, first, stop);
	}

	HR_FN void make(u32 (&out)[4], const Raw &raw) const {
		HR_UNROLL for (int i = 0; i < 4; i++) {
			out[i] = word == 8 ? raw.word(i ^ 1) : raw.word(i);
			if (word > 1) out[i] = permute(out[i], 0, word == 2 ? 0x2301 : 0x0123);
		}
	}
};

// Constant writes a pattern of 16 bytes, whole elements.
struct Constant {
	enum { IN = 0, OUT = 1, N = 16, AT_ONCE = 2 };
	struct Raw {};

	u32 pattern[4];

	static HR_FN void load(Raw &, const u8 *) {}
	static HR_FN void loadPart(Raw &, const u8 *, i32, i32) {}
	HR_FN void make(u32 (&out)[4], const Raw &) const {
		HR_UNROLL for (int i = 0; i < 4; i++) out[i] = pattern[i];
	}
};

// storePart stores the elements from first to stop of a vector.
template <int SIZE> HR_FN void storePart(u8 *dst, const u32 (&w)[4], int first, int stop) {
	HR_UNROLL for (int i = 0; i < 16 / SIZE; i++) {
		u32 v = w[i * SIZE / 4] >> 8 * (i * SIZE % 4);
		if (i < first || i >= stop) continue;
		if (SIZE == 4) storeWord(dst + 4 * i, v);
		else if (SIZE == 2) storeHalf(dst + 2 * i, v);
		else storeByte(dst + i, v);
	}
}

// vectorRows runs an operation on rows of n elements that are aligned in dst.
template <class Op> HR_FN void vectorRows(const Job &job, u32 n, const Op &op) {
	enum { K = Op::AT_ONCE, N = Op::N };
	bool whole = n % N == 0 && (job.rows.places & 15) == 0;
	u32 perRow = whole ? n / N : (n + 2 * N - 2) / N; // the most vectors that a row has a part of
	u32 total = perRow * job.rows.count;
	Divisor d;
	d.set(perRow, total);
	HR_ROLLED for (u32 base = thread(); base < total; base += K * threads()) {
		u32 r[K];
		i32 e[K]; // the vector's first element, by the row
		HR_UNROLL for (u32 k = 0; k < K; k++) {
			u32 item = least(base + k * threads(), total - 1);
			r[k] = d.quotient(item);
			e[k] = (i32)((item - r[k] * perRow) * N);
		}
		u8 *dst[K];
		const u8 *src[K];
		job.find(r, dst, src);
		typename Op::Raw raw[K];
		i32 first[K], stop[K];
		HR_UNROLL for (u32 k = 0; k < K; k++) {
			e[k] -= ((i32)(u64)dst[k] & 15) / Op::OUT;
			dst[k] += (i64)e[k] * Op::OUT;
			src[k] += (i64)e[k] * Op::IN;
			first[k] = most(-e[k], 0);
			stop[k] = base + k * threads() < total ? least((i32)n - e[k], (i32)N) : 0;
			if (first[k] == 0 && stop[k] == N) Op::load(raw[k], src[k]);
			else if (first[k] < stop[k]) Op::loadPart(raw[k], src[k], first[k], stop[k]);
		}
		HR_UNROLL for (u32 k = 0; k < K; k++) {
			if (first[k] >= stop[k]) continue;
			u32 out[4];
			op.make(out, raw[k]);
			if (first[k] == 0 && stop[k] == N) storeVector(dst[k], out);
			else storePart<Op::OUT>(dst[k], out, first[k], stop[k]);
		}
	}
}

template <int IN, int OUT> HR_FN void convertRows(const Job &job) {
	const Tile &t = job.tile;
	Conversion<IN, OUT> op = {t.from, t.to, t.flags, t.affine};
	vectorRows(job, job.rows.n, op);
}

template <int OUT> HR_FN bool convertTo(const Job &job) {
	switch (job.tile.from) {
	case U8: convertRows<1, OUT>(job); return true;
	case U16:
	case I16:
	case F16:
	case BF16: convertRows<2, OUT>(job); return true;
	case F32: convertRows<4, OUT>(job); return true;
	}
	return false;
}

// convertFast converts rows of the common pairs; it is false for the others. A type
// that becomes itself without scaling is no conversion: its NaNs stay as they are.
HR_FN bool convertFast(const Job &job) {
	switch (job.tile.to) {
	case F32: return convertTo<4>(job);
	case BF16:
	case F16: return convertTo<2>(job);
	}
	return false;
}

// copyRows copies rows of elements that keep their bits.
HR_FN void copyRows(const Job &job) {
	Bytes op = {job.tile.flags & BIG ? wordSize(job.tile.from) : 1};
	vectorRows(job, job.rows.n * typeSize(job.tile.from), op);
}

HR_FN void fillRows(const Job &job) {
	u32 size = typeSize(job.tile.to);
	Constant op;
	HR_UNROLL for (int k = 0; k < 4; k++) {
		u32 w = 0;
		HR_ROLLED for (u32 i = 0; i < 4; i++) w |= (u32)job.tile.element[(4 * k + i) & (size - 1)] << 8 * i;
		op.pattern[k] = w;
	}
	vectorRows(job, job.rows.n * size, op);
}

// generalRows does any tile, element by element.
HR_FN void generalRows(const Job &job) {
	const Tile &t = job.tile;
	u32 n = job.rows.n, total = n * job.rows.count;
	Divisor d;
	d.set(n, total);
	HR_ROLLED for (u32 i = thread(); i < total; i += threads()) {
		u32 r[1] = {d.quotient(i)};
		u32 e = i - r[0] * n;
		u8 *dst[1];
		const u8 *src[1];
		job.find(r, dst, src);
		dst[0] += (i64)e * job.rows.dstStep;
		src[0] += (i64)e * job.rows.srcStep;
		if (t.flags & FILL) {
			HR_ROLLED for (u32 k = 0; k < typeSize(t.to); k++) storeByte(dst[0] + k, t.element[k]);
		} else {
			convertElement(dst[0], src[0], t.from, t.to, t.flags, t.affine.scale, t.affine.offset);
		}
	}
}

// sumUp looks at a tile and its loops as a whole. All threads call it.
HR_FN void sumUp(Job &job) {
	const Tile &t = job.tile;
	u64 count = 1, places = t.dst; // of rows
	HR_ROLLED for (u32 k = 0; k + 1 < t.rank; k++) {
		count *= job.loops[k].n;
		places |= (u64)job.loops[k].dst;
	}
	Loop row = {typeSize(t.to), typeSize(t.from), 1, 0};
	if (t.rank > 0) row = job.loops[t.rank - 1];
	HR_ROLLED for (u32 k = thread(); k < t.rank; k += threads())
		job.extents[k].set(job.loops[k].n, count * row.n);
	if (thread() > 0) return;
	job.rows = {(u8 *)t.dst, (const u8 *)t.src, row.dst, row.src, t.rank > 0 ? t.rank - 1u : 0u, (u32)count,
	    row.n, places};
}

HR_FN void assembleTile(const Job &job) {
	const Tile &t = job.tile;
	const Rows &rows = job.rows;
	u32 in = typeSize(t.from), out = typeSize(t.to);
	bool packed = rows.dstStep == (i64)out && (rows.places & (out - 1)) == 0;
	if (t.flags & FILL) {
		if (packed) fillRows(job);
		else generalRows(job);
		return;
	}
	if (packed && rows.srcStep == (i64)in) {
		if (identical(t.from, t.to, t.flags & AFFINE)) {
			copyRows(job);
			return;
		}
		if (convertFast(job)) return;
	}
	generalRows(job);
}

// sound reports whether a tile is one that the host may ask for.
HR_FN bool sound(const Tile &t) {
	if (t.rank > MAX_RANK) return false;
	if (t.flags & FILL) return t.to >= BOOL && t.to < TYPES;
	return convertible(t.from, t.to, t.flags & AFFINE);
}

} // namespace hr

HR_KERNEL(hr::ASSEMBLE_BLOCK, 3) hr_assemble(hr::AssembleParams p) {
	using namespace hr;
	HR_SHARED Job job;
	const Tile *tiles = (const Tile *)p.tiles;
	for (u32 i = block(); i < p.n; i += blocks()) {
		const Tile &t = tiles[i];
		bool skip = !sound(t) || (t.chunk != NO_CHUNK && ((const u32 *)p.status)[t.chunk] != OK);
		if (skip) continue;
		syncBlock(); // the last job is read
		if (thread() == 0) job.tile = t;
		for (u32 k = thread(); k < t.rank; k += threads())
			job.loops[k] = ((const Loop *)p.loops)[t.loops + k];
		syncBlock();
		sumUp(job);
		syncBlock();
		assembleTile(job);
	}
}
