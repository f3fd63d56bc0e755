// Huffman codes of deflate (3.2.2, 3.2.5 to 3.2.7) and the tables that they are decoded with. A
// warp makes them.
#pragma once
#include "inflate_input.h"
#include "recent.h"

namespace hr {
namespace inflate {

enum : u32 { LONGEST = 15 }; // bits of a code

// An entry of a table has the bits of a code in its low four bits, then four that say what it
// stands for: up to 13, a length or a distance less the least one there is, with so many bits to
// follow, and the number above them in the high byte; a literal has its byte there.
enum Kind : u32 { END = 6, LITERAL = 8, WRONG = 14, LINK = 15 };

HR_FN u32 kindOf(u32 entry) { return entry >> 4 & 15; }

// Alphabet is what symbols stand for.
enum Alphabet : u32 { LITERALS, DISTANCES, CODE_LENGTHS };

// Tables hold for the first bits of a code its entry; if it goes on, a link to a second table: in
// place of the code's bits how many bits that is for, and in the high byte half its place.
struct Tables {
	enum : u32 {
		LITERAL_BITS = 10,
		DISTANCE_BITS = 8,
		CODE_LENGTH_BITS = 7,
		// The most that complete codes of 288 and 32 symbols need.
		LITERAL_ENTRIES = 1334 + 2,
		DISTANCE_ENTRIES = 402 + 6,
	};

	u16 literals[LITERAL_ENTRIES]; // here are the lengths of codes, before
	u16 distances[DISTANCE_ENTRIES];
};

// meaning is the entry of a symbol, without the bits of its code.
HR_FN u32 meaning(u32 alphabet, u32 symbol) {
	if (alphabet == CODE_LENGTHS) return symbol << 8;
	u32 few = 2, number = symbol, extra = 0; // few: how many bits tell a number that is not small, with the first
	if (alphabet == LITERALS) {
		if (symbol < 256) return symbol << 8 | LITERAL << 4;
		if (symbol == 256) return END << 4;
		if (symbol > 285) return WRONG << 4;
		if (symbol == 285) return 255 << 8; // 258
		few = 3;
		number = symbol - 257;
	} else if (symbol > 29) {
		return WRONG << 4;
	}
	if (number >> few) {
		extra = (number >> (few - 1)) - 1;
		number = 1u << (few - 1) | (number & ((1u << (few - 1)) - 1));
	}
	return number << 8 | extra << 4;
}

// reversed has the low n bits the other way round: the first bit of a code comes lowest.
HR_FN u32 reversed(u32 v, u32 n) {
	v = (v >> 1 & 0x5555) | (v & 0x5555) << 1;
	v = (v >> 2 & 0x3333) | (v & 0x3333) << 2;
	v = (v >> 4 & 0x0f0f) | (v & 0x0f0f) << 4;
	v = (v >> 8 & 0x00ff) | (v & 0x00ff) << 8;
	return v >> (16 - n);
}

// BuilderShared is the shared memory that a table is made from.
struct BuilderShared {
	enum { MOST = 320 }; // symbols of two alphabets

	u8 lengths[MOST]; // of codes
	u16 sorted[MOST]; // symbols by the lengths of their codes
	u16 counts[16];   // codes of each length
	u16 places[16];   // where the next symbol of a length is sorted to
	u16 bias[16];     // from a code of so many bits to the place of its symbol
};

// Builder makes a table of the codes of n symbols, whose lengths begin at first of those in shared memory.
// All lanes have the same in it. Codes are looked at as numbers of LONGEST bits.
struct Builder {
	BuilderShared &shared;
	const u8 *lengths;
	u32 symbols, alphabet, bits;
	u32 limits[LONGEST + 1]; // codes of up to so many bits are below it

	HR_FN Builder(BuilderShared &d, u32 first, u32 n, u32 a)
	    : shared(d), lengths(d.lengths + first), symbols(n), alphabet(a) {
		bits = a == LITERALS    ? Tables::LITERAL_BITS
		       : a == DISTANCES ? Tables::DISTANCE_BITS
		                        : Tables::CODE_LENGTH_BITS;
	}

