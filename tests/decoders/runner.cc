// Decodes corpora on a GPU, or on a host that stands in for one, and holds what becomes of
// each chunk against what its record expects.
//
//     runner IMAGE KEPT [apart] [cap=SECONDS] [fill=BYTE]
//
// It reads names of corpora from its input, a line each, and answers with a line of JSON for each.
// Chunks that fail are kept in the corpus KEPT. apart gives each chunk memory of its own, so
// that a sanitizer sees what a slab would hide. A launch that takes longer than the
// cap, or that ends the program, leaves its chunks in KEPT. The work memory is filled with a byte before each
// launch: what comes of the chunks, of which an answer has a digest, must not depend on it.
//
// Of every chunk it compares the hash of the bytes, that a refused one left zeros, and that
// nothing else was written: not around the output, nor around the scratch memory, the
// status words, the work memory, nor to the sources.
#include "corpus.h"
#include "decoders.h"

#include <time.h>
#ifdef ON_HOST
#include <sanitizer/common_interface_defs.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

enum { GUARD = 0xab, GUARD_BYTES = 48, LEAD = 16 };

static double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t crc32c(const uint8_t *p, size_t n) {
	static uint32_t table[256];
	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t v = i;
			for (int k = 0; k < 8; k++) v = v >> 1 ^ (v & 1 ? 0x82f63b78 : 0);
			table[i] = v;
		}
	uint32_t v = ~0u;
	for (size_t i = 0; i < n; i++) v = v >> 8 ^ table[(v ^ p[i]) & 255];
	return ~v;
}

// Slab is device memory that chunks share, with its image on the host. Or, apart, each
// part is memory of its own, of exactly its size. If it is not filled, a part begins as memory
// that nobody has written.
struct Slab {
	Device &device;
	bool apart, filled;
	std::vector<uint8_t> host;
	std::vector<Span> parts; // at counts from the begin of host
	std::vector<uint64_t> own;
	uint64_t at = 0;
	size_t room = 0;

	Slab(Device &device, bool apart, bool filled = true) : device(device), apart(apart), filled(filled || !apart) {}
	Slab(const Slab &) = delete;
	~Slab() {
		clear();
		if (at) device.free(at);
	}

	void clear() {
		for (uint64_t p : own) device.free(p);
		own.clear();
		parts.clear();
		host.clear();
	}
	// add makes a part that begins at a multiple of 16, plus lead.
	void add(size_t size, size_t lead = 0) {
		host.resize((host.size() + GUARD_BYTES + 15) / 16 * 16 + lead, GUARD);
		parts.push_back({host.size(), size});
		host.resize(host.size() + size, GUARD);
	}
	void put() {
		host.resize(host.size() + GUARD_BYTES, GUARD);
		if (!apart) {
			if (host.size() > room) {
				if (at) device.free(at);
				room = host.size() + host.size() / 4;
				at = device.alloc(room);
			}
			device.put(at, host.data(), host.size());
			return;
		}
		for (const Span &p : parts) {
			// Sources begin anywhere; the aligned vectors that hold a byte of theirs are readable, of other memory the words.
			size_t lead = p.at % 16, size = lead ? (lead + p.size + 15) / 16 * 16 : Device::gpu ? (p.size + 3) / 4 * 4 : p.size;
			own.push_back(device.alloc(size));
			if (filled) device.put(own.back(), &host[p.at - lead], size);
		}
	}
	uint64_t address(size_t i) const { return apart ? own[i] + parts[i].at % 16 : at + parts[i].at; }

	void get(std::vector<uint8_t> &to) {
		to.resize(host.size());
		if (!apart) {
			device.get(to.data(), at, host.size());
			return;
		}
		memcpy(to.data(), host.data(), host.size());
		for (size_t i = 0; i < parts.size(); i++) device.get(&to[parts[i].at], address(i), parts[i].size);
	}
	// around says whether the bytes between part i and the next are as they were.
	bool around(const std::vector<uint8_t> &got, size_t i) const {
		size_t from = parts[i].at + parts[i].size, to = i + 1 < parts.size() ? parts[i + 1].at : host.size();
		return !memcmp(&got[from], &host[from], to - from) && (i || !memcmp(&got[0], &host[0], parts[0].at));
	}
};

