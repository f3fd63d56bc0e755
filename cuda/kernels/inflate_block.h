// Deflate streams (RFC 1951; its sections are cited as 3.2.3 and the like), a warp each.
//
// Where a symbol begins is known only when those before it are decoded. But whoever begins at a
// wrong bit is soon at a right one, since codes differ in length. So each lane takes a span of the
// stream, and begins some way before it: if the first symbol of its span is where the lane below
// found the end of its own, and that is so for the lanes below it too, then what it has decoded is
// right. How far ahead they begin, and how long spans are, follows from how that goes.
//
// A span is decoded twice: first for how many bytes and matches it has, which tells by prefix sums
// where they go to, then to write them.
#pragma once
#include "inflate_codes.h"
#include "inflate_output.h"

namespace hr {
namespace inflate {

// WarpShared is the shared memory that a warp decodes in.
struct alignas(16) WarpShared {
	u8 input[Input::SIZE];
	u8 output[Output::SIZE];
	Tables tables;
	union {
		u32 matches[Output::MATCHES];
		BuilderShared builder;
	};
};

// Reader decodes symbols of literals and lengths, and of distances.
struct Reader : Bits {
	Place tables;

	HR_FN Reader(const Input &in, const Tables &t, u32 bit) : Bits(in, bit), tables(placeOf(&t)) {}

	// take gives the kind of a symbol, and the number that it and its extra bits tell. It skips six
	// bits too many behind an END.
	template <u32 ALPHABET> HR_FN u32 take(u32 &number) {
		const u32 first = ALPHABET == LITERALS ? (u32)Tables::LITERAL_BITS : (u32)Tables::DISTANCE_BITS;
		Place table = tables + (ALPHABET == LITERALS ? 0 : 2 * Tables::LITERAL_ENTRIES);
		fill();
		u32 e = halfAt(table + (2 * low & ((2u << first) - 2)));
		if (kindOf(e) == LINK)
			e = halfAt(table + (2u << first) + 4 * (e >> 8) + 2 * (low >> first & ((1u << (e & 15)) - 1)));
		u32 length = e & 15, kind = kindOf(e), extra = ALPHABET == LITERALS ? kind & 7 : kind;
		number = ((e >> 8) << extra) + (low >> length & ((1u << extra) - 1));
		skip(length + extra);
		return kind;
	}
};

// Span is what a lane finds in its part.
struct Span {
	u32 start, end; // of its symbols; it ends early where the block does, and where there is no room
	u32 bytes, matches;
	u32 halt; // END or WRONG, or 0

	// scan decodes from guess on; its span begins at from and ends at stop.
	HR_FN void scan(const Input &in, const Tables &tables, u32 guess, u32 from, u32 stop) {
		Reader r(in, tables, guess);
		u32 number;
		HR_ROLLED while (r.at() < from) {
			if (r.take<LITERALS>(number) < END) r.take<DISTANCES>(number);
		}
		start = r.at();
		bytes = matches = halt = 0;
		HR_ROLLED while (r.at() < stop && bytes <= Output::SEGMENT - 258 && halt == 0) {
			u32 kind = r.take<LITERALS>(number);
			if (kind >= END) {
				bytes += kind == LITERAL;
			} else {
				bytes += number + Match::LEAST;
				matches++;
				kind = r.take<DISTANCES>(number) == WRONG ? (u32)WRONG : 0;
			}
			if (kind == END || kind == WRONG) halt = kind;
		}
		end = r.at() - (halt == END ? 6 : 0);
	}
};

// Stream is a stream while it is decoded. All lanes of a warp have the same in it.
struct Stream {
	enum : u32 { LEAST_AHEAD = 64, MOST_AHEAD = 1024 };

	WarpShared &shared;
	Input in;
	Output out;
	u32 at;    // bit
	u32 span;  // words of a lane
	u32 ahead; // bits before it at which a lane begins

