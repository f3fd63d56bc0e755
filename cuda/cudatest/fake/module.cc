// Modules are PTX text, of which the kernels' names and parameters are read; the
// kernels themselves are the host build of cuda/kernels, or the test kernel here.
#include "fake.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// hr_host_launch is the host build of cuda/kernels, where that is compiled in: 0, or
// another value if there is no such kernel.
extern "C" __attribute__((weak)) int hr_host_launch(const char *kernel, const void *params, unsigned grid, unsigned block);

namespace fake {
namespace {

// hr_test_add adds a value to each of n bytes: the kernel of the tests of cuda.
struct AddParams { uint64_t dst; uint32_t n, value; };

int test_add(Context *context, const AddParams &p) {
    if (reachable(context, p.dst, p.n, true) != OK) return ILLEGAL_ADDRESS;
    uint8_t *bytes = reinterpret_cast<uint8_t *>(p.dst);
    for (uint32_t i = 0; i < p.n; i++) bytes[i] = uint8_t(bytes[i] + p.value);
    return OK;
}

int run(Context *context, const std::string &kernel, const std::vector<uint64_t> &params, unsigned grid, unsigned block) {
    if (kernel == "hr_test_add") {
        AddParams p;
        memcpy(&p, params.data(), sizeof p);
        return test_add(context, p);
    }
    if (hr_host_launch(kernel.c_str(), params.data(), grid, block))
        return complain(LAUNCH_FAILED, "the host build of cuda/kernels has no %s", kernel.c_str());
    return OK;
}

size_t aligned(size_t n, size_t to) { return (n + to - 1) / to * to; }

// parameter adds ".param [.align A] .TYPE NAME[N]" to the size of a parameter block.
void parameter(const std::string &text, size_t *size) {
    size_t align = 0, count = 1, element = 0;
    unsigned bits = 0;
    size_t at = text.find(".align");
    if (at != std::string::npos) align = strtoul(text.c_str() + at + 6, nullptr, 10);
    for (at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1))
        if (strchr("busf", text[at + 1]) && sscanf(text.c_str() + at + 2, "%u", &bits) == 1) element = bits / 8;
    at = text.find('[');
    if (at != std::string::npos) count = strtoul(text.c_str() + at + 1, nullptr, 10);
    *size = aligned(*size, align ? align : element ? element : 1) + count * element;
}

size_t parameters(const std::string &list) {
    size_t size = 0;
    for (size_t from = 0, to; from < list.size(); from = to + 1) {
        to = list.find(',', from);
        if (to == std::string::npos) to = list.size();
        parameter(list.substr(from, to - from), &size);
    }
    return size;
}

void entries(const std::string &ptx, Module *module) {
    for (size_t at = ptx.find(".entry"); at != std::string::npos; at = ptx.find(".entry", at + 1)) {
        size_t name = ptx.find_first_not_of(" \t\n", at + 6);
        size_t open = ptx.find_first_of("( \t\n{", name), close = ptx.find_first_of("){", open);
        if (name == std::string::npos || close == std::string::npos) return;
        std::string kernel = ptx.substr(name, open - name);
        size_t params = ptx[close] == ')' ? parameters(ptx.substr(open, close - open)) : 0;
        std::string head = ptx.substr(close, ptx.find('{', close) - close);
        size_t limit = head.find(".maxntid");
        int threads = limit == std::string::npos ? 1024 : atoi(head.c_str() + limit + 8);
        module->functions[kernel].reset(new Function{module, kernel, params, 48 << 10, threads});
    }
}

// isa is the newest PTX version of a driver: 12.2 has 8.2, 13.0 has 9.0.
double isa(int version) { return version / 1000 - 4 + version % 1000 / 10 / 10.0; }

void log(unsigned count, int *names, void **values, const char *text) {
    char *buffer = nullptr;
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        if (names[i] == 5) buffer = static_cast<char *>(values[i]);
        if (names[i] == 6) size = size_t(values[i]);
    }
    if (buffer && size) snprintf(buffer, size, "%s", text);
}

Function *function_of(void *handle) {
    for (Module *m : state().modules)
        for (auto &f : m->functions)
            if (f.second.get() == handle && m->context == current()) return f.second.get();
    complain(INVALID_HANDLE, "%p is no kernel of a module of this context", handle);
    return nullptr;
}

