// Execution of sequences (3.1.1.4): a warp a chunk, block after block.
//
// 32 sequences are executed at once, one a lane. Where each writes is known, since the
// sums are in the sequences; literals and matches are copied by their lanes, long ones
// by all. A match whose source other matches of the batch write waits for them. As in
// lz4.h, output goes through a buffer in shared memory, near matches read that, and
// what far ones read is on its way while the batch before is being written.
#pragma once
#include "recent.h"
#include "zstd_checksum.h"
#include "zstd_sequences.h"

namespace hr {
namespace zstd {

typedef RecentBytes<6144, 256> Output;

HR_FN Packed loadPacked(const u8 *p) {
	Packed q;
#if defined(HR_GPU)
	asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(q.low), "=r"(q.high) : "l"(p));
#else
	memcpy(&q, p, sizeof q);
#endif
	return q;
}

// Ahead is up to 8 bytes of memory that a lane loads long before it stores them in shared
// memory. Where they came from is not kept with them, since registers are few.
struct Ahead {
#if defined(HR_GPU)
	u32 raw[3];

	HR_FN void load(const u8 *p, u32 n) {
		u32 at = (u32)(u64)p & 3;
		HR_UNROLL for (u32 i = 0; i < 3; i++) {
			if (4 * i < n + at) raw[i] = loadWord(p - at + 4 * i);
		}
	}
	HR_FN u32 word(u32 i, const u8 *p) const { return funnel(raw[i], raw[i + 1], 8 * ((u32)(u64)p & 3)); }
#else
	u32 raw[2];

	HR_FN void load(const u8 *p, u32 n) { memcpy(raw, p, n); }
	HR_FN u32 word(u32 i, const u8 *) const { return raw[i]; }
#endif

	HR_FN void store(u8 *to, u32 n, const u8 *p) const {
		HR_ROLLED for (u32 i = 0; i < least(n, 8u); i += 4) {
			u32 w = i == 0 ? word(0, p) : word(1, p);
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < n) to[i + k] = (u8)(w >> 8 * k);
			}
		}
	}
};

// putRest goes on behind the head with bytes of memory.
HR_FN void putRest(u8 *to, const u8 *from, u32 n) {
	HR_ROLLED for (u32 i = 8; i < n; i += 4) {
		Run<1> run;
		run.loadPart(from + i, 0, (i32)least(n - i, 4u));
		u32 w = run.word(0);
		HR_UNROLL for (u32 k = 0; k < 4; k++) {
			if (i + k < n) to[i + k] = (u8)(w >> 8 * k);
		}
	}
}

// Command is a sequence as a lane executes it. Positions are those of Output.
struct Command {
	enum { SHORT = 16 }; // what a lane copies alone

	u32 from, literals; // of the block's literals
	u32 to, distance, length;
	bool far;         // the match is not in Output
	Ahead first;      // of the literals
	Ahead head;       // of a far match

	HR_FN u32 match() const { return to + literals; }

	HR_FN void copyLiterals(const Output &out, const u8 *text) const {
		first.store(out.here(to), literals, text + from);
		putRest(out.here(to), text + from, literals);
	}

	HR_FN void copyFar(const Output &out) const {
		const u8 *source = out.base + match() - distance;
		head.store(out.here(match()), length, source);
		putRest(out.here(match()), source, length);
	}

	// copyNear copies four bytes at a time: what repeats after fewer bytes repeats after
	// a multiple of them.
	HR_FN void copyNear(const Output &out) const {
		u8 *m = out.here(match());
		const u8 *s = m - distance;
		u8 v[4] = {s[0], s[distance > 1], s[distance > 2 ? 2 : 0], s[distance > 3 ? 3 : distance == 2]};
		HR_UNROLL for (u32 k = 0; k < 3; k++) m[k] = v[k];
		if (length > 3) m[3] = v[3];
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
};

// Batch is what the lanes of a warp execute at once, a sequence each.
struct Batch {
	Command mine;
	u32 count; // of the sequences; the lanes above it have none
	u32 total; // bytes of output

