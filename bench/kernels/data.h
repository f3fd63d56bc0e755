// What the benchmark decodes and assembles: light microscopy like that of the other
// benchmarks, and encoders that write what common ones do.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

typedef std::vector<uint8_t> Bytes;

enum { DEPTH = 32, HEIGHT = 64, WIDTH = 64, CHUNK_BYTES = DEPTH * HEIGHT * WIDTH * 2 };

// field is a chunk of u16 somewhere in a volume of 512^3: a background of 100, 40 soft
// blobs, shot noise.
inline Bytes field(uint32_t seed) {
	enum { EDGE = 512, BLOBS = 40 };
	std::mt19937 r(seed);
	std::normal_distribution<float> noise;
	auto u = [&](float from, float to) { return std::uniform_real_distribution<float>(from, to)(r); };
	std::vector<float> light(DEPTH * HEIGHT * WIDTH, 100.f);
	float z0 = 32 * std::floor(u(0, 16)), y0 = 64 * std::floor(u(0, 8)), x0 = 64 * std::floor(u(0, 8));
	for (int i = 0; i < BLOBS; i++) {
		float z = u(0, EDGE) - z0, y = u(0, EDGE) - y0, x = u(0, EDGE) - x0, width = u(6, 30), height = u(50, 600);
		float reach = 5.3f * width; // further out it is below a thousandth
		if (z < -reach || z > DEPTH + reach || y < -reach || y > HEIGHT + reach || x < -reach || x > WIDTH + reach) continue;
		for (int k = 0; k < DEPTH * HEIGHT * WIDTH; k++) {
			float dz = k / (HEIGHT * WIDTH) - z, dy = k / WIDTH % HEIGHT - y, dx = k % WIDTH - x;
			light[k] += height * std::exp(-(dz * dz + dy * dy + dx * dx) / (2 * width * width));
		}
	}
	Bytes out(CHUNK_BYTES);
	uint16_t *p = (uint16_t *)out.data();
	for (float v : light) *p++ = (uint16_t)std::max(0.f, v + noise(r) * std::sqrt(v) * 0.6f);
	return out;
}

inline void length(Bytes &out, size_t n) {
	for (; n >= 255; n -= 255) out.push_back(255);
	out.push_back((uint8_t)n);
}

// sequence writes literals and a match; the last of a block has no match.
inline void sequence(Bytes &out, const uint8_t *literals, size_t n, size_t distance, size_t match) {
	size_t m = match ? match - 4 : 0;
	out.push_back((uint8_t)((n < 15 ? n : 15) << 4 | (m < 15 ? m : 15)));
	if (n >= 15) length(out, n - 15);
	out.insert(out.end(), literals, literals + n);
	if (!match) return;
	out.push_back((uint8_t)distance);
	out.push_back((uint8_t)(distance >> 8));
	if (m >= 15) length(out, m - 15);
}

// Matcher finds matches as liblz4 does: by a table of the last place of every hash, of five
// bytes in long blocks and of four in short ones, looking at fewer places the longer none is
// found. What comes of it was compared with liblz4 1.10: the same bytes.
struct Matcher {
	enum { LAST = 5, NONE_BEHIND = 12, SHORT = (64 << 10) + 11, FAR = 65535 };

	const uint8_t *src;
	size_t n;
	size_t acceleration;
	bool isShort;
	std::vector<uint32_t> table;

	Matcher(const uint8_t *src, size_t n, size_t acceleration)
	    : src(src), n(n), acceleration(acceleration), isShort(n < SHORT), table(isShort ? 1 << 13 : 1 << 12, 0) {}

	uint32_t word(size_t at) const {
		uint32_t w;
		memcpy(&w, src + at, 4);
		return w;
	}

	size_t hash(size_t at) const {
		if (isShort) return word(at) * 2654435761u >> 19;
		uint64_t w;
		memcpy(&w, src + at, 8);
		return (w << 24) * 889523592379ull >> 52;
	}

