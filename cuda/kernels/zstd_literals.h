// Huffman-coded literals (4.2): a lane a stream, four streams a block mostly.
#pragma once
#include "zstd_bits.h"
#include "zstd_tables.h"

namespace hr {
namespace zstd {

// HuffmanShared is the shared memory of a warp: a ring for each lane, and the tables of four
// blocks, or of eight if none has more than 2^10 entries. The size is a compromise:
// smaller, and lanes are idle under large tables; larger, and an SM holds few warps.
struct HuffmanShared {
	enum : u32 { FEW = 4, MANY = 8, TABLE_ENTRIES = FEW << MAX_TREE_LOG };
	typedef Queue<8> Stream;

	alignas(Stream::RING) u8 rings[LANES][Stream::RING];
	u16 tables[TABLE_ENTRIES];
};

// An entry is the symbol and in the low byte the length of its code, which is how shifts
// take it as it is: they look at five bits.
HR_FN void fillEntries(u16 *table, u32 from, u32 n, u32 entry) {
	HR_ROLLED for (u32 i = 0; i < n; i++) table[from + i] = (u16)entry;
}

// buildLookup is the part of a warp: the table of 2^log entries of a tree.
HR_FN void buildLookup(const u16 *tree, u32 log, u16 *table) {
	u32 after = tree[lane()]; // loaded before it is needed
	HR_ROLLED for (u32 g = 0; g < WEIGHTS; g += LANES) {
		u32 symbol = g + lane(), node = after, weight = node >> 12;
		if (g + LANES < WEIGHTS) after = tree[symbol + LANES];
		u32 from = node & 0xfff, n = (1u << weight) >> 1, entry = symbol << 8 | (log + 1 - weight);
		if (n <= 8) fillEntries(table, from, n, entry);
		HR_ROLLED for (u32 many = ballot(n > 8); many; many &= many - 1) {
			u32 k = lowest(many), to = shuffle(from, k), n8 = shuffle(n, k), same = shuffle(entry, k);
			HR_ROLLED for (u32 i = lane(); i < n8; i += LANES) table[to + i] = (u16)same;
		}
	}
}

// Part is a stream of literals: where it lies in the source, and what of the
// literals it holds.
struct Part {
	u32 at, bytes;
	u32 from, count;
};

// findPart finds stream s of a block (3.1.1.3.1.6); false if the jump table is corrupt.
HR_FN bool findPart(const u8 *src, const Block &b, u32 s, Part &part) {
	u32 at = b.literalsAt, end = at + b.literalsBytes;
	if (b.literalsType == HUFFMAN_LITERALS) { // behind the description, which has been read
		u32 head = loadByte(src + at);
		at += 1 + (head < 128 ? head : (head - 126) / 2);
	}
	if (b.streams == 1) {
		part = {at, end - at, 0, b.literalsDecoded};
		return at < end;
	}
	if (end < at + 10) return false; // six bytes of sizes, a byte each
	u32 each = (b.literalsDecoded + 3) / 4;
	if (3 * each > b.literalsDecoded) return false;
	part = {at + 6, 0, s * each, s < 3 ? each : b.literalsDecoded - 3 * each};
	HR_UNROLL for (u32 k = 0; k < 3; k++) {
		u32 bytes = loadByte(src + at + 2 * k) | loadByte(src + at + 2 * k + 1) << 8;
		if (k < s) part.at += bytes;
		if (k == s) part.bytes = bytes;
	}
	if (s == 3) part.bytes = end - part.at;
	return part.at <= end && part.bytes <= end - part.at;
}

// Decoder is a lane's. It is bound by the length of the chain from a code to the next: find, skip, find.
// The entry of the next code has always been asked for before a symbol is put away.
struct Decoder {
	HuffmanShared::Stream in;
	Place table;
	u32 shift;   // of the next bits, for the index of an entry
	u32 found;   // the entry of the next code
	u32 skipped; // bits since the last refill, in the low byte

	HR_FN void find() { found = halfAt(table + 2 * (in.high >> shift)); }

	HR_FN u32 next() {
		u32 e = found;
		in.skip(e);
		find();
		return e;
	}

	// one gives the entry of a symbol. A refill is enough for two, so another() may follow it.
	HR_FN u32 one() {
		in.refill(skipped);
		return skipped = next();
	}
	HR_FN u32 another() {
		u32 e = next();
		skipped += e;
		return e;
	}

	HR_FN u32 four() {
		u32 bytes = permute(0, one(), 0x3215);
		bytes = permute(bytes, another(), 0x3250);
		bytes = permute(bytes, one(), 0x3510);
		return permute(bytes, another(), 0x5210);
	}

