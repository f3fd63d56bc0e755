// The tables of compressed blocks: FSE tables of sequences (3.1.1.3.2.1), Huffman trees of
// literals (4.2.1). A warp reads and builds those of a block.
#pragma once
#include "recent.h"
#include "zstd_fse.h"
#include "zstd_scan.h"

namespace hr {
namespace zstd {

HR_FN u32 maxLog(u32 kind) { return kind == OFFSETS ? 8 : 9; }
HR_FN u32 symbolsOf(u32 kind) { return kind == LITERAL_LENGTHS ? 36 : kind == OFFSETS ? 32 : 53; }

// predefined is the default distribution of a kind (3.1.1.3.2.2).
HR_FN i32 predefined(u32 kind, u32 symbol) {
	switch (kind) {
	case LITERAL_LENGTHS: {
		const i8 of[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1,
		    1, 1, 1, 1, -1, -1, -1, -1};
		return of[symbol];
	}
	case OFFSETS: return symbol >= 24 ? -1 : symbol >= 6 && symbol <= 8 ? 2 : 1;
	default: return symbol >= 46 ? -1 : symbol == 1 ? 4 : symbol == 2 ? 3
	    : symbol >= 3 && symbol <= 8 ? 2 : 1;
	}
}
HR_FN u32 predefinedSymbols(u32 kind) { return kind == OFFSETS ? 29 : symbolsOf(kind); }

// A length is its high bits followed by some that are in the stream (3.1.1.3.2.1.1); matches
// are 3 longer. A Length has the high bits above the number of the others.
HR_FN u32 lengthOf(u32 value, u32 bits) { return value >> bits << 8 | bits; }

HR_FN u32 literalLength(u32 code) {
	if (code < 16) return lengthOf(code, 0);
	if (code < 20) return lengthOf(16 + 2 * (code - 16), 1);
	if (code < 22) return lengthOf(24 + 4 * (code - 20), 2);
	if (code < 24) return lengthOf(32 + 8 * (code - 22), 3);
	if (code == 24) return lengthOf(48, 4);
	return lengthOf(1u << (code - 19), code - 19);
}

HR_FN u32 matchLength(u32 code) {
	if (code < 32) return lengthOf(code, 0);
	if (code < 36) return lengthOf(32 + 2 * (code - 32), 1);
	if (code < 38) return lengthOf(40 + 4 * (code - 36), 2);
	if (code < 40) return lengthOf(48 + 8 * (code - 38), 3);
	if (code < 42) return lengthOf(64 + 16 * (code - 40), 4);
	if (code == 42) return lengthOf(96, 5);
	return lengthOf(128u << (code - 43), code - 36);
}

// valueBits is how many bits follow a code. None below it has more.
HR_FN u8 valueBits(u32 kind, u32 code) {
	return (u8)(kind == LITERAL_LENGTHS ? literalLength(code)
	            : kind == MATCH_LENGTHS ? matchLength(code)
	                                    : code);
}

// Tree is a Huffman tree: for each of 256 symbols its weight in the top 4 bits, below it
// where its entries begin in a table of 2^log entries.
enum : u32 { MAX_TREE_LOG = 11, MAX_WEIGHT = 12, WEIGHTS = 256 };

// TablesShared is the shared memory of a warp.
struct TablesShared {
	Staged in;
	Counts counts;
	Builder builder;
	u16 weightTable[64];
	u8 weights[WEIGHTS];
	u32 ranks[16];
	u32 number; // handed from one lane to all
};

HR_FN u32 toAll(TablesShared &d, u32 v) {
	if (lane() == 0) d.number = v;
	syncWarp();
	v = d.number;
	syncWarp();
	return v;
}

// readTable makes the table of a kind, whose description begins at byte at, and
// returns where the next one does, or NONE if it is corrupt.
HR_FN u32 readTable(TablesShared &d, Block &b, u32 kind, u32 at) {
	u16 *table = (u16 *)b.tables + tableStart(kind);
	switch (modeOf(b.modes, kind)) {
	case REPEAT: return at;
	case RLE_MODE:
		if (at >= d.in.end || d.in.bytes[at] >= symbolsOf(kind)) return NONE;
		HR_ROLLED for (u32 i = lane(); i < 8; i += LANES) table[i] = entryOf(1, d.in.bytes[at]); // tables are read by 16 bytes
		if (lane() == 0) {
			b.logs[kind] = 0;
			b.values[kind] = valueBits(kind, d.in.bytes[at]);
		}
		return at + 1;
	case PREDEFINED:
		HR_ROLLED for (u32 s = lane(); s < predefinedSymbols(kind); s += LANES)
			d.counts.of[s] = (i16)predefined(kind, s);
		if (lane() == 0) {
			d.counts.symbols = predefinedSymbols(kind);
			d.counts.log = kind == OFFSETS ? 5 : 6;
		}
		break;
	default:
		if (lane() == 0 && !readCounts(d.in, at, maxLog(kind), symbolsOf(kind), d.counts)) at = NONE;
		at = toAll(d, at);
		if (at == NONE) return NONE;
	}
	syncWarp();
	buildTable(d.builder, d.counts, table);
	if (lane() == 0) {
		b.logs[kind] = (u8)d.counts.log;
		b.values[kind] = valueBits(kind, d.counts.symbols - 1);
	}
	syncWarp();
	return at;
}

// readTables makes the tables that a block describes, and finds its bitstream.
HR_FN bool readTables(TablesShared &d, const u8 *src, Block &b) {
	d.in.load(src + b.sequencesAt, b.body + b.bytes - b.sequencesAt);
	u32 at = 0;
	HR_ROLLED for (u32 kind = 0; kind < KINDS && at != NONE; kind++) at = readTable(d, b, kind, at);
	if (at == NONE || b.sequencesAt + at >= b.body + b.bytes) return false;
	if (lane() == 0) b.bitsAt = b.sequencesAt + at;
	return true;
}

// WeightBits reads the weights' bitstream backwards; what is before its begin is 0.
struct WeightBits {
	const Staged &in;
	i32 begin, at; // bits; at may be a little below begin

