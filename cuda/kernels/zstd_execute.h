// Execution of sequences (3.1.1.4): a thread block a segment, one block of the frame after another.
//
// Sequences are taken as many at a time as there are threads. A thread knows where its sequence
// writes, since the sums are in the sequences, and copies its literals and its match,
// unless they are long: then the warp does. All literals of a batch can be copied at once, and
// those matches, most of them, that lie before it. The others wait in a list, which one warp
// goes through while the others get the next sequences: it finds out for each which
// others it needs, and copies those whose bytes are there until all are.
#pragma once
#include "zstd_checksum.h"
#include "zstd_history.h"
#include "zstd_sequences.h"

namespace hr {
namespace zstd {

HR_FN Packed loadPacked(const u8 *p) {
	u32 w[2];
	loadPair(w, p);
	Packed q = {w[0], w[1]};
	return q;
}

// Command is a sequence as a thread knows it. to and distance count output.
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

// Board is where the threads of a block tell each other.
struct Board {
	enum : u32 { WARPS = LANES > 1 ? ZSTD_EXECUTE_BLOCK / LANES : 1, THREADS = WARPS * LANES, WRONG = 1u << 16 };

	Vector waiting[THREADS]; // matches: position, source, length. A warp's begin at its first thread's
	u32 waits[WARPS];        // how many these are
	u32 ready[WARPS];        // how many sequences of a warp belong to the next batch; WRONG if one is corrupt
	u32 stop;                // behind the batch
	u32 hand, status;
	u32 sum;
	FrameState frame;        // of the block that is executed
};

HR_FN Board &board() {
	HR_SHARED Board b;
	return b;
}

// Match is one of those that wait.
struct Match {
	u32 to, from, length;

	HR_FN u32 distance() const { return to - from; }
	HR_FN u32 read() const { return from + least(length, distance()); } // behind what it reads of others
};

// Waiting goes through the list. It is the part of a warp.
struct Waiting {
	const History &out;
	Match mine;
	u32 needs; // lanes

	// find gives a lane the nth of the list.
	HR_FN void find(u32 n) {
		const Board &b = board();
		u32 at = Board::THREADS;
		HR_UNROLL for (u32 w = 0; w < Board::WARPS; w++) {
			if (n < b.waits[w]) at = least(at, LANES * w + n);
			n -= b.waits[w];
		}
		mine.to = mine.from = NONE;
		mine.length = 0;
		if (at == Board::THREADS) return;
		Vector v = b.waiting[at];
		mine.to = v.w[0];
		mine.from = v.w[1];
		mine.length = v.w[2];
	}

	// Positions rise with the lanes. behind is the number of lanes whose value is up to a bound.
	static HR_FN u32 upTo(u32 value, u32 bound) {
		u32 n = 0;
		HR_UNROLL for (u32 half = LANES / 2; half > 0; half /= 2) {
			if (shuffle(value, n + half - 1) <= bound) n += half;
		}
		return n;
	}

	// Those that make what a lane reads end behind its source's begin and begin before its end.
	HR_FN void order() {
		bool none = mine.length == 0;
		u32 first = upTo(none ? NONE : mine.to + mine.length, mine.from), behind = upTo(mine.to, mine.read() - 1);
		needs = bitAt(behind) - bitAt(first);
	}

	// repeat is the part of all lanes: a match of any length.
	HR_FN void repeat(u32 to, u32 distance, u32 n) const {
		HR_ROLLED while (n > 0) {
			u32 some = least(n, distance);
			Recent from = {to - distance - out.origin};
			place(to - out.origin, from, some, lane(), LANES);
			syncWarp();
			to += some;
			n -= some;
			distance *= 2; // which lies as far in the repeated bytes
		}
	}

	HR_FN void copy(bool ready) const {
		bool few = ready && mine.length <= Few::MOST;
		Few bytes;
		u32 to = mine.to - out.origin, distance = mine.distance();
		bytes.load(false, nullptr, mine.from - out.origin, few ? least(mine.length, distance) : 0);
		bytes.put(to);
		if (few) {
			u8 *p = History::bytes() + to;
			HR_ROLLED for (u32 i = distance; i < mine.length; i++) p[i] = p[i - distance];
		}
		HR_ROLLED for (u32 many = ballot(ready && !few); many; many &= many - 1) {
			u32 k = lowest(many);
			repeat(shuffle(mine.to, k), shuffle(distance, k), shuffle(mine.length, k));
		}
	}

