// The families of decoders: which kernels take which chunks, and how they are launched.
// ZSTD_SEQUENCES_SHARED is given by the compiler's command line, from cuda/kernels/zstd.go: see
// campaign.py.
#pragma once
#include "device.h"

#ifndef ON_HOST
#include "../../cuda/kernels/zstd.h"
#endif

#include <vector>

struct Span {
	uint64_t at;
	size_t size;
};

// Call is what a family is asked to decode: a table of chunks and the words of their statuses.
struct Call {
	std::vector<hr::Chunk> chunks;
	uint64_t table, status;
};

// ZstdRoom is the memory that the kernels of zstd work in. With it no chunk that an encoder wrote
// is left to the host for want of room; what a damaged one asks for knows no bounds.
struct ZstdRoom {
	enum : size_t { SPARE = 64 << 20 };
	size_t blocks = 64, arena = SPARE;

	void add(size_t encoded, size_t decoded) {
		blocks += encoded / 3 + 1;
		arena += (4 * decoded + 16 * encoded + (16 << 10)) / 16 * 16;
	}
	hr::ZstdParams params(uint64_t chunks, uint64_t status, uint64_t work, size_t n) const {
		return {chunks, status, work, arena, (hr::u32)n, (hr::u32)blocks};
	}
	// bytes is where the kernels find the end of it.
	size_t bytes(size_t n) const { return (size_t)hr::zstd::Work(params(0, 0, 0, n)).arena + arena; }
};

inline bool shuffled(const Record &r) {
	return r.method == hr::BLOSC || r.method == hr::BLOSC_ZSTD || r.method == hr::BLOSC_ZLIB || (r.typesize > 1 && r.method != hr::UNSHUFFLE);
}

struct Decoders {
	enum Family { NONE, BYTES, ZSTD, INFLATE, FAMILIES };

	explicit Decoders(Device &device) : device(device) {
		there[NONE] = false;
		there[BYTES] = device.has("hr_decode");
		there[ZSTD] = device.has("hr_zstd_execute");
		hasWide = device.has("hr_zstd_execute_wide");
		there[INFLATE] = device.has("hr_inflate");
		sums = device.has("hr_crc32c");
	}

	static Family familyOf(uint8_t method) {
		switch (method) {
		case hr::LZ4:
		case hr::BLOSC:
		case hr::UNSHUFFLE:
		case hr::COPY: return BYTES;
		case hr::ZSTD:
		case hr::BLOSC_ZSTD: return ZSTD;
		case hr::ZLIB:
		case hr::GZIP:
		case hr::BLOSC_ZLIB: return INFLATE;
		}
		return NONE;
	}

	bool there[FAMILIES];
	bool sums, hasWide;

	// run decodes. work is for zstd; wide is whether it is executed as in calls of few chunks.
	void run(Family family, const Call &call, Span work, const ZstdRoom &room, bool wide = false) {
		uint32_t n = (uint32_t)call.chunks.size();
		if (family == ZSTD) {
			hr::ZstdParams p = room.params(call.table, call.status, work.at, n);
			device.set(work.at, 0, sizeof(hr::zstd::Head));
			zstd(p, wide);
		} else {
			hr::DecodeParams p = {call.table, call.status, n};
			if (family == BYTES) device.launch("hr_decode", &p, sizeof p, hr::DECODE_BLOCK);
			if (family == INFLATE) device.launch("hr_inflate", &p, sizeof p, hr::INFLATE_BLOCK);
		}
		if (sums) {
			hr::DecodeParams p = {call.table, call.status, n};
			device.launch("hr_crc32c", &p, sizeof p, hr::CRC32C_BLOCK);
		}
	}

  private:
	void zstd(const hr::ZstdParams &p, bool wide) {
		auto launch = [&](const char *kernel, unsigned block, unsigned shared = 0) { device.launch(kernel, &p, sizeof p, block, shared); };
		launch("hr_zstd_scan", hr::ZSTD_SCAN_BLOCK);
		launch("hr_zstd_tables", hr::ZSTD_TABLES_BLOCK);
		launch("hr_zstd_count", hr::ZSTD_ORDER_BLOCK);
		launch("hr_zstd_order", hr::ZSTD_ORDER_BLOCK);
		device.beside([&] { launch("hr_zstd_literals", hr::ZSTD_LITERALS_BLOCK); },
		              [&] { launch("hr_zstd_sequences", hr::ZSTD_SEQUENCES_BLOCK, ZSTD_SEQUENCES_SHARED); });
		if (wide) launch("hr_zstd_execute_wide", hr::ZSTD_EXECUTE_WIDE_BLOCK);
		else launch("hr_zstd_execute", hr::ZSTD_EXECUTE_BLOCK);
		launch("hr_zstd_finish", hr::ZSTD_FINISH_BLOCK);
	}

	Device &device;
};
