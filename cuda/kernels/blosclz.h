// Streams of blosclz, a warp each.
//
// A stream is a list of instructions of one control byte and what follows it:
//
//	000lllll              l+1 literals follow
//	lllooooo [more] code  match of l+2 bytes at distance (o<<8 | code) + 1
//
// A match whose l is 7 is lengthened by bytes up to the first one below 255. A distance with
// all 13 bits set is far: two more bytes, high one first, are added to it. The first
// control byte is always literals. What is refused here is what package codec refuses.
//
// As with LZ4, a warp decodes up to 32 instructions at once, found by tables of a window.
// Output is made 32 bytes at a time, a lane a byte, as zstd_execute.h does it: an instruction gives
// few bytes, so lanes that copied one each would be idle.
#pragma once
#include "lz4.h"

namespace hr {
namespace blosclz {

enum : u32 { LITERALS = 32, NEAR = 8191 };

// Instructions is a window whose tables tell where instructions begin.
struct Instructions : Window {
	HR_FN Instructions(WindowBytes &shared, const u8 *src, u32 n) : Window(shared, src, n) {}

	HR_FN void fill(u32 position) {
		base = position & ~15u;
		syncWarp(); // the last window is read
		HR_UNROLL for (u32 i = 0; i < SIZE; i += 16 * LANES) {
			u32 at = i + 16 * lane();
			if (at < SIZE) putVector(bytes + at, load(base + at));
		}
		u32 ahead = base + SIZE + 128 * lane(); // a line of the cache each
		if (lane() < SIZE / 128 && ahead < end) prefetch(words + ahead);
		syncWarp();
		chain();
		syncWarp();
		chainByFour();
		syncWarp();
	}

	// size is how many bytes the instruction has that begins with the four given ones; NONE, if more
	// than one byte lengthens its match.
	static HR_FN u32 size(u32 w) {
		u32 control = w & 255;
		if (control < LITERALS) return control + 2;
		u32 lengthened = control >= 7 << 5, code = w >> (8 + 8 * lengthened) & 255;
		if (lengthened && (w >> 8 & 255) == 255) return NONE;
		return 2 + lengthened + (code == 255 && (control & 31) == 31 ? 2 : 0);
	}

	HR_FN void chain() {
		u32 limit = least<u32>(SIZE - 1, end - base);
		HR_UNROLL for (u32 j = 0; j < SIZE / STEP; j++) {
			u32 q = j * STEP + 4 * lane();
			u32 w = getWord(bytes + q), behind = q + 4 < SIZE ? getWord(bytes + q + 4) : 0;
			Quad quad;
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				u32 to = q + k + size(funnel(w, behind, 8 * k));
				quad.e[k] = (u16)(2 * (to <= limit ? to : NONE));
			}
			putQuad(next + q, quad);
		}
		if (lane() == 0) next[NONE] = fourth[NONE] = 2 * NONE;
	}
};

// Step is what a byte must know of the instruction that makes it.
struct alignas(8) Step {
	u32 distance; // 0: it is a literal
	u32 from;     // what is to be added to its position to find it in the window
};

// Room is the shared memory of a warp.
struct Room {
	Bench bench;
	Step steps[LANES];
};

// Plan is what a lane knows of the instructions that a warp decodes at once.
struct Plan {
	u32 start; // position that its output begins at; NONE: it has no instruction
	u32 stop;  // position behind the output of all
	u32 count;
};

// read is the instruction of a lane: false if it is not for a plan. n is what it gives.
HR_FN bool read(const Instructions &in, u32 q, Step &s, u32 &from, u32 &n) {
	s.distance = s.from = from = n = 0;
	if (in.behindToken(q) == Window::NONE) return false;
	u32 control = in.bytes[q];
	from = q + 1;
	n = control + 1;
	if (control < LITERALS) return true;
	n = (control >> 5) + 2;
	if (n == 9) n += in.bytes[from++];
	s.distance = (control & 31) << 8 | in.bytes[from];
	if (s.distance == NEAR) s.distance += in.bytes[from + 1] << 8 | in.bytes[from + 2];
	s.distance++;
	return true;
}

// plan finds up to 32 instructions from position at of the stream on.
HR_FN Plan plan(const Instructions &in, const Recent &out, Step *steps, u32 &at, u32 stop) {
	u32 q = in.token(at - in.base), from, n;
	Step s;
	bool good = read(in, q, s, from, n);
	u32 sum = sumBelow(n), to = out.at + sum - n;
	good = good && sum <= stop - out.at && s.distance <= to - out.start;
	u32 bad = ballot(!good);
	Plan p;
	p.count = bad ? lowest(bad) : (u32)LANES;
	p.start = lane() < p.count ? to : 0xffffffff;
	p.stop = out.at;
	if (p.count == 0) return p;
	p.stop = out.at + shuffle(sum, p.count - 1);
	at = in.base + shuffle(in.behindToken(q), p.count - 1);
	s.from = from - to;
	steps[lane()] = s;
	syncWarp();
	return p;
}

// Tile is up to BYTES bytes of output that are made at once.
struct Tile {
	enum : u32 { GROUPS = 4, BYTES = GROUPS * LANES };
	static_assert((u32)BYTES <= (u32)Recent::PIECE, "a piece of output");

