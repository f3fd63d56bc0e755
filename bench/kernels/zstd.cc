// Times the zstd kernels of an image on a GPU, nvCOMP beside them; one JSON object a line.
//
//     nvcc -O2 -std=c++17 -I cuda/kernels -o zstdbench bench/kernels/zstd.cc -lcuda -ldl
//     zstdbench IMAGE check CASES [ROUNDS]       every byte of zstd.py's cases; then damaged ones among them
//     zstdbench IMAGE time SET [libnvcomp.so.5]  calls of 64 to 8192 chunks, three waves in flight
//     zstdbench IMAGE brief SET                  calls of 512 and 4096 chunks
//     zstdbench IMAGE once SET N                 one call of N chunks, for a profiler
//
// All bytes that are decoded are compared, in every mode.
#include "abi.h"
#include "gpu.h"
#include "nvcomp.h"
#include "zstd_call.h"

#include <stdint.h>
#include <string.h>

#include <memory>
#include <random>

typedef std::vector<uint8_t> Bytes;

struct Case {
	size_t frame, frameBytes, plain, plainBytes; // places in the file
};

struct File {
	Bytes bytes;
	std::vector<Case> cases;
	size_t chunkBytes = 0; // of each chunk of a set

	explicit File(const char *path) {
		std::ifstream in(path, std::ios::binary | std::ios::ate);
		bytes.resize(in ? (size_t)in.tellg() : 0);
		in.seekg(0);
		in.read((char *)bytes.data(), bytes.size());
		if (bytes.size() < 4) fprintf(stderr, "cannot read %s\n", path), exit(1);
	}

	uint32_t number(size_t at) const {
		uint32_t v;
		memcpy(&v, &bytes[at], 4);
		return v;
	}

	static File set(const char *path) {
		File f(path);
		uint32_t n = f.number(0);
		size_t at = 4 + 4 * (size_t)n;
		for (uint32_t i = 0; i < n; i++) {
			f.cases.push_back({at, f.number(4 + 4 * (size_t)i), 0, 0});
			at += f.cases.back().frameBytes;
		}
		f.chunkBytes = (f.bytes.size() - at) / n;
		for (Case &c : f.cases) {
			c.plain = at;
			at += c.plainBytes = f.chunkBytes;
		}
		return f;
	}

	// ratio is how much smaller a set is encoded.
	double ratio() const {
		size_t encoded = 0;
		for (const Case &c : cases) encoded += c.frameBytes;
		return (double)cases.size() * chunkBytes / encoded;
	}

	static File corpus(const char *path) {
		File f(path);
		size_t at = 4;
		for (uint32_t i = 0, n = f.number(0); i < n; i++) {
			size_t frame = f.number(at), plain = f.number(at + 4);
			f.cases.push_back({at + 8, frame, at + 8 + frame, plain});
			at += 8 + frame + plain;
		}
		return f;
	}
};

struct Kernel {
	const char *name;
	int shared;
	CUfunction function;
	int block, resident;
};

struct Kernels {
	Kernel all[ZSTD_STEPS];

	explicit Kernels(const Image &image) {
		for (int i = 0; i < ZSTD_STEPS; i++) {
			Kernel &k = all[i];
			k.name = zstdKernels[i].name;
			k.shared = (int)zstdKernels[i].shared;
			k.function = image.function(k.name);
			if (k.shared) CHECK(cuFuncSetAttribute(k.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k.shared));
			k.block = image.block(k.function);
			k.resident = image.resident(k.function, k.shared);
		}
	}
};

// Call is a call of the decoder: its memory, and what it needs to be launched.
struct Call {
	const Kernels &kernels;
	std::vector<hr::Chunk> chunks;
	size_t decoded = 0;
	std::unique_ptr<Memory> table, status, work;
	hr::ZstdParams p;
	CUstream main, side;
	CUevent forked, joined;

	// src and dst are places of the chunks in device memory.
	Call(const Kernels &kernels, const std::vector<hr::Chunk> &list, double arena) : kernels(kernels), chunks(list) {
		for (const hr::Chunk &c : chunks) decoded += c.dstBytes;
		size_t n = chunks.size();
		ZstdRoom room = ZstdRoom::usual(n, decoded, (size_t)(decoded * arena) + (1 << 20));
		table.reset(new Memory(upload(chunks)));
		status.reset(new Memory(4 * n));
		work.reset(new Memory(room.bytes()));
		p = room.params(table->at, status->at, work->at, n);
		CHECK(cuStreamCreate(&main, CU_STREAM_NON_BLOCKING));
		CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
		CHECK(cuEventCreate(&forked, execute() == WIDE ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT)); // as in cuda/decode
		CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
		CHECK(cuCtxSynchronize()); // the table is there
	}
	Call(const Call &) = delete;
	~Call() {
		cuStreamDestroy(main), cuStreamDestroy(side), cuEventDestroy(forked), cuEventDestroy(joined);
	}

