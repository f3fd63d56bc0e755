// Execution of sequences (3.1.1.4): a warp a chunk, block after block.
//
// A lane knows where its sequence writes, since the sums are in the sequences. With those of
// 32 sequences in shared memory, output is made 32 bytes at a time, a lane a byte:
// which sequence a byte belongs to is how many of them begin up to it. So lanes are
// busy however short or uneven sequences are, and a match may read whatever lies before it: the
// bytes before the 32 are written, and among these a byte follows its source.
//
// Output goes through a buffer in shared memory. Near matches read that. Far ones, and
// literals, are loaded for some 32s at once, a tile, and while they are on their way the
// tile before is written.
#pragma once
#include "recent.h"
#include "zstd_checksum.h"
#include "zstd_sequences.h"

namespace hr {
namespace zstd {

typedef RecentBytes<6144, 256, 512> Output;

// loadPackedIf gives q another value only if it loads, as loadByteIf does.
HR_FN void loadPackedIf(bool loads, Packed &q, const u8 *p) {
#if defined(HR_GPU)
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %3, 0; @q ld.global.v2.u32 {%0, %1}, [%2]; }" : "+r"(q.low), "+r"(q.high) : "l"(p), "r"((u32)loads));
#else
	if (loads) memcpy(&q, p, sizeof q);
#endif
}

HR_FN Packed loadPacked(const u8 *p) {
	Packed q = {0, 0};
	loadPackedIf(true, q, p);
	return q;
}

// Command is a sequence as a lane knows it. Positions are those of Output.
struct Command {
	u32 from, literals; // of the block's literals
	u32 to, distance, length;

	HR_FN u32 match() const { return to + literals; }
	HR_FN u32 end() const { return to + literals + length; }
};

// Plan is the shared memory of a warp: what a byte must know of its sequence, and the output.
struct Plan {
	enum { MATCH, DISTANCE, LITERALS }; // literals: what is to be added to a position to find its literal

	Vector of[LANES];
	u8 output[Output::SIZE];
};

HR_FN Plan &planOfWarp() {
	HR_SHARED Plan plans[ZSTD_EXECUTE_BLOCK / 32];
	return plans[warp()];
}

// Tile is up to TILE bytes of output that are made at once.
struct Tile {
	enum : u32 { GROUPS = 6, BYTES = GROUPS * LANES };
	static_assert((u32)BYTES <= (u32)Output::PIECE, "a piece of output");

	u32 from, stop;   // positions
	u32 byte[GROUPS]; // the lane's of each group: its value if it is loaded, else the position of its source
	u32 loaded;       // a bit a group

	// load finds the sources of all bytes, and loads those that are not in Output. start is where
	// the lane's sequence begins, and before how many sequences begin before the tile. Bytes
	// behind stop are made as if the last match went on: they do no harm, and cost no test.
	HR_FN void load(const Output &out, const Plan &plan, u32 start, u32 &before, const u8 *text) {
		u32 upTo = (2u << lane()) - 1, kept = out.keptAt(from); // when all before the tile is written
		loaded = 0;
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = from + LANES * g, at = base + lane();
			if (base >= stop) break;
			u32 begins = orAll(LANES > 1 ? bitAt(start - base) : start == base);
			Vector sequence = plan.of[before + count(begins & upTo) - 1];
			before += count(begins);
			u32 s = at - sequence.w[Plan::DISTANCE];
			bool literal = at < sequence.w[Plan::MATCH];
			bool loads = literal || s < kept;
			const u8 *p = literal ? text : out.base;
			byte[g] = s;
			loadByteIf(loads, byte[g], p + (literal ? at + sequence.w[Plan::LITERALS] : s));
			loaded |= (u32)loads << g;
		}
	}

	HR_FN void write(const Output &out) const {
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = from + LANES * g, v = byte[g];
			if (base >= stop) break;
			bool near = !(loaded >> g & 1), inside = near && v >= base;
			u32 source = inside ? v - base : lane();
			if (near && !inside) v = *out.here(v);
			if (ballot(inside)) v = follow(v, source);
			*out.here(base + lane()) = (u8)v;
			syncWarp();
		}
	}

	// follow gives a lane the value of the lane that its source is, or that one's source.
	static HR_FN u32 follow(u32 v, u32 source) {
		HR_UNROLL for (u32 i = 1; i < LANES; i *= 2) source = shuffle(source, source);
		return shuffle(v, source);
	}
};

// Frame is what execution knows of the frame that it is in.
struct FrameState {
	u32 start;      // position
	u32 repeats[3]; // 3.1.1.5

