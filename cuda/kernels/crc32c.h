// CRC-32C (Castagnoli) of the encoded bytes of chunks, a block of threads a chunk.
//
// A sum is the remainder of a polynomial: the bits of a chunk, the first byte's lowest the
// highest power. Threads take 16 bytes each in turn, so that their loads are one; what a thread
// has so far is multiplied by the power of x that 16 bytes of all threads stand for, by a
// look-up for each byte, before its next bytes are added. At the end each thread
// multiplies by the power that its distance to the end stands for, and all is added up.
// Zeros before a chunk change nothing, so it ends with the last thread whatever its length is.
#pragma once
#include "abi.h"
#include "bytes.h"
#include "polynomial.h"

namespace hr {
namespace crc32c {

typedef Polynomial<0x82F63B78> P;
enum : u32 { ONE = P::ONE, X = ONE >> 1, ONES = 0xffffffff };
enum : u32 { WORKERS = LANES > 1 ? (u32)CRC32C_BLOCK : 1, ROUND = 16 * WORKERS };

struct Constants {
	u32 powers[WORKERS]; // x^(128 i + 32)
	u32 round[32];       // bit i times x^(8 ROUND)

	HR_FN constexpr Constants() : powers(), round() {
		u32 step = P::power(X, 128), p = P::power(X, 32);
		for (u32 i = 0; i < WORKERS; i++) {
			powers[i] = p;
			p = P::product(p, step);
		}
		for (u32 i = 0; i < 32; i++) round[i] = P::product(1u << i, P::power(X, 8 * ROUND));
	}
};
HR_CONSTANT Constants constants;

// BlockShared is the shared memory of a block of threads.
struct BlockShared {
	u32 round[4][256]; // byte i of a number times x^(8 ROUND)
	u32 sums[WORKERS / LANES];

	HR_FN void fill() {
		HR_ROLLED for (u32 i = thread(); i < 4 * 256; i += threads()) {
			u32 sum = 0;
			HR_UNROLL for (u32 bit = 0; bit < 8; bit++)
				sum ^= (i >> bit & 1 ? constants.round[i / 256 * 8 + bit] : 0);
			round[i / 256][i % 256] = sum;
		}
		syncBlock();
	}

	HR_FN u32 next(u32 v) const {
		return round[0][v & 255] ^ round[1][v >> 8 & 255] ^ round[2][v >> 16 & 255] ^ round[3][v >> 24];
	}

	// add is the sum of all threads' v, which all get.
	HR_FN u32 add(u32 v) {
		HR_UNROLL for (u32 d = 1; d < LANES; d *= 2) v ^= shuffle(v, lane() ^ d);
		if (lane() == 0) sums[warp()] = v;
		syncBlock();
		v = 0;
		HR_UNROLL for (u32 i = 0; i < WORKERS / LANES; i++) v ^= sums[i];
		syncBlock(); // before the next sum
		return v;
	}
};

// Factors are what a thread's four words are multiplied by at the end.
struct Factors {
	u32 of[4];

	HR_FN Factors() {
		of[3] = constants.powers[WORKERS - 1 - thread()];
		HR_UNROLL for (u32 j = 3; j > 0; j--) {
			of[j - 1] = of[j];
			HR_ROLLED for (u32 i = 0; i < 32; i++) of[j - 1] = P::timesX(of[j - 1]);
		}
	}

	// apply is the sum of the products of four words.
	HR_FN u32 apply(const u32 *words) const {
		u32 sum = 0, factor[4];
		HR_UNROLL for (u32 j = 0; j < 4; j++) factor[j] = of[j];
		HR_ROLLED for (u32 i = 0; i < 32; i++) {
			HR_UNROLL for (u32 j = 0; j < 4; j++) {
				sum ^= words[j] << i & ONE ? factor[j] : 0;
				factor[j] = P::timesX(factor[j]);
			}
		}
		return sum;
	}
};

HR_FN constexpr u32 overPower(u32 v, u32 n) {
	for (; n > 0; n--) v = P::overX(v);
	return v;
}

// first is what a thread has of the first round: the bytes behind lead, and what begins a
// sum. That is to invert the first four of these bytes, or to have four before them that come to
// the same; one of both has room in the first round.
HR_FN void first(u32 *w, const u8 *at, u32 lead) {
	u32 mine = 16 * thread(), from = lead > mine ? least(lead - mine, 16u) : 0;
	constexpr u32 before = overPower(ONES, 32);
	u32 start = lead < 4 ? (u32)ONES : before, startAt = lead < 4 ? lead : lead - 4;
	Run<4> run;
	run.loadPart(at, (i32)from, 16);
	HR_UNROLL for (u32 i = 0; i < 4; i++) {
		i32 skip = (i32)lead - (i32)(mine + 4 * i), d = (i32)startAt - (i32)(mine + 4 * i);
		w[i] = skip >= 4 ? 0 : skip > 0 ? run.word(i) & ONES << 8 * skip : run.word(i);
		if (d > -4 && d < 4) w[i] ^= d > 0 ? start << 8 * d : start >> -8 * d;
	}
}

// of is the sum of n bytes. All threads of a block call it and get it.
HR_FN u32 of(BlockShared &shared, const Factors &factors, const u8 *src, u32 n) {
	if (n == 0) return shared.add(0); // which all must call
	u32 rounds = n / ROUND + (n % ROUND != 0), lead = -n % ROUND, sums[4];
	const u8 *at = src - lead + 16 * thread();
	first(sums, at, lead);
	Run<4> next;
	if (rounds > 1) next.load(at + ROUND);
	HR_ROLLED for (u32 i = 1; i < rounds; i++) {
		Run<4> run = next;
		at += ROUND;
		if (i + 1 < rounds) next.load(at + ROUND);
		HR_UNROLL for (u32 j = 0; j < 4; j++) sums[j] = shared.next(sums[j]) ^ run.word(j);
	}
	return ~shared.add(factors.apply(sums));
}

} // namespace crc32c
} // namespace hr

HR_KERNEL(hr::CRC32C_BLOCK, 4) hr_crc32c(hr::DecodeParams p) {
	using namespace hr;
	HR_SHARED crc32c::BlockShared shared;
	crc32c::Factors factors;
	shared.fill();
	HR_ROLLED for (u32 i = block(); i < p.n; i += blocks()) {
		const Chunk &c = ((const Chunk *)p.chunks)[i];
		u32 *status = (u32 *)p.status + c.status;
		if (!(c.flags & SUMMED) || *status != OK) continue;
		const u8 *src = (const u8 *)c.src;
		if (crc32c::of(shared, factors, src, c.srcBytes) == readU32(src + c.srcBytes)) continue;
		zeroBytes((u8 *)c.dst, c.dstBytes, thread(), threads());
		if (thread() == 0) *status = CORRUPT;
	}
	syncBlock(); // the shared memory is another block's next, on a host
}
