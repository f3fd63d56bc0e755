// Times the kernels of an image on a GPU, one JSON object a line.
//
//     nvcc -O2 -std=c++17 -I cuda/kernels -o kernelbench bench/kernels/bench.cc -lcuda -ldl
//     kernelbench [--nvcomp LIBRARY] cuda/kernels/kernels.ptx [more images]
//     kernelbench --damage 10000 cuda/kernels/kernels.ptx     for compute-sanitizer
//
// Every byte of what is decoded is compared; with --damage, thousands of broken chunks
// are decoded in memory of exactly their size, and must be zero where they are refused.
#include "abi.h"
#include "data.h"
#include "nvcomp.h"

// A Set is distinct chunks, plain and encoded, one after the other.
struct Set {
	const char *name;
	hr::u8 method;
	std::vector<Bytes> plain, encoded;
	size_t sequences = 0;

	Set(const char *name, hr::u8 method, const std::vector<Bytes> &chunks) : name(name), method(method), plain(chunks) {
		for (const Bytes &c : chunks) {
			size_t n = 0;
			encoded.push_back(method == hr::LZ4 ? numcodecsLZ4(c, &n) : blosc(c, 2, &n));
			sequences += n;
		}
	}
};

// compare checks that the chunks at dst, in turn those of a set, are what was encoded.
static void compare(const char *name, CUdeviceptr dst, const std::vector<Bytes> &plain, size_t count) {
	for (size_t i = 0; i < count; i += 256) {
		size_t n = std::min<size_t>(256, count - i);
		Bytes got = download<uint8_t>(dst + i * CHUNK_BYTES, n * CHUNK_BYTES);
		for (size_t k = 0; k < n; k++) {
			if (memcmp(&got[k * CHUNK_BYTES], plain[(i + k) % plain.size()].data(), CHUNK_BYTES))
				fprintf(stderr, "%s: chunk %zu is wrong\n", name, i + k), exit(1);
		}
	}
}

// decode times launches of so many chunks. Each has bytes of its own in memory.
static void decode(const Image &image, const Set &set, size_t count) {
	std::vector<hr::Chunk> chunks(count);
	Bytes in;
	for (size_t i = 0; i < count; i++) {
		const Bytes &e = set.encoded[i % set.encoded.size()];
		in.resize((in.size() + 15) / 16 * 16 + i % 16); // they begin anywhere
		chunks[i] = {in.size(), 0, 0, (hr::u32)e.size(), CHUNK_BYTES, (hr::u32)i, set.method, 0, 0};
		in.insert(in.end(), e.begin(), e.end());
	}
	in.resize(in.size() + 16);
	Memory src = upload(in), dst(count * CHUNK_BYTES), scratch(count * CHUNK_BYTES), status(count * 4);
	for (size_t i = 0; i < count; i++) {
		chunks[i].src += src.at;
		chunks[i].dst = dst.at + i * CHUNK_BYTES;
		chunks[i].scratch = scratch.at + i * CHUNK_BYTES;
	}
	Memory table = upload(chunks);
	CHECK(cuMemsetD8(dst.at, 0xee, count * CHUNK_BYTES));
	hr::DecodeParams p = {table.at, status.at, (hr::u32)count};
	CUfunction f = image.function("hr_decode");
	int block = image.block(f), resident = image.resident(f);
	for (int grid : {(int)count, resident}) {
		if (grid > (int)count) continue;
		float ms = timeOf([&] { launch(f, grid, block, &p, sizeof p); });
		report(image, set.name, count, (double)count * CHUNK_BYTES, grid, block, ms);
	}
	for (hr::u32 s : download<hr::u32>(status.at, count)) {
		if (s) fprintf(stderr, "%s: status %u\n", set.name, s), exit(1);
	}
	compare(set.name, dst.at, set.plain, count);
}

