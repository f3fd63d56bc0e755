// Finds races between the threads of a block, and of blocks, and reads of what nobody has written.
//
// The kernels are compiled with -fsanitize=thread, which puts a call before each access; these calls
// are answered here, and not by the compiler's library. That knows threads and locks; this knows blocks, warps and
// barriers, and forgets nothing: of each byte of shared and of global memory there stands who wrote
// it last, and who read it last and of others. Since there are only barriers, all of a warp or all of
// a block, an access came before another if the two are of one thread, or if a barrier that both threads take
// part in has opened in between: a clock that goes on with each barrier tells. Atomic
// accesses order nothing, nor do shuffles and votes (PTX says so).
//
// What is fetched asynchronously may arrive at any time until it is waited for: it arrives then, and
// whoever touches its place before that is reported.
//
// Compile this without -fsanitize=thread. Each pair of places in the code is reported once; a program
// that has reported something ends with 66.
#include "../races.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <map>
#include <set>
#include <iterator>
#include <utility>
#include <vector>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

extern "C" void *__real_memcpy(void *, const void *, size_t); // the library's, which is not seen

namespace {

enum Kind { READ, WIDE, WRITE, ATOMIC };
enum : u32 { THREADS = 256, LANES = 32, NONE = HR_RACES_NONE };

// An Access is a thread, as block * THREADS + thread, when, and a place in the code. Time 0: none.
struct Access {
	u32 time, thread, code;

	u32 warp() const { return thread / LANES; }
	u32 block() const { return thread / THREADS; }
};

// Last is the last access, and the last that is not of its thread, not of its warp, not of its block: whoever
// is ordered behind those of these that are not his own is ordered behind all.
struct Last {
	Access any, thread, warp, block;

	void add(const Access &a) {
		if (a.block() != any.block()) block = any;
		if (a.warp() != any.warp()) warp = any;
		if (a.thread != any.thread) thread = any;
		any = a;
	}
};

struct Cell {
	Access write;
	Last reads, atomics;
	u32 blanked;  // time
	u32 fetching; // thread + 1 for whom a fetch is on its way
};

// Memory is an allocation, with a cell for each byte.
struct Memory {
	const u8 *begin, *end;
	Cell *cells;
	u32 since; // what was before does not count
	bool blank;

	bool has(const void *p) const { return p >= begin && p < end; }
};

struct Fetch {
	void *to;
	std::vector<u8> bytes;
	u32 code;
};

struct Thread {
	std::vector<std::vector<Fetch>> groups;
	std::vector<Fetch> open;
};

u32 now = 1, self = NONE, blocks = 0;
u32 launched = 1, blockOpened = 1, warpOpened[THREADS / LANES];
Thread threads[THREADS];
std::map<const u8 *, Memory> memories;
Memory *within;                             // the one that was found last, or null
std::pair<const u8 *, const u8 *> around; // where that is the answer
Memory shared;
std::set<std::pair<u32, u32>> reported;
u64 image;
char forgotten;

int findImage(dl_phdr_info *info, size_t, void *) {
	image = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
		shared.begin = (const u8 *)info->dlpi_tls_data;
		shared.end = shared.begin + info->dlpi_phdr[i].p_memsz;
	}
	return 1; // the first is the program
}

Cell *cellsFor(u64 n) {
	void *p = mmap(nullptr, n * sizeof(Cell) + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) abort();
	return (Cell *)p;
}

// find gives the memory that an address is of, or null: most accesses are where the last ones were.
Memory *find(const void *at) {
	const u8 *p = (const u8 *)at;
	if (shared.has(p)) return &shared;
	if (p < around.first || p >= around.second) {
		auto behind = memories.upper_bound(p);
		within = behind == memories.begin() ? nullptr : &std::prev(behind)->second;
		if (within && within->has(p)) {
			around = {within->begin, within->end};
		} else {
			around = {within ? within->end : nullptr, behind == memories.end() ? (const u8 *)UINTPTR_MAX : behind->first};
			within = nullptr;
		}
	}
	return within;
}

