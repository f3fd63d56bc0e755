// Tiles: boxes of elements that are copied, converted or filled, a block of
// threads each.
//
// Rows, the innermost loop, are contiguous in dst. Where they are so in src too,
// dst is written in vectors of 16 bytes: a thread finds the places of several
// vectors, loads all of them, then converts and stores. What of a row lies before
// the first multiple of 16 and behind the last is written element by element.
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
	const Loop *loops;
	const Divisor *extents;

	// find gives the offsets of rows: of each r it leaves nothing.
	template <int N> HR_FN void find(u32 (&r)[N], i64 (&dstAt)[N], i64 (&srcAt)[N]) const {
		HR_UNROLL for (int i = 0; i < N; i++) dstAt[i] = srcAt[i] = 0;
		HR_ROLLED for (u32 k = outer; k-- > 0;) {
			const Loop &loop = loops[k];
			const Divisor d = extents[k];
			HR_UNROLL for (int i = 0; i < N; i++) {
				u32 q = k == 0 ? 0 : d.quotient(r[i]);
				u32 step = r[i] - q * d.n;
				dstAt[i] += (i64)step * loop.dst;
				srcAt[i] += (i64)step * loop.src;
				r[i] = q;
			}
		}
	}
};

// Job is a tile as the threads of a block share it.
struct Job {
	Tile tile;
	Rows rows;
	Loop loops[MAX_RANK];
	Divisor extents[MAX_RANK];
};

// The following are operations on a row: IN and OUT are the bytes of an element
// on each side, load and store move a vector of 16 bytes of dst, and one writes
// element e of a row.

template <int TYPE> struct In {
	enum { SIZE = TYPE == U8 ? 1 : TYPE == F32 ? 4 : 2, WHOLE = TYPE == U8 || TYPE == U16 || TYPE == I16 };

	// number is an element as a float, as bits; exact.
	static HR_FN u32 number(u32 w) {
		switch (TYPE) {
		case U8:
		case U16: return bitsOf((float)w);
		case I16: return bitsOf((float)(i16)w);
		case F16: return f16ToF32(w);
		case BF16: return bf16ToF32(w);
		}
		return w;
	}
};

template <int TYPE> struct Out {
	enum { SIZE = TYPE == F32 ? 4 : 2 };

	static HR_FN u32 of(u32 f32) { return TYPE == F32 ? f32 : TYPE == BF16 ? f32ToBF16(f32) : f32ToF16(f32); }
	static HR_FN u32 ofDouble(u64 f64) { return TYPE == F16 ? f64ToF16(f64) : of(f64ToF32(f64)); }

	static HR_FN void store(u8 *p, u32 v) {
		if (TYPE == F32) storeWord(p, v);
		else storeHalf(p, v);
	}
};

template <int FROM, int TO, bool SCALED> struct Conversion {
	enum { IN = In<FROM>::SIZE, OUT = Out<TO>::SIZE, N = 16 / OUT, WORDS = N * IN / 4, AT_ONCE = SCALED ? 2 : 4 };
	typedef Run<WORDS> Raw;

	double scale, offset;
	bool big;

	HR_FN u32 convert(u32 w) const {
		u32 v = In<FROM>::number(w);
		if (!SCALED) return Out<TO>::of(v);
		if (In<FROM>::WHOLE) return Out<TO>::ofDouble(bitsOf(sum(product((double)floatOf(v), scale), offset)));
		return Out<TO>::ofDouble(scaled(f32ToF64(v), scale, offset));
	}

	static HR_FN void load(Raw &raw, const u8 *src) { raw.load(src); }

	HR_FN void store(u8 *dst, const Raw &raw) const {
		u32 w[WORDS], out[4] = {0, 0, 0, 0};
		HR_UNROLL for (int i = 0; i < WORDS; i++) {
			w[i] = raw.word(i);
			if (IN > 1 && big) w[i] = permute(w[i], 0, IN == 2 ? 0x2301 : 0x0123);
		}
		HR_UNROLL for (int i = 0; i < N; i++) {
			u32 v = w[i * IN / 4] >> 8 * (i * IN % 4);
			if (IN < 4) v &= (1u << 8 * (IN % 4)) - 1;
			out[i * OUT / 4] |= convert(v) << 8 * (i * OUT % 4);
		}
		storeVector(dst, out);
	}

	HR_FN void one(u8 *row, const u8 *src, u32 e) const {
		Out<TO>::store(row + (u64)e * OUT, convert((u32)loadBits(src + (u64)e * IN, IN, big)));
	}
};

