// Streams of sequences, LZ4 and blosclz, a warp each. A sequence is some literals and a match; one
// of the two may be missing.
//
// A warp takes 32 sequences at once, one a lane: a prefix sum tells where each writes. Then
// output is made 32 bytes at a time, a lane a byte: which sequence a byte is of is how
// many of them begin up to it. So lanes are busy however short or uneven sequences
// are, and all of it comes from shared memory: literals from the window of the stream, near
// matches from the last bytes of the output, and far ones, which are fetched while the sequences
// before them are written. The bytes before the 32 are written, and among these a byte
// follows its source.
//
// What is too long for this, or at the end of the stream, is decoded alone.
//
// A Format is a struct of functions, and whether the first sequence is not like the others:
//
//	behind(window, q, limit)       the place behind the sequence at place q, as the window wants it
//	read(window, q, sequence)      what the sequence at place q is, which is in the window as a whole
//	one(window, out, at, stop)     decodes any sequence, at a position
#pragma once
#include "window.h"

namespace hr {

typedef RecentBytes<5888, 1024, 512, 3584> Recent;

enum Progress { MORE, DONE, WRONG };

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

// Stage holds the sources of the far matches of a batch: each the words that hold it.
struct Stage {
	enum { MOST = 16, WORDS = MOST / 4 + 1 }; // bytes of a match

	u32 of[LANES][WORDS];
};

// Bench is the shared memory that a warp decodes in. Output is last: what is not of it
// lies before.
struct alignas(16) Bench {
	enum { MATCH, LITERALS, SOURCE };

	WindowBytes window;
	Vector plan[LANES]; // of a sequence: where its match begins, and how far from output its literals and its match are
	Stage stages[2];
	u8 recent[Recent::SIZE + 32]; // bytes are written by 32
};

HR_FN Bench &benchOfWarp() {
	HR_SHARED Bench benches[DECODE_BLOCK / 32];
	return benches[warp()];
}

// Sequence is a lane's: where its literals lie in the window, and where they and
// the match go to.
struct Sequence {
	u32 from, literals;
	u32 to, distance, length;
	bool far; // the match is not in Recent

	HR_FN u32 match() const { return to + literals; }
	HR_FN bool staged() const { return far && length <= Stage::MOST; }
};

// Batch is what the lanes of a warp decode at once, a sequence each.
struct Batch {
	Sequence mine;
	u32 n;     // sequences; the lanes above have none
	u32 total; // bytes of output
	Place stage; // the lane's

	HR_FN bool has() const { return lane() < n; }

	// fetch begins to load what is far.
	HR_FN void fetch(const Recent &out) const {
		const u8 *from = out.base + (mine.match() - mine.distance);
		u32 lead = (u32)(u64)from & 3;
		if (mine.staged()) {
			HR_UNROLL for (u32 i = 0; i < Stage::WORDS; i++) {
				if (4 * i < lead + mine.length) fetchWord(moved(stage, 4 * i), from - lead + 4 * i);
			}
		} else if (mine.far) {
			prefetch(from);
		}
	}

	// copyLong copies far matches that are not staged, all lanes one after the other.
	HR_FN void copyLong(const Recent &out) const {
		HR_ROLLED for (u32 rest = ballot(mine.far && !mine.staged()); rest; rest &= rest - 1) {
			u32 k = lowest(rest), m = shuffle(mine.match(), k);
			out.place(m, out.base + (m - shuffle(mine.distance, k)), shuffle(mine.length, k));
		}
	}

	// writePlan tells all lanes of each other's sequences. A long far match is its own
	// source: it is there.
	HR_FN void writePlan(Place plan, const Recent &out, const Window &in) const {
		Place literals = placeOf(out.here(mine.to)), match = placeOf(out.here(mine.match()));
		Place staged = moved(stage, (u32)(u64)(out.base + (mine.match() - mine.distance)) & 3);
		u32 source = mine.staged() ? apart(staged, match) : mine.far ? 0 : 0 - mine.distance;
		u32 v[4] = {mine.match() - out.at, apart(moved(in.bytes, mine.from), literals), source, 0};
		putVectorAt(moved(plan, 16 * lane()), v);
	}

	// write writes the output of the batch. The window is still that of the batch. Another batch, or none,
	// has been fetched since.
	HR_FN void write(Place plan, Recent &out, const Window &in) {
		if (n == 0) return;
		writePlan(plan, out, in);
		copyLong(out);
		awaitFetch<1>();
		syncWarp();
		writeBytes(plan, out.at, placeOf(out.here(out.at)));
		out.wrote(total);
		n = total = 0;
	}