	HR_FN bool has() const { return lane() < count; }

	HR_FN void copyLiterals(const Output &out, const u8 *text) const {
		bool longer = has() && mine.literals > Command::SHORT;
		if (has() && !longer) mine.copyLiterals(out, text);
		HR_ROLLED for (u32 rest = ballot(longer); rest; rest &= rest - 1) {
			u32 k = lowest(rest);
			out.place(shuffle(mine.to, k), text + shuffle(mine.from, k), shuffle(mine.literals, k));
		}
	}

	// copyLong copies the long matches of some lanes, all lanes one after the other.
	HR_FN void copyLong(const Output &out, bool now) const {
		HR_ROLLED for (u32 rest = ballot(now && mine.length > Command::SHORT); rest; rest &= rest - 1) {
			u32 k = lowest(rest);
			out.copy(shuffle(mine.match(), k), shuffle(mine.distance, k), shuffle(mine.length, k), shuffle(mine.far, k));
		}
	}

	// lanesUpTo is the number of lanes whose v is not above limit, for v that grow from lane
	// to lane, in the last lane beyond the limit.
	static HR_FN u32 lanesUpTo(u32 v, u32 limit) {
		u32 n = 0;
		HR_UNROLL for (u32 step = LANES / 2; step > 0; step /= 2) {
			if (shuffle(v, n + step - 1) <= limit) n += step;
		}
		return n;
	}

	// copyMatches copies first those that need no other match of the batch. What is left
	// goes in rounds: each lane knows the lanes that it must wait for.
	HR_FN void copyMatches(const Output &out) const {
		u32 m = mine.match(), s = m - mine.distance, end = least(s + mine.length, m); // of the source
		bool alone = mine.length <= Command::SHORT;
		u32 edge = shuffle(m, 0); // where the first match begins
		bool near = has() && !mine.far && end <= edge, far = has() && mine.far;
		if (far && alone) mine.copyFar(out);
		if (near && alone) mine.copyNear(out);
		copyLong(out, near || far);
		u32 pending = ballot(has() && !near && !far);
		syncWarp();
		if (pending == 0) return;
		u32 begin = lanesUpTo(m + mine.length, s), last = lanesUpTo(m + 1, end);
		u32 needs = ((1u << last) - 1) & ~((1u << begin) - 1) & below();
		HR_ROLLED while (pending) {
			bool now = (pending >> lane() & 1) && (pending & needs) == 0;
			if (now && alone) mine.copyNear(out);
			copyLong(out, now);
			pending &= ~ballot(now);
			syncWarp();
		}
	}

