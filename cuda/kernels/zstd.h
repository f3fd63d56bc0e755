// zstd frames (RFC 8878; sections are cited as 3.1.1 and the like), decoded by kernels
// that follow each other:
//
//   hr_zstd_scan       a thread a chunk: headers of frames and blocks -> Block
//   hr_zstd_tables     a warp a block: FSE tables and Huffman trees
//   hr_zstd_count      a thread a block: how much work of which size there is
//   hr_zstd_order      a thread a block: lists of that work, the longest first
//   hr_zstd_literals   a lane a Huffman stream            } beside each other
//   hr_zstd_sequences  a lane a block: its sequences      }
//   hr_zstd_execute    a block of threads a segment: copies literals and matches,
//                      or hr_zstd_execute_wide, where segments are few
//   hr_zstd_finish     blocks of threads a chunk: puts together the bytes of elements
//
// Nothing is read back by the host in between: grids are what the GPU holds, and how much there is
// to do stands in device memory. That memory, work, is laid out here. What differs in size from
// chunk to chunk is taken from an arena; a chunk that finds no room there is left to the host, like
// all that the kernels do not know.
//
// A segment is frames that decode to a known number of bytes at a known place: those of a
// chunk, or, in a frame of blosc, those of a stream. So what one segment decodes to needs
// no other one.
#pragma once
#include "abi.h"
#include "bytes.h"

namespace hr {
namespace zstd {

enum : u32 {
	MAX_BLOCK = 128 << 10, // Block_Maximum_Size (3.1.1.2.4)
	NONE = 0xffffffff,
};

enum BlockType { RAW, RLE, COMPRESSED, RESERVED };                            // 3.1.1.2.2
enum LiteralsType { RAW_LITERALS, RLE_LITERALS, HUFFMAN_LITERALS, TREELESS }; // 3.1.1.3.1.1
enum Mode { PREDEFINED, RLE_MODE, FSE, REPEAT };                              // 3.1.1.3.2.1
enum Kind { LITERAL_LENGTHS, OFFSETS, MATCH_LENGTHS, KINDS };                 // the tables of sequences

enum BlockFlag {
	FIRST = 1,    // of its frame
	LAST = 2,     // of its frame
	CHECKSUM = 4, // Content_Checksum is to be compared, on the last block
	DIRECT = 8,   // its literals are decoded to where they belong in the output
};

// FSE tables of a block lie one after the other, at their largest.
enum : u32 { TABLE_ENTRIES = 512 + 256 + 512, TABLES_BYTES = 2 * TABLE_ENTRIES, TREE_BYTES = 2 * 256 };
HR_FN u32 tableStart(u32 kind) { return kind == LITERAL_LENGTHS ? 0 : kind == OFFSETS ? 512 : 768; }

// Block is a block as the kernels hand it on. Places in the source count from
// the chunk's begin; indexes of blocks are those of the launch.
struct alignas(16) Block {
	u64 literals;  // address of the literals once they are decoded
	u64 sequences; // address of Packed
	u64 tables;    // address of the FSE tables that it describes
	u64 tree;      // address of the Huffman tree that it describes
	u32 chunk;
	u32 body, bytes;                                // Block_Content
	u32 decoded;                                    // of raw and RLE blocks
	u32 literalsAt, literalsBytes, literalsDecoded; // behind Literals_Section_Header
	u32 sequencesAt, sequenceCount;                 // behind Symbol_Compression_Modes
	u32 bitsAt;                                     // where the bitstream of sequences begins
	u32 treeBlock, tableBlock[KINDS];               // which blocks describe its tables
	u32 most;                                       // Block_Maximum_Size of its frame
	u32 content, checksum;                          // of its frame, on the last block; NONE: no content size
	u32 repeats[3];                                 // repeat offsets behind it, see Offset
	u8 type, flags, literalsType, streams;
	u8 modes, treeLog, logs[KINDS];
	u8 values[KINDS];                               // bits of the longest value of a table
};

// Offset of a sequence: a distance, or if the block inherits it, a repeat offset of the
// block before, less a number that the low bits tell.
enum Offset : u32 { INHERITED = 1u << 27, INHERITED_SLOT = 25, INHERITED_BIAS = 0x80000 };

// Packed is a sequence: how many literals and how many bytes the block has up to
// its end (18 bits each), and its offset (28).
struct Packed {
	u32 low, high;

