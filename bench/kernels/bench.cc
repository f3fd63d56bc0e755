// Times the kernels of an image on a GPU, one JSON object a line.
//
//     nvcc -O2 -std=c++17 -I cuda/kernels -o kernelbench bench/kernels/bench.cc -lcuda -ldl -lpthread
//     kernelbench [--nvcomp LIBRARY] [--sets DIR] cuda/kernels/kernels.ptx [more images]
//     kernelbench --damage 10000 cuda/kernels/kernels.ptx         for compute-sanitizer
//     kernelbench --once DIR SET KIB COUNT cuda/kernels/kernels.ptx  one launch, for a profiler
//
// DIR has the sets that zstd.py writes, mask50, lm, lm-shuffled and em; they are decoded beside a set that is made
// here. Every byte of what is decoded is compared; with --damage, thousands of
// broken chunks are decoded in memory of exactly their size, and must be zero where they are refused.
#include "abi.h"
#include "data.h"
#include "nvcomp.h"

#include <memory>
#include <thread>

// inParallel calls f(i) for all i below n, on all cores.
template <class F> static void inParallel(size_t n, F f) {
	std::vector<std::thread> threads;
	size_t count = std::max(1u, std::thread::hardware_concurrency());
	for (size_t t = 0; t < count; t++) {
		threads.emplace_back([=] {
			for (size_t i = t; i < n; i += count) f(i);
		});
	}
	for (std::thread &t : threads) t.join();
}

// A Set is distinct chunks of one size, plain and encoded, one after the other.
struct Set {
	std::string name;
	hr::u8 method;
	size_t bytes; // of a chunk
	std::vector<Bytes> plain, encoded;

	Set(const std::string &name, hr::u8 method, int typesize, const std::vector<Bytes> &chunks)
	    : name(name), method(method), bytes(chunks[0].size()), plain(chunks), encoded(chunks.size()) {
		std::vector<size_t> counts(chunks.size(), 0);
		inParallel(chunks.size(), [&](size_t i) {
			encoded[i] = method == hr::LZ4 ? numcodecsLZ4(plain[i], &counts[i]) : blosc(plain[i], typesize, &counts[i]);
		});
		size_t sequences = 0, total = 0;
		for (size_t n : counts) sequences += n;
		for (const Bytes &e : encoded) total += e.size();
		printf("{\"what\":\"%s\",\"distinct\":%zu,\"chunk_bytes\":%zu,\"sequences_per_chunk\":%.1f,\"ratio\":%.3f}\n", name.c_str(), chunks.size(), bytes,
		       (double)sequences / chunks.size(), (double)bytes * chunks.size() / total);
	}
};

// readSet reads the plain bytes of a set of zstd.py, in chunks of so many bytes.
static std::vector<Bytes> readSet(const std::string &path, size_t bytes) {
	std::ifstream in(path, std::ios::binary);
	uint32_t n = 0, frame;
	in.read((char *)&n, 4);
	size_t skip = 4 + 4 * (size_t)n;
	for (uint32_t i = 0; i < n && in.read((char *)&frame, 4); i++) skip += frame;
	in.seekg(skip);
	std::vector<Bytes> chunks((size_t)n * CHUNK_BYTES / bytes, Bytes(bytes));
	for (Bytes &c : chunks) in.read((char *)c.data(), bytes);
	if (!in || chunks.empty()) fprintf(stderr, "cannot read %s\n", path.c_str()), exit(1);
	return chunks;
}

// compare checks that the chunks at dst, in turn those of a set, are what was encoded.
static void compare(const Set &set, CUdeviceptr dst, size_t count) {
	static void *got; // pinned: thirty times as fast
	const size_t room = 64 << 20;
	if (!got) CHECK(cuMemAllocHost(&got, room));
	size_t some = std::max<size_t>(1, room / set.bytes);
	for (size_t i = 0; i < count; i += some) {
		size_t n = std::min(some, count - i);
		CHECK(cuMemcpyDtoH(got, dst + i * set.bytes, n * set.bytes));
		inParallel(n, [&](size_t k) {
			if (memcmp((uint8_t *)got + k * set.bytes, set.plain[(i + k) % set.plain.size()].data(), set.bytes))
				fprintf(stderr, "%s: chunk %zu is wrong\n", set.name.c_str(), i + k), exit(1);
		});
	}
}

