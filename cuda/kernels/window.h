// The part of a stream of LZ4 or blosclz that a warp is decoding, in shared memory, with a list
// of where its sequences begin.
//
// From sequence to sequence is a walk, each step of which needs the one before. So every lane walks
// through a part of its own, from its first byte as if a sequence began there. Walks that meet stay
// together, and from nearly everywhere they soon meet the right one. Then each lane walks again from
// where the lane before it ended, until none ends elsewhere than it did: the first
// lane is right at once, the second when the first is, and so on, most of them at once.
//
// Where sequences are long, walks do not meet, and there are few steps: one walk does them all.
#pragma once
#include "recent.h"

namespace hr {

// So little that eight blocks of threads fit on a multiprocessor of 228 KiB, with all else that they share.
enum { WINDOW_SIZE = 3584, WINDOW_TOKENS = 896 };

// WindowBytes are the shared memory of a Window.
struct alignas(16) WindowBytes {
	u8 bytes[WINDOW_SIZE + 16]; // a sequence may be read that ends behind them
	u16 tokens[WINDOW_TOKENS + 8];
};

// Window holds SIZE bytes of a stream from base on. Positions count from the multiple of 16 at or
// before the stream; places, from base. A Format is a struct whose behind(window, q, limit)
// is the place behind the sequence at q, or limit or more if the sequence is not before limit as a whole.
struct Window {
	enum : u32 {
		SIZE = WINDOW_SIZE,
		TOKENS = WINDOW_TOKENS,
		MOST = 16,       // bytes that continue a length
		FEW = 128,       // sequences of a window: one walk finds less of them sooner than many walks
		ENDED = 0x8000,  // set in the place of a sequence that is not whole in the window
	};
	static_assert(SIZE % (16 * 32) == 0 && SIZE < ENDED, "places");

	Place bytes, tokens; // places of sequences, and the one behind the last
	const u8 *words;
	u32 first, end; // positions of the stream
	u32 base;
	u32 count, used; // of the tokens
	bool sparse;     // there were few in the last window, so it may be with the next

	HR_FN Window(WindowBytes &shared, const u8 *src, u32 n) {
		bytes = placeOf(shared.bytes);
		tokens = placeOf(shared.tokens);
		first = (u32)(u64)src & 15;
		words = src - first;
		end = first + n;
		base = first - SIZE;
		count = used = 0;
		sparse = false;
		u32 zero[4] = {0, 0, 0, 0};
		if (lane() == 0) putVectorAt(moved(bytes, SIZE), zero); // which is read with what ends behind the window
	}

	HR_FN u32 left() const { return count - used; }
	HR_FN u32 byteOf(u32 q) const { return byteAt(moved(bytes, q)); }
	HR_FN u32 token(u32 i) const { return halfAt(moved(tokens, 2 * i)); }

	// fetch is the four bytes at a position. Bytes behind the stream are 0.
	HR_FN u32 fetch(u32 position) const {
		if (position < end && end - position >= 4) {
			Run<1> run;
			run.load(words + position);
			return run.word(0);
		}
		u32 w = 0;
		HR_ROLLED for (u32 i = 0; i < 4 && position + i < end; i++)
			w |= loadByte(words + position + i) << 8 * i;
		return w;
	}

	// load is 16 bytes at a multiple of 16; those that are not of the stream are 0.
	HR_FN Vector load(u32 position) const {
		Vector v = {{0, 0, 0, 0}};
		if (position >= first && position < end && end - position >= 16) {
			loadVector(v.w, words + position);
			return v;
		}
		HR_UNROLL for (u32 i = 0; i < 16; i++) {
			if (position + i >= first && position + i < end)
				v.w[i / 4] |= loadByte(words + position + i) << 8 * (i & 3);
		}
		return v;
	}