	HR_FN u32 literals() const { return low & 0x3ffff; }
	HR_FN u32 bytes() const { return low >> 18 | (high & 15) << 14; }
	HR_FN u32 offset() const { return high >> 4; }
};

HR_FN Packed pack(u32 literals, u32 bytes, u32 offset) {
	Packed p = {bytes << 18 | (literals & 0x3ffff), bytes >> 14 | offset << 4};
	return p;
}

// Segment is blocks, one at least, that decode to bytes at dst, beginning with a frame.
struct Segment {
	u64 dst;
	u32 bytes;
	u32 chunk;
	u32 first, count; // of its blocks
};

// Work is sorted by keys, small ones first: literals by the size of their Huffman tables
// and their number, then sequences by their number.
enum : u32 {
	SMALL_TREE_LOG = 10,
	LITERALS_STEP = 512,
	LITERALS_SIZES = MAX_BLOCK / LITERALS_STEP + 1,
	SEQUENCES_STEP = 128,
	LITERALS_KEYS = 2 * LITERALS_SIZES, // first those with a log above SMALL_TREE_LOG
	SEQUENCES_KEYS = MAX_BLOCK / 3 / SEQUENCES_STEP + 1,
	KEYS = LITERALS_KEYS + SEQUENCES_KEYS,
};

// Head is the begin of work. The host zeroes it before the first kernel.
struct alignas(16) Head {
	u64 arena;  // bytes taken
	u32 blocks, segments; // taken
	u32 nextLiterals, nextSequences, nextSegment;
	u32 longTrees, literals, sequences; // lengths of the lists
	u32 counted[KEYS], placed[KEYS];
};

// Work finds the parts of the memory: Head, the blocks, as many segments, the list of
// literals followed by that of sequences, the arena. All begin at multiples of 16.
struct Work {
	Head *head;
	Block *blocks;
	Segment *segments;
	u32 *list;
	u8 *arena;
	u64 arenaBytes;
	u32 maxBlocks;

	HR_FN explicit Work(const ZstdParams &p) {
		u8 *at = (u8 *)p.work;
		head = (Head *)at;
		blocks = (Block *)(at += sizeof(Head));
		segments = (Segment *)(at += (u64)p.blocks * sizeof(Block));
		list = (u32 *)(at += ((u64)p.blocks * sizeof(Segment) + 15) / 16 * 16);
		arena = at + ((u64)p.blocks * 8 + 15) / 16 * 16;
		arenaBytes = p.arena;
		maxBlocks = p.blocks;
	}

	HR_FN u32 blockCount() const { return least(head->blocks, maxBlocks); }
	HR_FN u32 segmentCount() const { return head->segments; }
};

static_assert(sizeof(Head) % 16 == 0 && sizeof(Block) % 16 == 0, "parts of the work memory");

HR_FN const Chunk &chunkOf(const ZstdParams &p, u32 chunk) { return ((const Chunk *)p.chunks)[chunk]; }
HR_FN u32 *statusOf(const ZstdParams &p, u32 chunk) { return (u32 *)p.status + chunkOf(p, chunk).status; }
HR_FN const u8 *sourceOf(const ZstdParams &p, u32 chunk) { return (const u8 *)chunkOf(p, chunk).src; }

// statusNow is for kernels in which chunks fail.
HR_FN u32 statusNow(const ZstdParams &p, u32 chunk) { return current(statusOf(p, chunk)); }

// The worst that any part of a chunk has is its status.
HR_FN void fail(const ZstdParams &p, u32 chunk, Status why) { raise(statusOf(p, chunk), why); }

} // namespace zstd
} // namespace hr
