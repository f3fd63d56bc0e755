// Decodes chunks of every method on a GPU; one JSON object a line.
//
//     nvcc -O2 -std=c++17 -I cuda/kernels -o chunkbench bench/kernels/chunks.cc -lcuda
//     chunkbench IMAGE,IMAGE check FILE [ROUNDS [STEP]]  every byte of chunks.py's cases, or of every STEP-th one; then
//                                                         rounds with damaged ones among them
//     chunkbench IMAGE,IMAGE time FILE [COUNT [KIND]]     kinds of chunks.py's sets whose name has KIND in it, COUNT
//                                                         chunks in a launch, 4096 if not said
//
// All bytes that are decoded are compared.
#include "abi.h"
#include "gpu.h"
#include "zstd_call.h"

#include <stdint.h>
#include <string.h>

#include <map>
#include <memory>
#include <random>

typedef std::vector<uint8_t> Bytes;

struct Case {
	std::string name;
	hr::u8 method, typesize;
	hr::u16 flags;
	size_t plain;
	Bytes encoded; // with its sum
	hr::u32 bytes; // without
};

struct File {
	std::vector<Bytes> plain;
	std::vector<Case> cases;

	explicit File(const char *path) {
		std::ifstream in(path, std::ios::binary);
		auto bytes = [&](size_t n) {
			Bytes b(n);
			if (!in.read((char *)b.data(), (std::streamsize)n)) fprintf(stderr, "cannot read %s\n", path), exit(1);
			return b;
		};
		auto number = [&] {
			uint32_t v;
			memcpy(&v, bytes(4).data(), 4);
			return v;
		};
		for (uint32_t n = number(); n > 0; n--) {
			uint32_t size = number();
			plain.push_back(bytes(size));
		}
		for (uint32_t n = number(); n > 0; n--) {
			Case c;
			Bytes head = bytes(28);
			c.name.assign((char *)head.data(), strnlen((char *)head.data(), 24));
			c.method = head[24];
			c.typesize = head[25];
			memcpy(&c.flags, &head[26], 2);
			c.plain = number();
			c.bytes = number();
			c.encoded = bytes(c.bytes + (c.flags & hr::SUMMED ? 4 : 0));
			cases.push_back(c);
		}
	}
};

enum Family { PLAIN, INFLATE, ZSTD_FRAMES, FAMILIES };

static Family familyOf(hr::u8 method) {
	return method <= hr::COPY ? PLAIN : method <= hr::BLOSC_ZSTD ? ZSTD_FRAMES : INFLATE;
}

struct Kernel {
	CUfunction function;
	int block, resident, shared;

	Kernel(const Image &image, const char *name, int shared = 0) : function(image.function(name)), shared(shared) {
		if (shared) CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
		block = image.block(function);
		resident = image.resident(function, shared);
	}
	template <class P> void launch(P &p, int grid) const { ::launch(function, grid, block, &p, sizeof p, shared); }
};

struct Kernels {
	Kernel decode, inflate, sums;
	std::vector<Kernel> zstd;

	explicit Kernels(const Image &image) : decode(image, "hr_decode"), inflate(image, "hr_inflate"), sums(image, "hr_crc32c") {
		for (const ZstdKernel &k : zstdKernels) zstd.emplace_back(image, k.name, (int)k.shared);
	}
};

// Call is a call of the decoders: chunks of one family beside each other, and memory. The chunks'
// sources and destinations are set; scratch memory is given here.
struct Call {
	const Kernels &kernels;
	std::vector<hr::Chunk> chunks;
	size_t count[FAMILIES] = {}, decoded[FAMILIES] = {};
	std::unique_ptr<Memory> table, status, scratch, work;
	hr::ZstdParams zstd;

	Call(const Kernels &kernels, const std::vector<hr::Chunk> &list) : kernels(kernels) {
		size_t at = 0;
		for (int f = 0; f < FAMILIES; f++)
			for (hr::Chunk c : list) {
				if (familyOf(c.method) != f) continue;
				c.scratch = at;
				at += (c.dstBytes + 31) / 16 * 16;
				count[f]++;
				decoded[f] += c.dstBytes;
				chunks.push_back(c);
			}
		scratch.reset(new Memory(at));
		for (hr::Chunk &c : chunks) c.scratch += scratch->at;
		table.reset(new Memory(upload(chunks)));
		status.reset(new Memory(4 * list.size()));
		size_t n = count[ZSTD_FRAMES], bytes = decoded[ZSTD_FRAMES];
		ZstdRoom room = ZstdRoom::usual(n, bytes, 4 * bytes + (64 << 20));
		work.reset(new Memory(room.bytes()));
		zstd = room.params(tableOf(ZSTD_FRAMES), status->at, work->at, n);
		CHECK(cuMemsetD8(status->at, 0, 4 * list.size()));
	}