	// fill moves the window to a sequence, and lists those from it on.
	template <class Format> HR_FN void fill(u32 position) {
		enum { AT_ONCE = 7 }; // loads on their way
		static_assert(SIZE % (16 * AT_ONCE * 32) == 0, "the last loads are of the window");
		base = position & ~15u;
		syncWarp(); // the last window is read
		if (base >= first && end - base >= SIZE) {
			HR_ROLLED for (u32 i = 16 * lane(); i < SIZE; i += 16 * AT_ONCE * LANES) {
				Vector v[AT_ONCE];
				HR_UNROLL for (u32 k = 0; k < AT_ONCE; k++)
					loadVector(v[k].w, words + base + i + 16 * LANES * k);
				HR_UNROLL for (u32 k = 0; k < AT_ONCE; k++)
					putVectorAt(moved(bytes, i + 16 * LANES * k), v[k].w);
			}
		} else {
			HR_ROLLED for (u32 i = 16 * lane(); i < SIZE; i += 16 * LANES)
				putVectorAt(moved(bytes, i), load(base + i).w);
		}
		u32 ahead = base + SIZE + 128 * lane(); // a line of the cache each
		if (lane() < SIZE / 128 && ahead < end) prefetch(words + ahead);
		syncWarp();
		list<Format>(position - base);
		syncWarp();
	}

	template <class Format> HR_FN void list(u32 from) {
		u32 limit = least<u32>(SIZE, end - base);
		used = 0;
		if (sparse) listAlone<Format>(from, limit);
		else listTogether<Format>(from, limit);
		sparse = count < FEW;
	}

	// listAlone is one walk, the same in all lanes. It ends at FEW sequences: they are not few, so all lanes
	// share the next window.
	template <class Format> HR_FN void listAlone(u32 q, u32 limit) {
		HR_ROLLED for (count = 0;; count++) {
			if (lane() == 0) putHalf(moved(tokens, 2 * count), q);
			if (count == FEW) return;
			u32 at = behind<Format>(q, limit);
			if (at >= ENDED) return;
			q = at;
		}
	}

	template <class Format> HR_FN void listTogether(u32 from, u32 limit) {
		u32 step = (limit - from + LANES - 1) / LANES;
		u32 start = from + step * lane(), stop = least(start + step, limit), n = 0;
		u32 q = walk<Format>(start, stop, limit, n);
		HR_ROLLED for (;;) {
			u32 before = shuffle(q, (lane() - 1) & (LANES - 1));
			bool moved = lane() > 0 && before != start;
			if (ballot(moved) == 0) break;
			if (moved) {
				start = before;
				q = walk<Format>(start, stop, limit, n);
			}
		}
		u32 sum = sumBelow(n), i = sum - n, total = shuffle(sum, LANES - 1);
		if (lane() == LANES - 1 && total <= TOKENS) putHalf(moved(tokens, 2 * total), q & ~ENDED);
		HR_ROLLED for (q = start; i < least(sum, TOKENS + 1); i++) {
			putHalf(moved(tokens, 2 * i), q);
			q = behind<Format>(q, limit);
		}
		count = least<u32>(total, TOKENS);
	}

	// walk goes from sequence to sequence to the first that is not before stop, or has ended, and
	// counts its steps.
	template <class Format> HR_FN u32 walk(u32 q, u32 stop, u32 limit, u32 &n) const {
		n = 0;
		HR_ROLLED while (q < stop) {
			q = behind<Format>(q, limit);
			n += q < ENDED;
		}
		return q;
	}

	template <class Format> HR_FN u32 behind(u32 q, u32 limit) const {
		u32 at = Format::behind(*this, q, limit);
		return at < limit ? at : q | ENDED;
	}

	// extend adds the bytes that continue a length.
	HR_FN bool extend(u32 &at, u32 &length, u32 limit) const {
		HR_ROLLED for (u32 i = 0; i < MOST && at < limit; i++) {
			u32 v = byteOf(at++);
			length += v;
			if (v < 255) return true;
		}
		return false;
	}

	// use takes n sequences from the list, and gives the position behind them.
	HR_FN u32 use(u32 n) {
		used += n;
		return base + token(used);
	}

	// passed is called when a sequence has been decoded by other ways than the list, up to a
	// position.
	HR_FN void passed(u32 position) {
		if (left() > 0 && base + token(used + 1) == position) used++;
		else used = count;
	}
};

} // namespace hr
