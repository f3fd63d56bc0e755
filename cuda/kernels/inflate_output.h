// What a warp decodes from deflate, a segment at a time: literals are written to shared memory as
// they are decoded, matches are listed and copied when all literals are there.
#pragma once
#include "recent.h"

namespace hr {
namespace inflate {

// Ahead is up to eight bytes of memory, on their way.
struct Ahead {
#if defined(HR_GPU)
	u32 raw[3], shift;

	HR_FN void load(bool wanted, const u8 *p, u32 n) {
		u32 lead = (u32)(u64)p & 3;
		shift = 8 * lead;
		HR_UNROLL for (u32 i = 0; i < 3; i++) {
			raw[i] = 0;
			loadWordIf(wanted && 4 * i < lead + n, raw[i], p - lead + 4 * i);
		}
	}
	HR_FN u32 byte(u32 i) const { return funnel(raw[i / 4], raw[i / 4 + 1], shift) >> 8 * (i % 4); }
#else
	u8 bytes[8];
	HR_FN void load(bool wanted, const u8 *p, u32 n) {
		if (!wanted) return;
		memcpy(bytes, p, least(n, 8u));
		u32 lead = (u32)(u64)p & 3;
		wide(p - lead, least((lead + n + 3) & ~3u, 12u));
	}
	HR_FN u32 byte(u32 i) const { return bytes[i]; }
#endif
};

// Match is length bytes at a place of the segment, which are those at distance before.
struct Match {
	enum : u32 { LEAST = 3, LONG = LEAST + 15 };

	u32 to, length, distance;

	// pack is the entry of a list. A length from LONG on does not fit: it stands in the place of
	// its bytes.
	static HR_FN u32 pack(u32 to, u32 more, u32 less) { return to | least(more, LONG - LEAST) << 13 | less << 17; }

	HR_FN Match() {}
	HR_FN Match(u32 entry, const u8 *segment) {
		to = entry & 0x1fff;
		length = (entry >> 13 & 15) + LEAST;
		if (length == LONG) length = segment[to] + LEAST;
		distance = (entry >> 17) + 1;
	}
};

// Output is the end of what is decoded. Positions count from the multiple of 16 at or before the
// first byte; what lies before flushed is in memory, the rest in shared memory.
struct Output {
	enum : u32 {
		SEGMENT = 4096, // most bytes of a segment
		MATCHES = 768, // and matches
		SIZE = SEGMENT + 16,
		AHEAD = 4, // so many matches of a lane are on their way
	};
	static_assert(SIZE <= 8192, "a place has 13 bits");

	u8 *bytes;  // those from origin on
	u32 *list;  // of matches, the first one first
	u8 *base;   // position 0
	u32 start, at, end;
	u32 flushed, origin; // origin is the multiple of 16 at or before flushed

	HR_FN Output(u8 *shared, u32 *matches, u8 *dst, u32 n) {
		bytes = shared;
		list = matches;
		start = at = flushed = (u32)(u64)dst & 15;
		end = start + n;
		origin = 0;
		base = dst - start;
	}

	HR_FN u8 *here(u32 position) const { return bytes + (position - origin); }

	HR_FN u32 room() const { return end - at; }

	// flush writes what is before a position to memory.
	HR_FN void flush(u32 stop) {
		HR_ROLLED for (u32 v = origin + 16 * lane(); v < stop; v += 16 * LANES) {
			if (v >= flushed && v + 16 <= stop) {
				storeVector(base + v, getVector(here(v)).w);
				continue;
			}
			HR_ROLLED for (u32 i = most(v, flushed); i < least(v + 16, stop); i++) storeByte(base + i, *here(i));
		}
		syncWarp();
		flushed = stop;
	}

	// wrote goes behind n bytes that are here as a whole. It keeps those that make no vector yet.
	HR_FN void wrote(u32 n) {
		at += n;
		u32 stop = at & ~15u;
		if (stop <= flushed) return;
		flush(stop);
		if (lane() == 0) moveVector(bytes, here(stop));
		origin = stop;
		syncWarp();
	}

	// plain appends n bytes of the stream, for which there is room.
	HR_FN void plain(const u8 *src, u32 n) {
		flush(at);
		copyBytes(base + at, src, n, lane(), LANES);
		flushed = at += n;
		origin = at & ~15u;
		syncWarp();
	}

	// source is the position where a match comes from.
	HR_FN u32 source(const Match &m) const { return origin + m.to - m.distance; }

