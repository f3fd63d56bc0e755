// The two symbols through which a program reaches the driver, and the entries
// behind them with the CUDA version that brought each ABI.
#include "fake.h"

#include <cstring>

namespace fake {
namespace {

struct Entry { const char *name; int version; void *function; };

#define ENTRY(name, version, function) {name, version, reinterpret_cast<void *>(function)}
const Entry entries[] = {
    ENTRY("cuInit", 2000, init),
    ENTRY("cuGetErrorName", 6000, error_name),
    ENTRY("cuDeviceGetCount", 2000, device_count),
    ENTRY("cuDeviceGet", 2000, device_get),
    ENTRY("cuDeviceGetName", 2000, device_name),
    ENTRY("cuDeviceGetUuid", 11040, device_uuid),
    ENTRY("cuDeviceGetPCIBusId", 4010, device_bus),
    ENTRY("cuDeviceTotalMem", 3020, device_memory),
    ENTRY("cuDeviceGetAttribute", 2000, device_attribute),
    ENTRY("cuDevicePrimaryCtxRetain", 7000, retain),
    ENTRY("cuDevicePrimaryCtxRelease", 11000, release),
    ENTRY("cuCtxPushCurrent", 4000, push),
    ENTRY("cuCtxPopCurrent", 4000, pop),
    ENTRY("cuCtxSynchronize", 2000, synchronize),
    ENTRY("cuCtxGetStreamPriorityRange", 5050, priority_range),
    ENTRY("cuMemGetInfo", 3020, mem_info),
    ENTRY("cuMemAlloc", 3020, mem_alloc),
    ENTRY("cuMemFree", 3020, mem_free),
    ENTRY("cuMemHostAlloc", 2020, host_alloc),
    ENTRY("cuMemFreeHost", 2000, host_free),
    ENTRY("cuMemHostRegister", 6050, host_register),
    ENTRY("cuMemHostUnregister", 4000, host_unregister),
    ENTRY("cuMemcpyAsync", 4000, copy),
    ENTRY("cuMemcpyBatchAsync", 12080, copy_batch_12080),
    ENTRY("cuMemcpyBatchAsync", 13000, copy_batch_13000),
    ENTRY("cuMemsetD8Async", 3020, set),
    ENTRY("cuStreamCreateWithPriority", 5050, stream_create),
    ENTRY("cuStreamSynchronize", 2000, stream_synchronize),
    ENTRY("cuStreamDestroy", 4000, stream_destroy),
    ENTRY("cuStreamWaitEvent", 3020, stream_wait),
    ENTRY("cuEventCreate", 2000, event_create),
    ENTRY("cuEventRecord", 2000, event_record),
    ENTRY("cuEventQuery", 2000, event_query),
    ENTRY("cuEventSynchronize", 2000, event_synchronize),
    ENTRY("cuEventElapsedTime", 2000, event_elapsed),
    ENTRY("cuEventDestroy", 4000, event_destroy),
    ENTRY("cuModuleLoadDataEx", 2010, module_load),
    ENTRY("cuModuleUnload", 2000, module_unload),
    ENTRY("cuModuleGetFunction", 2000, module_function),
    ENTRY("cuFuncGetAttribute", 2020, function_get),
    ENTRY("cuFuncSetAttribute", 9000, function_set),
    ENTRY("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, occupancy),
    ENTRY("cuLaunchKernel", 4000, launch),
    ENTRY("cuIpcGetMemHandle", 4010, export_memory),
    ENTRY("cuIpcOpenMemHandle", 11000, import_memory),
    ENTRY("cuIpcCloseMemHandle", 4010, close_memory),
    ENTRY("cuIpcGetEventHandle", 4010, export_event),
    ENTRY("cuIpcOpenEventHandle", 4010, import_event),
};

}  // namespace

// lookup finds the newest ABI of an entry that is no newer than the version.
void *lookup(const char *name, int version) {
    const Entry *best = nullptr;
    if (version > state().version || state().hidden.count(name)) return nullptr;
    for (const Entry &e : entries)
        if (!strcmp(e.name, name) && e.version <= version && (!best || e.version > best->version)) best = &e;
    return best ? best->function : nullptr;
}

}  // namespace fake

extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int *version) {
    *version = fake::state().version;
    return fake::OK;
}

extern "C" __attribute__((visibility("default"))) int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t, int *found) {
    std::lock_guard<std::mutex> lock(fake::state().mu);
    *function = fake::lookup(name, version);
    if (found) *found = *function ? 0 : 1;
    return *function ? fake::OK : fake::NOT_FOUND;
}