	HR_FN Stream(WarpShared &b, u8 *dst, u32 dstBytes, const u8 *src, u32 srcBytes)
	    : shared(b), in(b.input, src, srcBytes), out(b.output, b.matches, dst, dstBytes), at(8 * in.first),
	      span(11), ahead(512) {}

	// read is the number of bytes of the stream that have been read, in part at least.
	HR_FN u32 read() const { return (at + 7) / 8 - in.first; }

	// decode is to the end of the stream (3.2.3).
	HR_FN Status decode() {
		Status status = OK;
		bool last = false;
		HR_ROLLED while (!last && status == OK) {
			in.cover(at, Input::BEYOND);
			u32 head = in.peek(at);
			at += 3;
			if (in.torn(at)) return CORRUPT;
			last = head & 1;
			switch (head >> 1 & 3) {
			case 0: status = stored(); break;
			case 1: status = fixed(); break;
			case 2: status = dynamic(); break;
			default: status = CORRUPT; break;
			}
		}
		out.flush(out.at);
		return status;
	}

	// 3.2.4
	HR_FN Status stored() {
		at = (at + 7) & ~7u;
		if (in.torn(at + 32)) return CORRUPT;
		in.cover(at, Input::BEYOND);
		u32 w = in.peek(at), n = w & 0xffff;
		at += 32;
		if ((w >> 16 ^ n) != 0xffff || n > in.end - at / 8 || n > out.room()) return CORRUPT;
		out.plain(in.words + at / 8, n);
		at += 8 * n;
		return OK;
	}

	// 3.2.6
	HR_FN Status fixed() {
		u8 *lengths = shared.builder.lengths;
		HR_ROLLED for (u32 i = lane(); i < 288; i += LANES)
			lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
		HR_ROLLED for (u32 i = lane(); i < 32; i += LANES) lengths[288 + i] = 5;
		return compressed(288, 32);
	}

	// 3.2.7
	HR_FN Status dynamic() {
		in.cover(at, Input::BEYOND);
		u32 head = in.peek(at), literals = 257 + (head & 31), distances = 1 + (head >> 5 & 31);
		u32 count = 4 + (head >> 10 & 15);
		at += 14;
		if (literals > 286 || distances > 30) return CORRUPT;
		u8 *lengths = shared.builder.lengths;
		HR_ROLLED for (u32 i = lane(); i < 19; i += LANES) {
			u32 symbol = i < 4 ? (i + 16) % 19 : i % 2 ? 7 - (i - 4) / 2 : 8 + (i - 4) / 2;
			lengths[symbol] = i < count ? (u8)(in.peek(at + 3 * i) & 7) : 0;
		}
		syncWarp();
		at += 3 * count;
		Builder codes(shared.builder, 0, 19, CODE_LENGTHS);
		Status status = codes.make(shared.tables.literals, Tables::LITERAL_ENTRIES);
		if (status != OK) return status;
		return codeLengths(literals + distances) ? compressed(literals, distances) : CORRUPT;
	}

	// codeLengths reads those of n codes. At most 14 bits tell one.
	HR_FN bool codeLengths(u32 n) {
		in.cover(at, 14 * BuilderShared::MOST / 8 + Input::BEYOND);
		u8 *lengths = shared.builder.lengths;
		Bits bits(in, at);
		u32 before = 0;
		HR_ROLLED for (u32 i = 0; i < n;) {
			bits.fill();
			u32 e = shared.tables.literals[bits.low & ((1u << Tables::CODE_LENGTH_BITS) - 1)],
			    symbol = e >> 8;
			if (kindOf(e) == WRONG) return false;
			bits.skip(e & 15);
			u32 repeat = 1, extra = 0;
			if (symbol < 16) {
				before = symbol;
			} else {
				if (symbol == 16 && i == 0) return false;
				if (symbol != 16) before = 0;
				extra = symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
				repeat = (symbol == 18 ? 11 : 3) + (bits.low & ((1u << extra) - 1));
				bits.skip(extra);
			}
			if (repeat > n - i) return false;
			HR_ROLLED for (u32 k = lane(); k < repeat; k += LANES) lengths[i + k] = (u8)before;
			i += repeat;
		}
		at = bits.at();
		return !in.torn(at);
	}