// rival times nvCOMP over blocks of LZ4.
static void rival(const Nvcomp &nvcomp, const char *name, const std::vector<Bytes> &plain, size_t count) {
	std::vector<Bytes> blocks;
	size_t sequences = 0;
	for (const Bytes &c : plain) blocks.push_back(lz4(c.data(), c.size(), &sequences));
	Bytes in;
	std::vector<hr::u64> sources(count), destinations(count), bytes(count), room(count, CHUNK_BYTES);
	for (size_t i = 0; i < count; i++) {
		const Bytes &b = blocks[i % blocks.size()];
		in.resize((in.size() + 15) / 16 * 16);
		sources[i] = in.size();
		bytes[i] = b.size();
		in.insert(in.end(), b.begin(), b.end());
	}
	size_t tempBytes = 0;
	if (nvcomp.temp(count, CHUNK_BYTES, {}, &tempBytes, count * CHUNK_BYTES)) fprintf(stderr, "nvCOMP: no size of its memory\n"), exit(1);
	Memory src = upload(in), dst(count * CHUNK_BYTES), temp(tempBytes), actual(count * 8), statuses(count * 4);
	for (size_t i = 0; i < count; i++) {
		sources[i] += src.at;
		destinations[i] = dst.at + i * CHUNK_BYTES;
	}
	Memory s = upload(sources), d = upload(destinations), n = upload(bytes), r = upload(room);
	float ms = timeOf([&] {
		if (nvcomp.decompress(s.at, n.at, r.at, actual.at, count, temp.at, tempBytes, d.at, {}, statuses.at, nullptr))
			fprintf(stderr, "nvCOMP: refused\n"), exit(1);
	});
	for (int status : download<int>(statuses.at, count)) {
		if (status) fprintf(stderr, "nvCOMP: status %d\n", status), exit(1);
	}
	compare(name, dst.at, plain, count);
	printf("{\"image\":\"nvCOMP\",\"what\":\"%s\",\"items\":%zu,\"ms\":%.3f,\"GB_per_s\":%.1f}\n", name, count, ms, (double)count * CHUNK_BYTES / ms * 1e-6);
	fflush(stdout);
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
	CUdevice device;
	CUcontext context;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (argc > 3 && !strcmp(argv[1], "--damage")) {
		damage(Image(argv[3]), strtoul(argv[2], nullptr, 10));
		return 0;
	}
	std::vector<Bytes> plain;
	for (uint32_t i = 0; i < 128; i++) plain.push_back(field(i));
	Set sets[] = {{"lz4", hr::LZ4, plain}, {"blosc-lz4", hr::BLOSC, plain}};
	for (const Set &s : sets) {
		size_t bytes = 0;
		for (const Bytes &e : s.encoded) bytes += e.size();
		printf("{\"what\":\"%s\",\"sequences_per_chunk\":%zu,\"ratio\":%.2f}\n", s.name, s.sequences / plain.size(), 128. * CHUNK_BYTES / bytes);
	}
	int first = 1;
	if (argc > 3 && !strcmp(argv[1], "--nvcomp")) {
		Nvcomp nvcomp(argv[2], "LZ4");
		std::vector<Bytes> shuffled;
		for (const Bytes &c : plain) shuffled.push_back(byteShuffled(c, 2));
		for (size_t n : {64, 512, 4096}) {
			rival(nvcomp, "lz4", plain, n);
			rival(nvcomp, "lz4 of shuffled bytes", shuffled, n);
		}
		first = 3;
	}
	for (int i = first; i < argc; i++) {
		Image image(argv[i]);
		for (const Set &s : sets) {
			for (size_t n : {64, 512, 4096}) decode(image, s, n);
		}
		assemble(image, hr::F32, "assemble u16 f32", 5000, 64 << 10);
		assemble(image, hr::F32, "assemble u16 f32", 3000, 64 << 10);
		assemble(image, hr::BF16, "assemble u16 bf16", 5000, 64 << 10);
	}
}
