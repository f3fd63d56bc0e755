// The C side of the package: the driver's entries and the two calls through
// which Go reaches them. Nothing of the CUDA toolkit is needed to build it.
#ifndef HEADRACE_CUDA_DRIVER_H
#define HEADRACE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef struct hr_cuda hr_cuda; // a loaded driver library

// Statuses of ours, outside the range of the driver's.
enum {
	HR_NO_LIBRARY = -1, // dlopen failed
	HR_NO_ENTRY = -2,   // the library lacks a function that we need
	HR_TOO_OLD = -3,    // a driver before CUDA 12.0
	HR_BAD_CALL = -4,   // an operation or a command that is not in the lists below
};

// One operation: words in, words out, in the same array. `bytes` is memory of
// the caller, read or written during the call only. The order is that of ops.go.
enum {
	HR_ERROR_NAME,       // code -> ; bytes: name, NUL-terminated
	HR_DEVICE_COUNT,     // -> count
	HR_DESCRIBE,         // ordinal -> major minor SMs memory NUMA readOnly hostPointers shared engines; bytes: name[256] bus[64] uuid[16]
	HR_RETAIN,           // ordinal -> context
	HR_RELEASE,          // ordinal
	HR_MEM_INFO,         // -> free total
	HR_ALLOC,            // n -> address
	HR_FREE,             // address
	HR_ALLOC_HOST,       // n -> address
	HR_FREE_HOST,        // address
	HR_REGISTER,         // address n readOnly
	HR_UNREGISTER,       // address
	HR_STREAM_NEW,       // priority (as int64) -> stream
	HR_STREAM_DRAIN,     // stream
	HR_STREAM_DESTROY,   // stream
	HR_EVENT_NEW,        // interprocess timed -> event
	HR_EVENT_WAIT,       // event; blocks without spinning
	HR_EVENT_QUERY,      // event
	HR_EVENT_ELAPSED,    // begin end -> ns (as int64)
	HR_EVENT_DESTROY,    // event
	HR_MODULE_LOAD,      // image size, log size; bytes: image, NUL, room for the log of the JIT -> module
	HR_MODULE_UNLOAD,    // module
	HR_FUNCTION,         // module -> function; bytes: name, NUL-terminated
	HR_FUNCTION_INFO,    // function -> registers maxThreads shared local
	HR_FUNCTION_SHARED,  // function, bytes of dynamic shared memory it may use
	HR_BLOCKS_PER_SM,    // function block shared -> blocks
	HR_EXPORT_MEMORY,    // address; bytes: handle[64]
	HR_EXPORT_EVENT,     // event; bytes: handle[64]
	HR_IMPORT_MEMORY,    // -> address; bytes: handle[64]
	HR_CLOSE_MEMORY,     // address
	HR_IMPORT_EVENT,     // -> event; bytes: handle[64]
	HR_SYNCHRONIZE,      // blocks until all streams of the context are done
	HR_OPS,
};

// One command of a list. Its first word is the command, with its length in words
// (this one included) in the upper half.
enum {
	HR_COPY = 1,   // stream dst src n
	HR_COPY_BATCH, // stream count, then count of dst, of src, of n
	HR_SET,        // stream dst value n
	HR_LAUNCH,     // stream function grid block shared size, then size bytes of parameters
	HR_RECORD,     // stream event
	HR_AWAIT,      // stream event
};

// hr_cuda_load loads the library at path and initialises the driver. text takes
// what the loader says. The result is never unloaded.
int hr_cuda_load(const char *path, hr_cuda **out, int *version, char *text, size_t size);

// hr_cuda_can_batch says whether the driver has the batched copy.
int hr_cuda_can_batch(const hr_cuda *cu);

// hr_cuda_push and hr_cuda_pop give the addresses of cuCtxPushCurrent and
// cuCtxPopCurrent, for the C side of other bindings.
uint64_t hr_cuda_push(const hr_cuda *cu);
uint64_t hr_cuda_pop(const hr_cuda *cu);

// hr_cuda_call does one operation; with a context, inside it. The calling
// thread's current context is the same afterwards, whatever the status.
int hr_cuda_call(hr_cuda *cu, uint64_t context, int op, uint64_t *words, void *bytes);

// hr_cuda_run enqueues a list of commands inside the context. On an error
// at[0] is the command that failed, at[1] the piece of a batch or all ones.
int hr_cuda_run(hr_cuda *cu, uint64_t context, const uint64_t *words, uint64_t count, uint64_t *at);

#endif
