//go:build ignore

// The kernels as functions of a host. Compile with -std=c++17 -ffp-contract=off;
// with -DHR_FIBERS, blocks and warps have all their threads (see simt.h).
#include "kernels.cu"

#include <stddef.h>
#if defined(HR_FIBERS)
#include "fibers.h"
#endif

namespace hr {

#if !defined(HR_FIBERS)
// runBlock runs one block: its one thread does the work of all.
template <class P> static void runBlock(void (*kernel)(P), const P &p, u32) {
	self.thread = 0;
	self.threads = 1;
	kernel(p);
}
#endif

template <class P> static int run(void (*kernel)(P), const void *params, u32 grid, u32 block) {
	P p;
	memcpy(&p, params, sizeof p);
	self.blocks = grid;
	for (u32 b = 0; b < grid; b++) {
		self.block = b;
		runBlock(kernel, p, block);
	}
	return 0;
}

} // namespace hr

// hr_host_launch runs a kernel to its end: 0, or 1 if there is none of that name.
extern "C" int hr_host_launch(const char *kernel, const void *params, unsigned grid, unsigned block) {
	if (!strcmp(kernel, "hr_assemble")) return hr::run(hr_assemble, params, grid, block);
	if (!strcmp(kernel, "hr_decode")) return hr::run(hr_decode, params, grid, block);
	if (!strcmp(kernel, "hr_crc32c")) return hr::run(hr_crc32c, params, grid, block);
	if (!strcmp(kernel, "hr_gather")) return hr::run(hr_gather, params, grid, block);
	if (!strcmp(kernel, "hr_inflate")) return hr::run(hr_inflate, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_scan")) return hr::run(hr_zstd_scan, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_tables")) return hr::run(hr_zstd_tables, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_count")) return hr::run(hr_zstd_count, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_order")) return hr::run(hr_zstd_order, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_literals")) return hr::run(hr_zstd_literals, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_sequences")) return hr::run(hr_zstd_sequences, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_execute")) return hr::run(hr_zstd_execute, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_execute_wide")) return hr::run(hr_zstd_execute_wide, params, grid, block);
	if (!strcmp(kernel, "hr_zstd_finish")) return hr::run(hr_zstd_finish, params, grid, block);
	return 1;
}
