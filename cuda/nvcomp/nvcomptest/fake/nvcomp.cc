// A libnvcomp for tests: the entries that headrace calls, on the memory of the fake
// driver (cuda/cudatest). It is written from the public documentation of the C
// interface and shares nothing with nvCOMP. It never leaves a test.
//
// FORM is the major version whose entries it has, VERSION what it says of itself.
// It is strict where nvCOMP is undefined: the context must be current, every range
// must lie in memory of the GPU, options must be zero. Each refusal that no switch
// asked for leaves a complaint. It decodes zstd frames of raw and RLE blocks alone,
// before the call returns, once all earlier work of the stream is done.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum { OK = 0, INVALID = 10, CANNOT = 12, TOO_SMALL = 15, ALIGNMENT = 17, CUDA = 1000 };
enum { IN_ALIGN = 4, OUT_ALIGN = 8, TEMP_ALIGN = 16, SCRATCH = 64 };
enum { ARGUMENTS = 16, LINES = 32 };

struct Options { int32_t backend; char rest[60]; };
struct Alignments { size_t input, output, temp; };
struct Properties { uint32_t version, cudart; };

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int64_t arguments[ARGUMENTS];
char complaints[LINES][256];
int complained;
int fail_alignments, fail_temp, fail_decompress;
int64_t calls_alignments, calls_temp, calls_decompress, inside, together;
int64_t broken = -1, broken_status;

int64_t (*driver)(const char *, const char *, int64_t, int64_t);
int (*synchronize)(void *);

int complain(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (complained < LINES) vsnprintf(complaints[complained++], sizeof complaints[0], format, args);
    va_end(args);
    return status;
}

void note(int n, ...) {
    va_list args;
    va_start(args, n);
    memset(arguments, 0, sizeof arguments);
    for (int i = 0; i < n; i++) arguments[i] = va_arg(args, int64_t);
    va_end(args);
}

// Entry is one call: it finds calls at the same time, of which there may be none.
struct Entry {
    int status = OK;
    Entry(const char *name, int64_t *calls, int fail, const Options &o) {
        if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) > 1) together = 1;
        pthread_mutex_lock(&mutex);
        ++*calls;
        static const char zero[sizeof(Options)] = {};
        if (memcmp(&o, zero, sizeof o)) status = complain(INVALID, "%s: options are not zero", name);
        if (driver && driver("depth", "", 0, 0) < 1) status = complain(CUDA, "%s: no context is current", name);
        if (fail) status = fail;
    }
    ~Entry() {
        pthread_mutex_unlock(&mutex);
        __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    }
};

// reachable asks the driver whether a range is memory of the GPU.
bool reachable(const char *what, const void *p, size_t n, bool write) {
    if (n == 0 || !driver) return true;
    if (driver("reachable", write ? "write" : "", int64_t(p), int64_t(n)) == 1) return true;
    complain(0, "%s: %p+%zu is not of the GPU", what, p, n);
    return false;
}

uint64_t little(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= uint64_t(p[i]) << (8 * i);
    return v;
}

struct Chunk { const uint8_t *src, *end; uint8_t *dst; size_t room, written; };

// blocks decodes from the first block of a frame on.
int blocks(Chunk *c, bool checksum) {
    for (bool last = false; !last;) {
        if (c->end - c->src < 3) return CANNOT;
        uint64_t head = little(c->src, 3), size = head >> 3;
        int kind = head >> 1 & 3;
        last = head & 1;
        c->src += 3;
        uint64_t stored = kind == 1 ? 1 : size;
        if (kind > 1 || uint64_t(c->end - c->src) < stored) return CANNOT;
        if (size > c->room - c->written) return TOO_SMALL;
        if (kind == 1) memset(c->dst + c->written, *c->src, size);
        else memcpy(c->dst + c->written, c->src, size);
        c->src += stored;
        c->written += size;
    }
    c->src += checksum ? 4 : 0;
    return c->src <= c->end ? OK : CANNOT;
}

int frame(Chunk *c) {
    if (c->end - c->src < 8) return CANNOT;
    uint64_t magic = little(c->src, 4);
    if ((magic & ~15ull) == 0x184D2A50) {
        uint64_t size = 8 + little(c->src + 4, 4);
        if (size > uint64_t(c->end - c->src)) return CANNOT;
        c->src += size;
        return OK;
    }
    if (magic != 0xFD2FB528) return CANNOT;
    int descriptor = c->src[4], single = descriptor >> 5 & 1, content = descriptor >> 6;
    static const int sizes[] = {0, 2, 4, 8}, ids[] = {0, 1, 2, 4};
    c->src += 5 + !single + ids[descriptor & 3] + (single && !content ? 1 : sizes[content]);
    return blocks(c, descriptor & 4);
}

int decode(Chunk *c) {
    while (c->src < c->end) {
        int status = frame(c);
        if (status != OK) return status;
    }
    return OK;
}

}  // namespace

EXPORT int nvcompGetProperties(Properties *p) {
    p->version = VERSION;
    p->cudart = 13000;
    return OK;
}

#if FORM == 4
EXPORT int nvcompBatchedZstdDecompressGetTempSize(size_t, size_t, size_t *) { return OK; }
EXPORT int nvcompBatchedZstdDecompressGetTempSizeEx(size_t, size_t, size_t *, size_t) { return OK; }
#else

#ifndef NO_ALIGNMENTS
EXPORT int nvcompBatchedZstdDecompressGetRequiredAlignments(Options o, Alignments *a) {
    Entry entry("GetRequiredAlignments", &calls_alignments, fail_alignments, o);
    if (entry.status == OK) *a = {IN_ALIGN, OUT_ALIGN, TEMP_ALIGN};
    return entry.status;
}
#endif

