// Device, pinned and registered memory, all of it host memory.
#include "fake.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace fake {
namespace {

const size_t PAGE = 4096;
const uint8_t FRESH = 0xCD, SLACK = 0xA5;
// Of a big allocation only both ends are filled: tests use a few MiB of theirs, and filling
// all took most of the time of opening a pipeline.
const size_t FILLED = size_t(4) << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

void fill(uint8_t *p, size_t n) {
    if (n <= FILLED) {
        memset(p, FRESH, n);
        return;
    }
    memset(p, FRESH, FILLED / 2);
    memset(p + n - FILLED / 2, FRESH, FILLED / 2);
}

int take(Kind kind, size_t n, uintptr_t *address) {
    Region r{kind, n, current(), false, nullptr, 0, -1};
    uint8_t *p = map_fenced(&r, n);
    if (!p) return OUT_OF_MEMORY;
    fill(p, n);
    *address = uintptr_t(p);
    state().regions[*address] = r;
    return OK;
}

// overrun looks at the slack around an allocation, which ends at a fence but for
// the alignment to 256.
bool overrun(uintptr_t address, const Region &r) {
    const uint8_t *p = reinterpret_cast<uint8_t *>(address);
    const uint8_t *begin = r.map + PAGE, *end = r.map + r.map_size - PAGE;
    auto bad = [](uint8_t c) { return c != SLACK; };
    return std::any_of(begin, p, bad) || std::any_of(p + r.size, end, bad);
}

int give_back(const char *name, Kind kind, uintptr_t address) {
    auto found = state().regions.find(address);
    if (found == state().regions.end() || found->second.kind != kind)
        return complain(INVALID_VALUE, "%s: %#lx is not the start of such memory", name, address);
    if (found->second.context != current())
        return complain(INVALID_CONTEXT, "%s: %#lx is of another context", name, address);
    if (overrun(address, found->second)) complain(OK, "%s: the bytes around %#lx+%zu were written", name, address, found->second.size);
    unmap(found->second);
    state().regions.erase(found);
    return OK;
}

// mapped checks in the process's map that a range is there, may be written where
// needed, and is not Go's heap, which the collector may give back at any time.
bool mapped(uintptr_t from, size_t n, bool write) {
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) return true;
    uintptr_t to = from + n;
    char line[1024];
    while (from < to && fgets(line, sizeof line, maps)) {
        uintptr_t begin, end;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) != 3 || from < begin || from >= end) continue;
        if (mode[0] != 'r' || (write && mode[1] != 'w') || strstr(line, "Go: heap")) break;
        from = end;
    }
    fclose(maps);
    return from >= to;
}

bool overlaps(uintptr_t address, size_t n) {
    for (auto &r : state().regions)
        if (r.first < address + n && address < r.first + r.second.size) return true;
    return false;
}

}  // namespace

// map_fenced maps n bytes between two inaccessible pages, at an address that is a
// multiple of 256, as near to the upper fence as that allows.
uint8_t *map_fenced(Region *r, size_t n) {
    r->map_size = round_up(round_up(n, 256), PAGE) + 2 * PAGE;
    void *map = mmap(nullptr, r->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    r->map = static_cast<uint8_t *>(map);
    mprotect(r->map + PAGE, r->map_size - 2 * PAGE, PROT_READ | PROT_WRITE);
    uint8_t *end = r->map + r->map_size - PAGE, *p = end - round_up(n, 256);
    memset(r->map + PAGE, SLACK, p - (r->map + PAGE));
    memset(p + n, SLACK, end - (p + n));
    return p;
}

// unmap gives the pages back and keeps the addresses, inaccessible for good.
void unmap(const Region &r) {
    mmap(r.map, r.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (r.file >= 0) close(r.file);
}

size_t used(const Context *context) {
    size_t sum = 0;
    for (auto &r : state().regions)
        if (r.second.kind == DEVICE && r.second.context == context) sum += r.second.size;
    return sum;
}

int reachable(Context *context, uint64_t address, uint64_t n, bool write) {
    auto next = state().regions.upper_bound(address);
    if (next == state().regions.begin()) return complain(INVALID_VALUE, "%#lx is in no memory of the GPU", address);
    auto &[start, r] = *--next;
    if (address - start >= r.size) return complain(INVALID_VALUE, "%#lx is in no memory of the GPU (freed, or pageable?)", address);
    if (n > r.size - (address - start)) return complain(INVALID_VALUE, "%#lx+%lu leaves its memory of %zu bytes", address, n, r.size);
    if (r.kind == DEVICE && r.context != context) return complain(INVALID_VALUE, "%#lx is on another GPU", address);
    if (write && r.read_only) return complain(INVALID_VALUE, "%#lx is registered for reading only", address);
    return OK;
}

#define CALL(...) \
    Call call(__VA_ARGS__); \
    if (call.status != OK) return call.status

int mem_info(size_t *free, size_t *total) {
    CALL("cuMemGetInfo");
    *total = state().memory;
    *free = *total - used(current());
    return OK;
}

int mem_alloc(Ptr *address, size_t n) {
    CALL("cuMemAlloc");
    if (!n) return complain(INVALID_VALUE, "cuMemAlloc of 0 bytes");
    if (n > state().memory - used(current())) return OUT_OF_MEMORY;
    return take(DEVICE, n, address);
}

// mem_free waits for the whole device first, as the real one does.
int mem_free(Ptr address) {
    CALL("cuMemFree");
    int status = finish_all(current());
    return status == OK ? give_back("cuMemFree", DEVICE, address) : status;
}

int host_alloc(void **p, size_t n, unsigned flags) {
    CALL("cuMemHostAlloc");
    if (!n || flags & ~7u) return complain(INVALID_VALUE, "cuMemHostAlloc of %zu bytes, flags %u", n, flags);
    uintptr_t address;
    int status = take(PINNED, n, &address);
    *p = reinterpret_cast<void *>(address);
    return status;
}

int host_free(void *p) {
    CALL("cuMemFreeHost");
    return give_back("cuMemFreeHost", PINNED, uintptr_t(p));
}

int host_register(void *p, size_t n, unsigned flags) {
    CALL("cuMemHostRegister");
    bool read_only = flags & 8;
    if (!n || flags & ~15u) return complain(INVALID_VALUE, "cuMemHostRegister of %zu bytes, flags %u", n, flags);
    if (read_only && !state().read_only_register) return complain(NOT_SUPPORTED, "cuMemHostRegister: read-only is not supported");
    if (overlaps(uintptr_t(p), n)) return complain(ALREADY_REGISTERED, "cuMemHostRegister: %p+%zu is registered or the driver's own", p, n);
    if (!mapped(uintptr_t(p), n, !read_only))
        return complain(INVALID_VALUE, "cuMemHostRegister: %p+%zu is not mapped, is read-only, or is Go's heap", p, n);
    state().regions[uintptr_t(p)] = Region{REGISTERED, n, current(), read_only, nullptr, 0, -1};
    return OK;
}

int host_unregister(void *p) {
    CALL("cuMemHostUnregister");
    auto found = state().regions.find(uintptr_t(p));
    if (found == state().regions.end() || found->second.kind != REGISTERED)
        return complain(NOT_REGISTERED, "cuMemHostUnregister: %p is not registered", p);
    state().regions.erase(found);
    return OK;
}

}  // namespace fake