	void launch(int kernel, CUstream stream) {
		const Kernel &k = kernels.all[kernel];
		::launch(k.function, k.resident, k.block, &p, sizeof p, k.shared, stream);
	}
	void begin(CUstream stream) {
		clear(stream);
		beginZstd([&](ZstdStep k) { launch(k, stream); });
	}
	void clear(CUstream stream) { CHECK(cuMemsetD8Async(p.work, 0, ZstdRoom::HEAD, stream)); }
	// execute is the kernel that has the more threads at work, as cuda/decode chooses it.
	ZstdStep execute() const { return (int)chunks.size() <= kernels.all[WIDE].resident ? WIDE : EXECUTE; }

	// run is the whole call, literals beside sequences.
	void run() {
		CUstream on = main;
		clear(main);
		launchZstd([&](ZstdStep k) { launch(k, on); },
		           [&](auto literals, auto sequences) {
			           CHECK(cuEventRecord(forked, main));
			           sequences(); // first, as in cuda/decode
			           CHECK(cuStreamWaitEvent(side, forked, 0));
			           on = side;
			           literals();
			           CHECK(cuEventRecord(joined, side));
			           on = main;
			           CHECK(cuStreamWaitEvent(main, joined, 0));
		           },
		           execute());
	}
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

// stages times each part of a call alone.
static std::vector<float> stages(Call &c) {
	const int times = 7;
	std::vector<std::vector<float>> ms(4);
	CUevent e[5];
	for (CUevent &v : e) CHECK(cuEventCreate(&v, 0));
	for (int i = 0; i < times; i++) {
		CHECK(cuEventRecord(e[0], c.main));
		c.begin(c.main);
		for (int k = 0; k < 3; k++) {
			CHECK(cuEventRecord(e[1 + k], c.main));
			c.launch(k < 2 ? LITERALS + k : c.execute(), c.main);
		}
		CHECK(cuEventRecord(e[4], c.main));
		CHECK(cuEventSynchronize(e[4]));
		for (int k = 0; k < 4; k++) {
			float m;
			CHECK(cuEventElapsedTime(&m, e[k], e[k + 1]));
			ms[k].push_back(m);
		}
	}
	for (CUevent &v : e) cuEventDestroy(v);
	std::vector<float> out;
	for (auto &v : ms) std::sort(v.begin(), v.end()), out.push_back(v[times / 2]);
	return out;
}

// wrong is how many chunks of a set have a status, or other bytes.
static size_t wrong(const File &f, CUdeviceptr dst, const std::vector<hr::u32> &status) {
	size_t bad = 0, n = status.size();
	for (size_t i = 0; i < n; i += 512) {
		size_t some = std::min<size_t>(512, n - i);
		Bytes got = download<uint8_t>(dst + i * f.chunkBytes, some * f.chunkBytes);
		for (size_t k = 0; k < some; k++)
			bad += status[i + k] != 0 || memcmp(&got[k * f.chunkBytes], &f.bytes[f.cases[(i + k) % f.cases.size()].plain], f.chunkBytes);
	}
	return bad;
}

struct Device {
	Bytes in;
	std::vector<size_t> at;
	std::unique_ptr<Memory> src;