	CUdeviceptr tableOf(int family) const {
		size_t before = 0;
		for (int f = 0; f < family; f++) before += count[f];
		return table->at + before * sizeof(hr::Chunk);
	}

	void launch(const Kernel &k, int family, int grid) {
		if (count[family] == 0) return;
		hr::DecodeParams p = {tableOf(family), status->at, (hr::u32)count[family]};
		k.launch(p, grid);
	}
	void launch(ZstdStep k) { kernels.zstd[k].launch(zstd, kernels.zstd[k].resident); }
	void clear() { CHECK(cuMemsetD8Async(zstd.work, 0, ZstdRoom::HEAD, nullptr)); }
	void runZstd() {
		if (zstd.n == 0) return;
		clear();
		auto inTurn = [](auto first, auto second) { first(), second(); };
		launchZstd([&](ZstdStep k) { launch(k); }, inTurn);
	}
	void scan() {
		clear();
		launch(SCAN);
	}
	void finish() { launch(FINISH); }
	void decode() {
		launch(kernels.decode, PLAIN, (int)count[PLAIN]);
		launch(kernels.inflate, INFLATE, (int)count[INFLATE]);
		runZstd();
	}
	void sum() {
		hr::DecodeParams p = {table->at, status->at, (hr::u32)chunks.size()};
		kernels.sums.launch(p, std::min<int>(kernels.sums.resident, (int)chunks.size()));
	}
};

// Source is encoded chunks in device memory, which begin anywhere.
struct Source {
	Bytes in;
	std::vector<size_t> at;
	std::unique_ptr<Memory> memory;

	void add(const Bytes &b) {
		in.resize((in.size() + 15) / 16 * 16 + at.size() % 16);
		at.push_back(in.size());
		in.insert(in.end(), b.begin(), b.end());
	}
	void send() {
		in.resize((in.size() + 31) / 16 * 16);
		memory.reset(new Memory(upload(in)));
	}
};

// check decodes all cases in one call. The outputs lie with guard bytes between them.
static bool check(const Image &image, const Kernels &kernels, const File &f, int round) {
	enum { GUARD = 0xab };
	std::mt19937 r(round);
	Source source;
	std::vector<char> hit(f.cases.size());
	std::vector<hr::Chunk> list;
	size_t at = 0;
	for (size_t i = 0; i < f.cases.size(); i++) {
		const Case &c = f.cases[i];
		Bytes b = c.encoded;
		if (round > 0 && r() % 2 && !b.empty()) {
			hit[i] = 1;
			for (unsigned k = 1 + r() % 4; k > 0; k--) b[r() % (r() % 3 ? b.size() : std::min<size_t>(b.size(), 64))] ^= (uint8_t)(1 << r() % 8);
		}
		source.add(b);
		hr::u32 n = (hr::u32)f.plain[c.plain].size();
		list.push_back({source.at[i], at, 0, c.bytes, n, (hr::u32)i, c.method, c.typesize, c.flags});
		at += n / 16 * 16 + 32;
	}
	source.send();
	Memory dst(at);
	CHECK(cuMemsetD8(dst.at, GUARD, at));
	std::vector<size_t> to;
	for (hr::Chunk &c : list) to.push_back(c.dst), c.src += source.memory->at, c.dst += dst.at;
	Call call(kernels, list);
	call.decode();
	call.sum();
	CHECK(cuCtxSynchronize());
	std::vector<hr::u32> status = download<hr::u32>(call.status->at, list.size());
	Bytes got = download<uint8_t>(dst.at, at);
	size_t bad = 0, guards = 0, filled = 0, other = 0, count[3] = {0, 0, 0};
	for (size_t i = 0; i < list.size(); i++) {
		const Bytes &plain = f.plain[f.cases[i].plain];
		const uint8_t *out = &got[to[i]];
		bool same = !memcmp(out, plain.data(), plain.size());
		count[std::min<hr::u32>(status[i], 2)]++;
		if (!hit[i] && (status[i] || !same) && bad++ < 5)
			fprintf(stderr, "%s, case %zu, method %u: %u bytes to %zu, status %u, %s\n", f.cases[i].name.c_str(), i, f.cases[i].method, f.cases[i].bytes,
			        plain.size(), status[i], same ? "same" : "other bytes");
		if (hit[i] && !status[i] && !same) other++;
		if (hit[i] && !status[i] && f.cases[i].flags & hr::SUMMED) bad++; // the sum must have seen it
		for (size_t k = 0; status[i] && k < plain.size(); k++) filled += out[k] != 0;
		for (size_t k = plain.size(); k < plain.size() / 16 * 16 + 32; k++) guards += out[k] != GUARD;
	}
	printf("{\"what\":\"check\",\"image\":\"%s\",\"round\":%d,\"chunks\":%zu,\"wrong\":%zu,\"guards\":%zu,\"not_zero\":%zu,\"damaged_other_bytes\":%zu,\"ok\":%zu,\"corrupt\":%zu,"
	       "\"unsupported\":%zu}\n",
	       image.path.c_str(), round, list.size(), bad, guards, filled, other, count[0], count[1], count[2]);
	fflush(stdout);
	return !bad && !guards && !filled;
}