// pack is the bytes of count items one after the other. begin gives where each begins, from the end of
// the one before on.
template <class F> static Bytes pack(const std::vector<Bytes> &items, size_t count, std::vector<hr::u64> &at, F begin) {
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		at.push_back(begin(bytes, i));
		bytes = at[i] + items[i % items.size()].size();
	}
	Bytes out(bytes + 16);
	inParallel(count, [&](size_t i) {
		const Bytes &e = items[i % items.size()];
		memcpy(&out[at[i]], e.data(), e.size());
	});
	return out;
}

// Call is so many chunks of a set in memory, each with bytes of its own.
struct Call {
	const Set &set;
	size_t count;
	std::vector<hr::u64> at;
	Memory src, dst, scratch, status, table;

	Call(const Set &set, size_t count)
	    : set(set), count(count), src(upload(pack(set.encoded, count, at, [](size_t end, size_t i) { return (end + 15) / 16 * 16 + i % 16; }))), // anywhere
	      dst(count * set.bytes), scratch(set.method == hr::LZ4 ? 16 : count * set.bytes), status(count * 4), table(0) {
		std::vector<hr::Chunk> chunks(count);
		for (size_t i = 0; i < count; i++) {
			hr::u64 own = i * set.bytes;
			hr::u32 size = (hr::u32)set.encoded[i % set.encoded.size()].size();
			chunks[i] = {src.at + at[i], dst.at + own, scratch.at + own, size, (hr::u32)set.bytes, (hr::u32)i, set.method, 0, 0};
		}
		table = upload(chunks);
	}

	double total() const { return (double)count * set.bytes; }

	// decode times launches.
	void decode(const Image &image) const {
		CHECK(cuMemsetD8(dst.at, 0xee, count * set.bytes));
		hr::DecodeParams p = {table.at, status.at, (hr::u32)count};
		CUfunction f = image.function("hr_decode");
		int block = image.block(f), grid = std::min((int)count, image.resident(f));
		float ms = timeOf([&] { launch(f, grid, block, &p, sizeof p); });
		report(image, set.name.c_str(), count, total(), grid, block, ms);
		for (hr::u32 s : download<hr::u32>(status.at, count)) {
			if (s) fprintf(stderr, "%s: status %u\n", set.name.c_str(), s), exit(1);
		}
		compare(set, dst.at, count);
	}
};

// rival times nvCOMP over the same blocks of LZ4.
static void rival(const Nvcomp &nvcomp, const Set &set, size_t count) {
	std::vector<Bytes> blocks;
	for (const Bytes &e : set.encoded) blocks.emplace_back(e.begin() + 4, e.end());
	std::vector<hr::u64> sources, destinations(count), bytes(count), room(count, set.bytes);
	Memory src = upload(pack(blocks, count, sources, [](size_t end, size_t) { return (end + 15) / 16 * 16; }));
	size_t tempBytes = 0;
	if (nvcomp.temp(count, set.bytes, {}, &tempBytes, count * set.bytes)) fprintf(stderr, "nvCOMP: no size of its memory\n"), exit(1);
	Memory dst(count * set.bytes), temp(tempBytes), actual(count * 8), statuses(count * 4);
	for (size_t i = 0; i < count; i++) {
		sources[i] += src.at;
		destinations[i] = dst.at + i * set.bytes;
		bytes[i] = blocks[i % blocks.size()].size();
	}
	Memory s = upload(sources), d = upload(destinations), n = upload(bytes), r = upload(room);
	float ms = timeOf([&] {
		if (nvcomp.decompress(s.at, n.at, r.at, actual.at, count, temp.at, tempBytes, d.at, {}, statuses.at, nullptr))
			fprintf(stderr, "nvCOMP: refused\n"), exit(1);
	});
	for (int status : download<int>(statuses.at, count)) {
		if (status) fprintf(stderr, "nvCOMP: status %d\n", status), exit(1);
	}
	compare(set, dst.at, count);
	printf("{\"image\":\"nvCOMP\",\"what\":\"%s\",\"items\":%zu,\"ms\":%.3f,\"GB_per_s\":%.1f}\n", set.name.c_str(), count, ms,
	       (double)count * set.bytes / ms * 1e-6);
	fflush(stdout);
}