	// Bytes is a lane's walk through the output of a batch.
	struct Bytes {
		Place plan; // of the sequence before the next one that begins
		u32 start;          // where the lane's sequence begins, from the next 32 bytes on
		u32 at;

		// source is that of the lane's byte of the next 32.
		HR_FN Place source(Place to) {
			u32 begins = orAll(LANES > 1 ? bitAt(start) : start == 0);
			u32 v[4];
			vectorAt(moved(plan, 16 * count(begins & ((2u << lane()) - 1))), v);
			plan = moved(plan, 16 * count(begins));
			Place from = moved(to, at < v[Bench::MATCH] ? v[Bench::LITERALS] : v[Bench::SOURCE]);
			start -= LANES;
			at += LANES;
			return from;
		}
	};

	HR_FN void writeBytes(Place plan, u32 first, Place begin) const {
		Bytes bytes = {moved(plan, 0u - 16), has() ? mine.to - first : 0x80000000u, lane()};
		bool close = ballot(has() && mine.distance < LANES) != 0;
		Place to = moved(begin, lane());
		Place from = bytes.source(to);
		HR_ROLLED for (u32 at = 0; at < total; at += LANES) {
			u32 v = byteAt(from);
			bool inside = from >= begin;
			u32 source = inside ? apart(from, begin) : lane();
			begin = moved(begin, LANES);
			Place next = moved(to, LANES);
			from = bytes.source(next);
			if (close && ballot(inside)) v = follow(v, source);
			putByte(to, v);
			syncWarp();
			to = next;
		}
	}

	// follow gives a lane the value of the lane that its source is, or that one's source.
	static HR_FN u32 follow(u32 v, u32 source) {
		HR_UNROLL for (u32 i = 1; i < LANES; i *= 2) source = shuffle(source, source);
		return shuffle(v, source);
	}
};

// plan finds up to 32 sequences that the window lists, which are to be
// written at position to. Wrong ones, and what is longer than a piece, are left to Format::one.
// stop is the position behind dst. Far matches are on their way when it returns: they are
// in memory, though the bytes of the last batch may not even be written.
template <class Format> HR_FN Batch plan(const Window &in, const Recent &out, u32 to, u32 stop, Place stage) {
	Batch b;
	Sequence &s = b.mine;
	s.from = s.literals = s.distance = s.length = 0;
	bool has = lane() < in.left();
	if (has) Format::read(in, in.token(in.used + lane()), s);
	u32 n = s.literals + s.length, sum = sumBelow(n);
	s.to = to + sum - n;
	bool good = has && sum <= least<u32>(Recent::PIECE, stop - to) && s.distance - 1 < s.match() - out.start;
	u32 bad = ballot(!good);
	b.n = bad ? lowest(bad) : (u32)LANES;
	b.total = orAll(lane() + 1 == b.n ? sum : 0);
	b.stage = stage;
	// What is kept when the batch before is written, and room made for this one.
	u32 kept = out.keptAt(to);
	s.far = b.has() && s.match() - s.distance < kept;
	b.fetch(out);
	return b;
}

HR_FN Batch none() {
	Batch b = {{0, 0, 0, 0, 0, false}, 0, 0, 0};
	return b;
}

// decodeStream decodes a stream that must fill dst. All lanes of a warp call it, and get the same
// answer. Lengths are at most 2^31.
template <class Format> HR_FN bool decodeStream(u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	Bench &bench = benchOfWarp();
	Window in(bench.window, src, srcBytes);
	Recent out(bench.recent, dst);
	Place planAt = placeOf(bench.plan), stages = placeOf(bench.stages[0].of[lane()]);
	u32 at = in.first, stop = out.at + dstBytes, turn = 0;
	Progress progress = MORE;
	Batch batch = none();
	HR_ROLLED while (progress == MORE) {
		if (LANES > 1 && (!Format::FIRST_IS_OTHER || at > in.first)) {
			Batch next = none();
			bool empty = in.left() == 0;
			if (!empty) next = plan<Format>(in, out, out.at + batch.total, stop, moved(stages, sizeof(Stage) * (turn ^= 1)));
			endFetch();
			batch.write(planAt, out, in);
			batch = next;
			if (batch.n > 0) {
				at = in.use(batch.n);
				continue;
			}
			if (empty && at < in.end) {
				in.fill<Format>(at);
				if (in.left() > 0) continue;
			}
		}
		progress = Format::one(in, out, at, stop);
		in.passed(at);
	}
	if (progress == DONE) out.flushTo(out.at);
	syncWarp(); // before the memory is another stream's
	return progress == DONE;
}

} // namespace hr
