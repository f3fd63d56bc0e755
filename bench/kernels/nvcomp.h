// nvCOMP's LZ4 beside our kernel, by its public C interface of 5.x, where the library is
// there. Options are structs of 64 bytes by value, all zero for the defaults.
#pragma once
#include <dlfcn.h>

struct Nvcomp {
	struct Options {
		unsigned long long words[8] = {};
	};
	typedef int (*Temp)(size_t chunks, size_t largest, Options, size_t *bytes, size_t total);
	typedef int (*Decompress)(CUdeviceptr sources, CUdeviceptr sourceBytes, CUdeviceptr destinationBytes, CUdeviceptr actualBytes, size_t n,
	                          CUdeviceptr temp, size_t tempBytes, CUdeviceptr destinations, Options, CUdeviceptr statuses, CUstream);

	Temp temp;
	Decompress decompress;

	explicit Nvcomp(const char *path) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
		temp = (Temp)dlsym(library, "nvcompBatchedLZ4DecompressGetTempSizeAsync");
		decompress = (Decompress)dlsym(library, "nvcompBatchedLZ4DecompressAsync");
		if (!temp || !decompress) fprintf(stderr, "%s: not nvCOMP 5\n", path), exit(1);
	}
};
