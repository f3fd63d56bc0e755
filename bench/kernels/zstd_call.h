// How the kernels of zstd follow each other, and the memory that they work in, as cuda/decode has it:
// for all programs here and in tests/decoders that launch them.
#pragma once
#include "../../cuda/kernels/zstd.h"

#include <stddef.h>

// Of a GPU, kernels.ZstdSequencesShared in cuda/kernels/zstd.go; the command line may say another.
#ifndef ZSTD_SEQUENCES_SHARED
#define ZSTD_SEQUENCES_SHARED 55296
#endif

struct ZstdKernel {
	const char *name;
	unsigned block, shared;
};

enum ZstdStep { SCAN, TABLES, COUNT, ORDER, LITERALS, SEQUENCES, EXECUTE, WIDE, FINISH, ZSTD_STEPS };

static const ZstdKernel zstdKernels[ZSTD_STEPS] = {
    {"hr_zstd_scan", hr::ZSTD_SCAN_BLOCK, 0},
    {"hr_zstd_tables", hr::ZSTD_TABLES_BLOCK, 0},
    {"hr_zstd_count", hr::ZSTD_ORDER_BLOCK, 0},
    {"hr_zstd_order", hr::ZSTD_ORDER_BLOCK, 0},
    {"hr_zstd_literals", hr::ZSTD_LITERALS_BLOCK, 0},
    {"hr_zstd_sequences", hr::ZSTD_SEQUENCES_BLOCK, ZSTD_SEQUENCES_SHARED},
    {"hr_zstd_execute", hr::ZSTD_EXECUTE_BLOCK, 0},
    {"hr_zstd_execute_wide", hr::ZSTD_EXECUTE_WIDE_BLOCK, 0},
    {"hr_zstd_finish", hr::ZSTD_FINISH_BLOCK, 0},
};

// beginZstd launches what comes before literals and sequences.
template <class Launch> void beginZstd(Launch launch) {
	for (int k = SCAN; k <= ORDER; k++) launch(ZstdStep(k));
}

// launchZstd launches a call. beside takes two launches of which neither needs the other. execute is
// EXECUTE or WIDE.
template <class Launch, class Beside> void launchZstd(Launch launch, Beside beside,
    ZstdStep execute = EXECUTE) {
	beginZstd(launch);
	beside([&] { launch(LITERALS); }, [&] { launch(SEQUENCES); });
	launch(execute);
	launch(FINISH);
}

// ZstdRoom is the size of the memory: Head, which is zero before a call, what counts by blocks, the
// arena.
struct ZstdRoom {
	enum : size_t { HEAD = sizeof(hr::zstd::Head) };
	size_t blocks, arena;

	// usual is what package decode gives n chunks of so many bytes, with an arena of another size.
	static ZstdRoom usual(size_t n, size_t decoded, size_t arena) {
		return {decoded / 16384 + 4 * n, arena / 16 * 16};
	}

	// all has room for whatever an encoder wrote: so much more for each chunk. What a damaged one asks
	// for knows no bounds.
	static ZstdRoom all() { return {64, 64 << 20}; }
	void add(size_t encoded, size_t decoded) {
		blocks += encoded / 3 + 1;
		arena += (4 * decoded + 16 * encoded + (16 << 10)) / 16 * 16;
	}

	hr::ZstdParams params(uint64_t chunks, uint64_t status, uint64_t work, size_t n) const {
		return {chunks, status, work, arena, (hr::u32)n, (hr::u32)blocks};
	}
	// bytes is where the kernels find the end of it.
	size_t bytes() const { return (size_t)hr::zstd::Work(params(0, 0, 0, 0)).arena + arena; }
};