static int temp_size(size_t n, size_t chunk, Options o, size_t *temp, size_t total, void *stream) {
    Entry entry("GetTempSize", &calls_temp, fail_temp, o);
    note(4, int64_t(n), int64_t(chunk), int64_t(total), int64_t(stream));
    if (entry.status == OK && total > n * chunk) entry.status = complain(INVALID, "%zu bytes in %zu chunks of %zu", total, n, chunk);
    if (entry.status == OK) *temp = n * SCRATCH + total;
    return entry.status;
}

#if FORM == 5
EXPORT int nvcompBatchedZstdDecompressGetTempSizeAsync(size_t n, size_t chunk, Options o, size_t *temp, size_t total) {
    return temp_size(n, chunk, o, temp, total, nullptr);
}
#elif FORM == 6
EXPORT int nvcompBatchedZstdDecompressGetTempSize(size_t n, size_t chunk, Options o, size_t *temp, size_t total, void *stream) {
    return temp_size(n, chunk, o, temp, total, stream);
}
#endif
#endif

#if FORM == 4
EXPORT int nvcompBatchedZstdDecompressAsync(
    const void *const *, const size_t *, const size_t *, size_t *, size_t, void *, size_t, void *const *, int *, void *) {
    return OK;
}
#else
EXPORT int nvcompBatchedZstdDecompressAsync(
    const void *const *src, const size_t *src_bytes, const size_t *room, size_t *actual, size_t n, void *temp, size_t temp_bytes,
    void *const *dst, Options o, int *statuses, void *stream) {
    Entry entry("DecompressAsync", &calls_decompress, fail_decompress, o);
    note(10, int64_t(src), int64_t(src_bytes), int64_t(room), int64_t(actual), int64_t(n), int64_t(temp), int64_t(temp_bytes), int64_t(dst),
         int64_t(statuses), int64_t(stream));
    if (entry.status != OK) return entry.status;
    if (synchronize && synchronize(stream)) return CUDA;
    bool fine = reachable("sources", src, 8 * n, false) && reachable("source bytes", src_bytes, 8 * n, false) &&
                reachable("room", room, 8 * n, false) && reachable("actual bytes", actual, 8 * n, true) &&
                reachable("destinations", dst, 8 * n, false) && reachable("statuses", statuses, 4 * n, true) &&
                reachable("scratch", temp, temp_bytes, true);
    if (!fine) return INVALID;
    if (temp_bytes < n * SCRATCH) return complain(INVALID, "%zu bytes of scratch for %zu chunks", temp_bytes, n);
    if (uint64_t(temp) % TEMP_ALIGN) return complain(ALIGNMENT, "scratch at %p", temp);
    for (size_t i = 0; i < n; i++) {
        if (!reachable("source", src[i], src_bytes[i], false) || !reachable("destination", dst[i], room[i], true)) return INVALID;
        const uint8_t *from = static_cast<const uint8_t *>(src[i]);
        Chunk c{from, from + src_bytes[i], static_cast<uint8_t *>(dst[i]), room[i], 0};
        if (uint64_t(src[i]) % IN_ALIGN || uint64_t(dst[i]) % OUT_ALIGN) statuses[i] = complain(ALIGNMENT, "chunk %zu from %p to %p", i, src[i], dst[i]);
        else statuses[i] = int64_t(i) == broken ? int(broken_status) : decode(&c);
        actual[i] = statuses[i] == OK ? c.written : 0;
    }
    return OK;
}
#endif

// hr_fake_nvcomp has the switches, see nvcomptest.Fake. -1 for an unknown one.
EXPORT int64_t hr_fake_nvcomp(const char *what, const char *name, int64_t a, int64_t b) {
    pthread_mutex_lock(&mutex);
    int64_t got = 0;
    int entry = !strcmp(name, "Alignments") ? 0 : !strcmp(name, "TempSize") ? 1 : 2;
    if (!strcmp(what, "driver")) {
        void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        driver = lib ? reinterpret_cast<decltype(driver)>(dlsym(lib, "hr_fake")) : nullptr;
        auto get = lib ? reinterpret_cast<int (*)(const char *, void **, int, uint64_t, int *)>(dlsym(lib, "cuGetProcAddress_v2")) : nullptr;
        got = !driver || !get || get("cuStreamSynchronize", reinterpret_cast<void **>(&synchronize), 12000, 0, nullptr) ? -1 : 0;
    } else if (!strcmp(what, "fail")) {
        *(entry == 0 ? &fail_alignments : entry == 1 ? &fail_temp : &fail_decompress) = int(a);
    } else if (!strcmp(what, "calls")) {
        got = entry == 0 ? calls_alignments : entry == 1 ? calls_temp : calls_decompress;
    } else if (!strcmp(what, "break")) {
        broken = a;
        broken_status = b;
    } else if (!strcmp(what, "argument") && a >= 0 && a < ARGUMENTS) {
        got = arguments[a];
    } else if (!strcmp(what, "together")) {
        got = together;
    } else {
        got = -1;
    }
    pthread_mutex_unlock(&mutex);
    return got;
}

// hr_fake_nvcomp_complaint copies complaint i and says how many there are.
EXPORT int64_t hr_fake_nvcomp_complaint(int64_t i, char *text, size_t size) {
    pthread_mutex_lock(&mutex);
    if (i >= 0 && i < complained) snprintf(text, size, "%s", complaints[i]);
    int64_t n = complained;
    pthread_mutex_unlock(&mutex);
    return n;
}
