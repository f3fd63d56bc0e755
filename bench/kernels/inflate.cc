// Times the inflate kernel of an image on a GPU, nvCOMP beside it; one JSON object a line.
//
//     nvcc -O2 -std=c++17 -I cuda/kernels -o inflatebench bench/kernels/inflate.cc -lcuda -ldl
//     inflatebench check CASES ROUNDS IMAGE               every byte of inflate.py's cases; then damaged ones among them
//     inflatebench time SET PLAIN IMAGE [libnvcomp.so.5]  calls of 64 to 4096 chunks, three waves in flight
//     inflatebench compare SET PLAIN IMAGE...             calls of 64 and 4096 chunks by each image
//     inflatebench once SET PLAIN IMAGE N                 one call of N chunks, for a profiler
//
// PLAIN is the set of zstd.py that the plain bytes are in. All bytes that are decoded are compared,
// in every mode but once. nvCOMP gets the deflate streams without what zlib wraps them in.
#include "abi.h"
#include "gpu.h"
#include "nvcomp.h"

#include <stdint.h>
#include <string.h>

#include <memory>
#include <random>

typedef std::vector<uint8_t> Bytes;

enum { CHUNK_BYTES = 256 << 10 };

struct Case {
	size_t encoded, encodedBytes, plain, plainBytes; // places in the file
	uint8_t method, typesize;
};

struct File {
	Bytes bytes;
	std::vector<Case> cases;

	explicit File(const char *path) { append(path); }

	// append gives where the bytes of a file begin.
	size_t append(const char *path) {
		std::ifstream in(path, std::ios::binary | std::ios::ate);
		size_t at = bytes.size(), n = in ? (size_t)in.tellg() : 0;
		bytes.resize(at + n);
		in.seekg(0);
		in.read((char *)&bytes[at], n);
		if (n < 4) fprintf(stderr, "cannot read %s\n", path), exit(1);
		return at;
	}

	uint32_t number(size_t at) const {
		uint32_t v;
		memcpy(&v, &bytes[at], 4);
		return v;
	}

	static File set(const char *streams, const char *plain) {
		File f(streams);
		uint32_t n = f.number(0);
		size_t at = 4 + 4 * (size_t)n;
		for (uint32_t i = 0; i < n; i++) {
			f.cases.push_back({at, f.number(4 + 4 * (size_t)i), 0, CHUNK_BYTES, hr::ZLIB, 0});
			at += f.cases.back().encodedBytes;
		}
		f.append(plain);
		at = f.bytes.size() - (size_t)n * CHUNK_BYTES;
		for (Case &c : f.cases) c.plain = at, at += CHUNK_BYTES;
		return f;
	}

	static File corpus(const char *path) {
		File f(path);
		size_t at = 4;
		for (uint32_t i = 0, n = f.number(0); i < n; i++) {
			size_t encoded = f.number(at), plain = f.number(at + 4);
			uint32_t how = f.number(at + 8);
			f.cases.push_back({at + 12, encoded, at + 12 + encoded, plain, (uint8_t)how, (uint8_t)(how >> 8)});
			at += 12 + encoded + plain;
		}
		return f;
	}
};

// Device holds the sources, each at a place of its own.
struct Device {
	Bytes in;
	std::vector<size_t> at;
	std::unique_ptr<Memory> src;

	// lead is what is left out before each, align a multiple at which they begin: none if it is 1.
	Device(const File &f, size_t lead, size_t align) {
		for (size_t i = 0; i < f.cases.size(); i++) {
			in.resize((in.size() + 15) / 16 * 16 + i % 16 / align * align);
			at.push_back(in.size());
			const uint8_t *p = &f.bytes[f.cases[i].encoded];
			in.insert(in.end(), p + lead, p + f.cases[i].encodedBytes);
		}
		in.resize((in.size() + 31) / 16 * 16);
		src.reset(new Memory(upload(in)));
	}
};

struct Kernel {
	const Image &image;
	CUfunction function;
	int block;

	explicit Kernel(const Image &i) : image(i), function(i.function("hr_inflate")), block(i.block(function)) {}
};

