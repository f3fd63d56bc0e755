// The structs that the host writes for the kernels. The same, with what they
// mean, are in kernels.go; a test compares sizes and offsets.
#pragma once
#include "simt.h"

namespace hr {

struct Loop {
	i64 dst, src; // bytes a step
	u32 n, unused;
};

struct Affine {
	double scale, offset;
};

struct Tile {
	u64 dst, src;
	u32 loops;
	u16 rank;
	u8 from, to;
	u32 flags;
	u32 chunk;
	union {
		Affine affine;
		u8 element[16];
	};
};

struct Chunk {
	u64 src, dst, scratch;
	u32 srcBytes, dstBytes;
	u32 status;
	u8 method, typesize;
	u16 flags;
};

struct Piece {
	u64 dst, src, n;
};

struct AssembleParams {
	u64 tiles, loops, status;
	u32 n;
};

struct DecodeParams {
	u64 chunks, status;
	u32 n;
};

struct GatherParams {
	u64 pieces;
	u32 n;
};

// ZstdParams is the parameter of all kernels of zstd.
struct ZstdParams {
	u64 chunks, status, work;
	u64 arena; // bytes
	u32 n, blocks;
};

enum Flag { BIG = 1, FILL = 2, AFFINE = 4 };
enum Method { LZ4 = 1, BLOSC, UNSHUFFLE, COPY, ZSTD, BLOSC_ZSTD, ZLIB, GZIP, BLOSC_ZLIB };
enum ChunkFlag { UNCHECKED = 1, SUMMED = 2 };
enum Status { OK, CORRUPT, UNSUPPORTED };

const u32 NO_CHUNK = 0xffffffff;
const u32 MAX_RANK = 32;
enum Block {
	ASSEMBLE_BLOCK = 256,
	DECODE_BLOCK = 64,
	GATHER_BLOCK = 256,
	INFLATE_BLOCK = 64,
	CRC32C_BLOCK = 256,
};
enum ZstdThreads {
	ZSTD_SCAN_BLOCK = 64,
	ZSTD_TABLES_BLOCK = 128,
	ZSTD_ORDER_BLOCK = 256,
	ZSTD_LITERALS_BLOCK = 64,
	ZSTD_SEQUENCES_BLOCK = 32,
	ZSTD_EXECUTE_BLOCK = 128,
	ZSTD_EXECUTE_WIDE_BLOCK = 256,
	ZSTD_FINISH_BLOCK = 256
};

// The element types, numbered as in package nd.
enum Type { BOOL = 1, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128, TYPES };

static_assert(sizeof(Loop) == 24 && sizeof(Tile) == 48 && sizeof(Chunk) == 40 && sizeof(Piece) == 24,
    "structs");
static_assert(sizeof(AssembleParams) == 32 && sizeof(DecodeParams) == 24 && sizeof(GatherParams) == 16
    && sizeof(ZstdParams) == 40,
              "parameters");

} // namespace hr
