// Sequences (3.1.1.3.2): a lane a block, since their bitstream is one chain from the first
// to the last. The kernel is bound by the length of that chain, so:
//
//   - windows are read from a ring that is filled far ahead;
//   - what a code stands for is read from a table in the form in which sums and shifts want it;
//   - values are put together while the states and the window of the next sequence are read;
//   - repeat offsets are chosen, not branched for.
//
// Places are summed up here, so that the sequences can be executed from any one on.
#pragma once
#include "zstd_bits.h"
#include "zstd_literals.h"

namespace hr {
namespace zstd {

// SequenceShared is the shared memory of a warp, as much as the launch gives: the FSE
// tables and the ring of a lane. On an SM of 228 KiB there are four such warps, one for each
// scheduler.
struct SequenceShared {
	enum : u32 { VECTORS = 16, SLOTS = LANES > 1 ? 18 : 1, CODES = 64 };
	template <u32 WORDS> using Stream = Bits<VECTORS, WORDS, true>;

	struct alignas(16 * VECTORS) Slot {
		u8 ring[Stream<2>::RING_BYTES];
		u16 tables[TABLE_ENTRIES];
	};

	Slot slots[SLOTS];
};

// Code is a Length: how many bits follow, and what is above them.
struct Code {
	u32 bits, high;
};

// Codes are those of literals, then those of matches.
struct alignas(sizeof(Code) * SequenceShared::CODES) Codes {
	enum : u32 { BYTES = sizeof(Code) * SequenceShared::CODES };

	Code literals[SequenceShared::CODES], matches[SequenceShared::CODES];

	// at is that of an FSE entry, whose low six bits are the code.
	static HR_FN Code at(Place codes, u32 entry) {
		Code c;
		wordsAt(within(codes, entry * (u32)sizeof(Code) & (BYTES - 1) & ~7u), c.bits, c.high);
		return c;
	}
};

// chooseOffset resolves Offset_Value (3.1.1.5) and moves the repeat offsets.
HR_FN u32 chooseOffset(u32 value, u32 literals, u32 *repeats) {
	u32 which = (u32)most((i32)(value - 1), (i32)(value - literals)); // of small values: 0 to 2, or 3 for the first less 1
	u32 offset = repeats[0];
	offset = which > 0 ? repeats[1] : offset;
	offset = which > 1 ? repeats[2] : offset;
	offset = which > 2 ? repeats[0] - 1 : offset;
	offset = value > 3 ? value - 3 : offset;
	repeats[2] = which > 1 ? repeats[1] : repeats[2];
	repeats[1] = which > 0 ? repeats[0] : repeats[1];
	repeats[0] = offset;
	return offset;
}

// Table is an FSE table as its state reads it. States are kept with their highest bit, so
// the begin is that much lower.
struct Table {
	Place begin;
	u32 most;  // bits that a state takes, and 6
	u32 entry; // of the state

	HR_FN void go(u32 state) { entry = halfAt(begin + 2 * state); }

	// bits is how many the next state takes behind x, whose highest bit tells.
	HR_FN u32 bits() const { return most - highest(entry); }
	HR_FN u32 x() const { return entry >> 6; }
};

// Sums are how many literals and bytes the block has, as Packed has them.
struct Sums {
	u64 both;

	HR_FN void add(u32 literals, u32 match) {
		both += (u64)(literals + match + 3) << 18;
		both += literals;
	}
	// overflow tells if there are, or ever were, more bytes than a block may have.
	HR_FN bool overflow() const { return both >> 18 > MAX_BLOCK; }

