// LZ4 blocks, a warp each.
//
// A block is a run of sequences: a token (literal count in the high four bits,
// match length - 4 in the low four, 15 continued by bytes up to one below 255),
// the literals, and the distance of the match in 2 bytes. The last sequence ends
// with its literals. What is refused here is what package codec refuses.
//
// All lanes parse, each the same: the next bytes of the block lie in the lanes'
// registers and are passed round by shuffles, so that the walk from token to token
// waits for no memory. A usual sequence, literals and match, has no more bytes than
// a warp has lanes: one load and one store. The load is not waited for before the
// next sequence has been parsed.
#pragma once
#include "bytes.h"

namespace hr {

#if defined(HR_GPU) || defined(HR_FIBERS)

// Window holds three times 128 bytes of a block, a word a lane. The last of them
// is on its way while the first is read. Positions count from the word in which
// the block begins.
struct Window {
	const u8 *words;
	u32 first, end;             // positions of the block
	u32 base;                   // position of the bytes in now
	u32 now, later, last, next; // next: the word behind now, in the next lane

	HR_FN Window(const u8 *src, u32 n) {
		first = (u32)(u64)src & 3;
		words = src - first;
		end = first + n;
		now = later = last = next = 0;
		jump(0);
	}

	// jump is for going far: the next fetch fills the window anew.
	HR_FN void jump(u32 position) { base = (position & ~127u) - 384; }

	HR_FN u32 load(u32 position) const {
		if (position >= first && position + 4 <= end) return loadWord(words + position);
		u32 w = 0; // a word that is not all ours, byte by byte
		HR_ROLLED for (u32 i = 0; i < 4; i++) {
			if (position + i >= first && position + i < end) w |= loadByte(words + position + i) << 8 * i;
		}
		return w;
	}

	HR_FN void slide() {
		base += 128;
		now = later;
		later = last;
		last = load(base + 256 + 4 * lane());
		u32 passed = lane() == 0 ? later : now;
		next = shuffle(passed, (lane() + 1) & 31);
	}

	// fetch is the four bytes at a position that is not before the last one.
	// Bytes behind the block are 0.
	HR_FN u32 fetch(u32 position) {
		HR_ROLLED while (position - base >= 128) slide();
		u32 ahead = position - base;
		u32 lo = shuffle(now, ahead >> 2), hi = shuffle(next, ahead >> 2);
		return funnel(lo, hi, 8 * (ahead & 3));
	}
};

#else

struct Window {
	const u8 *words;
	u32 first, end;
	Window(const u8 *src, u32 n) : words(src), first(0), end(n) {}
	void jump(u32) {}
	u32 fetch(u32 position) const {
		u32 w = 0;
		if (position + 4 <= end) return loadWord(words + position);
		for (u32 i = 0; i < 4 && position + i < end; i++) w |= loadByte(words + position + i) << 8 * i;
		return w;
	}
};

#endif

// lengthen adds the bytes that continue a length. It is false if the block ends
// among them or the length exceeds limit, which is below 2^32 - 1020.
HR_FN bool lengthen(Window &in, u32 &at, u32 &length, u32 limit) {
	for (;;) {
		u32 w = in.fetch(at);
		if (w == 0xffffffff && in.end - at >= 4) {
			at += 4;
			length += 1020;
		} else {
			if (at >= in.end) return false;
			at++;
			length += w & 255;
			if ((w & 255) < 255) return length <= limit;
		}
		if (length > limit) return false;
	}
}

// quotient is a / b for numbers so small that the quotient plus a half b-th is
// further from a whole number than the error: a below 2^11, b below 2^9.
HR_FN u32 quotient(u32 a, u32 b) { return (u32)(((float)a + 0.5f) * reciprocal((float)b)); }

// repeatCopy copies the n bytes behind the distance bytes at from, which repeat.
// Four loads of a lane are on their way at once.
HR_FN void repeatCopy(u8 *dst, const u8 *from, u32 distance, u32 n) {
	u32 step = LANES, at = lane();
	if (distance < LANES) {
		step -= distance * quotient(LANES, distance);
		at -= distance * quotient(at, distance);
	}
	HR_ROLLED for (u32 i = lane(); i < n; i += 4 * LANES) {
		u32 v[4];
		HR_UNROLL for (u32 k = 0; k < 4; k++) {
			if (at >= distance) at -= distance;
			if (i + k * LANES < n) v[k] = loadByte(from + at);
			at += step;
		}
		HR_UNROLL for (u32 k = 0; k < 4; k++) {
			if (i + k * LANES < n) storeByte(dst + i + k * LANES, v[k]);
		}
	}
}

// stepCopy copies n bytes in steps of a warp's vectors. What one step reads, an
// earlier one may have written: a copy within a buffer goes at least STEP bytes.
enum { STEP = 16 * LANES };

HR_FN void stepCopy(u8 *dst, const u8 *from, u32 n) {
	u32 at = n < 2 * STEP ? 0 : (u32)headTo16(dst, n);
	repeatCopy(dst, from, at, at); // no more than once round
	HR_ROLLED for (; n >= 2 * STEP && n - at >= STEP; at += STEP) {
		syncWarp();
		Run<4> run;
		run.load(from + at + 16 * lane());
		u32 w[4] = {run.word(0), run.word(1), run.word(2), run.word(3)};
		storeVector(dst + at + 16 * lane(), w);
	}
	syncWarp();
	repeatCopy(dst + at, from + at, n - at, n - at);
}

// longMatch copies a match of any length. Every byte of a match is
// one of the distance bytes before it, so that no lane waits for another; and what
// repeats after distance bytes repeats after any multiple of them, so that once
// there is enough of it, the rest goes in vectors.
HR_FN void longMatch(u8 *dst, u32 distance, u32 n) {
	u32 far = distance, bytes = n;
	if (n >= 4 * STEP) {
		if (distance < STEP) far = distance * quotient(STEP + distance - 1, distance);
		bytes = far - distance;
	}
	repeatCopy(dst, dst - distance, distance, bytes);
	if (bytes == n) return;
	syncWarp();
	stepCopy(dst + bytes, dst + bytes - far, n - bytes);
}

// Sequence is one of at most a warp's bytes, a byte a lane, loaded but not stored:
// that waits until the next one has been parsed.
struct Sequence {
	u32 byte, n;
	u8 *dst;

