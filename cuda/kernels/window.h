// The part of an LZ4 block that a warp is decoding, in shared memory, with tables
// that tell where tokens are.
#pragma once
#include "bytes.h"

namespace hr {

enum { WINDOW_SIZE = 1024 };

// WindowBytes are the shared memory of a Window. next says, for each byte of it, where the
// next token is if that byte is one, fourth where the fourth is: twice the place, which
// is where a table has it.
struct alignas(16) WindowBytes {
	u8 bytes[WINDOW_SIZE];
	u16 next[WINDOW_SIZE + 4], fourth[WINDOW_SIZE + 4];
};

// Window holds SIZE bytes of a block from base on. Positions count from the multiple
// of 16 at or before the block.
struct Window {
	enum {
		SIZE = WINDOW_SIZE,
		RESERVE = 256,   // left of a window when the next one is loaded
		STEP = 4 * LANES, // bytes that a warp looks at, a word a lane
		FEW = 3, PATIENCE = 16,
	};
	static constexpr u32 NONE = SIZE; // no token, or none that is known here
	static_assert(SIZE % 128 == 0 && SIZE <= 1024, "a lane marks each of its bytes in one word");

	u8 *bytes;
	u16 *next, *fourth;
	const u8 *words;
	u32 first, end; // positions of the block
	u32 base;
	u32 missed;   // sequences since the last fill that were not for a batch
	u32 patience; // windows for which lengths that go on are still looked at

	HR_FN Window(WindowBytes &shared, const u8 *src, u32 n) {
		bytes = shared.bytes;
		next = shared.next;
		fourth = shared.fourth;
		first = (u32)(u64)src & 15;
		words = src - first;
		end = first + n;
		base = first - SIZE;
		missed = FEW;
		patience = 0;
	}

	// fetch is the four bytes at a position, from memory. Bytes behind the block are 0.
	HR_FN u32 fetch(u32 position) const {
		if (position < end && end - position >= 4) {
			Run<1> run;
			run.load(words + position);
			return run.word(0);
		}
		u32 w = 0;
		HR_ROLLED for (u32 i = 0; i < 4 && position + i < end; i++) w |= loadByte(words + position + i) << 8 * i;
		return w;
	}

	// load is 16 bytes at a multiple of 16; those that are not of the block are 0.
	HR_FN Vector load(u32 position) const {
		Vector v = {{0, 0, 0, 0}};
		if (position >= first && position < end && end - position >= 16) {
			loadVector(v.w, words + position);
			return v;
		}
		HR_UNROLL for (u32 i = 0; i < 16; i++) {
			if (position + i >= first && position + i < end) v.w[i / 4] |= loadByte(words + position + i) << 8 * (i & 3);
		}
		return v;
	}

	// ends reports whether few bytes of the window are left behind a position, which is not
	// before the last one.
	HR_FN bool ends(u32 position) const { return position - base > SIZE - RESERVE; }

	// fill moves the window.
	HR_FN void fill(u32 position) {
		base = position & ~15u;
		syncWarp(); // the last window is read
		HR_UNROLL for (u32 i = 0; i < SIZE; i += 16 * LANES) {
			u32 at = i + 16 * lane();
			if (at < SIZE) putVector(bytes + at, load(base + at));
		}
		u32 ahead = base + SIZE + 128 * lane(); // a line of the cache each
		if (lane() < SIZE / 128 && ahead < end) prefetch(words + ahead);
		patience = missed >= FEW ? (u32)PATIENCE : most(patience, 1u) - 1;
		missed = 0;
		syncWarp();
		chain();
		syncWarp();
		chainByFour();
		syncWarp();
	}

	// chain fills next: usual tokens first, four at a time, then those with
	// lengths that go on, a lane those of its own bytes. Where there are few
	// of these it is not worth the time: most bytes are no tokens.
	HR_FN void chain() {
		u32 limit = least<u32>(SIZE, end - base), unusual = 0;
		HR_UNROLL for (u32 j = 0; j < SIZE / STEP; j++) {
			u32 q = j * STEP + 4 * lane();
			u32 w = getWord(bytes + q);
			Quad quad;
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				u32 to = q + k + 3 + (w >> (8 * k + 4) & 15);
				quad.e[k] = (u16)(2 * (to < limit ? to : NONE));
			}
			u32 full = w & w >> 1;
			full = full & full >> 2 & 0x11111111; // a bit for each nibble of 15
			full = (full | full >> 4) & 0x01010101;
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (full >> 8 * k & 1) quad.e[k] = 2 * NONE;
			}
			putQuad(next + q, quad);
			unusual |= (full * 0x10204080 >> 28) << 4 * j;
		}
		if (patience == 0) unusual = 0;
		HR_ROLLED for (; unusual; unusual &= unusual - 1) {
			u32 k = lowest(unusual);
			u32 q = k / 4 * STEP + 4 * lane() + k % 4;
			next[q] = (u16)(2 * behind(q, limit));
		}
		if (lane() == 0) next[NONE] = fourth[NONE] = 2 * NONE;
	}

	// behind is the position behind a sequence, if one byte at most continues each of its
	// lengths.
	HR_FN u32 behind(u32 q, u32 limit) const {
		u32 token = bytes[q], literals = token >> 4, at = q + 1;
		if (literals == 15) {
			u32 more = at < limit ? bytes[at] : 255u;
			if (more == 255) return NONE;
			literals += more;
			at++;
		}
		at += literals + 2;
		if ((token & 15) == 15) {
			if (at >= limit || bytes[at] == 255) return NONE;
			at++;
		}
		return at < limit ? at : NONE;
	}

	// chainByFour fills fourth, by way of the second.
	HR_FN void chainByFour() {
		Quad quads[SIZE / STEP];
		HR_UNROLL for (u32 j = 0; j < SIZE / STEP; j++) {
			u32 q = j * STEP + 4 * lane();
			putQuad(fourth + q, follow(next, getQuad(next + q)));
		}
		syncWarp();
		HR_UNROLL for (u32 j = 0; j < SIZE / STEP; j++) quads[j] = follow(fourth, getQuad(fourth + j * STEP + 4 * lane()));
		syncWarp();
		HR_UNROLL for (u32 j = 0; j < SIZE / STEP; j++) putQuad(fourth + j * STEP + 4 * lane(), quads[j]);
	}

	static HR_FN u32 entry(const u16 *table, u32 twice) { return *(const u16 *)((const u8 *)table + twice); }

	static HR_FN Quad follow(const u16 *table, Quad from) {
		Quad to;
		HR_UNROLL for (u32 k = 0; k < 4; k++) to.e[k] = (u16)entry(table, from.e[k]);
		return to;
	}

	// token is the place of a lane's token, if q is the first one.
	HR_FN u32 token(u32 q) const {
		q *= 2;
		HR_UNROLL for (u32 i = 0; i < LANES / 4 - (LANES > 1); i++) {
			if (lane() / 4 > i) q = entry(fourth, q);
		}
		HR_UNROLL for (u32 i = 0; i < 3; i++) {
			if (lane() % 4 > i) q = entry(next, q);
		}
		return q / 2;
	}

	// behindToken is the place of the token behind one.
	HR_FN u32 behindToken(u32 q) const { return next[q] / 2u; }
};

} // namespace hr