// Call is a call of the kernel with what it needs to be launched.
struct Call {
	const Kernel &kernel;
	size_t n;
	Memory table, status;
	hr::DecodeParams p;
	CUstream stream;

	Call(const Kernel &k, const std::vector<hr::Chunk> &chunks) : kernel(k), n(chunks.size()), table(upload(chunks)), status(4 * n) {
		p = {table.at, status.at, (hr::u32)n};
		CHECK(cuMemsetD8(status.at, 0xee, 4 * n));
		CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		CHECK(cuCtxSynchronize());
	}
	Call(const Call &) = delete;
	~Call() { cuStreamDestroy(stream); }

	void run() { launch(kernel.function, (int)(n + 1) / 2, kernel.block, &p, sizeof p, 0, stream); }
};

template <class F> static float medianOf(CUstream stream, int times, F run) {
	CUevent a, b;
	CHECK(cuEventCreate(&a, 0));
	CHECK(cuEventCreate(&b, 0));
	std::vector<float> ms(times);
	for (float &m : ms) {
		CHECK(cuEventRecord(a, stream));
		run();
		CHECK(cuEventRecord(b, stream));
		CHECK(cuEventSynchronize(b));
		CHECK(cuEventElapsedTime(&m, a, b));
	}
	cuEventDestroy(a), cuEventDestroy(b);
	std::sort(ms.begin(), ms.end());
	return ms[times / 2];
}

// wrong is how many chunks of a set have a status, or other bytes.
static size_t wrong(const File &f, CUdeviceptr dst, const std::vector<hr::u32> &status) {
	size_t bad = 0, n = status.size();
	for (size_t i = 0; i < n; i += 512) {
		size_t some = std::min<size_t>(512, n - i);
		Bytes got = download<uint8_t>(dst + i * CHUNK_BYTES, some * CHUNK_BYTES);
		for (size_t k = 0; k < some; k++)
			bad += status[i + k] != 0 || memcmp(&got[k * CHUNK_BYTES], &f.bytes[f.cases[(i + k) % f.cases.size()].plain], CHUNK_BYTES);
	}
	return bad;
}

static std::vector<hr::Chunk> tableOf(const File &f, const Device &d, CUdeviceptr dst, size_t n, hr::u16 flags) {
	std::vector<hr::Chunk> list;
	for (size_t i = 0; i < n; i++) {
		size_t k = i % f.cases.size();
		list.push_back({d.src->at + d.at[k], dst + i * CHUNK_BYTES, 0, (hr::u32)f.cases[k].encodedBytes, CHUNK_BYTES, (hr::u32)i, hr::ZLIB, 0, flags});
	}
	return list;
}

static void timeNvcomp(const Nvcomp &lib, const File &f, const Device &d, CUdeviceptr dst, size_t n, const char *set) {
	std::vector<CUdeviceptr> src(n), out(n);
	std::vector<size_t> bytes(n), room(n, CHUNK_BYTES);
	for (size_t i = 0; i < n; i++) {
		size_t k = i % f.cases.size();
		src[i] = d.src->at + d.at[k];
		out[i] = dst + i * CHUNK_BYTES;
		bytes[i] = f.cases[k].encodedBytes - 6;
	}
	size_t tempBytes = 0;
	if (lib.temp(n, CHUNK_BYTES, {}, &tempBytes, n * CHUNK_BYTES)) fprintf(stderr, "nvCOMP: no size\n"), exit(1);
	Memory a = upload(src), b = upload(bytes), c = upload(room), e = upload(out), actual(8 * n), status(4 * n), temp(tempBytes);
	CHECK(cuMemsetD8(dst, 0xee, n * CHUNK_BYTES));
	auto run = [&] {
		int s = lib.decompress(a.at, b.at, c.at, actual.at, n, temp.at, tempBytes, e.at, {}, status.at, nullptr);
		if (s) fprintf(stderr, "nvCOMP: %d\n", s), exit(1);
	};
	run();
	float ms = medianOf(nullptr, 3, run);
	size_t bad = wrong(f, dst, download<hr::u32>(status.at, n));
	printf("{\"what\":\"nvcomp\",\"set\":\"%s\",\"chunks\":%zu,\"ms\":%.3f,\"GB_per_s\":%.1f,\"temp_per_byte\":%.2f,\"wrong\":%zu}\n", set, n, ms,
	       n * (double)CHUNK_BYTES / ms * 1e-6, tempBytes / ((double)n * CHUNK_BYTES), bad);
	fflush(stdout);
}