	HR_FN void begin(u32 at) {
		start = at;
		repeats[0] = 1;
		repeats[1] = 4;
		repeats[2] = 8;
	}

	// resolve gives the distance of an offset; 0 is corrupt.
	HR_FN u32 resolve(u32 offset) const {
		if (!(offset & INHERITED)) return offset;
		u32 slot = offset >> INHERITED_SLOT & 3, less = INHERITED_BIAS - (offset & (2 * INHERITED_BIAS - 1));
		u32 r = slot == 0 ? repeats[0] : slot == 1 ? repeats[1] : repeats[2];
		return r > less ? r - less : 0;
	}

	HR_FN void follow(const u32 *offsets) {
		u32 a = resolve(offsets[0]), b = resolve(offsets[1]), c = resolve(offsets[2]);
		repeats[0] = a;
		repeats[1] = b;
		repeats[2] = c;
	}
};

// Reader hands out the sequences of a block: the lane's of the next 32.
struct Reader {
	const u8 *packed;
	u32 left;            // sequences
	u32 literals, bytes; // sums before the next one
	Packed mine;

	HR_FN void load() {
		mine.low = mine.high = 0;
		loadPackedIf(lane() < left, mine, packed + 8 * lane());
	}

	// skip passes n of them. The next ones are on their way when it returns.
	HR_FN void skip(u32 n) {
		literals = shuffle(mine.literals(), n - 1);
		bytes = shuffle(mine.bytes(), n - 1);
		left -= n;
		packed += 8 * n;
		load();
	}
};

// Sequences executes those of a block. The frame is looked at rarely.
struct Sequences {
	Output out;
	Reader in;
	const u8 *text;
	const FrameState *frame;
	u32 begin, frameStart; // positions
	u32 at, stop;          // what tiles have begun, and how far the sequences reach that are planned
	u32 start, before;     // see Tile.load
	bool good;             // no match begins before the frame

	// command is the next sequence of a lane.
	HR_FN Command command(const FrameState &frame) const {
		u32 literals = in.mine.literals(), bytes = in.mine.bytes();
		u32 literalsBefore = shuffle(literals, (lane() - 1) & (LANES - 1)), bytesBefore = shuffle(bytes, (lane() - 1) & (LANES - 1));
		if (lane() == 0) {
			literalsBefore = in.literals;
			bytesBefore = in.bytes;
		}
		Command c;
		c.from = literalsBefore;
		c.literals = literals - literalsBefore;
		c.to = begin + bytesBefore;
		c.length = bytes - bytesBefore - c.literals;
		c.distance = frame.resolve(in.mine.offset());
		return c;
	}

	// plan makes the next 32 sequences those that tiles are made of.
	HR_FN void plan() {
		Command c = command(*frame);
		u32 wrong = ballot(!(lane() < in.left && c.distance - 1 < c.match() - frameStart));
		u32 n = wrong ? lowest(wrong) : (u32)LANES;
		if (n == 0) {
			good = false;
			in.left = 0;
			return;
		}
		Vector v = {{c.match(), c.distance, c.from - c.to, 0}};
		syncWarp(); // the tiles of the sequences before are begun
		planOfWarp().of[lane()] = v;
		start = lane() < n ? c.to : NONE;
		stop = shuffle(c.end(), n - 1);
		before = 0;
		in.skip(n);
		syncWarp();
	}

	// step begins a tile, and finishes the one before it.
	HR_FN void step(Tile &next, const Tile &now) {
		if (at == stop && in.left > 0) plan();
		next.from = at;
		at = next.stop = least(stop, at + Tile::BYTES);
		next.load(out, planOfWarp(), start, before, text);
		if (now.from == now.stop) return;
		now.write(out);
		out.wrote(now.stop - now.from);
	}

	// all is two steps, so that no tile is copied to where the other was: a copy would wait for what
	// the tile loads.
	HR_FN void all() {
		Tile a = {}, b;
		HR_ROLLED do {
			step(b, a);
			step(a, b);
		} while (a.from < a.stop);
	}
};

struct Executed {
	Output out;
	bool good;
};

// executeSequences is compiled on its own, so that what the caller has to remember takes no
// registers here.
HR_FAR Executed executeSequences(Output out, const FrameState &frame, const Block &b, const u8 *text) {
	Sequences s;
	s.out = out;
	s.out.bytes = planOfWarp().output; // the same, known to be shared memory
	s.in.packed = (const u8 *)b.sequences;
	s.in.left = b.sequenceCount;
	s.in.literals = s.in.bytes = 0;
	s.in.load();
	s.text = text;
	s.frame = &frame;
	s.begin = s.at = s.stop = s.out.at;
	s.start = s.before = 0;
	s.frameStart = frame.start;
	s.good = true;
	s.all();
	Executed done = {s.out, s.good};
	return done;
}