	// compressed decodes a block whose code lengths are in shared memory.
	HR_FN Status compressed(u32 literals, u32 distances) {
		syncWarp();
		Builder first(shared.builder, 0, literals, LITERALS);
		Status status = first.make(shared.tables.literals, Tables::LITERAL_ENTRIES);
		if (status != OK) return status;
		Builder second(shared.builder, literals, distances, DISTANCES);
		status = second.make(shared.tables.distances, Tables::DISTANCE_ENTRIES);
		bool last = false;
		HR_ROLLED while (status == OK && !last) status = segment(last);
		return status;
	}

	// segment decodes a span a lane, as far as they turn out right.
	HR_FN Status segment(bool &last) {
		in.cover(at, 4 * LANES * span + Input::BEYOND);
		u32 before = 32 * span * lane(), from = at + before;
		Span s;
		s.scan(in, shared.tables, from - least(before, ahead), from, from + 32 * span);
		u32 found = shuffle(s.end, lane() - 1), halted = shuffle(s.halt, lane() - 1);
		u32 bytes = sumBelow(s.bytes), matches = sumBelow(s.matches);
		u32 lost = ballot(lane() > 0 && (halted || found != s.start));
		u32 full = ballot(bytes > Output::SEGMENT || matches > Output::MATCHES);
		u32 count = lost | full ? lowest(lost | full) : (u32)LANES;

		u32 end = shuffle(s.end, count - 1), halt = shuffle(s.halt, count - 1);
		u32 allBytes = shuffle(bytes, count - 1), allMatches = shuffle(matches, count - 1);
		if (halt == WRONG || in.torn(end) || allBytes > out.room()) return CORRUPT;
		bool good = lane() >= count || write(s, out.at - out.origin + bytes - s.bytes, matches - s.matches);
		if (ballot(!good)) return CORRUPT;
		syncWarp();
		out.copyMatches(allMatches);
		out.wrote(allBytes);
		last = halt == END;
		if (!last)
			adapt(count, (full & 1u << (count & 31)) || end < at + 32 * span * count, allBytes, allMatches);
		at = end;
		return OK;
	}

	// write decodes the span of a lane again. It is false if a match begins before the output.
	HR_FN bool write(const Span &s, u32 to, u32 match) const {
		Reader r(in, shared.tables, s.start);
		u32 start = out.start - out.origin; // which may be before the segment
		bool good = true;
		HR_ROLLED while (r.at() < s.end) {
			u32 number, distance, kind = r.take<LITERALS>(number);
			if (kind >= END) {
				if (kind == LITERAL) out.bytes[to++] = (u8)number;
			} else {
				r.take<DISTANCES>(distance);
				good = good && distance < to - start;
				out.list[match++] = Match::pack(to, number, distance);
				if (number >= Match::LONG - Match::LEAST) out.bytes[to] = (u8)number;
				to += number + Match::LEAST;
			}
		}
		return good;
	}

	// adapt is for the next segment: longer spans while there is room, and so far ahead that few
	// lanes are lost.
	HR_FN void adapt(u32 count, bool full, u32 bytes, u32 matches) {
		if (count == LANES) {
			ahead = most(ahead - ahead / 16, (u32)LEAST_AHEAD);
			if (8 * bytes <= 7 * Output::SEGMENT && 8 * matches <= 7 * Output::MATCHES)
				span = least(span + 2, (u32)Input::SPAN);
		} else if (full) {
			span = span * count / LANES | 1;
		} else {
			ahead = least(ahead + ahead / 4, (u32)MOST_AHEAD);
		}
	}
};

static_assert(16 * Input::SPAN <= Output::MATCHES && Input::SPAN % 2 == 1,
    "a lane has room; lanes read from different banks");

} // namespace inflate
} // namespace hr