struct Tally {
	size_t counts[EXPECTS][3] = {};
};

// Answer is what is reported of a corpus.
struct Answer {
	size_t chunks = 0, skipped = 0, decoded = 0;
	double seconds = 0;
	uint64_t digest = 0; // of all statuses and bytes
	std::map<std::string, Tally> labels;
	std::map<std::string, size_t> failures;

	static std::string quoted(const std::string &s) { return "\"" + s + "\""; }
	void print(const char *path) const {
		printf("{\"file\":\"%s\",\"chunks\":%zu,\"skipped\":%zu,\"decoded_bytes\":%zu,\"kernel_seconds\":%.3f,\"digest\":%llu,\"labels\":{", path, chunks, skipped, decoded,
		       seconds, (unsigned long long)digest);
		const char *comma = "";
		for (auto &l : labels) {
			printf("%s%s:[", comma, quoted(l.first).c_str());
			for (int e = 0; e < EXPECTS; e++)
				printf("%s[%zu,%zu,%zu]", e ? "," : "", l.second.counts[e][0], l.second.counts[e][1], l.second.counts[e][2]);
			printf("]");
			comma = ",";
		}
		printf("},\"failures\":{");
		comma = "";
		for (auto &f : failures) printf("%s%s:%zu", comma, quoted(f.first).c_str(), f.second), comma = ",";
		printf("}}\n");
		fflush(stdout);
	}
};

// interrupted is what is to be done if the program ends within a launch: by an error of the driver,
// by a sanitizer, or because it takes too long.
static std::function<void(const char *)> interrupted;

static void died() {
	if (interrupted) interrupted("died");
}

// Watch ends the program if a launch does not end.
struct Watch {
	explicit Watch(double cap) : cap(cap), thread([this] { run(); }) {}
	~Watch() {
		{
			std::lock_guard<std::mutex> lock(mu);
			over = true;
		}
		changed.notify_all();
		thread.join();
	}
	void start(std::function<void(const char *)> why) {
		std::lock_guard<std::mutex> lock(mu);
		deadline = now() + cap;
		interrupted = why;
	}
	void stop() {
		std::lock_guard<std::mutex> lock(mu);
		deadline = 0;
		interrupted = nullptr;
	}

  private:
	void run() {
		std::unique_lock<std::mutex> lock(mu);
		while (!over) {
			changed.wait_for(lock, std::chrono::milliseconds(100));
			if (over || !deadline || now() < deadline) continue;
			interrupted("endless");
			_exit(3);
		}
	}
	double cap, deadline = 0;
	bool over = false;
	std::mutex mu;
	std::condition_variable changed;
	std::thread thread;
};

struct Runner {
	Device &device;
	Decoders decoders;
	bool apart;
	int fill; // -1: none
	Watch watch;
	Keeper keeper;
	Slab sources, outputs, scratch, status;
	std::vector<uint8_t> got, gotScratch, gotSources, gotStatus;
	uint64_t work = 0;
	size_t workBytes = 0;
	Answer answer;

	Runner(Device &device, const std::string &kept, bool apart, double cap, int fill)
	    : device(device), decoders(device), apart(apart), fill(fill), watch(cap), keeper(kept), sources(device, apart), outputs(device, apart, !Device::gpu),
	      scratch(device, apart, !Device::gpu),
	      status(device, apart) {}

	~Runner() { freeWork(); }

	// A batch has chunks of one family, as many as there is room for.
	enum : size_t { BATCH = Device::gpu ? 32768 : 64, BATCH_BYTES = Device::gpu ? 512u << 20 : 8 << 20, BATCH_WORK = Device::gpu ? 8ul << 30 : 512 << 20 };

