// Execution of sequences (3.1.1.4): a warp a segment, block after block.
//
// A lane knows where its sequence writes, since the sums are in the sequences. With those of
// 32 sequences in shared memory, output is made 32 bytes at a time, a lane a byte:
// which sequence a byte belongs to is how many of them begin up to it. So lanes are
// busy however short or uneven sequences are, and a match may read whatever lies before it: the
// bytes before the 32 are written, and among these a byte follows its source.
//
// Output goes through a buffer in shared memory. Near matches read that. Far ones, and
// literals, are loaded for some 32s at once, a tile, before the first of them is written.
// (To load a tile while the one before is written takes more registers than there are: the
// compiler spills what has just been loaded, and so waits for it.)
#pragma once
#include "recent.h"
#include "zstd_checksum.h"
#include "zstd_sequences.h"

namespace hr {
namespace zstd {

typedef RecentBytes<6144, 256, 512> Output;

HR_FN Packed loadPacked(const u8 *p) {
	Packed q = {loadWord(p), loadWord(p + 4)};
	return q;
}

// Command is a sequence as a lane knows it. Positions are those of Output.
struct Command {
	u32 from, literals; // of the block's literals
	u32 to, distance, length;

	HR_FN u32 match() const { return to + literals; }
	HR_FN u32 end() const { return to + literals + length; }
};

// FrameState is what execution knows of the frame that it is in.
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

// Plan is the shared memory of a warp: what a byte must know of its sequence, and the output.
struct Plan {
	enum { MATCH, DISTANCE, LITERALS }; // literals: what is to be added to a position to find its literal

	Vector of[LANES];
	u8 output[Output::SIZE];
	FrameState frame; // of the block that is executed
};

HR_FN Plan &planOfWarp() {
	HR_SHARED Plan plans[ZSTD_EXECUTE_BLOCK / 32];
	return plans[warp()];
}

// Tile is up to TILE bytes of output that are made at once.
struct Tile {
	enum : u32 { GROUPS = 8, BYTES = GROUPS * LANES };
	static_assert((u32)BYTES <= (u32)Output::PIECE, "a piece of output");

	u32 byte[GROUPS]; // the lane's of each group: its value if it is loaded, else the position of its source
	u32 loaded;       // a bit a group

	// load finds the sources of all bytes up to a position, and loads those that are not in Output. start is where the lane's sequence begins, and before how many sequences begin
	// before the tile. Bytes
	// behind stop are made as if the last match went on: they do no harm, and cost no test.
	HR_FN void load(const Output &out, u32 stop, const Plan &plan, u32 start, u32 &before, const u8 *text) {
		u32 upTo = (2u << lane()) - 1;
		loaded = 0;
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = out.at + LANES * g, at = base + lane();
			if (base >= stop) break;
			u32 begins = orAll(LANES > 1 ? bitAt(start - base) : start == base);
			Vector sequence = plan.of[before + count(begins & upTo) - 1];
			before += count(begins);
			u32 s = at - sequence.w[Plan::DISTANCE];
			bool literal = at < sequence.w[Plan::MATCH];
			bool loads = literal || s < out.oldest;
			const u8 *p = literal ? text : out.base;
			byte[g] = s;
			loadByteIf(loads, byte[g], p + (literal ? at + sequence.w[Plan::LITERALS] : s));
			loaded |= (u32)loads << g;
		}
	}

	// write writes the bytes up to a position.
	HR_FN void write(Output &out, u32 stop) const {
		HR_UNROLL for (u32 g = 0; g < GROUPS; g++) {
			u32 base = out.at + LANES * g, v = byte[g];
			if (base >= stop) break;
			bool near = !(loaded >> g & 1), inside = near && v >= base;
			u32 source = inside ? v - base : lane();
			if (near && !inside) v = *out.here(v);
			if (ballot(inside)) v = follow(v, source);
			*out.here(base + lane()) = (u8)v;
			syncWarp();
		}
		out.wrote(stop - out.at);
	}

	// follow gives a lane the value of the lane that its source is, or that one's source.
	static HR_FN u32 follow(u32 v, u32 source) {
		HR_UNROLL for (u32 i = 1; i < LANES; i *= 2) source = shuffle(source, source);
		return shuffle(v, source);
	}
};

// Reader hands out the sequences of a block: the lane's of the next 32. Those behind them are
// asked for while these are executed, but not kept: registers are few.
struct Reader {
	const u8 *packed;
	u32 left;     // sequences
	u32 literals; // before the next one
	Packed mine;