	// put makes a place the last one of its hash, and gives what was it before.
	size_t put(size_t at) {
		uint32_t &entry = table[hash(at)];
		size_t from = entry;
		entry = (uint32_t)at;
		return from;
	}

	bool good(size_t from, size_t at) const { return from < at && at - from <= FAR && word(from) == word(at); }

	// find moves to the next match: false if there is none.
	bool find(size_t &at, size_t &from) {
		for (size_t step = 1, looks = acceleration << 6;; at += step, step = looks++ >> 6) {
			if (at + step > n - NONE_BEHIND + 1) return false;
			from = put(at);
			if (good(from, at)) return true;
		}
	}
};

// lz4 encodes a block. sequences counts them.
inline Bytes lz4(const uint8_t *src, size_t n, size_t *sequences, size_t acceleration = 1) {
	Bytes out;
	Matcher m(src, n, acceleration);
	size_t anchor = 0, at = 1, from = 0;
	if (n > Matcher::NONE_BEHIND) {
		m.put(0);
		while (m.find(at, from)) {
			while (at > anchor && from > 0 && src[at - 1] == src[from - 1]) at--, from--;
			do {
				size_t match = 4;
				while (at + match < n - Matcher::LAST && src[at + match] == src[from + match]) match++;
				sequence(out, src + anchor, at - anchor, at - from, match);
				++*sequences;
				anchor = at += match;
				if (at > n - Matcher::NONE_BEHIND) break;
				m.put(at - 2);
				from = m.put(at);
			} while (m.good(from, at));
			if (at > n - Matcher::NONE_BEHIND) break;
			at++;
		}
	}
	sequence(out, src + anchor, n - anchor, 0, 0);
	++*sequences;
	return out;
}

inline void u32(Bytes &out, uint32_t v) {
	for (int i = 0; i < 4; i++) out.push_back((uint8_t)(v >> 8 * i));
}

// numcodecsLZ4 is a block behind its length.
inline Bytes numcodecsLZ4(const Bytes &data, size_t *sequences) {
	Bytes out, block = lz4(data.data(), data.size(), sequences);
	u32(out, (uint32_t)data.size());
	out.insert(out.end(), block.begin(), block.end());
	return out;
}

// byteShuffled has the first bytes of all elements first, then the second ones, and so on.
inline Bytes byteShuffled(const Bytes &data, size_t typesize) {
	Bytes out;
	out.reserve(data.size());
	for (size_t k = 0; k < typesize; k++)
		for (size_t i = k; i < data.size(); i += typesize) out.push_back(data[i]);
	return out;
}

// blosc is a frame as c-blosc writes it at its default level: of one block, bytes shuffled, a
// stream for each byte of an element.
inline Bytes blosc(const Bytes &data, size_t typesize, size_t *sequences) {
	Bytes out = {2, 1, 1 | 1 << 5, (uint8_t)typesize};
	size_t n = data.size() / typesize;
	u32(out, (uint32_t)data.size());
	u32(out, (uint32_t)data.size());
	u32(out, 0);
	u32(out, 20);
	Bytes shuffled = byteShuffled(data, typesize);
	for (size_t k = 0; k < typesize; k++) {
		Bytes plane(shuffled.begin() + k * n, shuffled.begin() + (k + 1) * n);
		size_t count = 0;
		Bytes block = lz4(plane.data(), n, &count, 5);
		if (block.size() >= n) block = plane; // stored
		else *sequences += count;
		u32(out, (uint32_t)block.size());
		out.insert(out.end(), block.begin(), block.end());
	}
	if (out.size() >= data.size() + 16) { // not worth it
		out.resize(16);
		out[2] |= 2;
		out.insert(out.end(), data.begin(), data.end());
	}
	uint32_t total = (uint32_t)out.size();
	memcpy(&out[12], &total, 4);
	return out;
}
