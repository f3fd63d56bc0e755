// Streams of sequences, LZ4 and blosclz, a warp each. A sequence is some literals and a match; one
// of the two may be missing.
//
// A warp takes 64 sequences at once, two a lane: a prefix sum tells where each writes. Then
// output is made 32 bytes at a time, a lane a byte, or four times as many if none of them is a copy of
// another: which sequence a byte is of is how many of them begin up to it. So lanes are busy however
// short or uneven sequences are, and all of it comes from shared memory: literals from the window of
// the stream, near matches from the last bytes of the output, and far ones, which are fetched while
// the sequences before them are written. The bytes before the 32 are written, and among these a byte
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

// EACH is how many sequences a lane decodes at once: what a batch costs whatever is in it, sums and
// votes, is paid once for all of them.
enum : u32 { EACH = 2 };

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

// Stage holds the sources of the far matches of a batch: each the words that hold it. What is longer than MOST
// is copied alone: two stages for all sequences take shared memory that the window and the output need.
struct Stage {
	enum : u32 { MOST = 8, WORDS = MOST / 4 + 1 }; // bytes of a match

	u32 of[EACH * LANES][WORDS];
};

// Sequence is where literals lie in the window, and where they and the match go to.
struct Sequence {
	u32 from, literals;
	u32 to, distance, length;
	bool far; // the match is not in Recent

	HR_FN u32 match() const { return to + literals; }
	HR_FN bool staged() const { return far && length <= Stage::MOST; }
};

// Plan is the sequences of a batch as all lanes know them: where in the output a match begins, how far
// from a byte of the literals and of the match the byte is that it is a copy of, and 2^31 by
// the distance, rounded up. A match that overlaps itself repeats: its bytes are copies of the ones before it, and
// not of each other.
struct Plan {
	enum { MATCH, LITERALS, SOURCE, INVERSE };

	Vector of[EACH * LANES];

	// inverse is so near to 2^31 / d that i / d is right for i below 2^12, and for all if i is below d.
	static HR_FN u32 inverse(u32 d) { return (u32)(reciprocal((float)d) * 2148007936.f); }

	// source is how far from the byte at position at of the output its source is.
	static HR_FN u32 source(const u32 *v, u32 at) {
		u32 i = at - v[MATCH];
		return (i32)i < 0 ? v[LITERALS] : v[SOURCE] * (mulHigh(2 * i, v[INVERSE]) + 1);
	}
};

// WarpShared is the shared memory that a warp decodes in. Output is last: what is not of it
// lies before.
struct alignas(16) WarpShared {
	WindowBytes window;
	Plan plan;
	Stage stages[2];
	u8 recent[Recent::SIZE + 32]; // bytes are written by 32
};

HR_FN WarpShared &sharedOfWarp() {
	HR_SHARED WarpShared shared[DECODE_BLOCK / 32];
	return shared[warp()];
}

// Batch is what the lanes of a warp decode at once: each some sequences, one after the other.
struct Batch {
	Sequence mine[EACH];
	u32 n;       // sequences; the lanes above have none
	u32 total;   // bytes of output
	Place stage; // of the lane's first

	HR_FN void clear() { n = total = 0; }

	HR_FN bool has(u32 k) const { return EACH * lane() + k < n; }

	HR_FN Place stageOf(u32 k) const { return moved(stage, 4 * Stage::WORDS * k); }

	// fetch begins to load what is far.
	HR_FN void fetch(const Recent &out) const {
		HR_UNROLL for (u32 k = 0; k < EACH; k++) {
			const Sequence &s = mine[k];
			const u8 *from = out.base + (s.match() - s.distance);
			u32 lead = (u32)(u64)from & 3;
			if (s.staged()) {
				HR_UNROLL for (u32 i = 0; i < Stage::WORDS; i++) {
					if (4 * i < lead + s.length) fetchWord(moved(stageOf(k), 4 * i), from - lead + 4 * i, (i32)(lead - 4 * i), (i32)(lead + s.length - 4 * i));
				}
			} else if (s.far) {
				prefetch(from);
			}
		}
	}