// Bytes copies bytes, reversing those of each word if word is above 1.
struct Bytes {
	enum { IN = 1, OUT = 1, N = 16, AT_ONCE = 4 };
	typedef Run<4> Raw;

	u32 word;

	static HR_FN void load(Raw &raw, const u8 *src) { raw.load(src); }

	HR_FN void store(u8 *dst, const Raw &raw) const {
		u32 w[4] = {raw.word(0), raw.word(1), raw.word(2), raw.word(3)};
		if (word > 1) {
			HR_UNROLL for (int i = 0; i < 4; i++) w[i] = permute(w[i], 0, word == 2 ? 0x2301 : 0x0123);
		}
		if (word == 8) {
			u32 out[4] = {w[1], w[0], w[3], w[2]};
			storeVector(dst, out);
		} else {
			storeVector(dst, w);
		}
	}

	HR_FN void one(u8 *row, const u8 *src, u32 e) const { row[e] = src[e ^ (word - 1)]; }
};

// Constant writes a pattern of 16 bytes, whole elements.
struct Constant {
	enum { IN = 0, OUT = 1, N = 16, AT_ONCE = 2 };
	struct Raw {};

	u32 pattern[4];

	static HR_FN void load(Raw &, const u8 *) {}
	HR_FN void store(u8 *dst, const Raw &) const { storeVector(dst, pattern); }
	HR_FN void one(u8 *row, const u8 *, u32 e) const { row[e] = patternByte(pattern, e & 15); }
};

// vectorRows runs an operation on rows whose elements are aligned in dst.
template <class Op> HR_FN void vectorRows(const Rows &rows, const Op &op) {
	const u32 AT_ONCE = Op::AT_ONCE;
	u32 perRow = rows.n / Op::N;
	if (perRow > 0) {
		Divisor d;
		u64 total = (u64)perRow * rows.count;
		d.set(perRow, total);
		HR_ROLLED for (u64 base = thread(); base < total; base += (u64)AT_ONCE * threads()) {
			u32 r[AT_ONCE];
			u32 e[AT_ONCE];
			i64 dstAt[AT_ONCE], srcAt[AT_ONCE];
			HR_UNROLL for (u32 k = 0; k < AT_ONCE; k++) {
				u32 item = (u32)least(base + (u64)k * threads(), total - 1);
				r[k] = d.quotient(item);
				e[k] = (item - r[k] * perRow) * Op::N;
			}
			rows.find(r, dstAt, srcAt);
			typename Op::Raw raw[AT_ONCE];
			bool whole[AT_ONCE];
			HR_UNROLL for (u32 k = 0; k < AT_ONCE; k++) {
				u8 *row = rows.dst + dstAt[k];
				e[k] += (u32)(-(u64)row & 15) / Op::OUT;
				whole[k] = e[k] + Op::N <= rows.n && base + (u64)k * threads() < total;
				if (whole[k]) Op::load(raw[k], rows.src + srcAt[k] + (i64)e[k] * Op::IN);
			}
			HR_UNROLL for (u32 k = 0; k < AT_ONCE; k++) {
				if (whole[k]) op.store(rows.dst + dstAt[k] + (i64)e[k] * Op::OUT, raw[k]);
			}
		}
	}
	// The two ends of each row.
	HR_ROLLED for (u64 i = thread(); i < 2 * (u64)rows.count; i += threads()) {
		u32 r[1] = {(u32)(i / 2)};
		i64 dstAt[1], srcAt[1];
		rows.find(r, dstAt, srcAt);
		u8 *row = rows.dst + dstAt[0];
		u32 head = least((u32)(-(u64)row & 15) / Op::OUT, rows.n);
		u32 first = i % 2 ? head + (rows.n - head) / Op::N * Op::N : 0;
		u32 stop = i % 2 ? rows.n : head;
		HR_ROLLED for (u32 e = first; e < stop; e++) op.one(row, rows.src + srcAt[0], e);
	}
}

template <int FROM, int TO, bool SCALED> HR_FAR void convertRows(const Job &job) {
	Rows rows = job.rows;
	Conversion<FROM, TO, SCALED> op = {job.tile.affine.scale, job.tile.affine.offset, (job.tile.flags & BIG) != 0};
	vectorRows(rows, op);
}

template <int FROM, int TO> HR_FN void convertTo(const Job &job) {
	if (job.tile.flags & AFFINE) convertRows<FROM, TO, true>(job);
	else if (FROM != TO) convertRows<FROM, TO, false>(job); // else they are copied
}