	HR_FN u32 read(u32 n) {
		at -= (i32)n;
		i32 from = most(at, begin);
		return in.bits((u32)from) << (from - at) & ((1u << n) - 1);
	}
	HR_FN bool torn() const { return at < begin; }
};

// decodeWeights is the part of one lane: two states take turns (4.2.1.2). The bitstream is from byte at to end.
// It returns the number of weights, or NONE.
HR_FN u32 decodeWeights(const u16 *table, u32 log, const Staged &in, u32 at, u32 end, u8 *weights) {
	if (at == end || in.bytes[end - 1] == 0) return NONE;
	WeightBits bits = {in, (i32)(8 * at), (i32)(8 * (end - 1) + highest(in.bytes[end - 1]))};
	u32 state = bits.read(log), other = bits.read(log);
	if (bits.torn()) return NONE;
	HR_ROLLED for (u32 k = 0; k + 2 < WEIGHTS;) {
		u32 entry = table[state], x = entry >> 6, more = log - highest(x);
		weights[k++] = (u8)(entry & 63);
		u32 next = (x << more) - (1u << log) + bits.read(more);
		if (bits.torn()) {
			weights[k++] = (u8)(table[other] & 63);
			return k;
		}
		state = other;
		other = next;
	}
	return NONE;
}

enum : u32 { FOR_HOST = NONE - 1 };

// readWeights gives all weights but the last (4.2.1.1): their number, or NONE, or FOR_HOST. No weight is above
// 11. A table with states for one that is need not use them: libzstd then decodes it if its log is 5, and refuses it,
// having no room for it, if that is 6.
HR_FN u32 readWeights(TablesShared &d) {
	u32 head = d.in.bytes[0], n;
	if (d.in.end == 0 || head == 0) return NONE;
	if (head >= 128) { // Direct_Representation
		n = head - 127;
		if (1 + (n + 1) / 2 > d.in.end) return NONE;
		HR_ROLLED for (u32 i = lane(); i < n; i += LANES)
			d.weights[i] = (u8)(d.in.bytes[1 + i / 2] >> (i % 2 ? 0 : 4) & 15);
		syncWarp();
		return n;
	}
	if (1 + head > d.in.end) return NONE;
	u32 at = 1;
	syncWarp();
	if (lane() == 0) {
		d.in.end = 1 + head;
		bool small = (d.in.bytes[1] & 15) == 0;
		if (!readCounts(d.in, at, 6, MAX_WEIGHT + small, d.counts)) at = NONE - small;
	}
	at = toAll(d, at);
	if (at >= FOR_HOST) return at;
	buildTable(d.builder, d.counts, d.weightTable);
	n = lane() == 0 ? decodeWeights(d.weightTable, d.counts.log, d.in, at, 1 + head, d.weights) : 0;
	return toAll(d, n);
}

// completeWeights adds the weight of the last symbol, which makes the sum a power of two, and
// returns its logarithm, or NONE. n becomes the number of all weights.
HR_FN u32 completeWeights(TablesShared &d, u32 &n) {
	u32 sum = 0;
	HR_ROLLED for (u32 i = lane(); i < n; i += LANES) {
		if (d.weights[i] > MAX_WEIGHT) sum = 1 << 20;
		else sum += (1u << d.weights[i]) >> 1;
	}
	sum = shuffle(sumBelow(sum), LANES - 1);
	if (sum == 0 || sum >= 1u << MAX_WEIGHT) return NONE;
	u32 log = highest(sum) + 1, rest = (1u << log) - sum;
	if (rest & (rest - 1)) return NONE;
	if (lane() == 0) d.weights[n] = (u8)(highest(rest) + 1);
	n++;
	syncWarp();
	return log;
}

HR_FN void countWeights(TablesShared &d, u32 n) {
	HR_ROLLED for (u32 w = lane(); w < 16; w += LANES) d.ranks[w] = 0;
	syncWarp();
	HR_ROLLED for (u32 i = lane(); i < n; i += LANES) fetchAdd(&d.ranks[d.weights[i]], 1u);
	syncWarp();
}

// startWeights finds where the entries of each weight begin. It is the part of one lane.
HR_FN void startWeights(TablesShared &d) {
	u32 start = 0;
	HR_ROLLED for (u32 w = 1; w <= MAX_WEIGHT; w++) {
		u32 entries = d.ranks[w] << (w - 1);
		d.ranks[w] = start;
		start += entries;
	}
}

// writeTree orders symbols by weight, then by value (4.2.1.3): that is the order of
// their entries.
HR_FN void writeTree(TablesShared &d, u32 n, u16 *tree) {
	HR_ROLLED for (u32 g = 0; g < WEIGHTS; g += LANES) {
		u32 w = g + lane() < n ? d.weights[g + lane()] : 0, same = match(w), before = count(same & below());
		u32 start = d.ranks[w];
		syncWarp();
		if (before == 0 && w) d.ranks[w] = start + (count(same) << (w - 1));
		syncWarp();
		tree[g + lane()] = w ? (u16)(w << 12 | (start + (before << (w - 1)))) : (u16)0;
	}
}

// readTree makes the Huffman tree that a block describes.
HR_FN Status readTree(TablesShared &d, const u8 *src, Block &b) {
	d.in.load(src + b.literalsAt, b.literalsBytes);
	u32 n = readWeights(d);
	if (n == NONE) return CORRUPT;
	if (n == FOR_HOST) return UNSUPPORTED;
	u32 log = completeWeights(d, n);
	if (log == NONE) return CORRUPT;
	if (log > MAX_TREE_LOG) return UNSUPPORTED; // libzstd reads 12, no encoder writes it
	countWeights(d, n);
	bool pair = d.ranks[1] >= 2; // the two longest codes differ in their last bit
	syncWarp();
	if (!pair) return CORRUPT;
	if (lane() == 0) {
		startWeights(d);
		b.treeLog = (u8)log;
	}
	syncWarp();
	writeTree(d, n, (u16 *)b.tree);
	return OK;
}

// The two jobs of a block.
HR_FN Status makeTables(TablesShared &d, const u8 *src, Block &b, bool tree) {
	if (b.type != COMPRESSED) return OK;
	if (tree) return b.tree ? readTree(d, src, b) : OK;
	return b.sequenceCount == 0 || readTables(d, src, b) ? OK : CORRUPT;
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_TABLES_BLOCK, 4) hr_zstd_tables(hr::ZstdParams p) {
	using namespace hr;
	HR_SHARED zstd::TablesShared shared[ZSTD_TABLES_BLOCK / 32];
	zstd::Work work(p);
	u32 jobs = 2 * work.blockCount();
	HR_ROLLED for (u32 job = block() * warps() + warp(); job < jobs; job += blocks() * warps()) {
		zstd::Block &b = work.blocks[job / 2];
		if (b.type != zstd::COMPRESSED) continue;
		Status status = zstd::makeTables(shared[warp()], zstd::sourceOf(p, b.chunk), b, job % 2);
		if (status != OK && lane() == 0) zstd::fail(p, b.chunk, status);
		syncWarp();
	}
}