static void timeCall(const Kernel &kernel, const File &f, const Device &d, CUdeviceptr dst, size_t n, hr::u16 flags, const char *set) {
	Call c(kernel, tableOf(f, d, dst, n, flags));
	CHECK(cuMemsetD8(dst, 0xee, n * CHUNK_BYTES));
	CHECK(cuCtxSynchronize()); // the stream of a call does not wait for it
	c.run();
	CHECK(cuCtxSynchronize());
	size_t bad = wrong(f, dst, download<hr::u32>(c.p.status, n));
	float ms = medianOf(c.stream, 5, [&] { c.run(); });
	printf("{\"what\":\"own\",\"image\":\"%s\",\"set\":\"%s\",\"chunks\":%zu,\"unchecked\":%d,\"ms\":%.3f,\"GB_per_s\":%.1f,\"wrong\":%zu}\n",
	       kernel.image.path.c_str(), set, n, flags, ms, n * (double)CHUNK_BYTES / ms * 1e-6, bad);
	fflush(stdout);
}

// steady keeps waves in flight.
static void steady(const Kernel &kernel, const File &f, const Device &d, CUdeviceptr dst, size_t n, int inFlight, const char *set) {
	enum { WAVES = 12 };
	std::vector<std::unique_ptr<Call>> calls;
	for (int i = 0; i < inFlight; i++) calls.emplace_back(new Call(kernel, tableOf(f, d, dst + i * n * CHUNK_BYTES, n, 0)));
	auto all = [&] {
		for (int i = 0; i < WAVES; i++) calls[i % inFlight]->run();
		CHECK(cuCtxSynchronize());
	};
	all();
	size_t bad = 0;
	for (int i = 0; i < inFlight; i++) bad += wrong(f, dst + i * n * CHUNK_BYTES, download<hr::u32>(calls[i]->p.status, n));
	timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	all();
	clock_gettime(CLOCK_MONOTONIC, &b);
	double ms = ((b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) * 1e-6) / WAVES;
	printf("{\"what\":\"steady\",\"image\":\"%s\",\"set\":\"%s\",\"chunks\":%zu,\"in_flight\":%d,\"ms\":%.3f,\"GB_per_s\":%.1f,\"wrong\":%zu}\n",
	       kernel.image.path.c_str(), set, n, inFlight, ms, n * (double)CHUNK_BYTES / ms * 1e-6, bad);
	fflush(stdout);
}