bool ordered(const Access &before, const Access &a) {
	if (before.thread == a.thread || before.time < launched) return true;
	if (before.warp() == a.warp()) return before.time < warpOpened[a.warp() % (THREADS / LANES)];
	if (before.block() == a.block()) return before.time < blockOpened;
	return false;
}

// where prints a place in the code, and behind it those that it is inlined to.
void where(u32 code) {
	char command[256], line[512];
	snprintf(command, sizeof command, "addr2line -e /proc/%d/exe -is 0x%x", getpid(), code - 1);
	FILE *lines = popen(command, "r");
	if (!lines) return;
	while (fgets(line, sizeof line, lines)) {
		line[strcspn(line, "\n")] = 0;
		fprintf(stderr, " %s", line);
	}
	pclose(lines);
}

void report(const char *what, const u8 *p, const Memory &m, const char *one, const Access &a, const char *other, const Access &before) {
	if (!reported.insert({a.code, before.code}).second || reported.size() > 100) return;
	fprintf(stderr, "== %s: byte %zu of %s memory\n   %s by thread %u of block %u:", what, (size_t)(p - m.begin), &m == &shared ? "shared" : "global", one,
	        a.thread % THREADS, a.block());
	where(a.code);
	if (before.time) {
		fprintf(stderr, "\n   %s by thread %u of block %u:", other, before.thread % THREADS, before.block());
		where(before.code);
	}
	fprintf(stderr, "\n");
}

const char *nameOf(Kind k) { return k == WRITE ? "write" : k == ATOMIC ? "atomic" : k == WIDE ? "read, in part not used," : "read"; }

struct Checked {
	const u8 *p;
	const Memory &m;
	Kind kind;
	const Access &a;

	void against(const Access &before, Kind k) const {
		if (before.time >= m.since && before.time && !ordered(before, a)) report("race", p, m, nameOf(kind), a, nameOf(k), before);
	}
	void against(const Last &l, Kind k) const {
		against(l.any, k);
		against(l.thread, k);
		against(l.warp, k);
		against(l.block, k);
	}
};

void touch(const void *at, u64 n, Kind kind, u64 code) {
	if (self == NONE || n == 0) return;
	Memory *m = find(at);
	if (!m) return;
	Access a = {now, (blocks % (1u << 24)) * THREADS + self, (u32)(code - image)};
	for (const u8 *p = (const u8 *)at; p < (const u8 *)at + n && p < m->end; p++) {
		Cell &c = m->cells[p - m->begin];
		Checked check = {p, *m, kind, a};
		bool written = c.write.time >= m->since && c.write.time && c.write.time >= c.blanked;
		if (kind != WRITE && !(kind == WIDE && m == &shared) && !written && (m->blank || c.blanked)) report("nobody has written it", p, *m, nameOf(kind), a, "", {});
		if (c.fetching && m->since <= c.write.time) report("it is on its way", p, *m, nameOf(kind), a, "fetch", c.write);
		if (kind == WIDE && m != &shared) continue; // what a neighbour writes is not used
		check.against(c.write, WRITE);
		if (kind != ATOMIC) check.against(c.atomics, ATOMIC);
		if (kind == WRITE || kind == ATOMIC) check.against(c.reads, READ);
		if (kind == WRITE) c.write = a;
		else (kind == ATOMIC ? c.atomics : c.reads).add(a);
	}
}

void mark(const void *p, u64 n, bool blank) {
	Memory *m = find(p);
	for (u64 i = 0; m && i < n; i++) {
		Cell &c = m->cells[(const u8 *)p + i - m->begin];
		if (blank) c.blanked = now + 1;
		else c.write = {now, NONE, 0};
	}
}

void arrive(const Fetch &f) {
	Memory *m = find(f.to);
	if (m && forgotten != 'f') {
		for (u64 i = 0; i < f.bytes.size(); i++) m->cells[(u8 *)f.to + i - m->begin].fetching = 0;
	}
	if (forgotten != 'f') touch(f.to, f.bytes.size(), WRITE, f.code + image);
	__real_memcpy(f.to, f.bytes.data(), f.bytes.size());
}

void finish() {
	if (!reported.empty()) _exit(66);
}

void begin() {
	dl_iterate_phdr(findImage, nullptr);
	shared.cells = cellsFor(shared.end - shared.begin);
	shared.blank = true;
	atexit(finish);
}

} // namespace

