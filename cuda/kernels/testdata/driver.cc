// The test driver: it runs kernels of the host build on memory that it is sent,
// and sends back what they wrote. Each buffer is an allocation of its own, so that
// the address sanitizer sees a byte too much.
//
// A request is, in 64-bit numbers: the kernel (0 assemble, 1 decode, 2 gather, 3 the
// layout of the structs, 4 all those of zstd, plus 256 times what their work memory holds before, 5 inflate, 6 crc32c), grid, block, the count of buffers, for each its
// size and its content, and the parameters, 64 bytes. An address in it is (buffer+1)<<40
// plus an offset. The answer is all buffers, one after the other.
#include "../host.cc"

#include <stdio.h>
#include <stdlib.h>
#include <vector>

using namespace hr;

// What a build that looks for races is told of memory: what kernels may expect to find there.
#if defined(HR_RACES)
static void filled(const void *p, u64 n) { hr_races_memory(p, n, true); }
static void unfilled(const void *p, u64 n) { hr_races_memory(p, n, false); }
static void blank(u64 p, u64 n) { hr_races_blank((const void *)p, n); }
static void written(const void *p, u64 n) { hr_races_written(p, n); }
static void gone(const void *p) { hr_races_free(p); }
static void launched(bool beside) { hr_races_launch(beside); }
#else
static void filled(const void *, u64) {}
static void unfilled(const void *, u64) {}
static void blank(u64, u64) {}
static void written(const void *, u64) {}
static void gone(const void *) {}
static void launched(bool) {}
#endif

static bool get(void *p, size_t n) { return fread(p, 1, n, stdin) == n; }
static void put(const void *p, size_t n) { fwrite(p, 1, n, stdout); }

static u64 number() {
	u64 v;
	if (!get(&v, 8)) exit(0);
	return v;
}

struct Buffer {
	u8 *data;
	u64 size;
};
static std::vector<Buffer> buffers;

static void place(u64 &address) {
	if (address) address = (u64)buffers[(address >> 40) - 1].data + (address & ((1ull << 40) - 1));
}

template <class T> static T *table(u64 &address) {
	place(address);
	return (T *)address;
}

static void placeChunk(Chunk &c) {
	for (u64 *p : {&c.dst, &c.src, &c.scratch}) place(*p);
	for (u64 p : {c.dst, c.scratch}) {
		if (p) blank(p, c.dstBytes);
	}
}

static const char *prepare(u64 kernel, u8 *params) {
	switch (kernel) {
	case 0: {
		AssembleParams &p = *(AssembleParams *)params;
		Tile *tiles = table<Tile>(p.tiles);
		place(p.loops);
		place(p.status);
		for (u32 i = 0; i < p.n; i++) {
			place(tiles[i].dst);
			place(tiles[i].src);
		}
		return "hr_assemble";
	}
	case 1:
	case 5:
	case 6: {
		DecodeParams &p = *(DecodeParams *)params;
		Chunk *chunks = table<Chunk>(p.chunks);
		place(p.status);
		for (u32 i = 0; i < p.n; i++) placeChunk(chunks[i]);
		return kernel == 1 ? "hr_decode" : kernel == 5 ? "hr_inflate" : "hr_crc32c";
	}
	}
	GatherParams &p = *(GatherParams *)params;
	Piece *pieces = table<Piece>(p.pieces);
	for (u32 i = 0; i < p.n; i++) {
		place(pieces[i].dst);
		place(pieces[i].src);
	}
	return "hr_gather";
}

// runZstd runs the kernels of zstd in their order. Those that run beside each other on a GPU
// do so here in both orders, and those of which a launcher takes one are taken in turn.
static bool runZstd(u8 *params, u64 grid, u8 fill) {
	ZstdParams &p = *(ZstdParams *)params;
	Chunk *chunks = table<Chunk>(p.chunks);
	place(p.status);
	for (u32 i = 0; i < p.n; i++) placeChunk(chunks[i]);
	// The work memory is not sent; p.work is its size.
	void *work;
	u64 bytes = p.work;
	if (posix_memalign(&work, 16, bytes)) return false;
	memset(work, fill, bytes);
	memset(work, 0, sizeof(zstd::Head));
	unfilled(work, bytes);
	written(work, sizeof(zstd::Head));
	p.work = (u64)work;
	static const struct {
		const char *name;
		u32 block;
	} kernels[] = {
	    {"hr_zstd_scan", ZSTD_SCAN_BLOCK}, {"hr_zstd_tables", ZSTD_TABLES_BLOCK},
	    {"hr_zstd_count", ZSTD_ORDER_BLOCK}, {"hr_zstd_order", ZSTD_ORDER_BLOCK},
	    {"hr_zstd_literals", ZSTD_LITERALS_BLOCK}, {"hr_zstd_sequences", ZSTD_SEQUENCES_BLOCK},
	    {"hr_zstd_literals", ZSTD_LITERALS_BLOCK},
	    {"hr_zstd_execute", ZSTD_EXECUTE_BLOCK}, {"hr_zstd_execute_wide", ZSTD_EXECUTE_WIDE_BLOCK},
	    {"hr_zstd_finish", ZSTD_FINISH_BLOCK}};
	static int turn;
	turn++;
	for (int i = 0; i < 10; i++) {
		if (i == 4 + 2 * (turn & 1) || i == 7 + (turn >> 1 & 1)) continue;
		launched(i == 6 - (turn & 1)); // literals and sequences run beside each other
		if (hr_host_launch(kernels[i].name, params, (unsigned)grid, kernels[i].block)) return false;
	}
	gone(work);
	free(work);
	return true;
}