	// copyMatches copies those of the list, whose literals are all here.
	HR_FN void copyMatches(u32 count) {
		u32 left = 0; // those of the list that do not come from memory
		u32 first4 = (start + 3) & ~3u, last4 = flushed & ~3u; // memory is read by words: all of such a word is ours, and there
		HR_ROLLED for (u32 first = 0; first < count; first += AHEAD * LANES) {
			u32 entry[AHEAD];
			bool far[AHEAD];
			Ahead head[AHEAD];
			HR_UNROLL for (u32 k = 0; k < AHEAD; k++) {
				u32 i = first + k * LANES + lane();
				entry[k] = i < count ? list[i] : 0;
				Match m(entry[k], bytes);
				far[k] = i < count && m.length < Match::LONG && source(m) >= first4 && source(m) + m.length <= last4;
				head[k].load(far[k], base + source(m), m.length);
			}
			syncWarp(); // the entries are read
			HR_UNROLL for (u32 k = 0; k < AHEAD; k++) {
				bool stays = first + k * LANES + lane() < count && !far[k];
				u32 stay = ballot(stays);
				if (stays) list[left + hr::count(stay & ((1u << lane()) - 1))] = entry[k];
				left += hr::count(stay);
			}
			HR_UNROLL for (u32 k = 0; k < AHEAD; k++) {
				if (far[k]) copyFar(Match(entry[k], bytes), head[k]);
			}
		}
		syncWarp();
		HR_ROLLED for (u32 first = 0; first < left; first += LANES) copyNear(first, left);
	}

	HR_FN void copyFar(const Match &m, const Ahead &head) const {
		u8 *to = bytes + m.to;
		HR_UNROLL for (u32 i = 0; i < 8; i++) {
			if (i < m.length) to[i] = (u8)head.byte(i);
		}
		HR_ROLLED for (u32 i = 8; i < m.length; i++) to[i] = (u8)loadByte(base + source(m) + i);
	}

	// copyNear copies those from entry first on, a lane one, in rounds: each waits for those that
	// its bytes come from. Long ones are copied by all lanes.
	HR_FN void copyNear(u32 first, u32 count) const {
		u32 i = first + lane();
		bool has = i < count;
		Match m(has ? list[i] : 0, bytes);
		u32 to = has ? origin + m.to : 0x80000000, from = has ? source(m) : 0;
		bool alone = m.length < Match::LONG && from >= flushed;
		u32 begun = lanesUpTo(to + m.length, from), before = lanesUpTo(to + 1, least(from + m.length, to));
		u32 needs = ((1u << before) - 1) & ~((1u << begun) - 1);
		u32 pending = ballot(has);
		syncWarp(); // lengths are read, which stand where bytes go
		HR_ROLLED while (pending) {
			bool now = (pending >> lane() & 1) && (pending & needs) == 0;
			if (now && alone) copyAlone(m);
			HR_ROLLED for (u32 rest = ballot(now && !alone); rest; rest &= rest - 1) {
				u32 k = lowest(rest);
				copyLong(shuffle(to, k), shuffle(m.length, k), shuffle(m.distance, k));
			}
			pending &= ~ballot(now);
			syncWarp();
		}
	}

	// copyAlone copies four bytes at a time: what repeats after fewer bytes repeats after a
	// multiple of them.
	HR_FN void copyAlone(const Match &m) const {
		u8 *to = bytes + m.to;
		const u8 *from = to - m.distance;
		u32 d = m.distance;
		u8 v[4] = {from[0], from[d > 1], from[d > 2 ? 2 : 0], from[m.length == Match::LEAST ? 0 : d > 3 ? 3 : d == 2]}; // none that is not of it: another lane may write there
		HR_UNROLL for (u32 k = 0; k < 4; k++) {
			if (k < m.length) to[k] = v[k];
		}
		from = to - (d == 3 ? 6 : most(d, 4u));
		HR_ROLLED for (u32 i = 4; i < m.length; i += 4) {
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < m.length) v[k] = from[i + k];
			}
			HR_UNROLL for (u32 k = 0; k < 4; k++) {
				if (i + k < m.length) to[i + k] = v[k];
			}
		}
	}

	// copyLong copies from memory and from here. No lane reads what another writes.
	HR_FN void copyLong(u32 to, u32 n, u32 distance) const {
		u32 from = to - distance;
		HR_ROLLED for (u32 i = lane(); i < n; i += LANES) {
			u32 j = from + (distance < n ? i - distance * quotient(i, distance) : i);
			*here(to + i) = (u8)(j < flushed ? loadByte(base + j) : *here(j));
		}
	}
};

} // namespace inflate
} // namespace hr
