// The inverses of byte shuffle and bit shuffle. Each function is the part of worker id of count,
// which all call it. Buffers do not overlap. The rules are those of blosc 1 and of package codec.
#pragma once
#include "bytes.h"

namespace hr {

// transpose4 turns four words of four bytes: byte j of word i becomes byte i of
// word j.
HR_FN void transpose4(u32 &a, u32 &b, u32 &c, u32 &d) {
	u32 ab0 = permute(a, b, 0x5140), ab2 = permute(a, b, 0x7362);
	u32 cd0 = permute(c, d, 0x5140), cd2 = permute(c, d, 0x7362);
	a = permute(ab0, cd0, 0x5410);
	b = permute(ab0, cd0, 0x7632);
	c = permute(ab2, cd2, 0x5410);
	d = permute(ab2, cd2, 0x7632);
}

// transposeBits transposes a matrix of 8 by 8 bits; rows 0 to 3 are the bytes of
// lo.
HR_FN void transposeBits(u32 &lo, u32 &hi) {
	u32 t = (lo ^ lo >> 7) & 0x00aa00aa;
	lo ^= t ^ t << 7;
	t = (hi ^ hi >> 7) & 0x00aa00aa;
	hi ^= t ^ t << 7;
	t = (lo ^ lo >> 14) & 0x0000cccc;
	lo ^= t ^ t << 14;
	t = (hi ^ hi >> 14) & 0x0000cccc;
	hi ^= t ^ t << 14;
	t = (lo ^ hi << 4) & 0xf0f0f0f0;
	lo ^= t;
	hi ^= t >> 4;
}

// unshufflePlain is the part of unshuffle behind element first, byte by byte.
HR_FAR void unshufflePlain(u8 *dst, const u8 *src, u32 n, u32 bytes, u32 typesize, u32 first, u32 id, u32 count) {
	HR_ROLLED for (u32 i = first + id; i < n; i += count) {
		HR_ROLLED for (u32 k = 0; k < typesize; k++) storeByte(dst + (u64)i * typesize + k, loadByte(src + (u64)k * n + i));
	}
	HR_ROLLED for (u32 i = n * typesize + id; i < bytes; i += count) storeByte(dst + i, loadByte(src + i));
}

// unshuffle2 and its like do whole groups of elements, and return the number of
// elements done. dst is aligned to 16. A thread loads two groups before it waits.
HR_FAR u32 unshuffle2(u8 *dst, const u8 *src, u32 n, u32 id, u32 count) {
	u32 groups = n / 8;
	HR_ROLLED for (u32 g = id; g < groups; g += 2 * count) {
		u32 at[2] = {g, least(g + count, groups - 1)};
		Run<2> a[2], b[2];
		HR_UNROLL for (int k = 0; k < 2; k++) {
			a[k].load(src + 8 * at[k]);
			b[k].load(src + n + 8 * at[k]);
		}
		HR_UNROLL for (u32 k = 0; k < 2; k++) {
			u32 w[4] = {
			    permute(a[k].word(0), b[k].word(0), 0x5140), permute(a[k].word(0), b[k].word(0), 0x7362),
			    permute(a[k].word(1), b[k].word(1), 0x5140), permute(a[k].word(1), b[k].word(1), 0x7362)};
			if (g + k * count < groups) storeVector(dst + 16 * (u64)at[k], w);
		}
	}
	return 8 * groups;
}

HR_FAR u32 unshuffle4(u8 *dst, const u8 *src, u32 n, u32 id, u32 count) {
	u32 groups = n / 4;
	HR_ROLLED for (u32 g = id; g < groups; g += 2 * count) {
		u32 at[2] = {g, least(g + count, groups - 1)};
		Run<1> run[8];
		HR_UNROLL for (int k = 0; k < 8; k++) run[k].load(src + (u64)(k % 4) * n + 4 * at[k / 4]);
		HR_UNROLL for (u32 k = 0; k < 2; k++) {
			u32 w[4] = {run[4 * k].word(0), run[4 * k + 1].word(0), run[4 * k + 2].word(0), run[4 * k + 3].word(0)};
			transpose4(w[0], w[1], w[2], w[3]);
			if (g + k * count < groups) storeVector(dst + 16 * (u64)at[k], w);
		}
	}
	return 4 * groups;
}

HR_FAR u32 unshuffle8(u8 *dst, const u8 *src, u32 n, u32 id, u32 count) {
	u32 groups = n / 4;
	HR_ROLLED for (u32 g = id; g < groups; g += count) {
		Run<1> run[8];
		HR_UNROLL for (int k = 0; k < 8; k++) run[k].load(src + (u64)k * n + 4 * g);
		u32 a[4] = {run[0].word(0), run[1].word(0), run[2].word(0), run[3].word(0)};
		u32 b[4] = {run[4].word(0), run[5].word(0), run[6].word(0), run[7].word(0)};
		transpose4(a[0], a[1], a[2], a[3]);
		transpose4(b[0], b[1], b[2], b[3]);
		u32 w[8] = {a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
		storeVector(dst + 32 * (u64)g, w);
		storeVector(dst + 32 * (u64)g + 16, w + 4);
	}
	return 4 * groups;
}

HR_FAR void unshuffle(u8 *dst, const u8 *src, u32 bytes, u32 typesize, u32 id, u32 count) {
	if (typesize < 2) {
		copyBytes(dst, src, bytes, id, count);
		return;
	}
	u32 n = bytes / typesize, done = 0;
	if (aligned(dst, 16)) {
		if (typesize == 2) done = unshuffle2(dst, src, n, id, count);
		if (typesize == 4) done = unshuffle4(dst, src, n, id, count);
		if (typesize == 8) done = unshuffle8(dst, src, n, id, count);
	}
	unshufflePlain(dst, src, n, bytes, typesize, done, id, count);
}

// bitUnshufflePlain is the part of bitUnshuffle behind element first, which is a
// multiple of 8, eight elements at a time.
HR_FAR void bitUnshufflePlain(u8 *dst, const u8 *src, u32 n, u32 bytes, u32 typesize, u32 first, u32 id, u32 count) {
	u32 row = n / 8;
	HR_ROLLED for (u32 g = first / 8 + id; g < row; g += count) {
		HR_ROLLED for (u32 k = 0; k < typesize; k++) {
			const u8 *plane = src + (u64)k * n + g;
			u32 lo = 0, hi = 0;
			HR_UNROLL for (int b = 0; b < 4; b++) lo |= loadByte(plane + (u64)b * row) << 8 * b;
			HR_UNROLL for (int b = 0; b < 4; b++) hi |= loadByte(plane + (u64)(b + 4) * row) << 8 * b;
			transposeBits(lo, hi);
			u8 *to = dst + (u64)g * 8 * typesize + k;
			HR_UNROLL for (int i = 0; i < 4; i++) storeByte(to + (u64)i * typesize, lo >> 8 * i);
			HR_UNROLL for (int i = 0; i < 4; i++) storeByte(to + (u64)(i + 4) * typesize, hi >> 8 * i);
		}
	}
	HR_ROLLED for (u32 i = n * typesize + id; i < bytes; i += count) storeByte(dst + i, loadByte(src + i));
}

// Octets is one byte of each of 32 elements: word 2q of them holds the byte of
// elements 8q to 8q+3.
struct Octets {
	u32 w[8];

	HR_FN void load(const u8 *planes, u32 row) {
		Run<1> run[8];
		HR_UNROLL for (int b = 0; b < 8; b++) run[b].load(planes + (u64)b * row);
		u32 lo[4] = {run[0].word(0), run[1].word(0), run[2].word(0), run[3].word(0)};
		u32 hi[4] = {run[4].word(0), run[5].word(0), run[6].word(0), run[7].word(0)};
		transpose4(lo[0], lo[1], lo[2], lo[3]);
		transpose4(hi[0], hi[1], hi[2], hi[3]);
		HR_UNROLL for (int q = 0; q < 4; q++) {
			transposeBits(lo[q], hi[q]);
			w[2 * q] = lo[q];
			w[2 * q + 1] = hi[q];
		}
	}
};

HR_FAR void bitUnshuffle1(u8 *dst, const u8 *src, u32 row, u32 g) {
	Octets o;
	o.load(src + 4 * (u64)g, row);
	storeVector(dst + 32 * (u64)g, o.w);
	storeVector(dst + 32 * (u64)g + 16, o.w + 4);
}

HR_FAR void bitUnshuffle2(u8 *dst, const u8 *src, u32 row, u32 g) {
	Octets a, b;
	a.load(src + 4 * (u64)g, row);
	b.load(src + 8 * (u64)row + 4 * (u64)g, row);
	HR_UNROLL for (int q = 0; q < 4; q++) {
		u32 w[4];
		HR_UNROLL for (int h = 0; h < 2; h++) {
			w[2 * h] = permute(a.w[2 * q + h], b.w[2 * q + h], 0x5140);
			w[2 * h + 1] = permute(a.w[2 * q + h], b.w[2 * q + h], 0x7362);
		}
		storeVector(dst + 64 * (u64)g + 16 * q, w);
	}
}

// bitUnshuffle4 does bytes k to k+3 of elements of typesize 4 or 8.
HR_FAR void bitUnshuffle4(u8 *dst, const u8 *src, u32 row, u32 g, u32 k, u32 typesize) {
	Octets o[4];
	HR_UNROLL for (u32 j = 0; j < 4; j++) o[j].load(src + (u64)(k + j) * 8 * row + 4 * (u64)g, row);
	u8 *to = dst + (u64)g * 32 * typesize + k;
	HR_UNROLL for (int i = 0; i < 8; i++) {
		u32 w[4] = {o[0].w[i], o[1].w[i], o[2].w[i], o[3].w[i]};
		transpose4(w[0], w[1], w[2], w[3]);
		if (typesize == 4) storeVector(to + 16 * i, w);
		else HR_UNROLL for (int e = 0; e < 4; e++) storeWord(to + 32 * i + 8 * e, w[e]);
	}
}

// bitUnshuffle wants a number of whole elements that is a multiple of 8.
HR_FAR void bitUnshuffle(u8 *dst, const u8 *src, u32 bytes, u32 typesize, u32 id, u32 count) {
	u32 n = bytes / typesize, row = n / 8, groups = 0;
	if (aligned(dst, 16) && (typesize == 1 || typesize == 2 || typesize == 4 || typesize == 8)) groups = n / 32;
	HR_ROLLED for (u32 g = id; g < groups; g += count) {
		if (typesize == 1) bitUnshuffle1(dst, src, row, g);
		else if (typesize == 2) bitUnshuffle2(dst, src, row, g);
		else HR_ROLLED for (u32 k = 0; k < typesize; k += 4) bitUnshuffle4(dst, src, row, g, k, typesize);
	}
	bitUnshufflePlain(dst, src, n, bytes, typesize, 32 * groups, id, count);
}

} // namespace hr