// check decodes a corpus in one call. The outputs lie with guard bytes between them.
static bool check(const Kernel &kernel, const File &f, int round) {
	enum { GUARD = 0xab };
	std::mt19937 r(round);
	Device d(f, 0, 1);
	std::vector<hr::Chunk> list;
	std::vector<char> hit(f.cases.size());
	size_t at = 0;
	for (size_t i = 0; i < f.cases.size(); i++) {
		const Case &c = f.cases[i];
		list.push_back({d.src->at + d.at[i], at, at, (hr::u32)c.encodedBytes, (hr::u32)c.plainBytes, (hr::u32)i, c.method, c.typesize, 0});
		at += c.plainBytes / 16 * 16 + 32;
		if (round == 0 || r() % 2) continue;
		hit[i] = 1;
		if (r() % 2) list.back().flags = hr::UNCHECKED; // or the checksum finds it all
		for (unsigned k = 1 + r() % 4; k > 0; k--) {
			size_t reach = r() % 3 ? c.encodedBytes : std::min<size_t>(c.encodedBytes, 200);
			d.in[d.at[i] + r() % reach] ^= (uint8_t)(1 << r() % 8);
		}
	}
	CHECK(cuMemcpyHtoD(d.src->at, d.in.data(), d.in.size()));
	Memory dst(at), scratch(at);
	CHECK(cuMemsetD8(dst.at, GUARD, at));
	CHECK(cuMemsetD8(scratch.at, GUARD, at));
	for (hr::Chunk &c : list) c.dst += dst.at, c.scratch += scratch.at;
	Call call(kernel, list);
	call.run();
	CHECK(cuCtxSynchronize());
	std::vector<hr::u32> status = download<hr::u32>(call.p.status, list.size());
	Bytes got = download<uint8_t>(dst.at, at), between = download<uint8_t>(scratch.at, at);
	size_t bad = 0, guards = 0, filled = 0, other = 0, count[3] = {0, 0, 0};
	for (size_t i = 0; i < list.size(); i++) {
		size_t from = list[i].dst - dst.at, n = list[i].dstBytes;
		bool same = !memcmp(&got[from], &f.bytes[f.cases[i].plain], n);
		count[std::min<hr::u32>(status[i], 2)]++;
		if (!hit[i] && (status[i] || !same)) {
			if (bad++ < 5) fprintf(stderr, "case %zu: %u bytes to %zu, status %u, %s\n", i, list[i].srcBytes, n, status[i], same ? "same" : "other bytes");
		}
		if (hit[i] && !status[i] && !same) other++;
		if (status[i])
			for (size_t k = 0; k < n; k++) filled += got[from + k] != 0;
		for (size_t k = n; k < n / 16 * 16 + 32; k++) guards += (got[from + k] != GUARD) + (between[from + k] != GUARD);
	}
	printf("{\"what\":\"check\",\"image\":\"%s\",\"round\":%d,\"chunks\":%zu,\"wrong\":%zu,\"guards\":%zu,\"not_zero\":%zu,\"damaged_other_bytes\":%zu,\"ok\":%zu,"
	       "\"corrupt\":%zu,\"unsupported\":%zu}\n",
	       kernel.image.path.c_str(), round, list.size(), bad, guards, filled, other, count[0], count[1], count[2]);
	fflush(stdout);
	return !bad && !guards && !filled;
}

int main(int argc, char **argv) {
	if (argc < 5) fprintf(stderr, "see the head of inflate.cc\n"), exit(2);
	CUdevice device;
	CUcontext context;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	std::string mode = argv[1];
	Image image(argv[4]);
	Kernel kernel(image);
	if (mode == "check") {
		File f = File::corpus(argv[2]);
		bool good = true;
		for (int i = 0; i <= atoi(argv[3]); i++) good &= check(kernel, f, i);
		return !good;
	}
	const char *set = argv[2];
	File f = File::set(set, argv[3]);
	Device d(f, 0, 1);
	Memory dst(3ul * 4096 * CHUNK_BYTES);
	if (mode == "once") {
		Call c(kernel, tableOf(f, d, dst.at, strtoul(argv[5], nullptr, 10), 0));
		c.run();
		CHECK(cuCtxSynchronize());
		return 0;
	}
	fprintf(stderr, "%s: %d blocks of %d\n", argv[4], image.resident(kernel.function), kernel.block);
	if (mode == "compare") {
		for (int i = 4; i < argc; i++) {
			Image other(argv[i]);
			Kernel k(other);
			for (size_t n : {64, 4096}) timeCall(k, f, d, dst.at, n, 0, set);
		}
		return 0;
	}
	std::unique_ptr<Nvcomp> nvcomp(argc > 5 ? new Nvcomp(argv[5], "Deflate") : nullptr);
	std::unique_ptr<Device> bare(argc > 5 ? new Device(f, 2, 16) : nullptr);
	for (size_t n : {64, 512, 4096}) {
		timeCall(kernel, f, d, dst.at, n, 0, set);
		if (nvcomp) timeNvcomp(*nvcomp, f, *bare, dst.at, n, set);
	}
	timeCall(kernel, f, d, dst.at, 4096, hr::UNCHECKED, set);
	steady(kernel, f, d, dst.at, 4096, 3, set);
}
