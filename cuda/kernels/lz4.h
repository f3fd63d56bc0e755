// LZ4 blocks, a warp each.
//
// A block is a run of sequences: a token (literal count in the high four bits,
// match length - 4 in the low four, 15 continued by bytes up to one below 255),
// the literals, and the distance of the match in 2 bytes. The last sequence ends
// with its literals. What is refused here is what package codec refuses.
//
// Sequences are short, so a warp decodes up to 32 of them at once, one a lane. What is
// serial about that, the walk from token to token, is a walk through tables: for every
// byte of a window of the block, where the next token is if this byte is one, and where
// the fourth is. Then a prefix sum tells each lane where its bytes go; literals
// are copied by all, and matches in rounds: whose source is there, copies.
//
// Output goes through a buffer in shared memory. Most matches are near and read it
// there; it is written to memory in whole vectors, and far matches read that.
#pragma once
#include "recent.h"
#include "window.h"

namespace hr {

typedef RecentBytes<8192, 1024, 512> Recent;

// lengthen adds the bytes that continue a length. It is false if the block ends
// among them or the length exceeds limit, which is below 2^32 - 1020.
HR_FN bool lengthen(const Window &in, u32 &at, u32 &length, u32 limit) {
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

// Sequence is a lane's: where its literals lie in the window, and where they and
// the match go to.
struct Sequence {
	enum { SHORT = 16 }; // what a lane copies alone

	u32 from, literals;
	u32 to, distance, length;
	bool far;    // the match is not in Recent
	Run<2> head; // then it begins so

	HR_FN u32 match() const { return to + literals; }

	HR_FN void copyLiterals(const Recent &out, const Window &in) const {
		u8 *dst = out.here(to);
		const u8 *src = in.bytes + from;
		HR_ROLLED for (u32 i = 0; i < literals; i += 4) {
			u8 v[4] = {0, 0, 0, 0};
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < literals) v[k] = src[i + k];
			}
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < literals) dst[i + k] = v[k];
			}
		}
	}

	// copyNear copies a match that is in Recent, four bytes at a time: what repeats after
	// fewer bytes repeats after a multiple of them.
	HR_FN void copyNear(const Recent &out) const {
		u8 *m = out.here(match());
		const u8 *s = m - distance;
		u8 v[4] = {s[0], s[distance > 1], s[distance > 2 ? 2 : 0], s[distance > 3 ? 3 : distance == 2]};
		HR_UNROLL for (u32 k = 0; k < 4; k++) m[k] = v[k];
		s = m - (distance == 3 ? 6 : most(distance, 4u));
		HR_ROLLED for (u32 i = 4; i < length; i += 4) {
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < length) v[k] = s[i + k];
			}
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < length) m[i + k] = v[k];
			}
		}
	}

	HR_FN void copyFar(const Recent &out) const {
		u8 *m = out.here(match());
		u32 w = head.word(0);
		HR_UNROLL for (u32 k = 0; k < 4; k++) m[k] = (u8)(w >> 8 * k);
		w = head.word(1);
		HR_ROLLED for (u32 i = 4; i < length; i += 4) {
			if (i > 4) {
				Run<1> run;
				run.load(out.base + match() - distance + i);
				w = run.word(0);
			}
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < length) m[i + k] = (u8)(w >> 8 * k);
			}
		}
	}
};

// Batch is what the lanes of a warp decode at once, a sequence each.
struct Batch {
	Sequence mine;
	u32 count; // of the sequences; the lanes above it have none
	u32 total; // bytes of output

	HR_FN bool has() const { return lane() < count; }

	HR_FN void copyLiterals(const Recent &out, const Window &in) const {
		bool longer = has() && mine.literals > Sequence::SHORT;
		if (has() && !longer) mine.copyLiterals(out, in);
		HR_ROLLED for (u32 rest = ballot(longer); rest; rest &= rest - 1) {
			u32 k = lowest(rest);
			u32 n = shuffle(mine.literals, k), from = shuffle(mine.from, k), to = shuffle(mine.to, k);
			HR_ROLLED for (u32 i = lane(); i < n; i += LANES) *out.here(to + i) = in.bytes[from + i];
		}
	}

	// copyLong copies the long matches of some lanes, all lanes one after the other.
	HR_FN void copyLong(const Recent &out, bool now) const {
		HR_ROLLED for (u32 rest = ballot(now && mine.length > Sequence::SHORT); rest; rest &= rest - 1) {
			u32 k = lowest(rest);
			out.copy(shuffle(mine.match(), k), shuffle(mine.distance, k), shuffle(mine.length, k), shuffle(mine.far, k));
		}
	}

	// below is the number of lanes whose v is not above limit, for v that grow from lane to lane,
	// in the last lane beyond the limit.
	static HR_FN u32 below(u32 v, u32 limit) {
		u32 n = 0;
		HR_UNROLL for (u32 step = LANES / 2; step > 0; step /= 2) {
			if (shuffle(v, n + step - 1) <= limit) n += step;
		}
		return n;
	}

