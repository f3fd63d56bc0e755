// FSE tables (4.1): their descriptions, and how a warp builds them.
#pragma once
#include "bytes.h"
#include "zstd.h"

namespace hr {
namespace zstd {

// Staged is the begin of a section in shared memory, with zeros behind its end. The
// descriptions of three tables have 182 bytes at most, a Huffman tree's 129.
struct Staged {
	enum { BYTES = 256, PADDED = BYTES + 12 }; // bits() reads two words

	alignas(4) u8 bytes[PADDED];
	u32 end;

	// load is the part of a warp.
	HR_FN void load(const u8 *data, u32 n) {
		u32 stop = least<u32>(n, BYTES);
		if (lane() == 0) end = stop;
		HR_ROLLED for (u32 i = lane(); i < PADDED; i += LANES)
			bytes[i] = i < stop ? (u8)loadByte(data + i) : (u8)0;
		syncWarp();
	}

	// bits are 32 from position at up; at / 8 is below BYTES + 8.
	HR_FN u32 bits(u32 at) const {
		const u8 *w = bytes + at / 32 * 4;
		return funnel(getWord(w), getWord(w + 4), at);
	}
};

// Counts is a distribution: how many states each symbol has; -1 stands for one that
// is less probable than that. log is Accuracy_Log.
struct Counts {
	enum { SYMBOLS = 64 };

	i16 of[SYMBOLS];
	u32 symbols, log;
};

// CountReader reads an FSE table description (4.1.1) bit by bit.
struct CountReader {
	const Staged &in;
	u32 at; // bit
	i32 left;

	HR_FN bool torn() const { return (at + 7) / 8 > in.end; }

	// probability is the next one, of a number of bits that depends on what is left.
	HR_FN i32 probability() {
		u32 greatest = (u32)left + 1, bits = highest(greatest) + 1;
		u32 few = (1u << bits) - 1 - greatest; // values below it have one bit less
		u32 next = in.bits(at), value = next & ((1u << (bits - 1)) - 1);
		if (value < few) {
			at += bits - 1;
		} else {
			value = next & ((1u << bits) - 1);
			at += bits;
			if (value >= 1u << (bits - 1)) value -= few;
		}
		return (i32)value - 1;
	}

	// zeros reads flags of two bits that tell how many more symbols have probability 0.
	HR_FN bool zeros(Counts &counts, u32 symbols) {
		for (u32 more = 3; more == 3;) {
			more = in.bits(at) & 3;
			at += 2;
			if (torn() || counts.symbols + more > symbols) return false;
			for (u32 i = 0; i < more; i++) counts.of[counts.symbols++] = 0;
		}
		return true;
	}
};

// readCounts is the part of one lane. at is the byte where the description begins, then
// where it ends.
HR_FN bool readCounts(const Staged &in, u32 &at, u32 maxLog, u32 symbols, Counts &counts) {
	if (at >= in.end) return false;
	counts.log = (in.bytes[at] & 15) + 5;
	counts.symbols = 0;
	if (counts.log > maxLog) return false;
	CountReader r = {in, 8 * at + 4, (i32)1 << counts.log};
	while (r.left > 0) {
		if (counts.symbols >= symbols) return false;
		i32 p = r.probability();
		if (r.torn()) return false;
		counts.of[counts.symbols++] = (i16)p;
		r.left -= p < 0 ? 1 : p;
		if (p == 0 && !r.zeros(counts, symbols)) return false;
	}
	at = (r.at + 7) / 8;
	return r.left == 0;
}

// An entry is 2 bytes: the symbol in 6 bits, above it a number x of 10. In a table of 2^log
// states, the next state is x followed by as many bits as make it log + 1 bits
// long, its highest one being no part of it. So states are kept with that one. (Entries of
// 4 bytes that hold the numbers of bits, too, make a sequence faster, and halve how many blocks
// an SM decodes at once.)
HR_FN u16 entryOf(u32 x, u32 symbol) { return (u16)(x << 6 | symbol); }

// Builder is the shared memory that a warp builds a table in.
struct Builder {
	u16 next[Counts::SYMBOLS];
	u8 spread[512], symbols[512];
};

// startSymbols gives the states at the end of the table to symbols of less than
// one, lists those that the others have, and returns the number of these.
HR_FN u32 startSymbols(Builder &b, const Counts &counts) {
	u32 size = 1u << counts.log, rare = 0, listed = 0;
	HR_ROLLED for (u32 g = 0; g < Counts::SYMBOLS; g += LANES) {
		u32 s = g + lane();
		i32 n = s < counts.symbols ? counts.of[s] : 0;
		u32 less = ballot(n < 0);
		b.next[s] = (u16)(n < 0 ? 1 : n);
		if (n < 0) b.symbols[size - 1 - rare - count(less & below())] = (u8)s;
		rare += count(less);
		u32 own = n < 0 ? 0 : (u32)n, sum = sumBelow(own), from = listed + sum - own;
		if (own <= 8) {
			HR_ROLLED for (u32 i = 0; i < own; i++) b.spread[from + i] = (u8)s;
		}
		HR_ROLLED for (u32 many = ballot(own > 8); many; many &= many - 1) {
			u32 k = lowest(many), to = shuffle(from, k), n8 = shuffle(own, k);
			HR_ROLLED for (u32 i = lane(); i < n8; i += LANES) b.spread[to + i] = (u8)(g + k);
		}
		listed += shuffle(sum, LANES - 1);
	}
	syncWarp();
	return size - rare;
}

// buildTable writes 2^log entries (4.1.1). All lanes of a warp call it; the counts add up to
// the size of the table.
HR_FN void buildTable(Builder &b, const Counts &counts, u16 *table) {
	u32 size = 1u << counts.log, step = size / 2 + size / 8 + 3;
	u32 common = startSymbols(b, counts), placed = 0;
	HR_ROLLED for (u32 k = lane(); k < size; k += LANES) { // size is a multiple of LANES
		u32 state = k * step & (size - 1);
		bool free = state < common;
		u32 free32 = ballot(free);
		if (free) b.symbols[state] = b.spread[placed + count(free32 & below())];
		placed += count(free32);
	}
	syncWarp();
	HR_ROLLED for (u32 state = lane(); state < size; state += LANES) {
		u32 symbol = b.symbols[state], same = match(symbol), before = count(same & below());
		u32 x = b.next[symbol] + before;
		syncWarp();
		if (before == 0) b.next[symbol] = (u16)(b.next[symbol] + count(same));
		syncWarp();
		table[state] = entryOf(x, symbol);
	}
	syncWarp();
}

} // namespace zstd
} // namespace hr