static void layout() {
	u64 numbers[] = {
	    sizeof(Tile), sizeof(Loop), sizeof(Chunk), sizeof(Piece), sizeof(AssembleParams),
	    sizeof(DecodeParams), sizeof(GatherParams),
	    offsetof(Tile, dst), offsetof(Tile, src), offsetof(Tile, loops), offsetof(Tile, rank),
	    offsetof(Tile, from), offsetof(Tile, to),
	    offsetof(Tile, flags), offsetof(Tile, chunk), offsetof(Tile, affine.scale),
	    offsetof(Tile, affine.offset), offsetof(Tile, element),
	    offsetof(Loop, dst), offsetof(Loop, src), offsetof(Loop, n),
	    offsetof(Chunk, src), offsetof(Chunk, dst), offsetof(Chunk, scratch), offsetof(Chunk, srcBytes),
	    offsetof(Chunk, dstBytes),
	    offsetof(Chunk, status), offsetof(Chunk, method), offsetof(Chunk, typesize), offsetof(Chunk, flags),
	    offsetof(Piece, dst), offsetof(Piece, src), offsetof(Piece, n),
	    offsetof(AssembleParams, tiles), offsetof(AssembleParams, loops), offsetof(AssembleParams, status),
	    offsetof(AssembleParams, n),
	    offsetof(DecodeParams, chunks), offsetof(DecodeParams, status), offsetof(DecodeParams, n),
	    offsetof(GatherParams, pieces), offsetof(GatherParams, n),
	    sizeof(ZstdParams), sizeof(zstd::Head), sizeof(zstd::Block), sizeof(zstd::Segment),
	    sizeof(zstd::SequenceShared),
	    offsetof(ZstdParams, chunks), offsetof(ZstdParams, status), offsetof(ZstdParams, work),
	    offsetof(ZstdParams, arena), offsetof(ZstdParams, n),
	    offsetof(ZstdParams, blocks),
	    ZSTD_SCAN_BLOCK, ZSTD_TABLES_BLOCK, ZSTD_ORDER_BLOCK, ZSTD_LITERALS_BLOCK, ZSTD_SEQUENCES_BLOCK,
	    ZSTD_EXECUTE_BLOCK, ZSTD_EXECUTE_WIDE_BLOCK, ZSTD_FINISH_BLOCK,
	    ASSEMBLE_BLOCK, DECODE_BLOCK, GATHER_BLOCK, INFLATE_BLOCK, CRC32C_BLOCK, MAX_RANK, NO_CHUNK,
	    BIG, FILL, AFFINE, LZ4, BLOSC, UNSHUFFLE, COPY, ZSTD, BLOSC_ZSTD, ZLIB, GZIP, BLOSC_ZLIB, UNCHECKED,
	    SUMMED, OK, CORRUPT, UNSUPPORTED,
	    BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128};
	u64 bytes = sizeof numbers;
	put(&bytes, 8);
	put(numbers, bytes);
}

int main(int count, char **arguments) {
#if defined(HR_RACES)
	if (count > 1) hr_races_forget(arguments[1][0]);
#else
	(void)count, (void)arguments;
#endif
	for (;;) {
		u64 kernel = number(), grid = number(), block = number();
		buffers.resize(number());
		for (Buffer &b : buffers) {
			b.size = number();
			b.data = nullptr;
			if (posix_memalign((void **)&b.data, 16, b.size)) return 1;
			if (b.size && !get(b.data, b.size)) return 1;
			filled(b.data, b.size);
		}
		alignas(16) u8 params[64];
		if (!get(params, sizeof params)) return 1;
		if (kernel == 3) {
			layout();
		} else if ((kernel & 255) == 4) {
			if (!runZstd(params, grid, (u8)(kernel >> 8))) return 1;
		} else {
			const char *name = prepare(kernel, params);
			launched(false);
			if (hr_host_launch(name, params, (unsigned)grid, (unsigned)block)) return 1;
		}
		for (Buffer &b : buffers) {
			put(b.data, b.size);
			gone(b.data);
			free(b.data);
		}
		fflush(stdout);
	}
}