	HR_FN u32 lengthOf(u32 symbol) const { return symbol < symbols ? lengths[symbol] : 0; }

	HR_FN void count() {
		HR_ROLLED for (u32 i = lane(); i < 16; i += LANES) shared.counts[i] = 0;
		syncWarp();
		HR_ROLLED for (u32 first = 0; first < symbols; first += LANES) {
			u32 n = lengthOf(first + lane()), same = match(n);
			if (n > 0 && lowest(same) == lane()) shared.counts[n] = (u16)(shared.counts[n] + hr::count(same));
			syncWarp();
		}
	}

	// limit is false for codes that are not complete, unless there is one of a single bit, or none.
	HR_FN bool limit() {
		u32 code = 0, place = 0;
		limits[0] = 0;
		if (lane() == 0) shared.places[0] = 0; // which sort reads with the others
		HR_UNROLL for (u32 n = 1; n <= LONGEST; n++) {
			if (lane() == 0) {
				shared.places[n] = (u16)place;
				shared.bias[n] = (u16)(place - (code >> (LONGEST - n)));
			}
			u32 c = shared.counts[n];
			place += c;
			code += c << (LONGEST - n);
			limits[n] = code;
		}
		syncWarp();
		return code == 1u << LONGEST || place == 0 || (place == 1 && shared.counts[1] == 1);
	}

	HR_FN void sort() {
		HR_ROLLED for (u32 first = 0; first < symbols; first += LANES) {
			u32 n = lengthOf(first + lane()), same = match(n), place = shared.places[n];
			if (n > 0) shared.sorted[place + hr::count(same & below())] = (u16)(first + lane());
			syncWarp();
			if (n > 0 && lowest(same) == lane()) shared.places[n] = (u16)(place + hr::count(same));
			syncWarp();
		}
	}

	// bitsOf is the length of the code that a number begins with: more than LONGEST if there is
	// none.
	HR_FN u32 bitsOf(u32 code) const {
		u32 n = 1;
		HR_UNROLL for (u32 k = 1; k <= LONGEST; k++) n += code >= limits[k];
		return n;
	}

	HR_FN u16 entry(u32 code, u32 n) const {
		if (n > LONGEST) return WRONG << 4 | 1;
		return (u16)(meaning(alphabet, shared.sorted[(u16)(shared.bias[n] + (code >> (LONGEST - n)))]) | n);
	}

	HR_FN void first(u16 *table) const {
		HR_ROLLED for (u32 i = lane(); i < 1u << bits; i += LANES) {
			u32 code = reversed(i, bits) << (LONGEST - bits), n = bitsOf(code);
			if (n <= bits || n > LONGEST) table[i] = entry(code, n);
		}
	}

	// second makes the tables of codes that go on behind their first bits, a lane a table. Codes
	// grow with their lengths, so that the last one of a table has most bits. It is false if there
	// is no room.
	HR_FN bool second(u16 *table, u32 entries) const {
		u32 rest = LONGEST - bits, next = 1u << bits, end = limits[LONGEST] >> rest;
		HR_ROLLED for (u32 from = limits[bits] >> rest; from < end; from += LANES) {
			u32 code = from + lane();
			bool has = code < end;
			u32 more = has ? bitsOf((code << rest) + (1u << rest) - 1) - bits : 0;
			u32 size = has ? 1u << more : 0;
			u32 sum = sumBelow(size), at = next + sum - size;
			next += shuffle(sum, LANES - 1);
			if (next > entries) return false;
			if (!has) continue;
			table[reversed(code, bits)] = (u16)((at - (1u << bits)) / 2 << 8 | LINK << 4 | more);
			HR_ROLLED for (u32 i = 0; i < size; i++) {
				u32 whole = code << rest | reversed(i, more) << (rest - more);
				table[at + i] = entry(whole, bitsOf(whole));
			}
		}
		return true;
	}

	HR_FN Status make(u16 *table, u32 entries) {
		count();
		if (!limit()) return CORRUPT;
		sort();
		first(table);
		bool room = second(table, entries);
		syncWarp();
		return room ? OK : UNSUPPORTED;
	}
};

} // namespace inflate
} // namespace hr
