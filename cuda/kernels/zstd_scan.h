// Headers of zstd frames, of their blocks, and of the sections of these (3.1.1). A
// thread walks over a chunk twice: to count, and, with memory taken, to write.
#pragma once
#include "blosc.h"
#include "zstd.h"

namespace hr {
namespace zstd {

// Cursor reads a source from at to end.
struct Cursor {
	const u8 *data;
	u32 at, end;

	HR_FN u32 left() const { return end - at; }
	HR_FN u32 byte(u32 i) const { return loadByte(data + at + i); }

	// number is n bytes, up to 4, little-endian; they are there.
	HR_FN u32 number(u32 n) const {
		u32 v = 0;
		HR_UNROLL for (u32 i = 0; i < 4; i++) {
			if (i < n) v |= byte(i) << 8 * i;
		}
		return v;
	}
};

// Header is what a Frame_Header tells (3.1.1.1).
struct Header {
	u32 most; // Block_Maximum_Size
	u32 content;
	bool checksum;
};

enum : u32 {
	MAGIC = 0xFD2FB528,
	SKIPPABLE = 0x184D2A50, // the low four bits are free
	MAX_WINDOW_LOG = 31,    // that of the host's decoder
	SPARE_STEPS = 4096,     // headers for no byte: there is at most one for each byte beside them
};

// legacy formats may be read by the host, or not.
HR_FN bool legacy(u32 magic) { return magic == 0xFD2FB51E || (magic >= 0xFD2FB522 && magic <= 0xFD2FB527); }

HR_FN Status parseHeader(Cursor &in, Header &h) {
	if (in.left() < 1) return CORRUPT;
	u32 descriptor = in.byte(0);
	in.at++;
	if (descriptor & 8) return CORRUPT; // Reserved_bit
	bool single = descriptor & 0x20;
	u32 dictionary = (1u << (descriptor & 3)) >> 1, content = (1u << (descriptor >> 6)) & ~1u;
	if (single && content == 0) content = 1;
	if (in.left() < !single + dictionary + content) return CORRUPT;

	h.checksum = descriptor & 4;
	h.most = MAX_BLOCK;
	if (!single) {
		u32 log = 10 + (in.byte(0) >> 3);
		if (log > MAX_WINDOW_LOG) return UNSUPPORTED;
		if (log < 17) h.most = (1u << log) + ((1u << log) >> 3) * (in.byte(0) & 7); // Window_Descriptor
		h.most = least<u32>(h.most, MAX_BLOCK);
		in.at++;
	}
	if (in.number(dictionary)) return UNSUPPORTED;
	in.at += dictionary;
	h.content = NONE;
	if (content > 0) {
		h.content = in.number(least<u32>(content, 4)) + (content == 2 ? 256 : 0);
		for (u32 i = 4; i < content; i++) {
			if (in.byte(i)) return CORRUPT; // more than any chunk has
		}
		if (h.content == NONE) return CORRUPT;
		if (single) h.most = least<u32>(h.content, MAX_BLOCK);
	}
	in.at += content;
	return OK;
}

// parseLiterals reads a Literals_Section_Header (3.1.1.3.1.1) and goes behind the section.
HR_FN bool parseLiterals(Cursor &in, Block &b) {
	if (in.left() < 1) return false;
	u32 first = in.byte(0), format = first >> 2 & 3;
	b.literalsType = (u8)(first & 3);
	if (b.literalsType < HUFFMAN_LITERALS) {
		u32 n = format == 1 ? 2 : format == 3 ? 3 : 1;
		if (in.left() < n) return false;
		b.literalsDecoded = n == 1 ? first >> 3 : in.number(n) >> 4;
		b.literalsBytes = b.literalsType == RAW_LITERALS ? b.literalsDecoded : 1;
		b.streams = 4;
		in.at += n;
	} else {
		u32 n = format < 2 ? 3 : format + 2, bits = format < 2 ? 10 : 4 * format + 6;
		if (in.left() < n) return false;
		u64 head = in.number(4 < n ? 4 : n) | (n > 4 ? (u64)in.byte(4) << 32 : 0);
		b.literalsDecoded = (u32)(head >> 4) & ((1u << bits) - 1);
		b.literalsBytes = (u32)(head >> (4 + bits)) & ((1u << bits) - 1);
		b.streams = format == 0 ? 1 : 4;
		if (b.literalsDecoded < (b.streams == 4 ? 6 : 1)) return false;
		in.at += n;
	}
	b.literalsAt = in.at;
	if (b.literalsDecoded > b.most || b.literalsBytes > in.left()) return false;
	in.at += b.literalsBytes;
	return true;
}

// parseCount reads Number_of_Sequences (3.1.1.3.2.1).
HR_FN bool parseCount(Cursor &in, u32 &sequences) {
	if (in.left() < 1) return false;
	u32 first = in.byte(0), n = first < 128 ? 1 : first < 255 ? 2 : 3;
	if (in.left() < n) return false;
	sequences = n == 1   ? first
	            : n == 2 ? ((first - 128) << 8) + in.byte(1)
	                     : in.byte(1) + (in.byte(2) << 8) + 0x7F00;
	in.at += n;
	return true;
}

HR_FN u32 modeOf(u32 modes, u32 kind) { return modes >> (6 - 2 * kind) & 3; }

// Described says which blocks describe the tables that a later one may use again.
struct Described {
	u32 tree, tables[KINDS];
};

// parseCompressed reads what heads the sections of a Compressed_Block (3.1.1.3).
HR_FN Status parseCompressed(Cursor in, Block &b, u32 self, Described &described) {
	if (!parseLiterals(in, b)) return CORRUPT;
	if (b.literalsType == HUFFMAN_LITERALS) described.tree = self;
	b.treeBlock = described.tree;
	if (b.literalsType == TREELESS && b.treeBlock == NONE) return CORRUPT;

	if (!parseCount(in, b.sequenceCount)) return CORRUPT;
	if (b.sequenceCount == 0) return in.left() == 0 ? OK : CORRUPT;
	if (in.left() < 1) return CORRUPT;
	b.modes = (u8)in.byte(0);
	b.sequencesAt = in.at + 1;
	if (b.modes & 3) return CORRUPT;
	HR_UNROLL for (u32 kind = 0; kind < KINDS; kind++) {
		if (modeOf(b.modes, kind) != REPEAT) described.tables[kind] = self;
		b.tableBlock[kind] = described.tables[kind];
		if (b.tableBlock[kind] == NONE) return CORRUPT;
	}
	// A block of more than MAX_BLOCK bytes is corrupt, but libzstd may not look.
	return b.sequenceCount > MAX_BLOCK / 3 ? UNSUPPORTED : OK;
}

// parseBlock reads a Block_Header (3.1.1.2) and what it heads; in goes behind the block.
HR_FN Status parseBlock(Cursor &in, Block &b, u32 self, Described &described) {
	if (in.left() < 3) return CORRUPT;
	u32 header = in.number(3), size = header >> 3;
	in.at += 3;
	b.flags = header & 1 ? LAST : 0;
	b.type = (u8)(header >> 1 & 3);
	b.body = in.at;
	b.bytes = b.type == RLE ? 1 : size;
	b.decoded = b.type == COMPRESSED ? 0 : size;
	b.literalsDecoded = b.sequenceCount = 0;
	b.literalsType = RAW_LITERALS;
	if (b.type == RESERVED || size > b.most || b.bytes > in.left()) return CORRUPT;
	Cursor body = {in.data, in.at, in.at + b.bytes};
	in.at = body.end;
	return b.type == COMPRESSED ? parseCompressed(body, b, self, described) : OK;
}

// decodesLiterals says whether there is something to do for hr_zstd_literals.
HR_FN bool decodesLiterals(const Block &b) {
	return b.type == COMPRESSED && b.literalsType != RAW_LITERALS && b.literalsDecoded > 0;
}

// Needs is what a chunk takes of the arena, of the blocks and of the segments.
struct Needs {
	u64 bytes;
	u32 blocks, segments;