// decode times calls of chunks of a set, by nvCOMP if it is there and by all images.
static void decode(const Nvcomp *nvcomp, const std::vector<Image> &images, const Set &set, std::initializer_list<size_t> counts) {
	for (size_t n : counts) {
		if (nvcomp && set.method == hr::LZ4) rival(*nvcomp, set, n);
		Call call(set, n);
		for (const Image &image : images) call.decode(image);
	}
}

static std::vector<Bytes> shuffled(const std::vector<Bytes> &chunks) {
	std::vector<Bytes> out;
	for (const Bytes &c : chunks) out.push_back(byteShuffled(c, 2));
	return out;
}

// decodeOwn times the set that is made here.
static void decodeOwn(const Nvcomp *nvcomp, const std::vector<Image> &images) {
	std::vector<Bytes> plain(128);
	inParallel(plain.size(), [&](size_t i) { plain[i] = field((uint32_t)i); });
	decode(nvcomp, images, Set("lz4", hr::LZ4, 1, plain), {64, 512, 4096});
	if (nvcomp) decode(nvcomp, {}, Set("lz4 of shuffled bytes", hr::LZ4, 1, shuffled(plain)), {64, 512, 4096});
	decode(nvcomp, images, Set("blosc-lz4", hr::BLOSC, 2, plain), {64, 512, 4096});
}

// decodeSets times the sets of a folder: chunks of 256 KiB in calls of many sizes, and
// as many bytes in chunks of other sizes.
static void decodeSets(const Nvcomp *nvcomp, const std::vector<Image> &images, const std::string &folder) {
	static const struct {
		const char *file, *name;
		int typesize; // of blosc; 0: not encoded so
	} SETS[] = {{"mask50", "mask50", 2}, {"lm", "lm", 2}, {"lm-shuffled", "lm shuffled", 0}, {"em", "em", 1}};
	for (auto &s : SETS) {
		std::string path = folder + "/" + s.file + ".bin", name = s.name;
		std::vector<Bytes> chunks = readSet(path, CHUNK_BYTES);
		decode(nvcomp, images, Set("lz4 " + name, hr::LZ4, 1, chunks), {64, 512, 4096, 8192});
		if (s.typesize) decode(nvcomp, images, Set("blosc-lz4 " + name, hr::BLOSC, s.typesize, chunks), {64, 512, 4096});
		for (size_t k : {64, 1024, 8192}) {
			chunks = readSet(path, k << 10);
			std::string size = k < 1024 ? " 64 KiB" : k == 1024 ? " 1 MiB" : " 8 MiB";
			decode(nvcomp, images, Set("lz4 " + name + size, hr::LZ4, 1, chunks), {(1 << 20) / k});
		}
	}
}

// once is a launch that a profiler looks at, of chunks of so many KiB.
static void once(const Image &image, const std::string &path, size_t kib, size_t count) {
	Set set("lz4", hr::LZ4, 1, readSet(path, kib << 10));
	Call call(set, count);
	hr::DecodeParams p = {call.table.at, call.status.at, (hr::u32)count};
	CUfunction f = image.function("hr_decode");
	launch(f, std::min((int)count, image.resident(f)), image.block(f), &p, sizeof p);
	CHECK(cuCtxSynchronize());
}