	HR_FN Packed with(u32 offset) const {
		Packed p = {(u32)both, (u32)(both >> 32) + 16 * offset};
		return p;
	}
};

// SequenceDecoder is a lane's. Windows are WORDS words: two hold all bits of a sequence whose values
// have NARROW bits at most, since the next states have 9 + 9 + 8; three hold any.
enum : u32 { NARROW = 64 - 26 };

template <u32 WORDS> struct SequenceDecoder {
	SequenceShared::Stream<WORDS> in;
	Table literals, offsets, matches;
	Place codes;
	u32 repeats[3];
	Sums sums;
	u32 farthest; // all offset values, or-ed

	// Coded is a sequence whose bits are there. Its position is that of its end, but for the last.
	struct Coded {
		u32 window[WORDS], offset;
		Code literals, match;
		i32 end;
	};

	// start reads the first states (3.1.1.3.2.2).
	HR_FN void start() {
		in.look();
		u32 w[2] = {in.window(0), in.window(1)};
		first(literals, w);
		first(offsets, w);
		first(matches, w);
		sums.both = farthest = 0;
		in.look();
	}

	HR_FN void first(Table &t, u32 *w) {
		u32 log = t.most - 6;
		t.go(funnelLeft(w[0], 1, log));
		w[0] = funnelLeft(w[1], w[0], log);
		w[1] = funnelLeft(0, w[1], log);
		in.skip(log);
	}

	// behind is the 32 bits of a window that n bits are before.
	static HR_FN u32 behind(const u32 *w, u32 n) {
		if (WORDS == 2) return (u32)(((u64)w[0] << 32 | w[1]) << n >> 32);
		return funnelLeft(choose(n, 32, w[WORDS - 1], w[1]), choose(n, 32, w[1], w[0]), n);
	}

	// take goes behind a sequence, whose window has been asked for, and asks for what the next one needs. Behind
	// the last sequence that is nonsense which no one looks at. Shifts look at five
	// bits, so entries can be given to them as they are.
	template <bool FILLS> HR_FN Coded take() {
		Coded c;
		c.literals = Codes::at(codes, literals.entry);
		c.match = Codes::at(codes + Codes::BYTES, matches.entry);
		u32 bitsL = literals.bits(), bitsM = matches.bits(), bitsLM = bitsL + bitsM, bitsO = offsets.bits(); // slow, so first
		if (FILLS) fill();
		c.offset = offsets.entry;
		HR_UNROLL for (u32 i = 0; i < WORDS; i++) c.window[i] = in.window(i);

		// The states' bits stand behind those of the three values, up to 63.
		u32 bits = c.literals.bits + c.match.bits + (c.offset & 63);
		u32 rest = behind(c.window, bits);
		literals.go(funnelLeft(rest, literals.x(), bitsL));
		matches.go(funnelLeft(rest << bitsL, matches.x(), bitsM));
		offsets.go(funnelLeft(rest << bitsLM, offsets.x(), bitsO));
		c.end = in.at - (i32)bits;
		in.skip(bits + (bitsLM + bitsO));
		in.look();
		return c;
	}

	// finish puts the values of a sequence together.
	HR_FN Packed finish(const Coded &c) {
		const u32 *w = c.window;
		u32 value = funnelLeft(w[0], 1, c.offset), match = funnelLeft(w[1], w[0], c.offset);
		u32 text = funnelLeft(funnelLeft(0, w[1], c.offset), match, c.match.bits);
		match = funnelLeft(match, c.match.high, c.match.bits);
		text = funnelLeft(text, c.literals.high, c.literals.bits);
		sums.add(text, match);
		farthest |= value;
		return sums.with(chooseOffset(value, text, repeats));
	}

	static HR_FN void store(u8 *out, Packed a, Packed b) {
		u32 w[4] = {a.low, a.high, b.low, b.high};
		storeVector(out, w);
	}

	// fill is called every four sequences. These have 256 bits at most if windows are two words, else 356: of
	// so few, five fills or three may be on their way.
	HR_FN void fill() {
		in.template fill<WORDS == 2 ? 2 : 3>();
		in.template ready<WORDS == 2 ? 5 : 3>();
	}

	// all decodes n sequences, one at least. Two rounds of four share what a loop costs.
	HR_FN Status all(u8 *out, u32 n) {
		Coded c = take<false>();
		HR_ROLLED for (n--; n >= 8; n -= 8) {
			HR_UNROLL for (u32 k = 0; k < 2; k++) {
				Coded d = take<true>();
				Packed a = finish(c);
				c = take<false>();
				store(out + 32 * k, a, finish(d));
				d = take<false>();
				a = finish(c);
				c = take<false>();
				store(out + 32 * k + 16, a, finish(d));
			}
			out += 64;
		}
		in.template fill<WORDS == 2 ? 2 : 3>();
		in.template ready<0>();
		HR_ROLLED for (;; n--) {
			Packed a = finish(c);
			storeWord(out, a.low);
			storeWord(out + 4, a.high);
			out += 8;
			if (n == 0) break;
			c = take<false>();
		}
		if (c.end != in.begin) return CORRUPT;
		return farthest < INHERITED && !sums.overflow() ? OK : UNSUPPORTED; // see parseCompressed
	}
};

// inherit sets the repeat offsets at the begin of a block (3.1.1.5).
HR_FN void inherit(u32 *repeats, bool first) {
	HR_UNROLL for (u32 i = 0; i < 3; i++) repeats[i] = first ? (i == 0 ? 1 : 4 * i) : (INHERITED | i << INHERITED_SLOT | INHERITED_BIAS);
}

// SlotBlock is a block in a slot.
struct SlotBlock {
	SequenceShared::Slot &slot;
	const Work &work;
	Block &b;