#define CODE ((u64)__builtin_return_address(0))

extern "C" {

void hr_races_memory(const void *p, unsigned long long n, bool written) {
	memories[(const u8 *)p] = {(const u8 *)p, (const u8 *)p + n, cellsFor(n), now, !written};
	around = {};
}
void hr_races_free(const void *p) {
	auto m = memories.find((const u8 *)p);
	if (m == memories.end()) return;
	munmap(m->second.cells, (m->second.end - m->second.begin) * sizeof(Cell) + 1);
	memories.erase(m);
	around = {};
}
void hr_races_blank(const void *p, unsigned long long n) { mark(p, n, true); }
void hr_races_written(const void *p, unsigned long long n) { mark(p, n, false); }
void hr_races_launch(bool beside) {
	now += 2;
	if (!beside) launched = now;
}
void hr_races_block() {
	if (!shared.begin) begin();
	blocks++;
	shared.since = blockOpened = now += 1;
	for (u32 &w : warpOpened) w = now;
	for (Thread &t : threads) t = {};
}
void hr_races_turn(unsigned thread) { self = thread; }
void hr_races_forget(char what) { forgotten = what; }
void hr_races_barrier(unsigned warp) {
	if (forgotten == (warp == NONE ? 'b' : 'w')) return;
	now++;
	if (warp == NONE) blockOpened = now;
	for (u32 w = 0; w < THREADS / LANES; w++) {
		if (warp == NONE || warp == w) warpOpened[w] = now;
	}
}
void hr_races_wide(const void *p, unsigned long long n) { touch(p, n, WIDE, CODE); }
void hr_races_move(void *to, const void *from, unsigned n) {
	touch(from, n, WIDE, CODE);
	touch(to, n, WRITE, CODE);
	__real_memcpy(to, from, n);
}
void hr_races_atomic(const void *p, unsigned long long n) { touch(p, n, ATOMIC, CODE); }

void hr_races_fetch(void *to, const void *from, unsigned n, unsigned first, unsigned stop) {
	Fetch f = {to, std::vector<u8>(n, 0xa5), (u32)(CODE - image)};
	touch(from, n, WIDE, CODE);
	touch((const u8 *)from + first, stop - first, READ, CODE);
	__real_memcpy(f.bytes.data() + first, (const u8 *)from + first, stop - first);
	touch(to, n, WRITE, CODE);
	Memory *m = find(to);
	for (u32 i = 0; m && i < n; i++) m->cells[(u8 *)to + i - m->begin].fetching = self + 1;
	threads[self].open.push_back(f);
}
void hr_races_endFetch() {
	threads[self].groups.push_back(std::move(threads[self].open));
	threads[self].open.clear();
}
void hr_races_awaitFetch(unsigned pending) {
	auto &groups = threads[self].groups;
	while (groups.size() > pending) {
		for (const Fetch &f : groups.front()) arrive(f);
		groups.erase(groups.begin());
	}
}

// The calls that the compiler puts into the kernels.
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
#define HR_SIZE(n)                                                         \
	void __tsan_read##n(void *p) { touch(p, n, READ, CODE); }              \
	void __tsan_write##n(void *p) { touch(p, n, WRITE, CODE); }            \
	void __tsan_unaligned_read##n(void *p) { touch(p, n, READ, CODE); }    \
	void __tsan_unaligned_write##n(void *p) { touch(p, n, WRITE, CODE); }
HR_SIZE(1)
HR_SIZE(2)
HR_SIZE(4)
HR_SIZE(8)
HR_SIZE(16)
void __tsan_read_range(void *p, u64 n) { touch(p, n, READ, CODE); }
void __tsan_write_range(void *p, u64 n) { touch(p, n, WRITE, CODE); }

void *__wrap_memcpy(void *to, const void *from, size_t n) {
	touch(from, n, READ, CODE);
	touch(to, n, WRITE, CODE);
	return __real_memcpy(to, from, n);
}
void *__real_memset(void *, int, size_t);
void *__wrap_memset(void *p, int v, size_t n) {
	touch(p, n, WRITE, CODE);
	return __real_memset(p, v, n);
}
}