	HR_FN void load() {
		mine.low = mine.high = 0;
		if (lane() < left) mine = loadPacked(packed + 8 * lane());
	}

	// skip passes n of those that are loaded.
	HR_FN void skip(u32 n) {
		literals = shuffle(mine.literals(), n - 1);
		left -= n;
		packed += 8 * n;
		u32 line = 128 * lane(); // of 128 bytes: four hold what comes next, cut or not, and what follows
		if (line < least(8 * left, 512u)) prefetch(packed + line);
	}
};

// Sequences executes those of a block. The frame is looked at rarely.
struct Sequences {
	Output out;
	Reader in;
	const u8 *text;
	u32 begin;             // of the block; positions all
	u32 stop;              // behind the sequences that are planned
	u32 start, before;     // see Tile.load
	bool good;             // no match begins before the frame

	// command is the next sequence of a lane.
	HR_FN Command command() const {
		u32 literals = in.mine.literals(), bytes = in.mine.bytes();
		u32 literalsBefore = shuffle(literals, (lane() - 1) & (LANES - 1)), bytesBefore = shuffle(bytes, (lane() - 1) & (LANES - 1));
		if (lane() == 0) {
			literalsBefore = in.literals;
			bytesBefore = stop - begin;
		}
		Command c;
		c.from = literalsBefore;
		c.literals = literals - literalsBefore;
		c.to = begin + bytesBefore;
		c.length = bytes - bytesBefore - c.literals;
		c.distance = planOfWarp().frame.resolve(in.mine.offset());
		return c;
	}

	// plan makes the next 32 sequences those that tiles are made of.
	HR_FN void plan() {
		in.load();
		Command c = command();
		u32 wrong = ballot(!(lane() < in.left && c.distance - 1 < c.match() - planOfWarp().frame.start));
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

	HR_FN void all() {
		HR_ROLLED while (in.left > 0) {
			plan();
			HR_ROLLED while (out.at < stop) {
				Tile tile;
				u32 to = least(stop, out.at + Tile::BYTES);
				tile.load(out, to, planOfWarp(), start, before, text);
				tile.write(out, to);
			}
		}
	}
};

struct Executed {
	Output out;
	bool good;
};

// executeSequences is compiled on its own, so that what the caller has to remember takes no
// registers here.
HR_FAR Executed executeSequences(Output out, const Block &b, const u8 *text) {
	Sequences s;
	s.out = out;
	s.out.bytes = planOfWarp().output; // the same, known to be shared memory
	s.in.packed = (const u8 *)b.sequences;
	s.in.left = b.sequenceCount;
	s.in.literals = 0;
	s.text = text;
	s.begin = s.stop = s.out.at;
	s.start = s.before = 0;
	s.good = true;
	s.all();
	Executed done = {s.out, s.good};
	return done;
}

// Executor executes the blocks of a segment. All lanes of a warp know the same of it.
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
			if (lane() == 0) planOfWarp().frame = frame;
			syncWarp();
			Executed done = executeSequences(out, b, text);
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

// executeSegment is the part of a warp.
HR_FN void executeSegment(const ZstdParams &p, const Work &work, const Segment &s) {
	// Another segment may fail in this moment: all lanes go by what one has seen.
	if (shuffle(lane() == 0 ? *statusOf(p, s.chunk) : 0u, 0) != OK) return;
	bool check = !(chunkOf(p, s.chunk).flags & UNCHECKED);
	Output out(planOfWarp().output, (u8 *)s.dst);
	Executor e = {out, out.at + s.bytes, {0, {0, 0, 0}}, sourceOf(p, s.chunk)};
	Status status = OK;
	HR_ROLLED for (u32 i = 0; i < s.count && status == OK; i++) status = e.one(work.blocks[s.first + i], check);
	if (status == OK && e.room() > 0) status = CORRUPT;
	syncWarp();
	if (status == OK) e.out.flushTo(e.out.at);
	else if (lane() == 0) fail(p, s.chunk, status);
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_EXECUTE_BLOCK, 16) hr_zstd_execute(hr::ZstdParams p) {
	using namespace hr;
	zstd::Work work(p);
	u32 segments = work.segmentCount();
	HR_ROLLED for (;;) {
		u32 segment = zstd::nextHand(&work.head->nextSegment);
		if (segment >= segments) return;
		zstd::executeSegment(p, work, work.segments[segment]);
		syncWarp();
	}
}