	HR_FN void all() {
		u32 total = 0;
		HR_UNROLL for (u32 w = 0; w < Board::WARPS; w++) total += board().waits[w];
		HR_ROLLED for (u32 first = 0; first < total; first += LANES) {
			find(first + lane());
			order();
			HR_ROLLED for (u32 left = ballot(mine.length > 0); left;) {
				bool ready = (left >> lane() & 1) && !(needs & left);
				copy(ready);
				syncWarp();
				left &= ~ballot(ready);
			}
		}
	}
};

// Sequences executes those of a block.
struct Sequences {
	History out;
	const u8 *packed, *text;
	u32 count, done; // sequences
	u32 begin;       // of the block
	Packed next, before;
	Command mine;

	HR_FN void load(u32 i) {
		next.low = next.high = before.low = before.high = 0;
		if (i >= count) return;
		next = loadPacked(packed + 8 * (u64)i);
		if (i > 0) before = loadPacked(packed + 8 * (u64)i - 8);
	}

	HR_FN void understand() {
		mine.from = before.literals();
		mine.literals = next.literals() - before.literals();
		mine.to = begin + before.bytes();
		mine.length = next.bytes() - before.bytes() - mine.literals;
		mine.distance = board().frame.resolve(next.offset());
	}

	// announce says how many of the warp's sequences fit in a batch that begins at a
	// position, and looks at all.
	HR_FN void announce(u32 at) {
		understand();
		bool has = done + thread() < count;
		u32 fit = hr::count(ballot(has && mine.end() - at <= History::MOST));
		u32 wrong = ballot(has && mine.distance - 1 >= mine.match() - board().frame.start);
		if (lane() == 0) board().ready[warp()] = wrong ? (u32)Board::WRONG : fit;
	}

	// batch is how many sequences are next, or WRONG or more.
	HR_FN u32 batch() const {
		u32 n = 0;
		HR_UNROLL for (u32 w = 0; w < Board::WARPS; w++) n += board().ready[w];
		return n;
	}

	// enlist gives a match to the warp that goes through those that wait.
	HR_FN void enlist(bool waits, u32 from) {
		u32 all = ballot(waits);
		Vector v = {{mine.match(), from, mine.length, 0}};
		if (waits) board().waiting[LANES * warp() + hr::count(all & below())] = v;
		if (lane() == 0) board().waits[warp()] = hr::count(all);
	}

	// copy is the part of a warp of the first n sequences.
	HR_FN void copy(u32 n) {
		bool has = thread() < n;
		u32 literals = has ? mine.literals : 0, length = has ? mine.length : 0;
		u32 from = mine.match() - mine.distance;
		bool waits = has && from + length > out.at;
		const u8 *p = text + mine.from;
		Few fewLiterals, few;
		fewLiterals.load(true, p, (u32)(u64)p, literals <= Few::MOST ? literals : 0);
		few.load(from < out.oldest(), out.base + from, from - out.origin, !waits && length <= Few::MOST ? length : 0);
		enlist(waits, from);
		fewLiterals.put(mine.to - out.origin);
		few.put(mine.match() - out.origin);
		HR_ROLLED for (u32 many = ballot(literals > Few::MOST); many; many &= many - 1) {
			u32 k = lowest(many);
			Memory memory = {text + shuffle(mine.from, k)};
			place(shuffle(mine.to, k) - out.origin, memory, shuffle(literals, k), lane(), LANES);
		}
		HR_ROLLED for (u32 many = ballot(!waits && length > Few::MOST); many; many &= many - 1) {
			u32 k = lowest(many), source = shuffle(from, k), to = shuffle(mine.match(), k) - out.origin, some = shuffle(length, k);
			if (source < out.oldest()) {
				Memory memory = {out.base + source};
				place(to, memory, some, lane(), LANES);
			} else {
				Recent recent = {source - out.origin};
				place(to, recent, some, lane(), LANES);
			}
		}
	}

	// alone executes a sequence that is too long for a batch. It is the part of all threads.
	HR_FN void alone() {
		load(done);
		understand();
		out.append(text + mine.from, mine.literals);
		out.repeat(mine.distance, mine.length);
		done++;
	}