	// copyLong copies far matches that are not staged, all lanes one after the other.
	HR_FN void copyLong(const Recent &out) const {
		HR_UNROLL for (u32 k = 0; k < EACH; k++) {
			const Sequence &s = mine[k];
			HR_ROLLED for (u32 rest = ballot(s.far && !s.staged()); rest; rest &= rest - 1) {
				u32 i = lowest(rest), m = shuffle(s.match(), i);
				out.place(m, out.base + (m - shuffle(s.distance, i)), shuffle(s.length, i));
			}
		}
	}

	// writePlan tells all lanes of each other's sequences. A long far match is its own
	// source: it is there.
	HR_FN void writePlan(Place plan, const Recent &out, const Window &in) const {
		HR_UNROLL for (u32 k = 0; k < EACH; k++) {
			const Sequence &s = mine[k];
			if (!has(k)) continue;
			Place literals = placeOf(out.here(s.to)), match = placeOf(out.here(s.match()));
			Place staged = moved(stageOf(k), (u32)(u64)(out.base + (s.match() - s.distance)) & 3);
			u32 source = s.staged() ? apart(staged, match) : s.far ? 0 : 0 - s.distance;
			u32 v[4] = {s.match() - out.at, apart(moved(in.bytes, s.from), literals), source, s.far ? 0 : Plan::inverse(s.distance)};
			putVectorAt(moved(plan, 16 * (EACH * lane() + k)), v);
		}
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
		clear();
	}

	// Bytes is a lane's walk through the output of a batch, a byte every LANES.
	struct Bytes {
		Place plan;       // of the sequence before the next one that begins
		u32 starts[EACH]; // where the lane's sequences begin, from the next byte of lane 0 on
		u32 at;           // of the next byte
		Place begin;      // of that of lane 0

		// sources are those of the lane's next N bytes.
		template <u32 N> HR_FN void sources(Place *from) {
			u32 begins[N], v[N][4], upTo = 2 * below() + 1;
			HR_UNROLL for (u32 r = 0; r < N; r++) {
				u32 mine = 0;
				HR_UNROLL for (u32 k = 0; k < EACH; k++) mine |= LANES > 1 ? bitAt(starts[k] - LANES * r) : starts[k] == r;
				begins[r] = orAll(mine);
			}
			HR_UNROLL for (u32 r = 0; r < N; r++) {
				vectorAt(moved(plan, 16 * count(begins[r] & upTo)), v[r]);
				plan = moved(plan, 16 * count(begins[r]));
			}
			HR_UNROLL for (u32 r = 0; r < N; r++) from[r] = moved(begin, lane() + LANES * r + Plan::source(v[r], at + LANES * r));
			HR_UNROLL for (u32 k = 0; k < EACH; k++) starts[k] -= LANES * N;
			at += LANES * N;
		}

		// write writes N bytes a lane. More than LANES * (N - 1), and those before left, are of the batch; what a
		// lane makes behind these is nothing, so it reads no source but the byte that it writes.
		template <u32 N> HR_FN void write(u32 left) {
			Place from[N], to = moved(begin, lane());
			sources<N>(from);
			bool none = lane() + LANES * (N - 1) >= left;
			bool inside = false;
			HR_UNROLL for (u32 r = 0; r < N; r++) inside |= from[r] >= begin;
			if (ballot(inside) == 0) {
				u32 v[N];
				HR_UNROLL for (u32 r = 0; r < N; r++) v[r] = byteOf(from[r], moved(to, LANES * r), false, r == N - 1 && none);
				HR_UNROLL for (u32 r = 0; r < N; r++) putByte(moved(to, LANES * r), v[r]);
				begin = moved(begin, LANES * N);
				syncWarp();
				return;
			}
			HR_UNROLL for (u32 r = 0; r < N; r++) {
				inside = from[r] >= begin;
				// What another lane writes now it does not read. It may be its own source.
				u32 v = byteOf(from[r], moved(to, LANES * r), inside, r == N - 1 && none);
				if (ballot(inside)) v = follow(v, inside ? apart(from[r], begin) : lane());
				putByte(moved(to, LANES * r), v);
				begin = moved(begin, LANES);
				syncWarp();
			}
		}

