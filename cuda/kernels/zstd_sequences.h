// Sequences (3.1.1.3.2): a lane a block, since their bitstream is one chain from the first
// to the last. The kernel is bound by the length of that chain, so:
//
//   - windows are read from a ring that is filled far ahead;
//   - what a code stands for is read from a table in the form in which sums and shifts want it;
//   - repeat offsets are chosen, not branched for.
//
// Places are summed up here, so that the sequences can be executed from any one on.
#pragma once
#include "zstd_bits.h"
#include "zstd_literals.h"

namespace hr {
namespace zstd {

// SequenceDesk is the shared memory of a warp, as much as the launch gives: the FSE
// tables and the ring of a lane. On an SM of 228 KiB there are four such warps, one for each
// scheduler.
struct SequenceDesk {
	typedef Bits<16, 3> Stream;
	enum : u32 { SEATS = LANES > 1 ? 20 : 1, CODES = 64 };

	struct alignas(16) Seat {
		u16 tables[TABLE_ENTRIES];
		u8 ring[Stream::RING_BYTES];
	};

	Seat seats[SEATS];
};

// Codes are the Lengths by code. Their place is fixed, so that one instruction finds an entry.
struct Codes {
	u32 literals[SequenceDesk::CODES], matches[SequenceDesk::CODES];
};

// chooseOffset resolves Offset_Value (3.1.1.5) and moves the repeat offsets.
HR_FN u32 chooseOffset(u32 value, u32 literals, u32 *repeats) {
	u32 which = value + (literals == 0); // of small values: 1 to 3, or 4 for the first less 1
	u32 offset = repeats[0];
	offset = which > 1 ? repeats[1] : offset;
	offset = which > 2 ? repeats[2] : offset;
	offset = which > 3 ? repeats[0] - 1 : offset;
	offset = value > 3 ? value - 3 : offset;
	repeats[2] = which > 2 ? repeats[1] : repeats[2];
	repeats[1] = which > 1 ? repeats[0] : repeats[1];
	repeats[0] = offset;
	return offset;
}

// Table is an FSE table as its state reads it. States are kept with their highest bit, so
// the begin is that much lower.
struct Table {
	Place begin;
	u32 log;
	u32 state;

	HR_FN void open(const u16 *table, u32 tableLog) {
		begin = placeOf(table) - (2u << tableLog);
		log = tableLog;
	}
	HR_FN u32 entry() const { return halfAt(begin + 2 * state); }

	// bits is how many the next state takes behind x, whose highest bit tells.
	HR_FN u32 bits(u32 entry) const { return 6 + log - highest(entry); }
};

// SequenceDecoder is a lane's.
struct SequenceDecoder {
	SequenceDesk::Stream in;
	Table literals, offsets, matches;
	u32 repeats[3];
	u32 literalSum, byteSum;
	u32 widest, farthest; // all sums, all offset values, or-ed
	i32 end;              // position behind the last sequence

	// start reads the first states (3.1.1.3.2.2).
	HR_FN void start() {
		in.peek();
		literals.state = first(literals);
		offsets.state = first(offsets);
		matches.state = first(matches);
		literalSum = byteSum = widest = farthest = 0;
		end = in.at;
		in.peek();
	}

	HR_FN u32 first(const Table &t) {
		u32 *w = in.window, state = funnelLeft(w[0], 1, t.log);
		w[0] = funnelLeft(w[1], w[0], t.log);
		w[1] = funnelLeft(0, w[1], t.log);
		in.skip(t.log);
		return state;
	}

	// next decodes a sequence, whose window is loaded, and then the next states and the
	// next window; behind the last sequence these are nonsense that no one looks at. Shifts
	// look at five bits: entries and lengths can be given to them as they are.
	HR_FN Packed next(const Codes &codes) {
		u32 l = literals.entry(), o = offsets.entry(), m = matches.entry();
		u32 lengthL = codes.literals[l & 63], lengthM = codes.matches[m & 63];
		const u32 *w = in.window;

		// The states' bits stand behind those of the three values, up to 63, which is what
		// the low six bits of the sum say.
		u32 sum = lengthL + lengthM + o;
		u32 rest = funnelLeft(choose(sum, 32, w[2], w[1]), choose(sum, 32, w[1], w[0]), sum);
		u32 bitsL = literals.bits(l), bitsLM = bitsL + matches.bits(m), bits = bitsLM + offsets.bits(o);
		literals.state = funnelLeft(rest, l >> 6, bitsL);
		matches.state = funnelLeft(rest << bitsL, m >> 6, bitsLM - bitsL);
		offsets.state = funnelLeft(rest << bitsLM, o >> 6, bits - bitsLM);

		u32 value = funnelLeft(w[0], 1, o), behindOffset = funnelLeft(w[1], w[0], o);
		u32 matchLength = funnelLeft(behindOffset, lengthM >> 8, lengthM);
		u32 behindMatch = funnelLeft(funnelLeft(0, w[1], o), behindOffset, lengthM);
		u32 literalLength = funnelLeft(behindMatch, lengthL >> 8, lengthL);

		in.skip(sum & 63);
		end = in.at;
		in.skip(bits);
		in.peek();

		u32 offset = chooseOffset(value, literalLength, repeats);
		literalSum += literalLength;
		byteSum += literalLength + matchLength + 3;
		widest |= byteSum;
		farthest |= value;
		return pack(literalSum, byteSum, offset);
	}

	HR_FN void two(const Codes &codes, u8 *out) {
		Packed a = next(codes), b = next(codes);
		u32 w[4] = {a.low, a.high, b.low, b.high};
		storeVector(out, w);
	}