	// copyMatches copies first those that need no other match of the batch, and while far ones
	// are on their way, only the near ones of them. What is left goes in rounds:
	// each lane knows the lanes that it must wait for.
	HR_FN void copyMatches(const Recent &out) const {
		u32 m = mine.match(), s = m - mine.distance, end = least(s + mine.length, m); // of the source
		bool alone = mine.length <= Sequence::SHORT;
		u32 edge = shuffle(m, 0); // where the first match begins
		bool near = has() && !mine.far && end <= edge, far = has() && mine.far;
		if (near && alone) mine.copyNear(out);
		if (far && alone) mine.copyFar(out);
		copyLong(out, near || far);
		u32 pending = ballot(has() && !near && !far);
		syncWarp();
		if (pending == 0) return;
		u32 first = below(m + mine.length, s), last = below(m + 1, end);
		u32 needs = ((1u << last) - 1) & ~((1u << first) - 1);
		HR_ROLLED while (pending) {
			bool now = (pending >> lane() & 1) && (pending & needs) == 0;
			if (now && alone) mine.copyNear(out);
			copyLong(out, now);
			pending &= ~ballot(now);
			syncWarp();
		}
	}

	// copy writes the output of the batch. The window is still that of the batch.
	HR_FN void copy(Recent &out, const Window &in) {
		if (count == 0) return;
		copyLiterals(out, in);
		syncWarp();
		copyMatches(out);
		out.wrote(total);
		count = total = 0;
	}
};

// read is the sequence of a lane, whose token is at q: false if it is not for a batch.
HR_FN bool readSequence(const Window &in, u32 q, Sequence &s) {
	s.from = s.literals = s.distance = s.length = 0;
	if (in.behindToken(q) == Window::NONE) return false;
	u32 token = in.bytes[q];
	s.from = q + 1;
	s.literals = token >> 4;
	if (s.literals == 15) s.literals += in.bytes[s.from++];
	const u8 *behind = in.bytes + s.from + s.literals;
	s.distance = behind[0] | behind[1] << 8;
	s.length = 4 + (token & 15);
	if (s.length == 19) s.length += behind[2];
	return true;
}

// parse finds up to 32 sequences from position at of the block on, which are to be
// written at position to. Those that are not for it are left to decodeOne: the last
// of the block, long ones, ones that reach out of the window, wrong ones. stop is the
// position behind dst. Far matches are on their way when it returns: they are
// in memory, though the bytes of the last batch may not even be written.
HR_FN Batch parse(const Window &in, const Recent &out, u32 &at, u32 to, u32 stop) {
	u32 q = in.token(at - in.base);
	Batch b;
	Sequence &s = b.mine;
	bool good = readSequence(in, q, s);
	u32 n = s.literals + s.length, sum = sumBelow(n);
	s.to = to + sum - n;
	good = good && sum <= least<u32>(Recent::PIECE, stop - to) && s.distance - 1 < s.match() - out.start;
	u32 bad = ballot(!good);
	b.count = bad ? lowest(bad) : (u32)LANES;
	b.total = 0;
	s.far = false;
	if (b.count == 0) return b;
	b.total = shuffle(sum, b.count - 1);
	at = in.base + shuffle(in.behindToken(q), b.count - 1);
	// What is kept when the batch before is written, and room made for this one.
	u32 kept = out.keptAt(to);
	s.far = b.has() && s.match() - s.distance < kept;
	if (s.far) s.head.load(out.base + s.match() - s.distance);
	return b;
}

enum Progress { MORE, DONE, WRONG };

// decodeOne decodes any sequence.
HR_FN Progress decodeOne(const Window &in, Recent &out, u32 &at, u32 stop) {
	if (at >= in.end) return WRONG;
	u32 room = stop - out.at;
	u32 token = in.fetch(at++) & 255, literals = token >> 4, length = token & 15;
	if (literals == 15 && !lengthen(in, at, literals, room)) return WRONG;
	if (literals > in.end - at || literals > room) return WRONG;
	out.literals(in.words + at, literals);
	room -= literals;
	at += literals;
	if (at == in.end) return length == 0 && room == 0 ? DONE : WRONG;

	if (in.end - at < 2) return WRONG;
	u32 distance = in.fetch(at) & 0xffff;
	at += 2;
	if (length == 15 && !lengthen(in, at, length, room)) return WRONG;
	length += 4;
	if (distance - 1 >= out.at - out.start || length > room) return WRONG;
	out.match(distance, length);
	return at < in.end ? MORE : room == length ? DONE : WRONG;
}

// Bench is the shared memory that a warp decodes in.
struct alignas(16) Bench {
	WindowBytes window;
	u8 recent[Recent::SIZE];
};

// decodeLZ4 decodes a block that must fill dst. All lanes of a warp call it, and
// get the same answer. Lengths are at most 2^31.
HR_FN bool decodeLZ4(Bench &bench, u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	Window in(bench.window, src, srcBytes);
	Recent out(bench.recent, dst);
	u32 at = in.first, stop = out.at + dstBytes;
	Progress progress = MORE;
	Batch batch;
	batch.count = batch.total = 0;
	HR_ROLLED while (progress == MORE) {
		if (LANES > 1 && at < in.end) {
			if (in.ends(at)) {
				batch.copy(out, in);
				in.fill(at);
			}
			Batch next = parse(in, out, at, out.at + batch.total, stop);
			batch.copy(out, in);
			batch = next;
			if (batch.count > 0) continue;
		}
		progress = decodeOne(in, out, at, stop);
		in.missed++;
	}
	if (progress == DONE) out.flushTo(out.at);
	syncWarp(); // before the memory is another stream's
	return progress == DONE;
}

} // namespace hr
