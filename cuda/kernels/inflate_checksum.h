// Adler-32 (RFC 1950) and CRC-32 (RFC 1952) of what is in memory, by a warp.
#pragma once
#include "bytes.h"
#include "polynomial.h"

namespace hr {
namespace inflate {

HR_FN u32 sumAll(u32 v) {
	HR_UNROLL for (u32 d = 1; d < LANES; d *= 2) v += shuffle(v, lane() ^ d);
	return v;
}

// adler32 is that of n bytes. All lanes of a warp call it and get it.
HR_FN u32 adler32(const u8 *p, u32 n) {
	enum : u32 { BASE = 65521 };
	u32 head = (u32)headTo16(p, n), vectors = (n - head) / 16;
	u64 sum = 0, weighted = 0; // of the bytes, and of each times how many come from it on
	HR_ROLLED for (u32 i = lane(); i < n - 16 * vectors; i += LANES) {
		u32 at = i < head ? i : i + 16 * vectors, v = loadByte(p + at);
		sum += v;
		weighted += (u64)v * (n - at);
	}
	HR_ROLLED for (u32 i = lane(); i < vectors; i += LANES) {
		u32 w[4], bytes = 0, own = 0;
		loadVector(w, p + head + 16 * i);
		HR_UNROLL for (u32 k = 0; k < 4; k++) {
			bytes = dot(w[k], 0x01010101, bytes);
			own = dot(w[k], 0x0d0e0f10 - 0x04040404 * k, own);
		}
		sum += bytes;
		weighted += own + bytes * ((n - head - 16 * i - 16) % BASE);
	}
	u32 a = sumAll((u32)(sum % BASE)), b = sumAll((u32)(weighted % BASE));
	return (b + n % BASE) % BASE << 16 | (a + 1) % BASE;
}

struct CRC32 {
	typedef Polynomial<0xedb88320> P;

	typedef u32 Tables[4][256]; // what a byte becomes by 8, 16, 24, 32 bits more

	static HR_FN void fill(Tables &t) {
		HR_ROLLED for (u32 i = lane(); i < 256; i += LANES) {
			u32 v = i;
			HR_UNROLL for (u32 k = 0; k < 8; k++) v = P::timesX(v);
			t[0][i] = v;
		}
		syncWarp();
		HR_UNROLL for (u32 k = 1; k < 4; k++) {
			HR_ROLLED for (u32 i = lane(); i < 256; i += LANES)
				t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 255];
		}
		syncWarp();
	}

	static HR_FN u32 word(const Tables &t, u32 v) {
		return t[3][v & 255] ^ t[2][v >> 8 & 255] ^ t[1][v >> 16 & 255] ^ t[0][v >> 24];
	}

	// bytes goes on by n bytes. A run at any place reads up to three bytes behind it, which have been written only if they are
	// of the n.
	static HR_FN u32 bytes(const Tables &t, u32 sum, const u8 *p, u32 n) {
		HR_ROLLED for (; n >= 64 + 3; n -= 64, p += 64) {
			Run<4> run[4];
			HR_UNROLL for (u32 k = 0; k < 4; k++) run[k].load(p + 16 * k);
			HR_UNROLL for (u32 k = 0; k < 16; k++) sum = word(t, sum ^ run[k / 4].word(k % 4));
		}
		HR_ROLLED for (; n >= 16 + 3; n -= 16, p += 16) {
			Run<4> run;
			run.load(p);
			HR_UNROLL for (u32 k = 0; k < 4; k++) sum = word(t, sum ^ run.word(k));
		}
		HR_ROLLED for (; n > 0; n--) sum = sum >> 8 ^ t[0][(sum ^ loadByte(p++)) & 255];
		return sum;
	}

	// of is the checksum of n bytes. All lanes of a warp call it and get it.
	static HR_FN u32 of(Tables &t, const u8 *p, u32 n) {
		fill(t);
		u32 each = n / LANES, first = n - (LANES - 1) * each; // of the other lanes, of the first
		u32 sum = lane() == 0 ? bytes(t, 0xffffffff, p, first)
		    : bytes(t, 0, p + first + (lane() - 1) * each, each);
		if (LANES > 1) {
			u32 shift = P::power(P::ONE >> 8, each);
			HR_ROLLED for (u32 d = 1; d < LANES; d *= 2) {
				sum = P::product(sum, shift) ^ shuffle(sum, lane() + d);
				shift = P::product(shift, shift);
			}
		}
		return ~shuffle(sum, 0);
	}
};

} // namespace inflate
} // namespace hr