// unpack takes the parameter buffer out of `extra`; false if it is malformed.
bool unpack(void **extra, const void **params, size_t *size) {
    *params = nullptr;
    *size = 0;
    for (; extra && *extra; extra += 2) {
        if (*extra == reinterpret_cast<void *>(1)) *params = extra[1];
        else if (*extra == reinterpret_cast<void *>(2)) *size = *static_cast<size_t *>(extra[1]);
        else return false;
    }
    return true;
}

}  // namespace

#define CALL(...) \
    Call call(__VA_ARGS__); \
    if (call.status != OK) return call.status

int module_load(void **handle, const void *image, unsigned count, int *names, void **values) {
    CALL("cuModuleLoadDataEx");
    const char *text = static_cast<const char *>(image);
    if (!strncmp(text, "\x7f" "ELF", 4)) return NO_BINARY;
    const char *at = strstr(text, ".version");
    double version = 0;
    if (!at || sscanf(at, ".version %lf", &version) != 1) return INVALID_IMAGE;
    if (version > isa(state().version) + 0.05) {
        log(count, names, values, "ptxas fatal: unsupported .version\nthe fake driver is older");
        return UNSUPPORTED_PTX;
    }
    int target = 0;
    if ((at = strstr(text, ".target")) && sscanf(at, ".target sm_%d", &target) == 1 && target > 90) return NO_BINARY;
    Module *m = new Module{current(), {}};
    entries(text, m);
    state().modules.insert(m);
    *handle = m;
    return OK;
}

int module_unload(void *handle) {
    Call call("cuModuleUnload");
    Module *m = static_cast<Module *>(handle);
    if (!state().modules.count(m) || m->context != current()) return complain(INVALID_HANDLE, "%p is no module of this context", handle);
    state().modules.erase(m);
    delete m;
    return call.status;
}

int module_function(void **handle, void *module, const char *name) {
    CALL("cuModuleGetFunction");
    Module *m = static_cast<Module *>(module);
    if (!state().modules.count(m) || m->context != current()) return complain(INVALID_HANDLE, "%p is no module of this context", module);
    auto found = m->functions.find(name);
    if (found == m->functions.end()) return NOT_FOUND;
    if (found->first != "hr_test_add" && !hr_host_launch) return complain(NOT_FOUND, "the host build of cuda/kernels is missing: no %s", name);
    *handle = found->second.get();
    return OK;
}

int function_get(int *value, int which, void *handle) {
    CALL("cuFuncGetAttribute");
    Function *f = function_of(handle);
    if (!f) return INVALID_HANDLE;
    switch (which) {
    case 0: *value = f->threads; return OK;
    case 1: *value = 0; return OK;     // static shared memory
    case 3: *value = 0; return OK;     // local memory
    case 4: *value = 32; return OK;    // registers
    }
    return INVALID_VALUE;
}

int function_set(void *handle, int which, int value) {
    CALL("cuFuncSetAttribute");
    Function *f = function_of(handle);
    if (!f) return INVALID_HANDLE;
    if (which != 8 || value < 0 || value > 227 << 10) return INVALID_VALUE;
    f->shared = value;
    return OK;
}

int occupancy(int *blocks, void *handle, int block, size_t) {
    CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (!function_of(handle)) return INVALID_HANDLE;
    if (block < 1 || block > 1024) return INVALID_VALUE;
    *blocks = 2048 / block;
    return OK;
}

int launch(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **list, void **extra) {
    CALL("cuLaunchKernel");
    Function *f = function_of(handle);
    Stream *s = stream_of(stream);
    if (!f || !s) return INVALID_HANDLE;
    if (!gx || gy != 1 || gz != 1 || !bx || bx > unsigned(f->threads) || by != 1 || bz != 1 || shared > unsigned(f->shared))
        return complain(INVALID_VALUE, "launch of %s: grid %u, block %u, shared memory %u", f->name.c_str(), gx, bx, shared);
    const void *params;
    size_t size = 0;
    if (list || !unpack(extra, &params, &size) || size != f->params)
        return complain(INVALID_VALUE, "launch of %s: %zu bytes of parameters, its PTX has %zu", f->name.c_str(), size, f->params);
    std::vector<uint64_t> copy((size + 7) / 8);
    if (size) memcpy(copy.data(), params, size);
    Context *context = current();
    std::string name = f->name;
    return enqueue(s, {[=] { return run(context, name, copy, gx, bx); }, nullptr});
}

}  // namespace fake