	HR_FN void store() {
		if (lane() < n) storeByte(dst + lane(), byte);
		n = 0;
	}
};

// sourceOf is where lane i finds its byte of a sequence, counted from the first
// literal: there if it is not negative, else in what has been decoded. A match that
// reaches into the sequence's own literals takes them from the block, and one that
// reaches into itself starts over, so that no lane waits for another.
HR_FN i32 sourceOf(u32 i, u32 literals, u32 distance, u32 length) {
	u32 from = i - distance;
	if (distance < length) from -= distance * quotient(i < literals ? 0 : i - literals, distance);
	return (i32)(i < literals ? i : from);
}

// decodeLZ4 decodes a block that must fill dst. All lanes of a warp call it, and
// get the same answer. Lengths are at most 2^31.
HR_FN bool decodeLZ4(u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	if (srcBytes == 0) return false;
	Window in(src, srcBytes);
	u32 at = in.first, out = 0;
	Sequence last = {0, 0, dst};
	u32 token = in.fetch(at) & 255;
	at++;
	for (;;) {
		u32 literals = token >> 4, length = token & 15;
		// The usual sequence: its lengths are in the token, and neither end is near.
		if (LANES == 32 && literals < 15 && length < 15 && in.end - at >= 32 && dstBytes - out >= 32) {
			u32 w = in.fetch(at + literals);
			u32 distance = w & 0xffff;
			if (distance - 1 >= out + literals) return false;
			length += 4;
			i32 from = sourceOf(lane(), literals, distance, length);
			last.store();
			syncWarp(); // what lanes have stored, others read
			last.n = literals + length;
			last.dst = dst + out;
			const u8 *base = from < 0 ? last.dst : in.words + at;
			if (lane() < last.n) last.byte = loadByte(base + from);
			out += last.n;
			at += literals + 3;
			token = w >> 16 & 255;
			continue;
		}

		last.store();
		if (literals == 15 && !lengthen(in, at, literals, dstBytes)) return false;
		if (literals > in.end - at || literals > dstBytes - out) return false;
		stepCopy(dst + out, in.words + at, literals);
		out += literals;
		at += literals;
		if (at == in.end) return length == 0 && out == dstBytes;

		if (in.end - at < 2) return false;
		if (literals > 512) in.jump(at);
		u32 distance = in.fetch(at) & 0xffff;
		at += 2;
		if (length == 15 && !lengthen(in, at, length, dstBytes)) return false;
		length += 4;
		if (distance - 1 >= out || length > dstBytes - out) return false;
		syncWarp();
		longMatch(dst + out, distance, length);
		out += length;
		if (at == in.end) return out == dstBytes;
		token = in.fetch(at) & 255;
		at++;
	}
}

} // namespace hr
