// A coverage-guided fuzzer of the decoders, in one process with their host build of one lane.
//
//     fuzz FAMILY SECONDS SEED FOUND CORPUS...
//
// FAMILY is bytes, zstd or inflate. It begins with the chunks of corpora, changes them, and keeps what reaches code
// that nothing did before, or a part of it another number of times. In the end it writes to FOUND the smallest chunks that together
// reach all of that. Seconds may be 0: then it only does this, and how often code runs does not count.
//
// A chunk is in memory of its own, so that the sanitizers see a byte too much. One that ends the program,
// that takes too long, or that is refused and leaves bytes, is written to FOUND.failed. What statuses and bytes
// should be is for others to say, who have libraries: the tests of cuda/kernels do.
#include "corpus.h"
#include "decoders.h"

#include <math.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <random>

#define UNTRACED __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined")))

extern "C" const char *__asan_default_options() { return "quarantine_size_mb=8:malloc_context_size=2"; }

enum : size_t { MOST_ENCODED = 4096, MOST_DECODED = 64 << 10, PLACES = 1 << 16, PAIRS = 256 };

// Trace is what the compiler's calls tell of a run: which code ran behind which, and what was compared.
static struct {
	bool on;
	uint8_t counts[PLACES];
	uintptr_t before;
	uint32_t pairs[PAIRS][2];
	size_t compared;
} trace;

UNTRACED static void compared(uint32_t a, uint32_t b) {
	if (!trace.on || a == b) return;
	uint32_t *pair = trace.pairs[trace.compared++ % PAIRS];
	pair[0] = a;
	pair[1] = b;
}

extern "C" {
UNTRACED void __sanitizer_cov_trace_pc() {
	if (!trace.on) return;
	uintptr_t at = (uintptr_t)__builtin_return_address(0);
	uint8_t &n = trace.counts[(at ^ trace.before) * 0x9E3779B97F4A7C15 >> 48];
	n += n < 255;
	trace.before = at << 1;
}
UNTRACED void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { compared(a, b); }
UNTRACED void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) { compared(b, a); }
void __sanitizer_cov_trace_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_cmp2(uint16_t, uint16_t) {}
void __sanitizer_cov_trace_cmp8(uint64_t, uint64_t) {}
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_const_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_const_cmp2(uint16_t, uint16_t) {}
void __sanitizer_cov_trace_const_cmp8(uint64_t, uint64_t) {}
void __sanitizer_cov_trace_switch(uint64_t, uint64_t *) {}
}

// Input is a chunk.
struct Input {
	Record record;
	std::string bytes;

	Case asCase() const { return {record, (const uint8_t *)bytes.data()}; }
};

// Reached has a bit for each place of the trace and class of counts.
struct Reached {
	bool classes = true;
	std::vector<uint8_t> bits = std::vector<uint8_t>(PLACES);

	uint8_t classOf(uint8_t n) const { return !classes ? n > 0 : n == 0 ? 0 : n == 1 ? 1 : n < 4 ? 2 : n < 16 ? 4 : n < 128 ? 8 : 16; }

	// add is whether the trace has anything new.
	bool add() {
		bool fresh = false;
		for (size_t i = 0; i < PLACES; i += 8) {
			uint64_t some;
			memcpy(&some, &trace.counts[i], 8);
			if (!some) continue;
			for (size_t k = i; k < i + 8; k++) {
				uint8_t bit = classOf(trace.counts[k]);
				fresh = fresh || (bit & ~bits[k]);
				bits[k] |= bit;
			}
		}
		return fresh;
	}
	size_t places() const {
		return (size_t)std::count_if(bits.begin(), bits.end(), [](uint8_t v) { return v != 0; });
	}
};

// Failed writes the chunk that is decoded if the program ends.
static struct {
	const Input *now;
	std::string path;

	void keep(const char *how) {
		if (!now) return;
		Keeper keeper(path);
		keeper.keep(how, "fuzzed", now->asCase());
		keeper.write();
		fprintf(stderr, "%s: %zu bytes to %u, method %d, see %s\n", how, now->bytes.size(), now->record.decoded, now->record.method, path.c_str());
		now = nullptr;
	}
} failed;

static void died() { failed.keep("died"); }

static void endless(int) {
	failed.keep("endless");
	_exit(3);
}

// Bench decodes one chunk at a time.
struct Bench {
	Device device{""};
	Decoders decoders{device};
	Decoders::Family family;
	unsigned turn = 0;

	explicit Bench(Decoders::Family family) : family(family) {}

	uint8_t *fresh(size_t n, uint8_t fill) {
		uint8_t *p = (uint8_t *)device.alloc(n);
		memset(p, fill, n);
		return p;
	}