	// copy writes the output of the batch.
	HR_FN void copy(Output &out, const u8 *text) {
		if (count == 0) return;
		copyLiterals(out, text);
		syncWarp();
		copyMatches(out);
		out.wrote(total);
		count = total = 0;
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

// Reader hands out the sequences of a block: the lane's of the next 32, and of the 32 behind
// those, which are on their way.
struct Reader {
	const u8 *packed;
	u32 left;           // sequences
	u32 literals, bytes; // sums before the next one
	Packed mine, later;

	HR_FN void load() {
		Packed none = {0, 0};
		mine = lane() < left ? loadPacked(packed + 8 * lane()) : none;
		later = LANES + lane() < left ? loadPacked(packed + 8 * (LANES + lane())) : none;
	}

	// skip passes n of them.
	HR_FN void skip(u32 n) {
		literals = shuffle(mine.literals(), n - 1);
		bytes = shuffle(mine.bytes(), n - 1);
		left -= n;
		packed += 8 * n;
		if (n < LANES) {
			load();
			return;
		}
		Packed none = {0, 0};
		mine = later;
		later = LANES + lane() < left ? loadPacked(packed + 8 * (LANES + lane())) : none;
	}
};

// Executor executes the blocks of a chunk. All lanes of a warp know the same of it.
struct Executor {
	Output out;
	u32 stop; // position behind the output
	FrameState frame;
	const u8 *src;

	HR_FN u32 room() const { return stop - out.at; }

	// command is the next sequence of a lane. begin is where the block does.
	HR_FN Command command(const Reader &in, u32 begin) const {
		Command c = {};
		u32 literals = in.mine.literals(), bytes = in.mine.bytes();
		u32 literalsBefore = shuffle(literals, (lane() - 1) & (LANES - 1)), bytesBefore = shuffle(bytes, (lane() - 1) & (LANES - 1));
		if (lane() == 0) {
			literalsBefore = in.literals;
			bytesBefore = in.bytes;
		}
		c.from = literalsBefore;
		c.literals = literals - literalsBefore;
		c.to = begin + bytesBefore;
		c.length = bytes - bytesBefore - c.literals;
		c.distance = frame.resolve(in.mine.offset());
		c.far = false;
		if (lane() >= in.left) { // none: it lies behind all
			c.to = 1u << 31;
			c.literals = c.length = 0;
		}
		return c;
	}

	// plan finds up to 32 sequences that are to be executed behind the bytes that are planned.
	// Those that are not for it are left to one(): long ones and wrong ones.
	HR_FN Batch plan(Reader &in, u32 begin, const u8 *text) const {
		Batch b = {};
		Command &c = b.mine;
		c = command(in, begin);
		u32 to = begin + in.bytes, end = c.match() + c.length;
		bool good = lane() < in.left && end - to <= Output::PIECE && c.distance - 1 < c.match() - frame.start;
		u32 bad = ballot(!good);
		b.count = bad ? lowest(bad) : (u32)LANES;
		if (b.count == 0) return b;
		b.total = shuffle(end, b.count - 1) - to;
		// What is kept when the batch before is written, and room made for this one.
		c.far = b.has() && c.match() - c.distance < out.keptAt(to);
		if (c.far) c.head.load(out.base + c.match() - c.distance, least(c.length, 8u));
		if (b.has() && c.literals > 0) c.first.load(text + c.from, least(c.literals, 8u));
		in.skip(b.count);
		return b;
	}

	// one executes any sequence; false if its match begins before the frame.
	HR_FN bool one(Reader &in, u32 begin, const u8 *text) {
		Command c = command(in, begin);
		u32 literals = shuffle(c.literals, 0), from = shuffle(c.from, 0), length = shuffle(c.length, 0), distance = shuffle(c.distance, 0);
		out.literals(text + from, literals);
		if (distance - 1 >= out.at - frame.start) return false;
		out.match(distance, length);
		in.skip(1);
		return true;
	}

	HR_FN bool sequences(const Block &b, const u8 *text) {
		Reader in;
		in.packed = (const u8 *)b.sequences;
		in.left = b.sequenceCount;
		in.literals = in.bytes = 0;
		in.load();
		u32 begin = out.at;
		Batch batch = {};
		HR_ROLLED while (in.left > 0 || batch.count > 0) {
			Batch next = plan(in, begin, text);
			batch.copy(out, text);
			batch = next;
			if (batch.count == 0 && in.left > 0 && !one(in, begin, text)) return false;
		}
		return true;
	}

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
			if (!sequences(b, text)) return CORRUPT;
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
HR_FN void executeChunk(const ZstdParams &p, const Work &work, u8 *shared, u32 chunk) {
	const ZstdChunk &c = chunkOf(p, chunk);
	u8 *dst = (u8 *)c.dst;
	Status status = (Status)*statusOf(p, chunk);
	if (status == OK) {
		Extent extent = work.extents[chunk];
		Output out(shared, dst);
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
	HR_SHARED u8 outputs[ZSTD_EXECUTE_BLOCK / 32][zstd::Output::SIZE];
	zstd::Work work(p);
	HR_ROLLED for (;;) {
		u32 chunk = zstd::nextHand(&work.head->nextChunk);
		if (chunk >= p.n) return;
		zstd::executeChunk(p, work, outputs[warp()], chunk);
		syncWarp();
	}
}