// assemble times crops of 128^3 at random places of chunks that lie one after the
// other: a tile for what a chunk and a crop have in common, none above most elements.
static void assemble(const Image &image, hr::u8 to, const char *name, size_t wanted, int most) {
	enum { CROP = 128 };
	std::mt19937 r(7);
	std::vector<hr::Tile> tiles;
	std::vector<hr::Loop> loops;
	const int size = to == hr::F32 ? 4 : 2, extents[3] = {DEPTH, HEIGHT, WIDTH};
	size_t crops = 0, elements = 0, chunk = 0;
	for (; tiles.size() < wanted; crops++) {
		int at[3], from[3], n[3];
		for (int d = 0; d < 3; d++) at[d] = (int)(r() % (unsigned)extents[d]);
		auto span = [&](int d, int k) { // of block k
			int a = std::max(at[d], k * extents[d]), b = std::min(at[d] + CROP, (k + 1) * extents[d]);
			from[d] = a;
			n[d] = b - a;
			return n[d] > 0;
		};
		for (int z = 0; span(0, z); z++)
			for (int y = 0; span(1, y); y++)
				for (int x = 0; span(2, x); x++, chunk++) {
					int step = std::max(1, most / (n[1] * n[2]));
					for (int k = 0; k < n[0]; k += step) {
						hr::u64 src = chunk * CHUNK_BYTES + 2ull * (((from[0] + k) % DEPTH * HEIGHT + from[1] % HEIGHT) * WIDTH + from[2] % WIDTH);
						hr::u64 dst = size * (((crops * CROP + from[0] - at[0] + k) * CROP + from[1] - at[1]) * CROP + from[2] - at[2]);
						hr::Tile t = {dst, src, (hr::u32)loops.size(), 3, hr::U16, to, 0, hr::NO_CHUNK, {{0, 0}}};
						tiles.push_back(t);
						loops.push_back({CROP * CROP * size, HEIGHT * WIDTH * 2, (hr::u32)std::min(step, n[0] - k), 0});
						loops.push_back({CROP * size, WIDTH * 2, (hr::u32)n[1], 0});
						loops.push_back({size, 2, (hr::u32)n[2], 0});
						elements += (size_t)loops[loops.size() - 3].n * n[1] * n[2];
					}
				}
	}
	Bytes data = field(3);
	Memory dst(elements * size), src(chunk * CHUNK_BYTES), status(4);
	for (size_t i = 0; i < chunk; i++) CHECK(cuMemcpyHtoDAsync(src.at + i * CHUNK_BYTES, data.data(), CHUNK_BYTES, nullptr));
	for (hr::Tile &t : tiles) t.dst += dst.at, t.src += src.at;
	Memory table = upload(tiles), nest = upload(loops);
	CHECK(cuMemsetD8(dst.at, 0xee, elements * size));
	hr::AssembleParams p = {table.at, nest.at, status.at, (hr::u32)tiles.size()};
	CUfunction f = image.function("hr_assemble");
	int block = image.block(f), resident = image.resident(f);
	for (int grid : {(int)tiles.size(), 2 * resident, resident}) {
		float ms = timeOf([&] { launch(f, grid, block, &p, sizeof p); });
		report(image, name, tiles.size(), (double)elements * size, grid, block, ms);
	}
	// The last crop, element by element.
	if (to != hr::F32) return;
	const size_t n = CROP * CROP * CROP;
	std::vector<float> got = download<float>(dst.at + (crops - 1) * n * 4, n);
	size_t seen = 0;
	for (const hr::Tile &t : tiles) {
		if (t.dst < dst.at + (crops - 1) * n * 4) continue;
		const hr::Loop *l = &loops[t.loops];
		for (hr::u32 a = 0; a < l[0].n; a++)
			for (hr::u32 b = 0; b < l[1].n; b++)
				for (hr::u32 c = 0; c < l[2].n; c++, seen++) {
					uint16_t v;
					memcpy(&v, &data[(t.src - src.at + a * l[0].src + b * l[1].src + c * l[2].src) % CHUNK_BYTES], 2);
					if (got[(t.dst - dst.at + a * l[0].dst + b * l[1].dst + c * l[2].dst) / 4 - (crops - 1) * n] != (float)v)
						fprintf(stderr, "%s: a wrong element\n", name), exit(1);
				}
	}
	if (seen != n) fprintf(stderr, "%s: %zu elements compared\n", name, seen), exit(1);
}

// damaged breaks some bytes of a chunk, or cuts it.
static Bytes damaged(Bytes b, std::mt19937 &r) {
	if (r() % 4 == 0) b.resize(r() % b.size() + 1);
	for (unsigned n = r() % 4; n > 0; n--) {
		uint8_t &v = b[r() % (r() % 2 ? b.size() : std::min<size_t>(b.size(), 40))];
		v = r() % 3 ? (uint8_t)r() : (uint8_t)(v ^ 1 << r() % 8);
	}
	return b;
}

