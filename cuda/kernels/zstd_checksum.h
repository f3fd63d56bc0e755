// XXH64 (seed 0) of what a frame decodes to, whose low half is Content_Checksum (3.1.1).
#pragma once
#include "zstd.h"

namespace hr {
namespace zstd {

struct XXH64 {
	static constexpr u64 P1 = 0x9E3779B185EBCA87, P2 = 0xC2B2AE3D27D4EB4F, P3 = 0x165667B19E3779F9,
	    P4 = 0x85EBCA77C2B2AE63,
	                     P5 = 0x27D4EB2F165667C5;

	static HR_FN u64 rotate(u64 v, u32 n) { return v << n | v >> (64 - n); }
	static HR_FN u64 round(u64 sum, u64 word) { return rotate(sum + word * P2, 31) * P1; }

	static HR_FN u64 word(const u8 *p) {
		Run<2> run;
		run.load(p);
		return run.word(0) | (u64)run.word(1) << 32;
	}

	// exactly is the same, and reads no byte beside: those behind the output may have been written by nobody.
	static HR_FN u64 exactly(const u8 *p) { return readU32(p) | (u64)readU32(p + 4) << 32; }

	// stripes sums up every fourth word of n stripes of 32 bytes, one at least, from the one at p on.
	static HR_FN u64 stripes(u64 sum, const u8 *p, u32 n) {
		enum { AHEAD = 4 };
		HR_ROLLED for (; n > AHEAD; n -= AHEAD) {
			u64 words[AHEAD];
			HR_UNROLL for (u32 i = 0; i < AHEAD; i++) words[i] = word(p + 32 * i);
			HR_UNROLL for (u32 i = 0; i < AHEAD; i++) sum = round(sum, words[i]);
			p += 32 * AHEAD;
		}
		HR_ROLLED for (; n > 1; n--, p += 32) sum = round(sum, word(p));
		return round(sum, exactly(p));
	}

	static HR_FN u64 seed(u32 k) { return k == 0 ? P1 + P2 : k == 1 ? P2 : k == 2 ? 0 : 0 - P1; }

	static HR_FN u64 shuffle64(u64 v, u32 from) {
		return shuffle((u32)v, from) | (u64)shuffle((u32)(v >> 32), from) << 32;
	}

	// sums are those of four lanes, or of one that does the work of all.
	static HR_FN void fourSums(u64 *sums, const u8 *p, u32 n) {
		if (LANES < 4) {
			for (u32 k = 0; k < 4; k++) sums[k] = stripes(seed(k), p + 8 * k, n);
			return;
		}
		u32 k = lane() % 4;
		u64 mine = lane() < 4 ? stripes(seed(k), p + 8 * k, n) : 0;
		HR_UNROLL for (u32 i = 0; i < 4; i++) sums[i] = shuffle64(mine, i);
	}

	static HR_FN u64 merge(const u64 *sums) {
		u64 h = rotate(sums[0], 1) + rotate(sums[1], 7) + rotate(sums[2], 12) + rotate(sums[3], 18);
		HR_UNROLL for (u32 i = 0; i < 4; i++) h = (h ^ round(0, sums[i])) * P1 + P4;
		return h;
	}

	// tail adds what is left of less than 32 bytes, and mixes.
	static HR_FN u64 tail(u64 h, const u8 *p, u32 n) {
		HR_ROLLED for (; n >= 8; n -= 8, p += 8) h = rotate(h ^ round(0, exactly(p)), 27) * P1 + P4;
		if (n >= 4) {
			h = rotate(h ^ readU32(p) * P1, 23) * P2 + P3;
			n -= 4;
			p += 4;
		}
		HR_ROLLED for (; n > 0; n--) h = rotate(h ^ loadByte(p++) * P5, 11) * P1;
		h = (h ^ h >> 33) * P2;
		h = (h ^ h >> 29) * P3;
		return h ^ h >> 32;
	}

	// of is the hash of n bytes. All lanes of a warp call it and get it.
	static HR_FN u64 of(const u8 *p, u32 n) {
		u64 h = P5;
		if (n >= 32) {
			u64 sums[4];
			fourSums(sums, p, n / 32);
			h = merge(sums);
		}
		return tail(h + n, p + n / 32 * 32, n % 32);
	}
};

} // namespace zstd
} // namespace hr
