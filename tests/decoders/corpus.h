// The files of record.py: encoded chunks, and what a reference makes of them.
#pragma once
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

// Expect is what must come of a record.
enum Expect : uint8_t {
	DECODED, // its bytes: an encoder wrote it
	REFUSED, // an error: the reference refuses it
	EITHER,  // its bytes, or it is left to the host: damaged, but the reference decodes it
	HOST,    // it is left to the host
	EXPECTS
};

struct Record {
	uint64_t hash; // XXH64 of what it decodes to
	uint32_t encoded, decoded;
	uint16_t label, flags;
	uint8_t method, typesize, expect;
	uint8_t fault; // of one that is Summed: the sum behind it is wrong
};
static_assert(sizeof(Record) == 24, "RECORD of record.py");

// Case is a record where it lies in a file.
struct Case {
	Record record;
	const uint8_t *bytes;
};

// Corpus is a file, mapped.
struct Corpus {
	std::vector<std::string> labels;
	std::vector<Case> cases;

	explicit Corpus(const char *path) : path(path) {
		int file = open(path, O_RDONLY);
		struct stat about;
		if (file < 0 || fstat(file, &about)) fail("cannot be read");
		size = (size_t)about.st_size;
		data = (const uint8_t *)mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
		close(file);
		if (data == MAP_FAILED || size < 12 || memcmp(data, "HRCORP1", 8)) fail("is no corpus");
		size_t at = 12;
		for (uint32_t i = 0, n = get<uint32_t>(8); i < n; i++) {
			uint16_t length = get<uint16_t>(at);
			labels.emplace_back((const char *)data + at + 2, length);
			at += 2 + length;
		}
		while (at < size) {
			Record r = get<Record>(at);
			if (size - at - sizeof r < r.encoded || r.label >= labels.size() || r.expect >= EXPECTS) fail("is torn");
			cases.push_back({r, data + at + sizeof r});
			at += sizeof r + r.encoded;
		}
	}
	Corpus(const Corpus &) = delete;
	~Corpus() { munmap((void *)data, size); }

  private:
	const char *path;
	const uint8_t *data;
	size_t size;

	template <class T> T get(size_t at) const {
		T v;
		if (at + sizeof v > size) fail("is torn");
		memcpy(&v, data + at, sizeof v);
		return v;
	}
	[[noreturn]] void fail(const char *why) const {
		fprintf(stderr, "%s %s\n", path, why);
		exit(2);
	}
};

// Keeper writes the cases that failed to a corpus of its own, a label for each kind
// of failure and label, up to a number of each kind.
struct Keeper {
	enum { MOST = 3000 };

	explicit Keeper(const std::string &path) : path(path) {}

	void keep(const std::string &kind, const std::string &label, const Case &c) {
		size_t of = 0;
		for (const Kept &k : kept) of += k.kind == kind;
		if (of < MOST) kept.push_back({kind, kind + ": " + label, c.record, std::string((const char *)c.bytes, c.record.encoded)});
	}

	void write() const {
		FILE *out = kept.empty() ? nullptr : fopen(path.c_str(), "wb");
		if (!out) return;
		uint32_t n = (uint32_t)kept.size();
		fwrite("HRCORP1", 1, 8, out);
		fwrite(&n, 4, 1, out);
		for (const Kept &k : kept) {
			uint16_t length = (uint16_t)k.label.size();
			fwrite(&length, 2, 1, out);
			fwrite(k.label.data(), 1, length, out);
		}
		for (uint32_t i = 0; i < n; i++) {
			Record r = kept[i].record;
			r.label = (uint16_t)i;
			fwrite(&r, sizeof r, 1, out);
			fwrite(kept[i].bytes.data(), 1, r.encoded, out);
		}
		fclose(out);
	}

  private:
	struct Kept {
		std::string kind, label;
		Record record;
		std::string bytes;
	};
	std::string path;
	std::vector<Kept> kept;
};

// xxh64 is XXH64 with seed 0.
inline uint64_t xxh64(const uint8_t *p, size_t n) {
	const uint64_t A = 0x9E3779B185EBCA87, B = 0xC2B2AE3D27D4EB4F, C = 0x165667B19E3779F9, D = 0x85EBCA77C2B2AE63, E = 0x27D4EB2F165667C5;
	auto turn = [](uint64_t v, int by) { return v << by | v >> (64 - by); };
	auto word = [](const uint8_t *at) {
		uint64_t v;
		memcpy(&v, at, 8);
		return v;
	};
	auto round = [&](uint64_t lane, uint64_t v) { return turn(lane + v * B, 31) * A; };
	const uint8_t *end = p + n;
	uint64_t h = E;
	if (n >= 32) {
		uint64_t lanes[4] = {A + B, B, 0, 0 - A};
		for (; end - p >= 32; p += 32)
			for (int i = 0; i < 4; i++) lanes[i] = round(lanes[i], word(p + 8 * i));
		h = turn(lanes[0], 1) + turn(lanes[1], 7) + turn(lanes[2], 12) + turn(lanes[3], 18);
		for (uint64_t lane : lanes) h = (h ^ round(0, lane)) * A + D;
	}
	h += n;
	for (; end - p >= 8; p += 8) h = turn(h ^ round(0, word(p)), 27) * A + D;
	if (end - p >= 4) {
		uint32_t v;
		memcpy(&v, p, 4);
		h = turn(h ^ v * A, 23) * B + C;
		p += 4;
	}
	for (; p < end; p++) h = turn(h ^ *p * E, 11) * A;
	h = (h ^ h >> 33) * B;
	h = (h ^ h >> 29) * C;
	return h ^ h >> 32;
}