	explicit Device(const File &f) {
		for (size_t i = 0; i < f.cases.size(); i++) {
			in.resize((in.size() + 15) / 16 * 16 + i % 16); // they begin anywhere
			at.push_back(in.size());
			in.insert(in.end(), &f.bytes[f.cases[i].frame], &f.bytes[f.cases[i].frame] + f.cases[i].frameBytes);
		}
		in.resize((in.size() + 31) / 16 * 16);
		src.reset(new Memory(upload(in)));
	}
};

static std::vector<hr::Chunk> tableOf(const File &f, const Device &d, CUdeviceptr dst, size_t n) {
	std::vector<hr::Chunk> list;
	for (size_t i = 0; i < n; i++) {
		size_t k = i % f.cases.size();
		list.push_back({d.src->at + d.at[k], dst + i * f.chunkBytes, 0, (hr::u32)f.cases[k].frameBytes, (hr::u32)f.chunkBytes, (hr::u32)i, hr::ZSTD, 0, 0});
	}
	return list;
}

static void timeNvcomp(const Nvcomp &lib, const File &f, const Device &d, CUdeviceptr dst, size_t n, const char *set) {
	std::vector<CUdeviceptr> src(n), out(n);
	std::vector<size_t> bytes(n), room(n, f.chunkBytes);
	for (size_t i = 0; i < n; i++) {
		size_t k = i % f.cases.size();
		src[i] = d.src->at + d.at[k];
		out[i] = dst + i * f.chunkBytes;
		bytes[i] = f.cases[k].frameBytes;
	}
	size_t tempBytes = 0;
	if (lib.temp(n, f.chunkBytes, {}, &tempBytes, n * f.chunkBytes)) fprintf(stderr, "nvCOMP: no size\n"), exit(1);
	Memory a = upload(src), b = upload(bytes), c = upload(room), e = upload(out), actual(8 * n), status(4 * n), temp(tempBytes);
	CHECK(cuMemsetD8(dst, 0xee, n * f.chunkBytes));
	auto run = [&] {
		int s = lib.decompress(a.at, b.at, c.at, actual.at, n, temp.at, tempBytes, e.at, {}, status.at, nullptr);
		if (s) fprintf(stderr, "nvCOMP: %d\n", s), exit(1);
	};
	run();
	float ms = medianOf(nullptr, 5, run);
	size_t bad = wrong(f, dst, download<hr::u32>(status.at, n));
	printf("{\"what\":\"nvcomp\",\"set\":\"%s\",\"chunk_bytes\":%zu,\"ratio\":%.2f,\"chunks\":%zu,\"ms\":%.3f,\"GB_per_s\":%.1f,\"temp_per_byte\":%.2f,\"wrong\":%zu}\n", set, f.chunkBytes, f.ratio(), n, ms,
	       n * (double)f.chunkBytes / ms * 1e-6, tempBytes / ((double)n * f.chunkBytes), bad);
	fflush(stdout);
}

static void timeCall(const Image &image, const Kernels &kernels, const File &f, const Device &d, CUdeviceptr dst, size_t n, const char *set) {
	Call c(kernels, tableOf(f, d, dst, n), 2.2);
	CHECK(cuMemsetD8(dst, 0xee, n * f.chunkBytes));
	CHECK(cuCtxSynchronize()); // the streams of a call do not wait for it
	c.run();
	CHECK(cuCtxSynchronize());
	size_t bad = wrong(f, dst, download<hr::u32>(c.p.status, n));
	hr::zstd::Head head = download<hr::zstd::Head>(c.p.work, 1)[0];
	std::vector<float> part = stages(c);
	float ms = medianOf(c.main, 7, [&] { c.run(); });
	printf("{\"what\":\"own\",\"image\":\"%s\",\"set\":\"%s\",\"chunk_bytes\":%zu,\"ratio\":%.2f,\"chunks\":%zu,\"ms\":%.3f,\"GB_per_s\":%.1f,\"begin\":%.3f,\"literals\":%.3f,\"sequences\":%.3f,"
	       "\"execute\":%.3f,\"blocks\":%u,\"arena_per_byte\":%.2f,\"wrong\":%zu}\n",
	       image.path.c_str(), set, f.chunkBytes, f.ratio(), n, ms, c.decoded / ms * 1e-6, part[0], part[1], part[2], part[3], head.blocks, head.arena / (double)c.decoded, bad);
	fflush(stdout);
}

// steady keeps waves in flight, each of memory of its own.
static void steady(const Image &image, const Kernels &kernels, const File &f, const Device &d, CUdeviceptr dst, size_t n, int inFlight, const char *set) {
	enum { WAVES = 12 };
	std::vector<std::unique_ptr<Call>> calls;
	for (int i = 0; i < inFlight; i++) calls.emplace_back(new Call(kernels, tableOf(f, d, dst + i * n * f.chunkBytes, n), 2.2));
	CHECK(cuMemsetD8(dst, 0xee, inFlight * n * f.chunkBytes));
	CHECK(cuCtxSynchronize());
	auto all = [&] {
		for (int i = 0; i < WAVES; i++) calls[i % inFlight]->run();
		CHECK(cuCtxSynchronize());
	};
	all();
	size_t bad = 0;
	for (int i = 0; i < inFlight; i++) bad += wrong(f, dst + i * n * f.chunkBytes, download<hr::u32>(calls[i]->p.status, n));
	timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	all();
	clock_gettime(CLOCK_MONOTONIC, &b);
	double ms = ((b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) * 1e-6) / WAVES;
	printf("{\"what\":\"steady\",\"image\":\"%s\",\"set\":\"%s\",\"chunk_bytes\":%zu,\"chunks\":%zu,\"in_flight\":%d,\"ms\":%.3f,\"GB_per_s\":%.1f,\"wrong\":%zu}\n",
	       image.path.c_str(), set, f.chunkBytes, n, inFlight, ms, n * (double)f.chunkBytes / ms * 1e-6, bad);
	fflush(stdout);
}

// check decodes a corpus in one call. The outputs lie with guard bytes between them.
static bool check(const Kernels &kernels, const File &f, int round) {
	enum { GUARD = 0xab };
	std::mt19937 r(round);
	Device d(f);
	std::vector<hr::Chunk> list;
	std::vector<char> hit(f.cases.size());
	size_t at = 0;
	for (size_t i = 0; i < f.cases.size(); i++) {
		list.push_back({d.src->at + d.at[i], at, 0, (hr::u32)f.cases[i].frameBytes, (hr::u32)f.cases[i].plainBytes, (hr::u32)i, hr::ZSTD, 0, 0});
		at += f.cases[i].plainBytes / 16 * 16 + 32;
		if (round == 0 || r() % 2) continue;
		hit[i] = 1;
		for (unsigned k = 1 + r() % 4; k > 0; k--) {
			size_t reach = r() % 3 ? f.cases[i].frameBytes : std::min<size_t>(f.cases[i].frameBytes, 200);
			d.in[d.at[i] + r() % reach] ^= (uint8_t)(1 << r() % 8);
		}
	}
	CHECK(cuMemcpyHtoD(d.src->at, d.in.data(), d.in.size()));
	Memory dst(at);
	CHECK(cuMemsetD8(dst.at, GUARD, at));
	for (hr::Chunk &c : list) c.dst += dst.at;
	Call call(kernels, list, 4);
	CHECK(cuCtxSynchronize());
	call.run();
	CHECK(cuCtxSynchronize());
	std::vector<hr::u32> status = download<hr::u32>(call.p.status, list.size());
	Bytes got = download<uint8_t>(dst.at, at);
	size_t bad = 0, guards = 0, filled = 0, other = 0, count[3] = {0, 0, 0};
	for (size_t i = 0; i < list.size(); i++) {
		const uint8_t *out = &got[list[i].dst - dst.at];
		size_t n = list[i].dstBytes;
		bool same = !memcmp(out, &f.bytes[f.cases[i].plain], n);
		count[std::min<hr::u32>(status[i], 2)]++;
		if (!hit[i] && (status[i] || !same)) {
			if (bad++ < 5) fprintf(stderr, "case %zu: %u bytes to %zu, status %u, %s\n", i, list[i].srcBytes, n, status[i], same ? "same" : "other bytes");
		}
		if (hit[i] && !status[i] && !same) other++;
		if (status[i])
			for (size_t k = 0; k < n; k++) filled += out[k] != 0;
		for (size_t k = n; k < n / 16 * 16 + 32; k++) guards += out[k] != GUARD;
	}
	printf("{\"what\":\"check\",\"round\":%d,\"chunks\":%zu,\"wrong\":%zu,\"guards\":%zu,\"not_zero\":%zu,\"damaged_other_bytes\":%zu,\"ok\":%zu,\"corrupt\":%zu,"
	       "\"unsupported\":%zu}\n",
	       round, list.size(), bad, guards, filled, other, count[0], count[1], count[2]);
	fflush(stdout);
	return !bad && !guards && !filled;
}

int main(int argc, char **argv) {
	if (argc < 4) fprintf(stderr, "see the head of zstd.cc\n"), exit(2);
	useFirstDevice();
	Image image(argv[1]);
	Kernels kernels(image);
	std::string mode = argv[2];
	if (mode == "check") {
		File f = File::corpus(argv[3]);
		bool good = true;
		for (int i = 0, rounds = argc > 4 ? atoi(argv[4]) : 0; i <= rounds; i++) good &= check(kernels, f, i);
		return !good;
	}
	File f = File::set(argv[3]);
	Device d(f);
	if (mode == "once") {
		size_t n = strtoul(argv[4], nullptr, 10);
		Memory dst(n * f.chunkBytes);
		Call c(kernels, tableOf(f, d, dst.at, n), 2.2);
		c.run();
		CHECK(cuCtxSynchronize());
		return 0;
	}
	// Calls of as many bytes as 64 to 8192 chunks of 256 KiB.
	auto chunks = [&](size_t n) { return std::max<size_t>(1, n * (256 << 10) / f.chunkBytes); };
	Memory dst(chunks(3 * 4096) * f.chunkBytes);
	if (mode == "brief") {
		for (size_t n : {512, 4096}) timeCall(image, kernels, f, d, dst.at, chunks(n), argv[3]);
		return 0;
	}
	for (const Kernel &k : kernels.all) fprintf(stderr, "%s: %d blocks of %d\n", k.name, k.resident, k.block);
	std::unique_ptr<Nvcomp> nvcomp(argc > 4 ? new Nvcomp(argv[4], "Zstd") : nullptr);
	for (size_t n : {64, 512, 4096, 8192}) {
		timeCall(image, kernels, f, d, dst.at, chunks(n), argv[3]);
		if (nvcomp) timeNvcomp(*nvcomp, f, d, dst.at, chunks(n), argv[3]);
	}
	for (size_t n : {1024, 4096}) steady(image, kernels, f, d, dst.at, chunks(n), 3, argv[3]);
}