// Kind is count chunks of the same kind; each has bytes of its own in memory.
struct Kind {
	std::string name;
	std::vector<const Case *> cases; // in turn
	size_t count, size, encoded = 0;
	Source source;
	std::vector<hr::Chunk> list;
	std::unique_ptr<Memory> dst;

	void send(const File &f) {
		size = f.plain[cases[0]->plain].size();
		for (size_t i = 0; i < count; i++) {
			const Case &c = *cases[i % cases.size()];
			source.add(c.encoded);
			encoded += c.bytes;
			list.push_back({source.at[i], i * size, 0, c.bytes, (hr::u32)size, (hr::u32)i, c.method, c.typesize, c.flags});
		}
		source.send();
		dst.reset(new Memory(count * size));
		for (hr::Chunk &c : list) c.src += source.memory->at, c.dst += dst->at;
	}

	size_t wrong(const File &f, const Call &call) const {
		enum { SOME = 256 };
		size_t bad = 0;
		std::vector<hr::u32> status = download<hr::u32>(call.status->at, count);
		for (size_t i = 0; i < count; i += SOME) {
			size_t n = std::min<size_t>(SOME, count - i);
			Bytes got = download<uint8_t>(dst->at + i * size, n * size);
			for (size_t k = 0; k < n; k++) bad += status[i + k] || memcmp(&got[k * size], f.plain[cases[(i + k) % cases.size()]->plain].data(), size);
		}
		return bad;
	}

	bool time(const File &f, const Image &image, const Kernels &kernels) const {
		Call call(kernels, list);
		CHECK(cuMemsetD8(dst->at, 0xee, count * size));
		call.decode();
		call.sum();
		CHECK(cuCtxSynchronize());
		size_t bad = wrong(f, call);
		double bytes = (double)(count * size);
		float all = timeOf([&] { call.decode(); }), sums = timeOf([&] { call.sum(); });
		printf("{\"what\":\"time\",\"image\":\"%s\",\"kind\":\"%s\",\"chunks\":%zu,\"ratio\":%.2f,\"ms\":%.3f,\"GB_per_s\":%.1f", image.path.c_str(), name.c_str(),
		       count, bytes / encoded, all, bytes / all * 1e-6);
		if (call.zstd.n) {
			float scan = timeOf([&] { call.scan(); }), finish = timeOf([&] { call.finish(); });
			printf(",\"scan_ms\":%.3f,\"finish_ms\":%.3f,\"finish_GB_per_s\":%.1f", scan, finish, bytes / finish * 1e-6);
		}
		printf(",\"crc_ms\":%.3f,\"crc_GB_per_s\":%.1f,\"wrong\":%zu}\n", sums, encoded / sums * 1e-6, bad);
		fflush(stdout);
		return bad == 0;
	}
};

int main(int argc, char **argv) {
	if (argc < 4) fprintf(stderr, "see the head of chunks.cc\n"), exit(2);
	useFirstDevice();
	std::vector<std::unique_ptr<Image>> images;
	std::vector<std::unique_ptr<Kernels>> kernels;
	for (char *path = strtok(argv[1], ","); path; path = strtok(nullptr, ",")) {
		images.emplace_back(new Image(path));
		kernels.emplace_back(new Kernels(*images.back()));
	}
	File f(argv[3]);
	bool good = true;
	if (!strcmp(argv[2], "check")) {
		if (argc > 5) {
			std::vector<Case> some;
			for (size_t i = 0, step = strtoul(argv[5], nullptr, 10); i < f.cases.size(); i += step) some.push_back(f.cases[i]);
			f.cases = some;
		}
		for (size_t k = 0; k < images.size(); k++)
			for (int i = 0, rounds = argc > 4 ? atoi(argv[4]) : 0; i <= rounds; i++) good &= check(*images[k], *kernels[k], f, i);
		return !good;
	}
	std::map<std::string, Kind> kinds;
	for (const Case &c : f.cases) kinds[c.name].cases.push_back(&c);
	for (auto &k : kinds) {
		if (argc > 5 && k.first.find(argv[5]) == std::string::npos) continue;
		k.second.name = k.first;
		k.second.count = argc > 4 ? strtoul(argv[4], nullptr, 10) : 4096;
		k.second.send(f);
		for (size_t i = 0; i < images.size(); i++) good &= k.second.time(f, *images[i], *kernels[i]);
		k.second = Kind();
	}
	return !good;
}
