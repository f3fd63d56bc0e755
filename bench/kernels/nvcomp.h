// nvCOMP's zstd decoder, from a library that is on the machine: declared from the public
// documentation of its C interface (5.x), found by dlopen.
#pragma once
#include <dlfcn.h>
#include <stdint.h>

#include "gpu.h"

struct Nvcomp {
	struct Options {
		uint64_t words[8];
	};
	typedef int (*TempSize)(size_t n, size_t most, Options, size_t *bytes, size_t total);
	typedef int (*Decompress)(const void *const *src, const size_t *srcBytes, const size_t *dstBytes, size_t *actual, size_t n, void *temp, size_t tempBytes,
	                          void *const *dst, Options, int *statuses, CUstream);
	TempSize tempSize;
	Decompress decompress;

	explicit Nvcomp(const char *path) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
		tempSize = (TempSize)dlsym(library, "nvcompBatchedZstdDecompressGetTempSizeAsync");
		decompress = (Decompress)dlsym(library, "nvcompBatchedZstdDecompressAsync");
		if (!tempSize || !decompress) fprintf(stderr, "%s has no zstd of 5.x\n", path), exit(1);
	}
};