		static HR_FN u32 byteOf(Place from, Place to, bool inside, bool none) {
			bool used = !none && (!inside || from == to);
			return counts(used) ? byteAt(inside || none ? to : from) : 0;
		}

		// follow gives a lane the value of the lane that its source is, or that one's source.
		static HR_FN u32 follow(u32 v, u32 source) {
			HR_ROLLED for (;;) {
				u32 next = shuffle(source, source);
				if (ballot(next != source) == 0) return shuffle(v, source);
				source = next;
			}
		}
	};

	// ROUNDS is how many bytes a lane writes at once, where none of them is a copy of another of them:
	// they are then on their way from shared memory together.
	enum : u32 { ROUNDS = 4 };

	HR_FN void writeBytes(Place plan, u32 first, Place begin) const {
		Bytes bytes = {moved(plan, 0u - 16), {}, lane(), begin};
		HR_UNROLL for (u32 k = 0; k < EACH; k++) bytes.starts[k] = has(k) ? mine[k].to - first : 0x80000000u;
		u32 left = total;
		HR_ROLLED for (; left > (ROUNDS - 1) * LANES; left -= least<u32>(left, ROUNDS * LANES)) bytes.write<ROUNDS>(left);
		HR_ROLLED for (; left > 0; left -= least<u32>(left, LANES)) bytes.write<1>(left);
	}
};

// plan finds sequences that the window lists, which are to be
// written at position to. Wrong ones, and what is longer than a piece, are left to Format::one.
// stop is the position behind dst. Far matches are on their way when it returns: they are
// in memory, though the bytes of the last batch may not even be written.
template <class Format> HR_FN void plan(Batch &b, const Window &in, const Recent &out, u32 to, u32 stop, Place stage) {
	u32 own = 0, room = least<u32>(Recent::PIECE, stop - to);
	HR_UNROLL for (u32 k = 0; k < EACH; k++) {
		Sequence &s = b.mine[k];
		s.from = s.literals = s.distance = s.length = 0;
		u32 i = EACH * lane() + k;
		if (i < in.left()) Format::read(in, in.token(in.used + i), s);
		own += s.literals + s.length;
	}
	u32 sum = sumBelow(own), at = to + sum - own, good = 0, bytes = 0; // good: of the lane's
	HR_UNROLL for (u32 k = 0; k < EACH; k++) {
		Sequence &s = b.mine[k];
		s.to = at;
		at += s.literals + s.length;
		if (good == k && s.length + s.literals > 0 && at - to <= room && s.distance - 1 < s.match() - out.start) {
			good = k + 1;
			bytes = at - to;
		}
	}
	u32 bad = ballot(good < EACH), last = bad ? lowest(bad) : LANES - 1;
	b.n = EACH * last + shuffle(good, last);
	b.total = orAll(b.n > EACH * lane() && b.n <= EACH * lane() + EACH ? bytes : 0);
	b.stage = stage;
	// What is kept when the batch before is written, and room made for this one.
	u32 kept = out.keptAt(to);
	HR_UNROLL for (u32 k = 0; k < EACH; k++) b.mine[k].far = b.has(k) && b.mine[k].match() - b.mine[k].distance < kept;
	b.fetch(out);
}

HR_FN Batch none() {
	Batch b = {};
	return b;
}

// decodeStream decodes a stream that must fill dst. All lanes of a warp call it, and get the same
// answer. Lengths are at most 2^31.
template <class Format> HR_FN bool decodeStream(u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes) {
	WarpShared &shared = sharedOfWarp();
	Window in(shared.window, src, srcBytes);
	Recent out(shared.recent, dst);
	Place planAt = placeOf(&shared.plan), stages = placeOf(shared.stages[0].of[EACH * lane()]);
	u32 at = in.first, stop = out.at + dstBytes, turn = 0;
	Progress progress = MORE;
	Batch batch = none();
	HR_ROLLED while (progress == MORE) {
		if (LANES > 1 && (!Format::FIRST_IS_OTHER || at > in.first)) {
			Batch next = none();
			bool empty = in.left() == 0;
			if (!empty) plan<Format>(next, in, out, out.at + batch.total, stop, moved(stages, sizeof(Stage) * (turn ^= 1)));
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