	HR_FN u64 take(u64 n) {
		u64 at = bytes;
		bytes += (n + 15) / 16 * 16;
		return at;
	}
};

// Layout gives memory to blocks. Its twin without blocks only counts.
struct Layout {
	Needs needs;
	Block *blocks; // of the chunk, or null
	Segment *segments;
	u32 first; // index of the first block
	u64 arena;
	u32 chunk;
	u64 dst;         // of the segment
	u32 room, known; // its bytes, and where in them the block begins; NONE: not known
	u32 begin;       // blocks before the segment
	u32 steps;       // headers that may still be read

	// step is false where a chunk has more headers than any encoder writes. They may be well formed,
	// blocks and frames of no bytes; but one thread reads them.
	HR_FN bool step() { return steps > 0 && steps--; }

	// open begins a segment.
	HR_FN void open(u64 to, u32 bytes) {
		dst = to;
		room = bytes;
		known = 0;
		begin = needs.blocks;
	}

	// close is false if the segment has no blocks but wants bytes.
	HR_FN bool close() {
		u32 count = needs.blocks - begin;
		if (count == 0) return room == 0;
		if (blocks) segments[needs.segments] = {dst, room, chunk, first + begin, count};
		needs.segments++;
		return true;
	}

	// place completes a block.
	HR_FN void place(Block &b) {
		b.literals = b.sequences = b.tables = b.tree = 0;
		if (b.type == COMPRESSED) {
			placeLiterals(b);
			placeSequences(b);
		}
		u32 bytes = b.type == COMPRESSED ? b.literalsDecoded : b.decoded;
		known = known == NONE || b.sequenceCount > 0 || bytes > room - known ? NONE : known + bytes;
		if (blocks) blocks[needs.blocks] = b;
		needs.blocks++;
	}