	void run(const Input &in) {
		const Record &r = in.record;
		size_t lead = turn++ % 16;
		uint32_t status = 0xeeeeeeee;
		uint8_t *src = fresh(lead + in.bytes.size(), 0xff), *dst = fresh(r.decoded, 0xee), *scratch = shuffled(r) ? fresh(r.decoded, 0xee) : nullptr;
		memcpy(src + lead, in.bytes.data(), in.bytes.size());
		hr::Chunk chunk = {(uint64_t)src + lead, (uint64_t)dst, (uint64_t)scratch, (uint32_t)in.bytes.size(), r.decoded, 0, r.method, r.typesize, r.flags};
		Call call = {{chunk}, (uint64_t)&chunk, (uint64_t)&status};
		ZstdRoom room = {4, 16 << 10};
		room.add(in.bytes.size(), r.decoded);
		uint8_t *work = family == Decoders::ZSTD ? fresh(room.bytes(), 0xdd) : nullptr;

		memset(trace.counts, 0, sizeof trace.counts);
		trace.before = trace.compared = 0;
		failed.now = &in;
		alarm(20);
		trace.on = true;
		decoders.run(family, call, {(uint64_t)work, 0}, room);
		trace.on = false;
		alarm(0);
		bool clean = status == hr::OK || std::all_of(dst, dst + r.decoded, [](uint8_t v) { return v == 0; });
		if (status > hr::UNSUPPORTED || !clean) {
			failed.keep(clean ? "no status" : "refused, not zero");
			_exit(1);
		}
		failed.now = nullptr;
		for (uint8_t *p : {src, dst, scratch, work}) free(p);
	}
};

// Mutator changes chunks.
struct Mutator {
	std::mt19937_64 random;
	std::vector<uint8_t> methods;

	size_t below(size_t n) { return random() % n; }
	bool oneIn(size_t n) { return below(n) == 0; }

	// somewhere is mostly near the begin, where the headers are.
	size_t somewhere(const std::string &s) { return below(std::min(s.size(), (size_t)1 << (3 + below(10)))); }

	void number(std::string &s) {
		static const uint64_t values[] = {0, 1, 2, 3, 15, 16, 127, 128, 255, 256, 1023, 0x7fff, 0x8000, 0xffff, 0x10000, 0x1ffff, 0x20000, 0x7fffffff, 0x80000000, 0xffffffff};
		size_t n = 1 + below(4), at = somewhere(s);
		if (at + n > s.size()) return;
		uint64_t v = 0;
		memcpy(&v, &s[at], n);
		switch (below(5)) {
		case 0: v = values[below(sizeof values / sizeof *values)]; break;
		case 1: v += below(32) - 16; break;
		case 2: v = s.size() - at - below(std::min(s.size() - at, (size_t)8)); break; // a length
		case 3: v = v << 1 | below(2); break;
		default: v >>= 1; break;
		}
		memcpy(&s[at], &v, n);
	}

	void token(std::string &s) {
		static const std::string tokens[] = {
		    std::string("\x28\xb5\x2f\xfd", 4), std::string("\x50\x2a\x4d\x18", 4), std::string("\x1f\x8b\x08\0", 4), std::string("\x78\x9c", 2),
		    std::string("\x02\x01\x93\x04", 4), std::string("\x01\0\0", 3), std::string("\xff\xff\xff\xff", 4), std::string(8, 0),
		    std::string("\0\0\xff\xff", 4), std::string("\x28\xb5\x2f\xfd\x20\0\x01\0\0", 9)};
		const std::string &t = tokens[below(sizeof tokens / sizeof *tokens)];
		size_t at = somewhere(s);
		if (oneIn(2)) s.insert(at, t);
		else s.replace(at, t.size(), t);
	}

	// meet makes of a number that was compared the one that it was compared with.
	void meet(std::string &s) {
		size_t n = std::min(trace.compared, (size_t)PAIRS);
		if (n == 0) return;
		const uint32_t *pair = trace.pairs[below(n)];
		size_t bytes = pair[0] < 256 && pair[1] < 256 ? 1 : pair[0] < 65536 && pair[1] < 65536 ? 2 : 4;
		size_t at = s.find(std::string((const char *)pair, bytes), somewhere(s));
		if (at != std::string::npos) s.replace(at, bytes, (const char *)(pair + 1), bytes);
	}

	void change(std::string &s, const std::string &other) {
		if (s.empty()) s = other;
		if (s.empty()) s = std::string(1, 0);
		size_t at = somewhere(s);
		switch (below(11)) {
		case 0:
		case 1: s[at] = (char)(s[at] ^ 1 << below(8)); break;
		case 2: s[at] = (char)random(); break;
		case 3:
		case 4: number(s); break;
		case 5: token(s); break;
		case 6: meet(s); break;
		case 7: s.erase(at, 1 + below(oneIn(4) ? 200 : 8)); break;
		case 8: s.insert(at, s.substr(below(s.size()), 1 + below(oneIn(4) ? 200 : 16))); break;
		case 9: s.replace(at, std::string::npos, other, std::min(oneIn(2) ? at : below(other.size() + 1), other.size()), std::string::npos); break;
		default: {
			std::string part = other.substr(below(other.size() + 1), 1 + below(64));
			s.replace(at, oneIn(2) ? part.size() : 0, part);
		}
		}
		if (s.size() > MOST_ENCODED) s.resize(MOST_ENCODED);
	}