	void run(const char *path) {
		Corpus corpus(path);
		answer = {};
		for (int f = 0; f < Decoders::FAMILIES; f++) {
			std::vector<const Case *> batch;
			size_t bytes = 0;
			ZstdRoom room = ZstdRoom::all();
			auto flush = [&] {
				if (!batch.empty()) decode((Decoders::Family)f, batch, room, corpus.labels);
				batch.clear();
				bytes = 0;
				room = ZstdRoom::all();
			};
			for (const Case &c : corpus.cases) {
				if (Decoders::familyOf(c.record.method) != f) continue;
				if (!decoders.there[f] || (!decoders.sums && (c.record.flags & hr::SUMMED))) {
					answer.skipped++;
					continue;
				}
				if (bytes + c.record.decoded > BATCH_BYTES || batch.size() == (apart ? 1024 : (size_t)BATCH) || room.bytes() > BATCH_WORK) flush();
				batch.push_back(&c);
				bytes += c.record.decoded;
				room.add(c.record.encoded, c.record.decoded);
			}
			flush();
		}
		answer.print(path);
		keeper.write();
	}

	// decode decodes a batch by every kernel that there is for it. The chunks are counted once.
	void decode(Decoders::Family family, const std::vector<const Case *> &batch, const ZstdRoom &room, const std::vector<std::string> &labels) {
		decode(family, batch, room, labels, false);
		if (family == Decoders::ZSTD && decoders.hasWide) decode(family, batch, room, labels, true);
	}

	void decode(Decoders::Family family, const std::vector<const Case *> &batch, const ZstdRoom &room, const std::vector<std::string> &labels, bool wide) {
		Call call = lay(batch);
		Slab table(device, apart);
		table.add(call.chunks.size() * sizeof(hr::Chunk));
		memcpy(&table.host[table.parts[0].at], call.chunks.data(), table.parts[0].size);
		table.put();
		call.table = table.address(0);
		call.status = status.address(0);
		Span memory = {0, 0};
		if (family == Decoders::ZSTD) memory = workFor(room.bytes());

		watch.start([&](const char *how) {
			for (const Case *c : batch) keeper.keep(how, labels[c->record.label], *c);
			keeper.write();
			printf("{\"%s\":%zu}\n", how, batch.size());
			fflush(stdout);
		});
		double begin = now();
		decoders.run(family, call, memory, room, wide);
		device.wait();
		answer.seconds += now() - begin;
		watch.stop();

		outputs.get(got);
		if (scratch.filled) scratch.get(gotScratch);
		sources.get(gotSources);
		status.get(gotStatus);
		bool whole = status.around(gotStatus, 0);
		if (memory.size) {
			uint8_t end[GUARD_BYTES];
			device.get(end, memory.at + memory.size, sizeof end);
			for (uint8_t v : end) whole = whole && v == GUARD;
		}
		size_t bands = 0;
		for (size_t i = 0; i < batch.size(); i++) {
			if (!whole) fail("shared memory written", labels, *batch[i]);
			bool mine = outputs.around(got, i) && unchanged(i) && (!shuffled(batch[i]->record) || !scratch.filled || scratch.around(gotScratch, bands));
			bands += shuffled(batch[i]->record);
			if (!mine) fail("bytes of others written", labels, *batch[i]);
			uint32_t s;
			memcpy(&s, &gotStatus[status.parts[0].at + 4 * i], 4);
			judge(*batch[i], s, &got[outputs.parts[i].at], labels, !wide);
		}
		for (Slab *s : {&sources, &outputs, &scratch, &status}) s->clear();
		if (apart) freeWork();
	}

	// lay gives the chunks of a batch their places.
	Call lay(const std::vector<const Case *> &batch) {
		Call call;
		for (size_t i = 0; i < batch.size(); i++) {
			const Record &r = batch[i]->record;
			bool summed = r.flags & hr::SUMMED;
			sources.add(r.encoded + (summed ? 4 : 0), 1 + i % 15);
			uint8_t *to = &sources.host[sources.parts[i].at];
			memcpy(to, batch[i]->bytes, r.encoded);
			if (summed) {
				uint32_t sum = crc32c(to, r.encoded) ^ (r.fault ? 1u << i % 32 : 0);
				memcpy(to + r.encoded, &sum, 4);
			}
			outputs.add(r.decoded);
			if (shuffled(r)) scratch.add(r.decoded);
		}
		status.add(4 * batch.size());
		for (Slab *s : {&sources, &outputs, &scratch, &status}) s->put();
		size_t bands = 0;
		for (size_t i = 0; i < batch.size(); i++) {
			const Record &r = batch[i]->record;
			uint64_t band = shuffled(r) ? scratch.address(bands++) : 0;
			call.chunks.push_back({sources.address(i), outputs.address(i), band, r.encoded, r.decoded, (hr::u32)i, r.method, r.typesize, r.flags});
		}
		return call;
	}