	HR_FN void placeLiterals(Block &b) {
		if (b.literalsType == HUFFMAN_LITERALS) b.tree = arena + needs.take(TREE_BYTES);
		if (!decodesLiterals(b)) {
			b.literals = b.literalsAt; // of the source, whose address is added by the reader
		} else if (b.sequenceCount == 0 && known != NONE && b.literalsDecoded <= room - known) {
			b.flags |= DIRECT;
			b.literals = dst + known;
		} else {
			b.literals = arena + needs.take(b.literalsDecoded + 16);
			u32 zero[4] = {0, 0, 0, 0};
			if (blocks) storeVector((u8 *)b.literals + (b.literalsDecoded & ~15u), zero); // they are read by 16 bytes
		}
	}

	HR_FN void placeSequences(Block &b) {
		if (b.sequenceCount == 0) return;
		b.sequences = arena + needs.take(8ull * b.sequenceCount);
		bool describes = false;
		HR_UNROLL for (u32 kind = 0; kind < KINDS; kind++) describes |= modeOf(b.modes, kind) != REPEAT;
		if (describes) b.tables = arena + needs.take(TABLES_BYTES);
	}
};

// walkFrame goes over the blocks of a frame, behind its header.
HR_FN Status walkFrame(Cursor &in, const Header &h, Layout &layout) {
	Described described = {NONE, {NONE, NONE, NONE}};
	Block b;
	b.chunk = layout.chunk;
	b.most = h.most;
	b.content = h.content;
	b.checksum = 0;
	u32 flags = FIRST;
	do {
		if (!layout.step()) return UNSUPPORTED;
		Status status = parseBlock(in, b, layout.first + layout.needs.blocks, described);
		if (status != OK) return status;
		b.flags |= flags;
		flags = 0;
		if ((b.flags & LAST) && h.checksum) {
			if (in.left() < 4) return CORRUPT;
			b.checksum = in.number(4);
			b.flags |= CHECKSUM;
			in.at += 4;
		}
		layout.place(b);
	} while (!(b.flags & LAST));
	return OK;
}

// walkFrames goes over the frames of a segment (3.1).
HR_FN Status walkFrames(Cursor in, Layout &layout) {
	if (in.left() == 0) return CORRUPT; // not even an empty frame
	while (in.left() > 0) {
		if (!layout.step()) return UNSUPPORTED;
		if (in.left() < 8) return CORRUPT;
		u32 magic = in.number(4);
		in.at += 4;
		if ((magic & ~15u) == SKIPPABLE) { // 3.1.2
			u32 size = in.number(4);
			in.at += 4;
			if (size > in.left()) return CORRUPT;
			in.at += size;
			continue;
		}
		if (magic != MAGIC) return legacy(magic) ? UNSUPPORTED : CORRUPT;
		Header h;
		Status status = parseHeader(in, h);
		if (status == OK) status = walkFrame(in, h, layout);
		if (status != OK) return status;
	}
	return OK;
}

// storeStream makes a stream that blosc stored as it is one block.
HR_FN void storeStream(Layout &layout, u32 at, u32 n) {
	Block b;
	b.chunk = layout.chunk;
	b.body = at;
	b.bytes = b.decoded = b.most = n;
	b.content = NONE;
	b.checksum = b.literalsDecoded = b.sequenceCount = 0;
	b.type = RAW;
	b.flags = FIRST | LAST;
	b.literalsType = RAW_LITERALS;
	layout.place(b);
}

// walkBlosc goes over the streams of a frame of blosc, a segment each. Plain frames have none:
// hr_zstd_finish copies them.
HR_FN Status walkBlosc(const Chunk &c, Layout &layout) {
	Frame f;
	Status status = f.parse((const u8 *)c.src, c.srcBytes, 1 << Frame::ZSTD_STREAMS);
	if (status == OK && f.nbytes != c.dstBytes) status = CORRUPT;
	for (u32 b = 0; b < f.blocks && status == OK; b++) {
		u32 length = f.blockBytes(b), count = f.streams(length), raw = length / count, at, n;
		if (length % count != 0 || !f.begin(b, at)) return CORRUPT;
		u64 dst = (u64)f.decoded(c, b);
		for (u32 s = 0; s < count && status == OK; s++) {
			if (!f.next(at, n)) return CORRUPT;
			layout.open(dst + (u64)s * raw, raw);
			if (n == raw) storeStream(layout, at, n);
			else status = walkFrames({f.data, at, at + n}, layout);
			if (status == OK && !layout.close()) status = CORRUPT;
			at += n;
		}
	}
	return status;
}

HR_FN Status walk(const Chunk &c, Layout &layout) {
	if (c.method == BLOSC_ZSTD) return walkBlosc(c, layout);
	if (c.method != ZSTD) return UNSUPPORTED;
	layout.open(c.typesize > 1 ? c.scratch : c.dst, c.dstBytes);
	Status status = walkFrames({(const u8 *)c.src, 0, c.srcBytes}, layout);
	return status == OK && !layout.close() ? CORRUPT : status;
}

// scan finds the blocks of a chunk and gives them memory.
HR_FN Status scan(const ZstdParams &p, Work &work, u32 chunk) {
	const Chunk &c = chunkOf(p, chunk);
	u32 steps = c.dstBytes + SPARE_STEPS;
	Layout layout = {{0, 0, 0}, nullptr, nullptr, 0, 0, chunk, 0, 0, 0, 0, steps};
	Status status = walk(c, layout);
	if (status != OK) return status;
	Needs needs = layout.needs;
	if (needs.blocks > work.maxBlocks || needs.bytes > work.arenaBytes) return UNSUPPORTED;
	u64 at = fetchAdd(&work.head->arena, needs.bytes);
	if (at > work.arenaBytes - needs.bytes) return UNSUPPORTED;
	u32 first = fetchAdd(&work.head->blocks, needs.blocks);
	if (first > work.maxBlocks - needs.blocks) {
		// Those that are there are of no chunk.
		for (u32 i = first; i < work.maxBlocks; i++) work.blocks[i].type = RESERVED;
		return UNSUPPORTED;
	}
	// There are no more segments than blocks.
	Segment *segments = work.segments + fetchAdd(&work.head->segments, needs.segments);
	layout = {{0, 0, 0}, work.blocks + first, segments, first, (u64)work.arena + at, chunk, 0, 0, 0, 0, steps};
	return walk(c, layout);
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_SCAN_BLOCK, 8) hr_zstd_scan(hr::ZstdParams p) {
	using namespace hr;
	zstd::Work work(p);
	for (u32 i = block() * threads() + thread(); i < p.n; i += blocks() * threads()) {
		*zstd::statusOf(p, i) = zstd::scan(p, work, i);
	}
}