template <int FROM> HR_FN bool convertFrom(const Job &job) {
	switch (job.tile.to) {
	case F32: convertTo<FROM, F32>(job); return true;
	case BF16: convertTo<FROM, BF16>(job); return true;
	case F16: convertTo<FROM, F16>(job); return true;
	}
	return false;
}

// convertFast converts rows of the common pairs; it is false for the others.
HR_FN bool convertFast(const Job &job) {
	switch (job.tile.from) {
	case U8: return convertFrom<U8>(job);
	case U16: return convertFrom<U16>(job);
	case I16: return convertFrom<I16>(job);
	case F16: return convertFrom<F16>(job);
	case BF16: return convertFrom<BF16>(job);
	case F32: return convertFrom<F32>(job);
	}
	return false;
}

// copyRows copies rows of elements that keep their bits.
HR_FAR void copyRows(const Job &job) {
	Rows rows = job.rows;
	Bytes op = {job.tile.flags & BIG ? wordSize(job.tile.from) : 1};
	rows.n *= typeSize(job.tile.from);
	vectorRows(rows, op);
}

HR_FAR void fillRows(const Job &job) {
	Rows rows = job.rows;
	u32 size = typeSize(job.tile.to);
	Constant op;
	HR_UNROLL for (int k = 0; k < 4; k++) {
		u32 w = 0;
		HR_ROLLED for (u32 i = 0; i < 4; i++) w |= (u32)job.tile.element[(4 * k + i) & (size - 1)] << 8 * i;
		op.pattern[k] = w;
	}
	rows.n *= size;
	vectorRows(rows, op);
}

// generalRows does any tile, element by element.
HR_FAR void generalRows(const Job &job) {
	const Tile &t = job.tile;
	Rows rows = job.rows;
	Divisor d;
	u64 total = (u64)rows.n * rows.count;
	d.set(rows.n, total);
	HR_ROLLED for (u64 i = thread(); i < total; i += threads()) {
		u32 r[1] = {d.quotient((u32)i)};
		u32 e = (u32)i - r[0] * rows.n;
		i64 dstAt[1], srcAt[1];
		rows.find(r, dstAt, srcAt);
		u8 *dst = rows.dst + dstAt[0] + (i64)e * rows.dstStep;
		const u8 *src = rows.src + srcAt[0] + (i64)e * rows.srcStep;
		if (t.flags & FILL) {
			HR_ROLLED for (u32 k = 0; k < typeSize(t.to); k++) dst[k] = t.element[k];
		} else {
			convertElement(dst, src, t.from, t.to, t.flags, t.affine.scale, t.affine.offset);
		}
	}
}

// rowsOf sums up a tile and its loops.
HR_FN Rows rowsOf(const Tile &t, const Loop *loops) {
	Rows rows = {(u8 *)t.dst, (const u8 *)t.src, typeSize(t.to), typeSize(t.from), 0, 1, 1, t.dst, loops, nullptr};
	if (t.rank == 0) return rows;
	rows.outer = t.rank - 1u;
	rows.n = loops[rows.outer].n;
	rows.dstStep = loops[rows.outer].dst;
	rows.srcStep = loops[rows.outer].src;
	HR_ROLLED for (u32 k = 0; k < rows.outer; k++) {
		rows.count *= loops[k].n;
		rows.places |= (u64)loops[k].dst;
	}
	return rows;
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

HR_KERNEL(hr::ASSEMBLE_BLOCK, 4) hr_assemble(hr::AssembleParams p) {
	using namespace hr;
	HR_SHARED Job job;
	const Tile *tiles = (const Tile *)p.tiles;
	for (u32 i = block(); i < p.n; i += blocks()) {
		const Tile &t = tiles[i];
		bool skip = !sound(t) || (t.chunk != NO_CHUNK && ((const u32 *)p.status)[t.chunk] != OK);
		if (skip) continue;
		syncBlock(); // the last job is read
		const Loop *loops = (const Loop *)p.loops + t.loops;
		if (thread() == 0) {
			job.tile = t;
			job.rows = rowsOf(t, loops);
			job.rows.loops = job.loops;
			job.rows.extents = job.extents;
		}
		for (u32 k = thread(); k < t.rank; k += threads()) {
			u64 count = 1;
			HR_ROLLED for (u32 j = 0; j < t.rank; j++) count *= loops[j].n;
			job.loops[k] = loops[k];
			job.extents[k].set(loops[k].n, count);
		}
		syncBlock();
		assembleTile(job);
	}
}