	Span workFor(size_t n) {
		if (n + GUARD_BYTES > workBytes || apart) {
			freeWork();
			workBytes = n + GUARD_BYTES + (apart ? 0 : n / 4);
			work = device.alloc(workBytes);
		}
		if (fill >= 0) device.set(work, (uint8_t)fill, n);
		device.set(work + n, GUARD, GUARD_BYTES);
		return {work, n};
	}

	void freeWork() {
		if (work) device.free(work);
		work = workBytes = 0;
	}

	bool unchanged(size_t i) const {
		const Span &p = sources.parts[i];
		return !memcmp(&gotSources[p.at], &sources.host[p.at], p.size) && sources.around(gotSources, i);
	}

	void fail(const std::string &kind, const std::vector<std::string> &labels, const Case &c) {
		answer.failures[kind]++;
		keeper.keep(kind, labels[c.record.label], c);
	}

	void judge(const Case &c, uint32_t status, const uint8_t *out, const std::vector<std::string> &labels, bool counted) {
		const Record &r = c.record;
		answer.chunks += counted;
		if (counted) answer.decoded += r.decoded;
		answer.digest = (answer.digest ^ status ^ xxh64(out, r.decoded)) * 0x9e3779b97f4a7c15;
		if (status > hr::UNSUPPORTED) {
			fail("no status", labels, c);
			return;
		}
		answer.labels[labels[r.label]].counts[r.expect][status] += counted;
		if (status != hr::OK && std::any_of(out, out + r.decoded, [](uint8_t v) { return v != 0; })) fail("refused, not zero", labels, c);
		const char *kind = verdict(r, status, out);
		if (kind) fail(kind, labels, c);
	}

	static const char *verdict(const Record &r, uint32_t status, const uint8_t *out) {
		switch (r.expect) {
		case DECODED:
		case EITHER:
			if (status == hr::OK) return xxh64(out, r.decoded) == r.hash ? nullptr : "other bytes";
			if (status == hr::CORRUPT) return "corrupt, the reference decodes it";
			return r.expect == DECODED ? "left to the host" : nullptr;
		case REFUSED: return status == hr::OK ? "decoded, the reference refuses it" : nullptr;
		default: return status == hr::UNSUPPORTED ? nullptr : "not left to the host";
		}
	}
};

int main(int argc, char **argv) {
	if (argc < 3) {
		fprintf(stderr, "see the head of runner.cc\n");
		return 2;
	}
	bool apart = false;
	double cap = 60;
	int fill = -1;
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "apart")) apart = true;
		if (!strncmp(argv[i], "cap=", 4)) cap = atof(argv[i] + 4);
		if (!strncmp(argv[i], "fill=", 5)) fill = atoi(argv[i] + 5);
	}
	atexit(died);
#ifdef ON_HOST
	__sanitizer_set_death_callback(died);
#endif
	Device device(argv[1]);
	std::unique_ptr<Runner> runner(new Runner(device, argv[2], apart, cap, fill));
	printf("{\"device\":\"%s\",\"bytes\":%d,\"zstd\":%d,\"inflate\":%d,\"crc32c\":%d}\n", device.name().c_str(), runner->decoders.there[Decoders::BYTES],
	       runner->decoders.there[Decoders::ZSTD], runner->decoders.there[Decoders::INFLATE], runner->decoders.sums);
	fflush(stdout);
	for (std::string line; std::getline(std::cin, line);) runner->run(line.c_str());
	return 0;
}