	// all decodes n sequences. Four have at most 45 bytes, and 224 can be read when fill()
	// has returned and its fetches are done: three fills may be on their way.
	HR_FN void all(const Codes &codes, u8 *out, u32 n) {
		HR_ROLLED for (; n >= 4; n -= 4) {
			in.fill();
			in.ready<3>();
			two(codes, out);
			two(codes, out + 16);
			out += 32;
		}
		in.fill();
		in.ready<0>();
		HR_ROLLED for (; n > 0; n--) {
			Packed a = next(codes);
			storeWord(out, a.low);
			storeWord(out + 4, a.high);
			out += 8;
		}
	}

	// result judges what has been decoded.
	HR_FN Status result() const {
		if (end != in.begin) return CORRUPT;
		bool packs = widest < 1u << 18 && farthest < INHERITED;
		return packs && byteSum <= MAX_BLOCK ? OK : UNSUPPORTED; // see parseCompressed
	}
};

// inherit sets the repeat offsets at the begin of a block (3.1.1.5).
HR_FN void inherit(u32 *repeats, bool first) {
	HR_UNROLL for (u32 i = 0; i < 3; i++) repeats[i] = first ? (i == 0 ? 1 : 4 * i) : (INHERITED | i << INHERITED_SLOT | INHERITED_BIAS);
}

HR_FN Status decodeSequences(const Codes &codes, SequenceDesk::Seat &seat, const u8 *src, Block &b, const Work &work) {
	SequenceDecoder decoder;
	if (!decoder.in.open(src + b.bitsAt, b.body + b.bytes - b.bitsAt, placeOf(seat.ring))) return CORRUPT;
	decoder.literals.open(seat.tables + tableStart(LITERAL_LENGTHS), work.blocks[b.tableBlock[LITERAL_LENGTHS]].logs[LITERAL_LENGTHS]);
	decoder.offsets.open(seat.tables + tableStart(OFFSETS), work.blocks[b.tableBlock[OFFSETS]].logs[OFFSETS]);
	decoder.matches.open(seat.tables + tableStart(MATCH_LENGTHS), work.blocks[b.tableBlock[MATCH_LENGTHS]].logs[MATCH_LENGTHS]);
	inherit(decoder.repeats, b.flags & FIRST);
	decoder.start();
	decoder.all(codes, (u8 *)b.sequences, b.sequenceCount);
	HR_UNROLL for (u32 i = 0; i < 3; i++) b.repeats[i] = decoder.repeats[i];
	return decoder.result();
}

// seatTables copies the tables of a block to a seat. It is the part of a warp.
HR_FN void seatTables(SequenceDesk::Seat &seat, const Block &b, const Work &work) {
	HR_UNROLL for (u32 kind = 0; kind < KINDS; kind++) {
		const Block &from = work.blocks[b.tableBlock[kind]];
		const u8 *table = (const u8 *)from.tables + 2 * tableStart(kind);
		u8 *to = (u8 *)(seat.tables + tableStart(kind));
		u32 bytes = 2u << from.logs[kind];
		HR_ROLLED for (u32 i = 16 * lane(); i < bytes; i += 16 * LANES) {
			Vector v;
			loadVector(v.w, table + i);
			putVector(to + i, v);
		}
	}
}

HR_FN void writeCodes(Codes &codes) {
	HR_ROLLED for (u32 code = lane(); code < SequenceDesk::CODES; code += LANES) {
		codes.literals[code] = literalLength(least(code, symbolsOf(LITERAL_LENGTHS) - 1));
		codes.matches[code] = matchLength(least(code, symbolsOf(MATCH_LENGTHS) - 1));
	}
}

HR_FN void decodeSeats(const ZstdParams &p, Work &work, SequenceDesk &d, const Codes &codes, const u32 *list, u32 n) {
	HR_ROLLED for (u32 k = 0; k < n; k++) {
		const Block &b = work.blocks[list[k]];
		seatTables(d.seats[k], b, work);
	}
	syncWarp();
	HR_ROLLED for (u32 k = lane(); k < n; k += LANES) {
		Block &b = work.blocks[list[k]];
		if (*statusOf(p, b.chunk) != OK) continue;
		Status status = decodeSequences(codes, d.seats[k], sourceOf(p, b.chunk), b, work);
		if (status != OK) fail(p, b.chunk, status);
	}
	syncWarp();
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_STREAM_BLOCK, 4) hr_zstd_sequences(hr::ZstdParams p) {
	using namespace hr;
	HR_DYNAMIC(zstd::SequenceDesk, desks, 1);
	zstd::SequenceDesk &desk = desks[0];
	zstd::Work work(p);
	HR_SHARED zstd::Codes codes;
	zstd::writeCodes(codes);
	const u32 *list = work.list + work.head->literals;
	u32 total = work.head->sequences;
	// All warps have the same number of blocks in each round: alone, a lane is faster.
	u32 rounds = (total + zstd::SequenceDesk::SEATS * blocks() - 1) / (zstd::SequenceDesk::SEATS * blocks());
	u32 seats = total == 0 ? 1 : (total + rounds * blocks() - 1) / (rounds * blocks());
	HR_ROLLED for (;;) {
		u32 hand = zstd::nextHand(&work.head->nextSequences);
		if (hand >= (total + seats - 1) / seats) return;
		u32 first = hand * seats;
		zstd::decodeSeats(p, work, desk, codes, list + first, least(seats, total - first));
	}
}
