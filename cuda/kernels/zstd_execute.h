// Execution of sequences (3.1.1.4): a thread block a segment, one block of the frame after another.
//
// Sequences are taken as many at a time as there are threads. A thread knows where its sequence
// writes, since the sums are in the sequences, and copies its literals and its match,
// unless they are long: then the warp does. All literals of a batch can be copied at once, and
// those matches, most of them, that lie before it. The others wait in a list, which one warp
// goes through while the others look at the next sequences: it finds out for each which
// others it needs, and copies those whose bytes are there until all are.
//
// Whatever a batch reads is in shared memory by then: literals and sequences, which lie one after
// the other, are fetched one batch ahead, and far matches while the matches of the batch before wait.
#pragma once
#include "zstd_checksum.h"
#include "zstd_history.h"
#include "zstd_sequences.h"

namespace hr {
namespace zstd {

enum : u32 { WRONG = 1u << 16 };

typedef Shape<ZSTD_EXECUTE_BLOCK, 3072, 3584, 10752, 4096> ManyShape;
typedef Shape<ZSTD_EXECUTE_WIDE_BLOCK, 5120, 6144, 19456, 8192> FewShape; // for few segments

HR_FN Packed unpacked(Pair p) {
	Packed q = {p.low, p.high};
	return q;
}

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

// Waiting goes through the list of matches. It is the part of a warp. Places are indexes of the history.
template <class S> struct Waiting {
	Place history;
	u32 to, from, length; // of a lane's; length is 0 if it has none
	u32 needs;            // lanes

	// find gives a lane the nth of the list.
	HR_FN void find(u32 n) {
		const ExecuteDesk<S> &d = desk<S>();
		u32 at = S::THREADS;
		HR_UNROLL for (u32 w = 0; w < S::WARPS; w++) {
			if (n < d.waits[w]) at = least(at, LANES * w + n);
			n -= d.waits[w];
		}
		to = from = 0xffff;
		length = 0;
		if (at == S::THREADS) return;
		Pair p = d.waiting[at];
		to = p.low & 0xffff;
		from = p.low >> 16;
		length = p.high;
	}

	HR_FN u32 distance() const { return to - from; }

	// Those that make what a lane reads end behind its source's begin and begin before its end. Places
	// rise with the lanes, so two searches find them, side by side.
	HR_FN void order() {
		u32 stop = length ? to + length : NONE, read = from + least(length, distance());
		u32 first = 0, behind = 0;
		HR_UNROLL for (u32 half = LANES / 2; half > 0; half /= 2) {
			u32 s = shuffle(stop, first + half - 1), t = shuffle(to, behind + half - 1);
			if (s <= from) first += half;
			if (t < read) behind += half;
		}
		needs = bitAt(behind) - bitAt(first);
	}

	// bytes copies n bytes from as far before them: the ith of those, or the (i & mask)th. It is the part
	// of all lanes, and the loads of two rounds come before their stores.
	HR_FN void bytes(u32 at, u32 before, u32 n, u32 mask) const {
		Place out = history + at, in = out - before;
		HR_ROLLED for (u32 i = lane(); i < n; i += 2 * LANES) {
			u32 a = byteOf(in + (i & mask)), b = i + LANES < n ? byteOf(in + ((i + LANES) & mask)) : 0;
			putByte(out + i, a);
			if (i + LANES < n) putByte(out + i + LANES, b);
		}
		syncWarp();
	}

	// repeat is the part of all lanes: a match of any length. If it repeats a power of two of bytes, one
	// step is enough.
	HR_FN void repeat(u32 at, u32 before, u32 n) const {
		bool power = !(before & (before - 1));
		HR_ROLLED while (n > 0) {
			u32 some = power ? n : least(n, before);
			bytes(at, before, some, power ? before - 1 : NONE);
			at += some;
			n -= some;
			before *= 2; // which lies as far in the repeated bytes
		}
	}

	// copyEight copies up to eight bytes, the ith and those behind it. A word that a lane reads may have
	// bytes that another one writes, so all read first.
	HR_FN void copyEight(u32 i, u32 n, bool repeats) const {
		Few few;
		few.load(history, n == 0 ? 0 : repeats ? from : from + i, repeats ? least(n, distance()) : n);
		if (repeats) few.repeat(distance(), n);
		syncWarp();
		few.putEight(history + to + i);
	}

	HR_FN void copy(bool ready) const {
		bool repeats = length > distance(), odd = length > Few::MOST || (repeats && !Few::repeatable(distance()));
		u32 n = ready && !odd ? length : 0;
		copyEight(0, n, repeats);
		if (ballot(n > 8)) {
			syncWarp();
			copyEight(8, n > 8 ? n - 8 : 0, repeats);
		}
		HR_ROLLED for (u32 many = ballot(ready && odd); many; many &= many - 1) {
			u32 k = lowest(many);
			repeat(shuffle(to, k), shuffle(distance(), k), shuffle(length, k));
		}
	}

	HR_FN void all() {
		history = constantPlaceOf(History<S>::bytes());
		u32 total = 0;
		HR_UNROLL for (u32 w = 0; w < S::WARPS; w++) total += desk<S>().waits[w];
		HR_ROLLED for (u32 first = 0; first < total; first += LANES) {
			find(first + lane());
			order();
			HR_ROLLED for (u32 left = ballot(length > 0); left;) {
				bool ready = (left >> lane() & 1) && !(needs & left);
				copy(ready);
				syncWarp();
				left &= ~ballot(ready);
			}
		}
	}
};

// Fetched is what has been fetched of the sequences and of the literals of a block. Literals count from a
// multiple of 16 at or before the first one.
template <class S> struct Fetched {
	u32 count, literals, lead; // all of the block
	u32 done, taken;           // sequences and literals before the batch

	// share puts the addresses in shared memory: they are seldom used, and four registers more would be
	// spilled. It is the part of one thread, with a barrier behind it.
	static HR_FN void share(const Block &b, const u8 *from) {
		desk<S>().packed = (const u8 *)b.sequences;
		desk<S>().text = from - ((u64)from & 15);
	}

	HR_FN void open(const Block &b, u32 before) {
		lead = before;
		count = b.sequenceCount;
		literals = lead + b.literalsDecoded;
		done = 0;
		taken = lead;
	}

	static HR_FN Place place(u32 sequence) { return constantPlaceOf(desk<S>().sequences) + 8 * (sequence & (S::SEATS - 1)); }
	static HR_FN const u8 *text() { return desk<S>().text; }

	// at is the ith sequence of the batch.
	HR_FN Packed at(u32 i) const { return unpacked(pairOf(place(done + i))); }

	// When a batch begins, these are fetched, or on their way: what two batches can take, so that
	// one can be looked at while the one before is executed, and literals for one.
	HR_FN u32 asked(u32 sequence) const { return least(sequence + 2 * S::THREADS, count); }
	HR_FN u32 filled(u32 literal) const { return least((literal + S::LITERALS + 15) & ~15u, (literals + 15) & ~15u); }

	// fetch is the part of worker id of workers: sequences and literals.
	HR_FN void fetch(u32 first, u32 stop, u32 literal, u32 behind, u32 id, u32 workers) {
		const u8 *packed = desk<S>().packed, *text = desk<S>().text;
		HR_ROLLED for (u32 i = first + id; i < stop; i += workers) fetchPair(place(i), packed + 8 * (u64)i);
		Place ring = constantPlaceOf(desk<S>().literals);
		HR_ROLLED for (u32 v = literal + 16 * id; v < behind; v += 16 * workers) {
			u32 i = v & (S::RING - 1);
			fetchLiterals(ring + i, text + v, text + lead, text + literals);
			if (i < S::PAD) fetchLiterals(ring + S::RING + i, text + v, text + lead, text + literals);
		}
	}

	// fetchNext fetches what is needed when n sequences are passed. It is the part of a warp.
	HR_FN void fetchNext(u32 n, u32 upTo) {
		fetch(asked(done), asked(done + n), filled(taken), filled(upTo), lane(), LANES);
	}

	// fetchAll fetches all that is needed. It is the part of all threads.
	HR_FN void fetchAll() { fetch(done, asked(done), taken & ~15u, filled(taken), thread(), S::THREADS); }

	HR_FN void pass(u32 n, u32 upTo) {
		done += n;
		taken = upTo;
	}
};

// Sequences executes those of a block.
template <class S> struct Sequences {
	History<S> out;
	Fetched<S> queue;
	u32 begin;  // of the block
	u32 origin; // of the history when the batch is made
	u32 self;   // warp(), of which the compiler sees that all lanes have the same
	Command mine;

	// understand takes a thread's sequence of the batch that begins at a position.
	HR_FN void understand(u32 at) {
		u32 i = thread();
		Packed next = {0, 0}, before = {0, 0};
		if (queue.done + i < queue.count) {
			next = queue.at(i);
			if (i > 0) before = queue.at(i - 1);
		}
		u32 literals = i > 0 ? queue.lead + before.literals() : queue.taken, bytes = i > 0 ? begin + before.bytes() : at;
		mine.from = literals;
		mine.literals = queue.lead + next.literals() - literals;
		mine.to = bytes;
		mine.length = begin + next.bytes() - bytes - mine.literals;
		mine.distance = desk<S>().frame.resolve(next.offset());
	}

	HR_FN u32 source() const { return mine.match() - mine.distance; }

	// announce says how many of the warp's sequences fit in the batch, looks at all, and fetches
	// their matches if those are few bytes and no more in the history.
	HR_FN void announce(u32 at) {
		understand(at);
		origin = out.originBehind(at);
		bool has = queue.done + thread() < queue.count;
		bool fits = has && mine.end() - at <= S::MOST && mine.from + mine.literals - queue.taken <= S::LITERALS;
		u32 fit = ballot(fits), wrong = ballot(has && mine.distance - 1 >= mine.match() - desk<S>().frame.start);
		if (lane() == 0) desk<S>().ready[self] = wrong ? (u32)WRONG : hr::count(fit);
		bool far = fits && !wrong && source() < origin && mine.length <= Few::MOST;
		fetchFew(constantPlaceOf(desk<S>().staged) + 24 * thread(), out.base + source(), source() & 7, far ? mine.length : 0);
		endFetch();
	}

	// batch is how many sequences are next, or WRONG or more.
	HR_FN u32 batch() const {
		u32 n = 0;
		HR_UNROLL for (u32 w = 0; w < S::WARPS; w++) n += desk<S>().ready[w];
		return n;
	}

	// enlist gives a match to the warp that goes through those that wait.
	HR_FN void enlist(bool waits) {
		ExecuteDesk<S> &d = desk<S>();
		u32 all = ballot(waits);
		Pair p = {(mine.match() - out.origin) | (source() - out.origin) << 16, mine.length};
		if (waits) d.waiting[LANES * self + hr::count(all & below())] = p;
		if (lane() == 0) d.waits[self] = hr::count(all);
	}

	// copy is the part of a warp of the first n sequences.
	HR_FN void copy(u32 n) {
		bool has = thread() < n;
		u32 literals = has ? mine.literals : 0, length = has ? mine.length : 0;
		bool waits = has && source() + length > (out.at & ~3u), far = source() < origin; // words before are written by nobody
		enlist(waits);
		if (waits) length = 0;
		Place history = constantPlaceOf(History<S>::bytes()), ring = constantPlaceOf(desk<S>().literals), staged = constantPlaceOf(desk<S>().staged);
		Few first, few;
		bool some = length > 0 && length <= Few::MOST;
		first.load(ring, mine.from & (S::RING - 1), least<u32>(literals, Few::MOST));
		few.load(some && far ? staged : history, !some ? 0 : far ? 24 * thread() + (source() & 7) : source() - out.origin, some ? length : 0);
		first.put(history + (mine.to - out.origin));
		few.put(history + (mine.match() - out.origin));
		if (ballot(literals > Few::MOST)) copyLiterals(literals);
		if (ballot(length > Few::MOST)) copyMatches(length > Few::MOST ? length : 0);
	}

	// copyLiterals is for what comes behind the first Few: of some, a lane copies its own.
	HR_FN void copyLiterals(u32 n) {
		enum : u32 { SOME = 4 * Few::MOST };
		Place history = constantPlaceOf(History<S>::bytes()), ring = constantPlaceOf(desk<S>().literals);
		u32 to = mine.to - out.origin;
		HR_ROLLED for (u32 i = Few::MOST; ballot(n > i && n <= SOME); i += Few::MOST) {
			Few few;
			few.load(ring, (mine.from + i) & (S::RING - 1), n > i && n <= SOME ? least<u32>(n - i, Few::MOST) : 0);
			few.put(history + to + i);
		}
		HR_ROLLED for (u32 many = ballot(n > SOME); many; many &= many - 1) {
			u32 k = lowest(many);
			Literals<S::RING> from = {ring, shuffle(mine.from, k) + Few::MOST};
			zstd::place(history, shuffle(to, k) + Few::MOST, from, shuffle(n, k) - Few::MOST, lane(), LANES);
		}
	}

	// copyMatches is for long ones, which do not wait. What is no more in the history is in memory.
	HR_FN void copyMatches(u32 n) {
		Place history = constantPlaceOf(History<S>::bytes());
		HR_ROLLED for (u32 many = ballot(n > 0); many; many &= many - 1) {
			u32 k = lowest(many), from = shuffle(source(), k), to = shuffle(mine.match(), k) - out.origin, length = shuffle(n, k);
			u32 far = from < out.origin ? least(out.origin - from, length) : 0;
			if (far > 0) {
				Memory memory = {out.base + from};
				zstd::place(history, to, memory, far, lane(), LANES);
			}
			Recent recent = {history, from + far - out.origin};
			zstd::place(history, to + far, recent, length - far, lane(), LANES);
		}
	}

	// alone executes a sequence that is too long for a batch. It is the part of all threads.
	HR_FN void alone() {
		u32 from = shuffleFirst(mine.from), literals = shuffleFirst(mine.literals), distance = shuffleFirst(mine.distance), length = shuffleFirst(mine.length);
		out.append(queue.text() + from, literals);
		out.repeat(distance, length);
		queue.pass(1, from + literals);
	}

	// shuffleFirst is what the first thread has.
	HR_FN u32 shuffleFirst(u32 v) const {
		if (thread() == 0) desk<S>().sum = v;
		syncBlock();
		v = desk<S>().sum;
		syncBlock();
		return v;
	}

	// prime begins at a sequence of which nothing is fetched for sure.
	HR_FN void prime() {
		queue.fetchAll();
		endFetch();
		awaitFetch<0>();
		syncBlock();
		announce(out.at);
		syncBlock();
	}

	// all is false if a match begins before the frame.
	HR_FN bool all() {
		u32 turn = 0;
		self = orAll(warp());
		prime();
		HR_ROLLED while (queue.done < queue.count) {
			u32 n = batch();
			if (n >= WRONG) break;
			if (n == 0) {
				alone();
				prime();
				continue;
			}
			Packed last = queue.at(n - 1);
			u32 stop = begin + last.bytes(), taken = queue.lead + last.literals();
			if (self == (turn + 1) % S::WARPS) queue.fetchNext(n, taken);
			endFetch();
			awaitFetch<1>(); // the far matches
			copy(n);
			syncBlock();
			queue.pass(n, taken);
			announce(stop);
			if (self == turn) {
				Waiting<S> waiting;
				waiting.all();
			}
			turn = (turn + 1) % S::WARPS;
			awaitFetch<1>(); // all but the far matches
			syncBlock();
			out.made(stop);
		}
		awaitFetch<0>(); // others will use the desk
		return queue.done == queue.count;
	}
};

template <class S> struct Executed {
	History<S> out;
	bool good;
};

// executeSequences is compiled on its own, so that what the caller has to remember takes no
// registers here.
template <class S> HR_FAR Executed<S> executeSequences(History<S> out, const Block &b, u32 lead) {
	Sequences<S> s;
	s.out = out;
	s.queue.open(b, lead);
	s.begin = out.at;
	bool good = s.all();
	Executed<S> done = {s.out, good};
	return done;
}

// Executor executes the blocks of a segment. All threads of a thread block know the same of it.
template <class S> struct Executor {
	History<S> out;
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
			if (thread() == 0) {
				desk<S>().frame = frame;
				Fetched<S>::share(b, text);
			}
			syncBlock();
			Executed<S> done = executeSequences<S>(out, b, (u32)(u64)text & 15);
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
			if (lane() == 0) desk<S>().sum = sum;
		}
		syncBlock();
		return desk<S>().sum == b.checksum;
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
template <class S> HR_FN void executeSegment(const ZstdParams &p, const Work &work, const Segment &s) {
	// Another segment may fail in this moment: all threads go by what one has seen.
	if (thread() == 0) desk<S>().status = statusNow(p, s.chunk);
	syncBlock();
	if (desk<S>().status != OK) return;
	bool check = !(chunkOf(p, s.chunk).flags & UNCHECKED);
	Executor<S> e;
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

template <class S> HR_FN void execute(const ZstdParams &p) {
	Work work(p);
	u32 segments = work.segmentCount();
	HR_ROLLED for (;;) {
		syncBlock(); // what the threads have read of the desk is read
		if (thread() == 0) desk<S>().hand = take(&work.head->nextSegment);
		syncBlock();
		u32 segment = desk<S>().hand;
		if (segment >= segments) return;
		executeSegment<S>(p, work, work.segments[segment]);
	}
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_EXECUTE_BLOCK, 8) hr_zstd_execute(hr::ZstdParams p) { hr::zstd::execute<hr::zstd::ManyShape>(p); }

HR_KERNEL(hr::ZSTD_EXECUTE_WIDE_BLOCK, 4) hr_zstd_execute_wide(hr::ZstdParams p) { hr::zstd::execute<hr::zstd::FewShape>(p); }
