// nvCOMP's decoders beside our kernels, by the public C interface of 5.x, from a library
// that is on the machine. Options are structs of 64 bytes by value, all zero for the
// defaults.
#pragma once
#include <dlfcn.h>

#include "gpu.h"

struct Nvcomp {
	struct Options {
		unsigned long long words[8] = {};
	};
	typedef int (*Temp)(size_t chunks, size_t largest, Options, size_t *bytes, size_t total);
	typedef int (*Decompress)(CUdeviceptr sources, CUdeviceptr sourceBytes, CUdeviceptr destinationBytes, CUdeviceptr actualBytes, size_t n,
	                          CUdeviceptr temp, size_t tempBytes, CUdeviceptr destinations, Options, CUdeviceptr statuses, CUstream);

	Temp temp;
	Decompress decompress;

	// codec as it stands in the names of its functions: LZ4, Zstd.
	Nvcomp(const char *path, const std::string &codec) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
		std::string prefix = "nvcompBatched" + codec + "Decompress";
		temp = (Temp)dlsym(library, (prefix + "GetTempSizeAsync").c_str());
		decompress = (Decompress)dlsym(library, (prefix + "Async").c_str());
		if (!temp || !decompress) fprintf(stderr, "%s: no %s of nvCOMP 5\n", path, codec.c_str()), exit(1);
	}
};