static void damage(const Image &image, size_t count) {
	enum { BYTES = 6000, LAUNCH = 1000 };
	std::mt19937 r(5);
	Bytes data = field(3);
	size_t statuses[3] = {0, 0, 0};
	for (size_t done = 0; done < count; done += LAUNCH) {
		std::vector<Memory> memory;
		std::vector<hr::Chunk> chunks;
		Memory status(4 * LAUNCH);
		for (hr::u32 i = 0; i < LAUNCH; i++) {
			size_t at = r() % (data.size() - BYTES), n = 0, bytes = 1 + r() % BYTES;
			Bytes part(data.begin() + at, data.begin() + at + bytes);
			bool bare = r() % 2;
			Bytes e = damaged(bare ? numcodecsLZ4(part, &n) : blosc(part, 1 + r() % 4, &n), r);
			hr::u32 size = (hr::u32)e.size();
			e.resize((size + 3) / 4 * 4); // words are readable
			memory.push_back(upload(e));
			hr::u64 src = memory.back().at;
			memory.emplace_back(bytes);
			hr::u64 dst = memory.back().at;
			memory.emplace_back((bytes + 3) / 4 * 4);
			for (size_t k = bytes; k % 4; k++) CHECK(cuMemsetD8(memory.back().at + k, 0, 1)); // the bytes behind are read with the last word
			chunks.push_back({src, dst, memory.back().at, size, (hr::u32)bytes, i, (hr::u8)(bare ? hr::LZ4 : hr::BLOSC), 0, 0});
		}
		Memory table = upload(chunks);
		hr::DecodeParams p = {table.at, status.at, LAUNCH};
		CUfunction f = image.function("hr_decode");
		launch(f, image.resident(f), image.block(f), &p, sizeof p);
		CHECK(cuCtxSynchronize());
		std::vector<hr::u32> s = download<hr::u32>(status.at, LAUNCH);
		for (size_t i = 0; i < LAUNCH; i++) {
			if (s[i] > 2) fprintf(stderr, "status %u\n", s[i]), exit(1);
			statuses[s[i]]++;
			if (s[i] == 0) continue;
			for (uint8_t b : download<uint8_t>(chunks[i].dst, chunks[i].dstBytes)) {
				if (b) fprintf(stderr, "a refused chunk is not zero\n"), exit(1);
			}
		}
	}
	printf("{\"image\":\"%s\",\"what\":\"damage\",\"ok\":%zu,\"corrupt\":%zu,\"unsupported\":%zu}\n", image.path.c_str(), statuses[0], statuses[1],
	       statuses[2]);
}

int main(int argc, char **argv) {
	useFirstDevice();
	std::unique_ptr<Nvcomp> nvcomp;
	std::string sets;
	std::vector<Image> images;
	for (int i = 1; i < argc; i++) {
		std::string option = argv[i];
		int more = argc - i - 1;
		if (option == "--damage" && more == 2) return damage(Image(argv[i + 2]), strtoul(argv[i + 1], nullptr, 10)), 0;
		if (option == "--once" && more == 5) {
			std::string set = std::string(argv[i + 1]) + "/" + argv[i + 2] + ".bin";
			return once(Image(argv[i + 5]), set, strtoul(argv[i + 3], nullptr, 10), strtoul(argv[i + 4], nullptr, 10)), 0;
		}
		if (option == "--nvcomp" && more > 0) nvcomp.reset(new Nvcomp(argv[++i], "LZ4"));
		else if (option == "--sets" && more > 0) sets = argv[++i];
		else images.emplace_back(argv[i]);
	}
	decodeOwn(nvcomp.get(), images);
	if (!sets.empty()) decodeSets(nvcomp.get(), images, sets);
	for (const Image &image : images) {
		assemble(image, hr::F32, "assemble u16 f32", 5000, 64 << 10);
		assemble(image, hr::F32, "assemble u16 f32", 3000, 64 << 10);
		assemble(image, hr::BF16, "assemble u16 bf16", 5000, 64 << 10);
	}
}