	// all is false if the stream does not end with the last symbol. Sixteen symbols have at most
	// 22 bytes, and 112 can be read when all fetches are done: three fills may be on their way.
	HR_FN bool all(u8 *out, u32 n) {
		find();
		skipped = 0;
		HR_ROLLED for (; n > 0 && !aligned(out, 16); n--) storeByte(out++, one() >> 8);
		HR_ROLLED for (; n >= 16; n -= 16) {
			u32 w[4];
			in.fill<2>();
			in.ready<3>();
			HR_UNROLL for (u32 k = 0; k < 4; k++) w[k] = four();
			storeVector(out, w);
			out += 16;
		}
		in.fill<2>();
		in.ready<0>();
		HR_ROLLED for (; n > 0; n--) storeByte(out++, one() >> 8);
		in.refill(skipped);
		return in.exact();
	}
};

HR_FN void repeatByte(u8 *out, u32 n, u32 value) {
	HR_ROLLED for (u32 i = 0; i < n; i++) storeByte(out + i, value);
}

// decodePart decodes stream s of a block. What does not end where it should is for the
// host to judge: the format forbids it, libzstd does not always look.
HR_FN Status decodePart(HuffmanShared &d, const u8 *src, const Block &b, const u16 *table, u32 log, u32 s) {
	Part part;
	if (b.literalsType == RLE_LITERALS) {
		u32 each = (b.literalsDecoded + 3) / 4, from = least(s * each, b.literalsDecoded);
		repeatByte((u8 *)b.literals + from, least(each, b.literalsDecoded - from),
		    loadByte(src + b.literalsAt));
		return OK;
	}
	if (!findPart(src, b, s, part)) return CORRUPT;
	Decoder decoder = {{}, placeOf(table), 32 - log, 0, 0};
	if (!decoder.in.open(src + part.at, part.bytes, placeOf(d.rings[lane()]))) return UNSUPPORTED;
	return decoder.all((u8 *)b.literals + part.from, part.count) ? OK : UNSUPPORTED;
}

// LiteralsTask is which blocks a warp decodes: count of them, from the list.
struct LiteralsTask {
	u32 first, count, log; // 2^log entries are between their tables

	// take is false if there are no more: first those with large tables go out. A task is no
	// more than a warp's share, so that few blocks occupy all warps.
	HR_FN bool take(const Head &head, u32 task) {
		u32 all = blocks() * warps(), share = most<u32>((head.literals + all - 1) / all, 1);
		u32 few = least<u32>(share, HuffmanShared::FEW), many = least<u32>(share, HuffmanShared::MANY);
		u32 larges = (head.longTrees + few - 1) / few; // tasks
		bool large = task < larges;
		u32 size = large ? few : many, end = large ? head.longTrees : head.literals;
		first = large ? task * size : head.longTrees + (task - larges) * size;
		log = large ? 11 : 10;
		if (first >= end) return false;
		count = least(size, end - first);
		return true;
	}
};

HR_FN void decodeTask(const ZstdParams &p, const Work &work, HuffmanShared &d, const LiteralsTask &task) {
	const u32 *list = work.list + task.first;
	HR_ROLLED for (u32 k = 0; k < task.count; k++) {
		const Block &b = work.blocks[list[k]];
		if (b.literalsType == RLE_LITERALS) continue;
		const Block &tree = work.blocks[b.treeBlock];
		buildLookup((const u16 *)tree.tree, tree.treeLog, d.tables + (k << task.log));
	}
	syncWarp();
	HR_ROLLED for (u32 i = lane(); i < 4 * task.count; i += LANES) {
		const Block &b = work.blocks[list[i / 4]];
		if (i % 4 >= b.streams || statusNow(p, b.chunk) != OK) continue;
		u32 log = b.literalsType == RLE_LITERALS ? 0 : work.blocks[b.treeBlock].treeLog;
		Status status = decodePart(d, sourceOf(p, b.chunk), b, d.tables + (i / 4 << task.log), log, i % 4);
		if (status != OK) fail(p, b.chunk, status);
	}
	syncWarp();
}

// nextTask gives all lanes of a warp the value of a counter, which is then one more.
HR_FN u32 nextTask(u32 *counter) { return shuffle(lane() == 0 ? take(counter) : 0, 0); }

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_LITERALS_BLOCK, 5) hr_zstd_literals(hr::ZstdParams p) {
	using namespace hr;
	HR_SHARED zstd::HuffmanShared shared[ZSTD_LITERALS_BLOCK / 32];
	zstd::Work work(p);
	zstd::LiteralsTask task;
	// The first tasks are dealt out: SMs that begin early would take more than their part.
	u32 n = warp() * blocks() + block();
	HR_ROLLED while (task.take(*work.head, n)) {
		zstd::decodeTask(p, work, shared[warp()], task);
		n = blocks() * warps() + zstd::nextTask(&work.head->nextLiterals);
	}
}