	void operator()(Input &in, const Input &other) {
		for (size_t n = 1ul << below(4); n > 0; n--) change(in.bytes, other.bytes);
		Record &r = in.record;
		if (oneIn(12)) r.decoded = (uint32_t)std::min<size_t>(MOST_DECODED, oneIn(2) ? r.decoded + below(17) - std::min<size_t>(8, r.decoded) : 1ul << below(17));
		if (oneIn(20)) r.typesize = (uint8_t)(oneIn(2) ? below(18) : below(256));
		if (oneIn(20)) r.flags ^= hr::UNCHECKED;
		if (oneIn(50)) r.method = methods[below(methods.size())];
		if (r.method == hr::UNSHUFFLE && (r.typesize == 0 || r.decoded != in.bytes.size())) r.method = hr::LZ4; // no shuffle has such a setting
		r.encoded = (uint32_t)in.bytes.size();
	}
};

static double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// smallest is those that together reach all that any does.
static std::vector<const Input *> smallest(Bench &bench, const std::vector<Input> &inputs, bool classes) {
	std::vector<const Input *> order, kept;
	for (const Input &in : inputs) order.push_back(&in);
	std::stable_sort(order.begin(), order.end(), [](auto a, auto b) { return a->bytes.size() + a->record.decoded / 64 < b->bytes.size() + b->record.decoded / 64; });
	Reached reached{classes};
	for (const Input *in : order) {
		bench.run(*in);
		if (reached.add()) kept.push_back(in);
	}
	return kept;
}

int main(int argc, char **argv) {
	const char *names[] = {"", "bytes", "zstd", "inflate"};
	int family = 0;
	for (int f = 1; f < Decoders::FAMILIES && argc > 5; f++) family = strcmp(argv[1], names[f]) ? family : f;
	if (!family) {
		fprintf(stderr, "see the head of fuzz.cc\n");
		return 2;
	}
	__sanitizer_set_death_callback(died);
	signal(SIGALRM, endless);
	failed.path = std::string(argv[4]) + ".failed";
	Bench bench((Decoders::Family)family);
	Mutator mutate{std::mt19937_64(strtoull(argv[3], nullptr, 10)), {}};
	std::vector<Input> inputs;
	Reached reached;
	size_t seeds = 0, runs = 0;
	auto look = [&](const Input &in) {
		bench.run(in);
		runs++;
		if (reached.add()) inputs.push_back(in);
	};
	for (int m = hr::LZ4; m <= hr::BLOSC_ZLIB; m++)
		if (Decoders::familyOf((uint8_t)m) == family) mutate.methods.push_back((uint8_t)m);
	for (int i = 5; i < argc; i++) {
		Corpus corpus(argv[i]);
		for (const Case &c : corpus.cases) {
			if (Decoders::familyOf(c.record.method) != family || c.record.encoded > MOST_ENCODED || c.record.decoded > MOST_DECODED) continue;
			Input in = {c.record, std::string((const char *)c.bytes, c.record.encoded)};
			in.record.flags &= hr::UNCHECKED;
			in.record.fault = in.record.label = 0;
			in.record.hash = 0;
			in.record.expect = EITHER;
			seeds++;
			look(in);
		}
	}
	if (inputs.empty()) {
		fprintf(stderr, "no chunk of the family in the corpora\n");
		return 2;
	}
	double begin = now(), seconds = atof(argv[2]), told = begin;
	size_t first = inputs.size();
	while (now() - begin < seconds) {
		for (int i = 0; i < 100; i++) {
			size_t late = std::min(inputs.size(), (size_t)50);
			Input in = inputs[mutate.oneIn(2) ? inputs.size() - 1 - mutate.below(late) : mutate.below(inputs.size())];
			mutate(in, inputs[mutate.below(inputs.size())]);
			look(in);
		}
		if (now() - told > 30) {
			told = now();
			fprintf(stderr, "%s: %.0f s, %zu runs, %zu places, %zu chunks\n", argv[1], told - begin, runs, reached.places(), inputs.size());
		}
	}
	std::vector<const Input *> kept = smallest(bench, inputs, seconds > 0);
	printf("%s: %zu of %zu chunks reach something; %zu runs found %zu more; %zu places; %zu kept\n", argv[1], first, seeds, runs - seeds, inputs.size() - first,
	       reached.places(), kept.size());
	FILE *out = fopen(argv[4], "wb");
	if (!out) return 1;
	uint32_t one = 1;
	fwrite("HRCORP1", 1, 8, out);
	fwrite(&one, 4, 1, out);
	fwrite("\6\0fuzzed", 1, 8, out);
	for (const Input *in : kept) {
		fwrite(&in->record, sizeof in->record, 1, out);
		fwrite(in->bytes.data(), 1, in->bytes.size(), out);
	}
	return fclose(out) ? 1 : 0;
}