	HR_FN const Block &tableBlock(u32 kind) const { return work.blocks[b.tableBlock[kind]]; }

	// narrow tells if windows of two words will do.
	HR_FN bool narrow() const {
		u32 bits = 0;
		HR_UNROLL for (u32 kind = 0; kind < KINDS; kind++) bits += tableBlock(kind).values[kind];
		return bits <= NARROW;
	}

	HR_FN void open(Table &t, u32 kind) const {
		const Block &from = tableBlock(kind);
		u32 log = from.logs[kind];
		const u8 *table = (const u8 *)from.tables + 2 * tableStart(kind);
		t.begin = placeOf(slot.tables + tableStart(kind));
		HR_ROLLED for (u32 i = 0; i < 2u << log; i += 16) fetchVector(t.begin + i, table + i);
		t.begin = t.begin - (2u << log);
		t.most = 6 + log;
	}

	template <u32 WORDS> HR_FN Status decode(const u8 *src, const Codes &codes) const {
		SequenceDecoder<WORDS> decoder;
		decoder.codes = placeOf(&codes);
		open(decoder.literals, LITERAL_LENGTHS);
		open(decoder.offsets, OFFSETS);
		open(decoder.matches, MATCH_LENGTHS);
		bool opened = decoder.in.open(src + b.bitsAt, b.body + b.bytes - b.bitsAt, placeOf(slot.ring));
		endFetch();
		awaitFetch<0>();
		if (!opened) return CORRUPT;
		inherit(decoder.repeats, b.flags & FIRST);
		decoder.start();
		Status status = decoder.all((u8 *)b.sequences, b.sequenceCount);
		HR_UNROLL for (u32 i = 0; i < 3; i++) b.repeats[i] = decoder.repeats[i];
		return status;
	}
};

HR_FN Code codeOf(u32 length) {
	Code c = {length & 255, length >> 8};
	return c;
}

HR_FN void writeCodes(Codes &codes) {
	HR_ROLLED for (u32 code = lane(); code < SequenceShared::CODES; code += LANES) {
		codes.literals[code] = codeOf(literalLength(least(code, symbolsOf(LITERAL_LENGTHS) - 1)));
		codes.matches[code] = codeOf(matchLength(least(code, symbolsOf(MATCH_LENGTHS) - 1)));
	}
	syncWarp();
}

// decodeSlots decodes a block of a list at each of n slots. Windows of three words take a lane longer,
// so all have them only if one needs them.
HR_FN void decodeSlots(const ZstdParams &p, const Work &work, SequenceShared &d, const Codes &codes, const u32 *list, u32 n) {
	u32 k = least(lane(), n - 1);
	Block &b = work.blocks[list[k]];
	SlotBlock s = {d.slots[k], work, b};
	bool takes = k == lane() && statusNow(p, b.chunk) == OK;
	u32 wide = ballot(takes && !s.narrow());
	if (takes) {
		const u8 *src = sourceOf(p, b.chunk);
		Status status = wide ? s.decode<3>(src, codes) : s.decode<2>(src, codes);
		if (status != OK) fail(p, b.chunk, status);
	}
	syncWarp();
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_SEQUENCES_BLOCK, 4) hr_zstd_sequences(hr::ZstdParams p) {
	using namespace hr;
	HR_DYNAMIC(zstd::SequenceShared, memory, 1);
	zstd::SequenceShared &shared = memory[0];
	zstd::Work work(p);
	HR_SHARED zstd::Codes codes;
	zstd::writeCodes(codes);
	const u32 *list = work.list + work.head->literals;
	u32 total = work.head->sequences;
	// All warps have the same number of blocks in each round: alone, a lane is faster.
	u32 rounds = (total + zstd::SequenceShared::SLOTS * blocks() - 1) / (zstd::SequenceShared::SLOTS * blocks());
	u32 slots = total == 0 ? 1 : (total + rounds * blocks() - 1) / (rounds * blocks());
	// Where four lanes a warp leave half of the warps idle, these go, and literals find their
	// shared memory.
	u32 few = LANES > 1 ? (2 * total + blocks() - 1) / blocks() : slots;
	if (few <= 4) slots = most(slots, few);
	if (block() >= (total + slots - 1) / slots) return;
	HR_ROLLED for (;;) {
		u32 task = zstd::nextTask(&work.head->nextSequences);
		if (task >= (total + slots - 1) / slots) return;
		u32 first = task * slots;
		zstd::decodeSlots(p, work, shared, codes, list + first, least(slots, total - first));
	}
}
