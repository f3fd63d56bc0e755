// Where the kernels run: a GPU through its driver, or, with -DON_HOST, this processor
// by the host build of the kernels. A device is memory, launches in order, and a wait.
#pragma once
#include <stdint.h>
#include <string.h>

#include <string>
#include <unordered_map>

#ifdef ON_HOST
#include "../../cuda/kernels/host.cc"

#include <stdlib.h>

// Each allocation is one of the allocator's: the sanitizers see a byte too much.
struct Device {
	explicit Device(const char *) {}

	static const bool gpu = false;
	bool has(const char *kernel) const {
		char none[64] = {};
		return !hr_host_launch(kernel, none, 0, 32);
	}
	uint64_t alloc(size_t n) {
		void *p;
		if (posix_memalign(&p, 16, n)) abort();
		return (uint64_t)p;
	}
	void free(uint64_t at) { ::free((void *)at); }
	void put(uint64_t at, const void *from, size_t n) { memcpy((void *)at, from, n); }
	void get(void *to, uint64_t at, size_t n) { memcpy(to, (const void *)at, n); }
	void set(uint64_t at, uint8_t v, size_t n) { memset((void *)at, v, n); }
	void launch(const char *kernel, const void *params, size_t, unsigned block, unsigned = 0) {
		if (hr_host_launch(kernel, params, 3, block)) abort();
	}
	// beside launches two kernels of which neither needs the other: here in turns.
	template <class A, class B> void beside(A first, B second) {
		if (turn++ % 2) {
			first();
			second();
		} else {
			second();
			first();
		}
	}
	void wait() {}
	std::string name() const { return hr::LANES > 1 ? "host, fibers" : "host, one thread"; }

  private:
	unsigned turn = 0;
};

#else
#include "../../bench/kernels/gpu.h"

struct Device {
	explicit Device(const char *image) : image((start(), image)) {
		CHECK(cuStreamCreate(&order, CU_STREAM_NON_BLOCKING));
		CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
		CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
		CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
		on = order;
	}

	static const bool gpu = true;
	bool has(const char *kernel) const {
		CUfunction f;
		return cuModuleGetFunction(&f, image.module, kernel) == CUDA_SUCCESS;
	}
	uint64_t alloc(size_t n) {
		CUdeviceptr at;
		CHECK(cuMemAlloc(&at, n ? n : 1));
		return at;
	}
	void free(uint64_t at) { CHECK(cuMemFree(at)); }
	void put(uint64_t at, const void *from, size_t n) {
		if (n) CHECK(cuMemcpyHtoDAsync(at, from, n, order));
		wait();
	}
	void get(void *to, uint64_t at, size_t n) {
		if (n) CHECK(cuMemcpyDtoHAsync(to, at, n, order));
		wait();
	}
	void set(uint64_t at, uint8_t v, size_t n) {
		if (n) CHECK(cuMemsetD8Async(at, v, n, order));
	}
	void launch(const char *kernel, const void *params, size_t bytes, unsigned, unsigned shared = 0) {
		const Kernel &k = find(kernel, shared);
		::launch(k.function, k.grid, k.block, const_cast<void *>(params), bytes, shared, on);
	}
	template <class A, class B> void beside(A first, B second) {
		CHECK(cuEventRecord(forked, order));
		CHECK(cuStreamWaitEvent(side, forked, 0));
		on = side;
		first();
		CHECK(cuEventRecord(joined, side));
		on = order;
		second();
		CHECK(cuStreamWaitEvent(order, joined, 0));
	}
	void wait() { CHECK(cuStreamSynchronize(order)); }
	std::string name() const {
		char text[128];
		CHECK(cuDeviceGetName(text, sizeof text, 0));
		return text;
	}

  private:
	struct Kernel {
		CUfunction function;
		int block, grid;
	};

	static int start() {
		CUdevice device;
		CUcontext context;
		CHECK(cuInit(0));
		CHECK(cuDeviceGet(&device, 0));
		CHECK(cuDevicePrimaryCtxRetain(&context, device));
		CHECK(cuCtxSetCurrent(context));
		return 0;
	}
	const Kernel &find(const std::string &name, unsigned shared) {
		auto found = kernels.find(name);
		if (found != kernels.end()) return found->second;
		CUfunction f = image.function(name.c_str());
		if (shared) CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared));
		return kernels[name] = {f, image.block(f), image.resident(f, (int)shared)};
	}

	Image image;
	CUstream order, side, on;
	CUevent forked, joined;
	std::unordered_map<std::string, Kernel> kernels;
};
#endif