	u32 byte[GROUPS]; // the lane's of each group: its value if it is loaded, else the position of its source
	u32 loaded;       // a bit a group

	// load finds where bytes come from, and loads those that are not in Recent. before is
	// how many instructions begin before the tile.
	HR_FN void load(const Recent &out, const Plan &p, const Step *steps, const u8 *window, u32 &before) {
		u32 upTo = (2u << lane()) - 1;
		loaded = 0;
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = out.at + LANES * g, at = base + lane();
			if (base >= p.stop) break;
			u32 begins = orAll(bitAt(p.start - base));
			Step s = steps[before + count(begins & upTo) - 1];
			before += count(begins);
			byte[g] = at - s.distance;
			bool literal = s.distance == 0, far = !literal && byte[g] < out.oldest;
			if (literal && at < p.stop) byte[g] = window[at + s.from];
			loadByteIf(far, byte[g], out.base + byte[g]);
			loaded |= (u32)(literal || far) << g;
		}
	}

	HR_FN void write(Recent &out, u32 stop) const {
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = out.at + LANES * g, v = byte[g];
			if (base >= stop) break;
			bool near = !(loaded >> g & 1), inside = near && v >= base;
			u32 source = inside ? v - base : lane();
			if (near && !inside) v = *out.here(v);
			if (ballot(inside)) { // these follow their sources
				HR_UNROLL for (u32 i = 1; i < LANES; i *= 2) source = shuffle(source, source);
				v = shuffle(v, source);
			}
			*out.here(base + lane()) = (u8)v;
			syncWarp();
		}
		out.wrote(least<u32>(stop - out.at, BYTES));
	}
};

// one decodes any instruction.
HR_FN bool one(const Window &in, Recent &out, u32 &at, u32 stop) {
	u32 room = stop - out.at, control = in.fetch(at) & 255;
	if (at == in.first) control &= LITERALS - 1;
	at++;
	if (control < LITERALS) {
		u32 n = control + 1;
		if (n > in.end - at || n > room) return false;
		out.literals(in.words + at, n);
		at += n;
		return true;
	}
	u32 length = (control >> 5) + 2;
	if (length == 9 && !lengthen(in, at, length, room)) return false;
	if (at >= in.end) return false;
	u32 distance = (control & 31) << 8 | (in.fetch(at++) & 255);
	if (distance == NEAR) {
		if (in.end - at < 2) return false;
		u32 w = in.fetch(at);
		distance += (w & 255) << 8 | (w >> 8 & 255);
		at += 2;
	}
	if (++distance > out.at - out.start || length > room) return false;
	out.match(distance, length);
	return true;
}

// decode decodes a stream that must fill dst. All lanes of a warp call it, and get the same
// answer. Lengths are at most 2^31.
HR_FN bool decode(Room &room, u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	Instructions in(room.bench.window, src, srcBytes);
	Recent out(room.bench.recent, dst);
	u32 at = in.first, stop = out.at + dstBytes;
	bool good = true;
	HR_ROLLED while (good && at < in.end) {
		if (LANES > 1 && at > in.first) {
			if (in.ends(at)) in.fill(at);
			Plan p = plan(in, out, room.steps, at, stop);
			u32 before = 0;
			HR_ROLLED while (out.at < p.stop) {
				Tile tile;
				tile.load(out, p, room.steps, in.bytes, before);
				tile.write(out, p.stop);
			}
			if (p.count > 0) continue;
		}
		good = one(in, out, at, stop);
	}
	good = good && out.at == stop;
	if (good) out.flushTo(out.at);
	syncWarp(); // before the memory is another stream's
	return good;
}

} // namespace blosclz
} // namespace hr
