// Devices and contexts, and what every call goes through.
#include "fake.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace fake {

// The state is never destroyed: a driver outlives everything in the process.
State &state() {
    static State *s = new State;
    return *s;
}

std::vector<Context *> &stack() {
    static thread_local std::vector<Context *> s;
    return s;
}

Context *current() { return stack().empty() ? nullptr : stack().back(); }

int complain(int status, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    state().complaints.push_back(text);
    return status;
}

bool fatal(int status) {
    return status == 4 || status == 46 || status == 214 || status == 220 || (status >= 700 && status <= 721 && status != 701 && (status < 703 || status > 708) && status != 712 && status != 713 && status != 720);
}

int lose(Context *context, int status) {
    if (context && fatal(status)) context->lost = status;
    return status;
}

static int fault(const char *name) {
    auto found = state().faults.find(name);
    if (found == state().faults.end()) return OK;
    Fault &f = found->second;
    if (f.left > 1) {
        f.left--;
        return OK;
    }
    int code = f.code;
    if (f.left == 1) state().faults.erase(found);
    return code;
}

Call::Call(const char *name, bool in_context) : lock(state().mu), status(OK) {
    state().calls[name]++;
    if (in_context) {
        Context *c = current();
        if (!c) {
            status = complain(INVALID_CONTEXT, "%s: no context is current", name);
        } else if (!c->holds) {
            status = complain(INVALID_CONTEXT, "%s: the context was released", name);
        } else {
            status = c->lost;
        }
    }
    if (status == OK) status = lose(current(), fault(name));
}

#define CALL(...) \
    Call call(__VA_ARGS__); \
    if (call.status != OK) return call.status

#define DEVICE_CALL(name, device) \
    CALL(name, false); \
    if (device < 0 || device >= state().devices) return complain(INVALID_DEVICE, "%s: there is no device %d", name, device)

int init(unsigned flags) {
    CALL("cuInit", false);
    return flags ? INVALID_VALUE : OK;
}

int error_name(int code, const char **name) {
    static const std::map<int, const char *> names = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
        {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"}, {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    auto found = names.find(code);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? OK : INVALID_VALUE;
}

int device_count(int *count) {
    CALL("cuDeviceGetCount", false);
    *count = state().devices;
    return OK;
}

int device_get(int *device, int ordinal) {
    DEVICE_CALL("cuDeviceGet", ordinal);
    *device = ordinal;
    return OK;
}

int device_name(char *name, int size, int device) {
    DEVICE_CALL("cuDeviceGetName", device);
    const std::string &profile = state().profiles[device];
    snprintf(name, size, "Fake GPU %d%s%s", device, profile.empty() ? "" : " MIG ", profile.c_str());
    return OK;
}

// The UUIDs of the devices differ in their second byte alone: 01000000-..., 0101....
// As from CUDA 11.4 on, that of an instance of a divided GPU is the instance's own.
int device_uuid(Uuid *uuid, int device) {
    DEVICE_CALL("cuDeviceGetUuid", device);
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[0] = 1;
    uuid->bytes[1] = uint8_t(device);
    return OK;
}

int device_bus(char *bus, int size, int device) {
    DEVICE_CALL("cuDeviceGetPCIBusId", device);
    snprintf(bus, size, "0000:%02X:00.0", 0x10 + device);
    return OK;
}

int device_memory(size_t *bytes, int device) {
    DEVICE_CALL("cuDeviceTotalMem", device);
    *bytes = state().memory;
    return OK;
}

int device_attribute(int *value, int which, int device) {
    DEVICE_CALL("cuDeviceGetAttribute", device);
    switch (which) {
    case 16: *value = 8; return OK;    // multiprocessors
    case 40: *value = 3; return OK;    // copy engines
    case 75: *value = 9; return OK;    // compute capability 9.0
    case 76: *value = 0; return OK;
    case 91: *value = 1; return OK;    // host pointers of registered memory
    case 97: *value = 227 << 10; return OK;
    case 113: *value = state().read_only_register; return OK;
    case 134: *value = 0; return OK;   // host NUMA node
    }
    return INVALID_VALUE;
}

int retain(void **context, int device) {
    DEVICE_CALL("cuDevicePrimaryCtxRetain", device);
    Context &c = state().contexts[device];
    c.device = device;
    if (!c.holds++) state().defaults[device].context = &c;
    *context = &c;
    return OK;
}

int release(int device) {
    DEVICE_CALL("cuDevicePrimaryCtxRelease", device);
    Context &c = state().contexts[device];
    if (!c.holds) return complain(INVALID_CONTEXT, "cuDevicePrimaryCtxRelease: more often than retained");
    if (--c.holds || c.lost) return OK;  // in a lost context nothing can be freed
    for (auto &r : state().regions)
        if (r.second.context == &c) complain(OK, "the context was released with %zu bytes still there", r.second.size);
    return OK;
}

int push(void *context) {
    CALL("cuCtxPushCurrent", false);
    for (Context &c : state().contexts)
        if (&c == context && c.holds) {
            stack().push_back(&c);
            return OK;
        }
    return complain(INVALID_CONTEXT, "cuCtxPushCurrent: not a context, or a released one");
}

int pop(void **context) {
    CALL("cuCtxPopCurrent", false);
    if (stack().empty()) return complain(INVALID_CONTEXT, "cuCtxPopCurrent: no context is current");
    *context = stack().back();
    stack().pop_back();
    return OK;
}

int priority_range(int *least, int *greatest) {
    CALL("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return OK;
}

}  // namespace fake