	// all is false if a match begins before the frame.
	HR_FN bool all() {
		load(thread());
		announce(out.at);
		syncBlock();
		HR_ROLLED while (done < count) {
			u32 n = batch();
			if (n >= Board::WRONG) return false;
			if (n == 0) {
				alone();
				load(done + thread());
				announce(out.at);
				syncBlock();
				continue;
			}
			copy(n);
			if (thread() == n - 1) board().stop = mine.end();
			syncBlock();
			u32 stop = board().stop, turn = done / Board::THREADS % Board::WARPS; // each warp's, mostly
			done += n;
			load(done + thread());
			if (warp() == turn) {
				Waiting waiting = {out, {0, 0, 0}, 0};
				waiting.all();
			}
			announce(stop);
			syncBlock();
			out.made(stop);
		}
		return true;
	}
};

struct Executed {
	History out;
	bool good;
};

// executeSequences is compiled on its own, so that what the caller has to remember takes no
// registers here.
HR_FAR Executed executeSequences(History out, const Block &b, const u8 *text) {
	Sequences s;
	s.out = out;
	s.packed = (const u8 *)b.sequences;
	s.text = text;
	s.count = b.sequenceCount;
	s.done = 0;
	s.begin = out.at;
	bool good = s.all();
	Executed done = {s.out, good};
	return done;
}

// Executor executes the blocks of a segment. All threads of a thread block know the same of it.
struct Executor {
	History out;
	u32 stop; // position behind the output
	FrameState frame;
	const u8 *src;

	HR_FN u32 room() const { return stop - out.at; }

	HR_FN Status compressed(const Block &b) {
		const u8 *text = decodesLiterals(b) ? (const u8 *)b.literals : src + b.literalsAt;
		Packed all = {0, 0};
		if (b.sequenceCount > 0) all = loadPacked((const u8 *)b.sequences + 8 * (u64)(b.sequenceCount - 1));
		if (all.literals() > b.literalsDecoded) return CORRUPT;
		u32 rest = b.literalsDecoded - all.literals();
		if (all.bytes() > room() || rest > room() - all.bytes()) return CORRUPT;
		if (all.bytes() + rest > b.most) return UNSUPPORTED; // see parseCompressed
		if (b.flags & DIRECT) {
			out.flush();
			out.skip(rest);
			return OK;
		}
		if (b.sequenceCount > 0) {
			if (thread() == 0) board().frame = frame;
			syncBlock();
			Executed done = executeSequences(out, b, text);
			if (!done.good) return CORRUPT;
			out = done.out;
			frame.follow(b.repeats);
		}
		out.append(text + all.literals(), rest);
		return OK;
	}

	// finish compares what the frame says of its content. It is only read when all of
	// it is in memory.
	HR_FN bool finish(const Block &b, bool check) {
		u32 n = out.at - frame.start;
		if (b.content != NONE && b.content != n) return false;
		if (!check || !(b.flags & CHECKSUM)) return true;
		out.flush();
		syncBlock();
		if (warp() == 0) {
			u32 sum = (u32)XXH64::of(out.base + frame.start, n);
			if (lane() == 0) board().sum = sum;
		}
		syncBlock();
		return board().sum == b.checksum;
	}

	HR_FN Status one(const Block &b, bool check) {
		Status status = OK;
		if (b.flags & FIRST) frame.begin(out.at);
		if (b.type == COMPRESSED) {
			status = compressed(b);
		} else if (b.decoded > room()) {
			status = CORRUPT;
		} else if (b.type == RAW) {
			out.append(src + b.body, b.decoded);
		} else if (b.decoded > 0) {
			out.append(src + b.body, 1);
			out.repeat(1, b.decoded - 1);
		}
		if (status == OK && (b.flags & LAST) && !finish(b, check)) status = CORRUPT;
		return status;
	}
};

// executeSegment is the part of a thread block.
HR_FN void executeSegment(const ZstdParams &p, const Work &work, const Segment &s) {
	// Another segment may fail in this moment: all threads go by what one has seen.
	if (thread() == 0) board().status = *statusOf(p, s.chunk);
	syncBlock();
	if (board().status != OK) return;
	bool check = !(chunkOf(p, s.chunk).flags & UNCHECKED);
	Executor e;
	e.out.open((u8 *)s.dst);
	e.stop = e.out.at + s.bytes;
	e.frame.begin(e.out.at);
	e.src = sourceOf(p, s.chunk);
	Status status = OK;
	HR_ROLLED for (u32 i = 0; i < s.count && status == OK; i++) status = e.one(work.blocks[s.first + i], check);
	if (status == OK && e.room() > 0) status = CORRUPT;
	if (status == OK) e.out.flush();
	else if (thread() == 0) fail(p, s.chunk, status);
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_EXECUTE_BLOCK, 10) hr_zstd_execute(hr::ZstdParams p) {
	using namespace hr;
	zstd::Work work(p);
	u32 segments = work.segmentCount();
	HR_ROLLED for (;;) {
		syncBlock(); // what the threads have read of the board is read
		if (thread() == 0) zstd::board().hand = take(&work.head->nextSegment);
		syncBlock();
		u32 segment = zstd::board().hand;
		if (segment >= segments) return;
		zstd::executeSegment(p, work, work.segments[segment]);
	}
}