// Executor executes the blocks of a chunk. All lanes of a warp know the same of it.
struct Executor {
	Output out;
	u32 stop; // position behind the output
	FrameState frame;
	const u8 *src;

	HR_FN u32 room() const { return stop - out.at; }

	HR_FN void repeat(u32 value, u32 n) {
		HR_ROLLED while (n > 0) {
			u32 some = least<u32>(n, Output::PIECE);
			HR_ROLLED for (u32 i = lane(); i < some; i += LANES) *out.here(out.at + i) = (u8)value;
			out.wrote(some);
			n -= some;
		}
	}

	// passed goes behind bytes that are in the output already.
	HR_FN void passed(u32 n) {
		if (n < 2 * Output::PIECE) {
			out.literals(out.base + out.at, n);
			return;
		}
		out.flushTo(out.at);
		out.skip(n);
	}

	HR_FN Status compressed(const Block &b) {
		const u8 *text = decodesLiterals(b) ? (const u8 *)b.literals : src + b.literalsAt;
		Packed all = {0, 0};
		if (b.sequenceCount > 0) all = loadPacked((const u8 *)b.sequences + 8 * (u64)(b.sequenceCount - 1));
		if (all.literals() > b.literalsDecoded) return CORRUPT;
		u32 rest = b.literalsDecoded - all.literals();
		if (all.bytes() > room() || rest > room() - all.bytes()) return CORRUPT;
		if (all.bytes() + rest > b.most) return UNSUPPORTED; // see parseCompressed
		if (b.flags & DIRECT) {
			passed(rest);
			return OK;
		}
		if (b.sequenceCount > 0) {
			Executed done = executeSequences(out, frame, b, text);
			if (!done.good) return CORRUPT;
			out = done.out;
			out.bytes = planOfWarp().output;
			frame.follow(b.repeats);
		}
		out.literals(text + all.literals(), rest);
		return OK;
	}

	// finish compares what the frame says of its content. It is only read when all of
	// it is in memory.
	HR_FN bool finish(const Block &b, bool check) {
		u32 n = out.at - frame.start;
		if (b.content != NONE && b.content != n) return false;
		if (!check || !(b.flags & CHECKSUM)) return true;
		syncWarp();
		out.flushTo(out.at);
		syncWarp();
		return (u32)XXH64::of(out.base + frame.start, n) == b.checksum;
	}

	HR_FN Status one(const Block &b, bool check) {
		Status status = OK;
		if (b.flags & FIRST) frame.begin(out.at);
		if (b.type == COMPRESSED) {
			status = compressed(b);
		} else if (b.decoded > room()) {
			status = CORRUPT;
		} else if (b.type == RAW) {
			out.literals(src + b.body, b.decoded);
		} else {
			repeat(loadByte(src + b.body), b.decoded);
		}
		if (status == OK && (b.flags & LAST) && !finish(b, check)) status = CORRUPT;
		return status;
	}
};

// executeChunk is the part of a warp.
HR_FN void executeChunk(const ZstdParams &p, const Work &work, u32 chunk) {
	const ZstdChunk &c = chunkOf(p, chunk);
	u8 *dst = (u8 *)c.dst;
	Status status = (Status)*statusOf(p, chunk);
	if (status == OK) {
		Extent extent = work.extents[chunk];
		Output out(planOfWarp().output, dst);
		Executor e = {out, out.at + c.dstBytes, {0, {0, 0, 0}}, (const u8 *)c.src};
		HR_ROLLED for (u32 i = 0; i < extent.count && status == OK; i++) status = e.one(work.blocks[extent.first + i], !(c.flags & ZSTD_UNCHECKED));
		if (status == OK && e.room() > 0) status = CORRUPT;
		syncWarp();
		if (status == OK) e.out.flushTo(e.out.at);
	}
	syncWarp();
	if (status == OK) return;
	zeroBytes(dst, c.dstBytes, lane(), LANES);
	if (lane() == 0) *statusOf(p, chunk) = status;
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_EXECUTE_BLOCK, 16) hr_zstd_execute(hr::ZstdParams p) {
	using namespace hr;
	zstd::Work work(p);
	HR_ROLLED for (;;) {
		u32 chunk = zstd::nextHand(&work.head->nextChunk);
		if (chunk >= p.n) return;
		zstd::executeChunk(p, work, chunk);
		syncWarp();
	}
}
