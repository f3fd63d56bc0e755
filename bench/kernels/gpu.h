// What the benchmarks need of the CUDA driver.
#pragma once
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

inline void check(CUresult r, const char *what) {
	if (r == CUDA_SUCCESS) return;
	const char *name = "?";
	cuGetErrorName(r, &name);
	fprintf(stderr, "%s: %s\n", what, name);
	exit(1);
}
#define CHECK(call) check(call, #call)

// useFirstDevice makes the first GPU that of this thread.
inline void useFirstDevice() {
	CUdevice device;
	CUcontext context;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

struct Memory {
	CUdeviceptr at = 0;
	explicit Memory(size_t n) { CHECK(cuMemAlloc(&at, n ? n : 1)); }
	Memory(Memory &&m) : at(m.at) { m.at = 0; }
	Memory(const Memory &) = delete;
	Memory &operator=(Memory &&m) {
		std::swap(at, m.at);
		return *this;
	}
	~Memory() {
		if (at) cuMemFree(at);
	}
};

template <class T> inline Memory upload(const std::vector<T> &v) {
	Memory m(v.size() * sizeof(T));
	if (!v.empty()) CHECK(cuMemcpyHtoD(m.at, v.data(), v.size() * sizeof(T)));
	return m;
}

template <class T> inline std::vector<T> download(CUdeviceptr at, size_t n) {
	std::vector<T> v(n);
	if (n) CHECK(cuMemcpyDtoH(v.data(), at, n * sizeof(T)));
	return v;
}

struct Image {
	std::string path;
	CUmodule module;
	float loadMs;
	int sms;

	explicit Image(const char *file) : path(file) {
		std::ifstream in(file);
		std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
		timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		CHECK(cuModuleLoadData(&module, text.c_str()));
		clock_gettime(CLOCK_MONOTONIC, &b);
		loadMs = (b.tv_sec - a.tv_sec) * 1e3f + (b.tv_nsec - a.tv_nsec) * 1e-6f;
		CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	}

	CUfunction function(const char *name) const {
		CUfunction f;
		CHECK(cuModuleGetFunction(&f, module, name));
		return f;
	}

	// block is the number of threads that a kernel is compiled for.
	int block(CUfunction f) const {
		int n;
		CHECK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
		return n;
	}

	// resident is the grid of a launch whose blocks all run at once.
	int resident(CUfunction f, int shared = 0) const {
		int each;
		CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, block(f), shared));
		return each * sms;
	}
};

inline void launch(CUfunction f, int grid, int block, void *params, size_t size, int shared = 0, CUstream stream = nullptr) {
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CHECK(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, stream, nullptr, extra));
}

// timeOf is the median of some launches, fewer if they take long, in milliseconds.
template <class F> inline float timeOf(F run) {
	enum { RUNS = 9, FEW = 3 };
	const float LONG = 50;
	CUevent a, b;
	CHECK(cuEventCreate(&a, 0));
	CHECK(cuEventCreate(&b, 0));
	run();
	std::vector<float> ms;
	while (ms.size() < RUNS && (ms.size() < FEW || ms.back() < LONG)) {
		CHECK(cuEventRecord(a, nullptr));
		run();
		CHECK(cuEventRecord(b, nullptr));
		CHECK(cuEventSynchronize(b));
		ms.emplace_back();
		CHECK(cuEventElapsedTime(&ms.back(), a, b));
	}
	cuEventDestroy(a);
	cuEventDestroy(b);
	std::sort(ms.begin(), ms.end());
	return ms[ms.size() / 2];
}

inline void report(const Image &image, const char *what, size_t items, double bytes, int grid, int block, float ms) {
	printf("{\"image\":\"%s\",\"load_ms\":%.0f,\"what\":\"%s\",\"items\":%zu,\"grid\":%d,\"block\":%d,\"ms\":%.3f,\"GB_per_s\":%.1f}\n", image.path.c_str(),
	       image.loadMs, what, items, grid, block, ms, bytes / ms * 1e-6);
	fflush(stdout);
}
