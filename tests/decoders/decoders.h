// The families of decoders: which kernels take which chunks, and how they are launched.
// ZSTD_SEQUENCES_SHARED is given by the compiler's command line, from cuda/kernels/zstd.go: see
// campaign.py.
#pragma once
#include "device.h"

#include "../../bench/kernels/zstd_call.h"

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
			device.set(work.at, 0, ZstdRoom::HEAD);
			launchZstd(
			    [&](ZstdStep k) { device.launch(zstdKernels[k].name, &p, sizeof p, zstdKernels[k].block, zstdKernels[k].shared); },
			    [&](auto literals, auto sequences) { device.beside(literals, sequences); }, wide ? WIDE : EXECUTE);
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
	Device &device;
};
