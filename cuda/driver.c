//go:build cgo && linux

#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The driver's types, as its ABI has them on Linux.
typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct { unsigned char bytes[16]; } CUuuid;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct { char reserved[64]; } CUipcEventHandle;
typedef struct { int type, id; } CUmemLocation;
typedef struct {
	int srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned flags;
} CUmemcpyAttributes;

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "addresses travel as 64-bit words");
_Static_assert(sizeof(CUmemcpyAttributes) == 24, "layout of CUmemcpyAttributes");

enum {
	SUCCESS = 0,
	MEMHOST_PORTABLE = 1,
	MEMHOST_DEVICEMAP = 2,
	MEMHOST_READ_ONLY = 8, // of cuMemHostRegister alone
	STREAM_NON_BLOCKING = 1,
	EVENT_BLOCKING_SYNC = 1,
	EVENT_DISABLE_TIMING = 2,
	EVENT_INTERPROCESS = 4,
	JIT_ERROR_LOG_BUFFER = 5,
	JIT_ERROR_LOG_SIZE = 6,
	IPC_LAZY_PEER_ACCESS = 1,
	SRC_ACCESS_ORDER_STREAM = 1,
	ATTR_COPY_ENGINES = 40,
	ATTR_SMS = 16,
	ATTR_MAJOR = 75,
	ATTR_MINOR = 76,
	ATTR_HOST_POINTERS = 91, // registered memory has its host address on the device
	ATTR_SHARED_OPTIN = 97,
	ATTR_READ_ONLY_REGISTER = 113,
	ATTR_HOST_NUMA = 134,
	FUNC_MAX_THREADS = 0,
	FUNC_SHARED = 1,
	FUNC_LOCAL = 3,
	FUNC_REGISTERS = 4,
	FUNC_MAX_DYNAMIC_SHARED = 8,
	BATCH = 512, // pieces of one batched copy: 64 to 512 measured best, 6000 is slower
};

// Every entry that a driver of CUDA 12.0 has: name, parameters. cuGetProcAddress
// is asked for the ABI of 12.0, so that the declarations here stay right on any
// later driver.
#define ENTRIES(E) \
	E(cuInit, (unsigned)) \
	E(cuGetErrorName, (CUresult, const char **)) \
	E(cuDeviceGetCount, (int *)) \
	E(cuDeviceGet, (CUdevice *, int)) \
	E(cuDeviceGetName, (char *, int, CUdevice)) \
	E(cuDeviceGetUuid, (CUuuid *, CUdevice)) \
	E(cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
	E(cuDeviceTotalMem, (size_t *, CUdevice)) \
	E(cuDeviceGetAttribute, (int *, int, CUdevice)) \
	E(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	E(cuDevicePrimaryCtxRelease, (CUdevice)) \
	E(cuCtxPushCurrent, (CUcontext)) \
	E(cuCtxPopCurrent, (CUcontext *)) \
	E(cuCtxSynchronize, (void)) \
	E(cuCtxGetStreamPriorityRange, (int *, int *)) \
	E(cuMemGetInfo, (size_t *, size_t *)) \
	E(cuMemAlloc, (CUdeviceptr *, size_t)) \
	E(cuMemFree, (CUdeviceptr)) \
	E(cuMemHostAlloc, (void **, size_t, unsigned)) \
	E(cuMemFreeHost, (void *)) \
	E(cuMemHostRegister, (void *, size_t, unsigned)) \
	E(cuMemHostUnregister, (void *)) \
	E(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	E(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	E(cuStreamCreateWithPriority, (CUstream *, unsigned, int)) \
	E(cuStreamSynchronize, (CUstream)) \
	E(cuStreamDestroy, (CUstream)) \
	E(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	E(cuEventCreate, (CUevent *, unsigned)) \
	E(cuEventRecord, (CUevent, CUstream)) \
	E(cuEventQuery, (CUevent)) \
	E(cuEventSynchronize, (CUevent)) \
	E(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	E(cuEventDestroy, (CUevent)) \
	E(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **)) \
	E(cuModuleUnload, (CUmodule)) \
	E(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	E(cuFuncGetAttribute, (int *, int, CUfunction)) \
	E(cuFuncSetAttribute, (CUfunction, int, int)) \
	E(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t)) \
	E(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
	E(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr)) \
	E(cuIpcOpenMemHandle, (CUdeviceptr *, CUipcMemHandle, unsigned)) \
	E(cuIpcCloseMemHandle, (CUdeviceptr)) \
	E(cuIpcGetEventHandle, (CUipcEventHandle *, CUevent)) \
	E(cuIpcOpenEventHandle, (CUevent *, CUipcEventHandle))

typedef CUresult (*batch_12080)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream);
typedef CUresult (*batch_13000)(const CUdeviceptr *, const CUdeviceptr *, const size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream);

struct hr_cuda {
#define MEMBER(name, args) CUresult(*name) args;
	ENTRIES(MEMBER)
#undef MEMBER
	batch_12080 batch12; // at most one of the two is set
	batch_13000 batch13;
};

typedef CUresult (*get_proc)(const char *, void **, int, uint64_t, int *);

// fetch asks for one entry by the ABI of a version; NULL if there is none.
static void *fetch(get_proc get, const char *name, int version)
{
	void *entry = NULL;
	int found = 0;
	if (get(name, &entry, version, 0, &found) != SUCCESS)
		return NULL;
	return entry;
}

static int fill(hr_cuda *cu, get_proc get, int version, char *text, size_t size)
{
#define FETCH(name, args) \
	cu->name = (CUresult(*) args)fetch(get, #name, 12000); \
	if (!cu->name) { \
		snprintf(text, size, "%s", #name); \
		return HR_NO_ENTRY; \
	}
	ENTRIES(FETCH)
#undef FETCH
	if (version >= 13000)
		cu->batch13 = (batch_13000)fetch(get, "cuMemcpyBatchAsync", 13000);
	else if (version >= 12080)
		cu->batch12 = (batch_12080)fetch(get, "cuMemcpyBatchAsync", 12080);
	return SUCCESS;
}

int hr_cuda_load(const char *path, hr_cuda **out, int *version, char *text, size_t size)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(text, size, "%s", dlerror());
		return HR_NO_LIBRARY;
	}
	CUresult (*get_version)(int *) = (CUresult(*)(int *))dlsym(library, "cuDriverGetVersion");
	if (!get_version) {
		snprintf(text, size, "cuDriverGetVersion");
		return HR_NO_ENTRY;
	}
	int rc = get_version(version);
	if (rc != SUCCESS)
		return rc;
	if (*version < 12000)
		return HR_TOO_OLD;
	get_proc get = (get_proc)dlsym(library, "cuGetProcAddress_v2");
	if (!get) {
		snprintf(text, size, "cuGetProcAddress_v2");
		return HR_NO_ENTRY;
	}
	hr_cuda *cu = calloc(1, sizeof *cu);
	if (!cu)
		return HR_NO_LIBRARY;
	rc = fill(cu, get, *version, text, size);
	if (rc == SUCCESS)
		rc = cu->cuInit(0);
	if (rc != SUCCESS) {
		free(cu);
		return rc;
	}
	*out = cu;
	return SUCCESS;
}

int hr_cuda_can_batch(const hr_cuda *cu) { return cu->batch12 || cu->batch13; }

uint64_t hr_cuda_push(const hr_cuda *cu) { return (uint64_t)(uintptr_t)cu->cuCtxPushCurrent; }
uint64_t hr_cuda_pop(const hr_cuda *cu) { return (uint64_t)(uintptr_t)cu->cuCtxPopCurrent; }

static void *pointer(uint64_t word) { return (void *)(uintptr_t)word; }

#define TRY(call) \
	do { \
		int rc_ = (call); \
		if (rc_ != SUCCESS) \
			return rc_; \
	} while (0)

// attribute stores a device attribute, or `otherwise` where the driver does not know it.
static void attribute(hr_cuda *cu, int which, CUdevice device, int otherwise, uint64_t *word)
{
	int value = otherwise;
	if (cu->cuDeviceGetAttribute(&value, which, device) != SUCCESS)
		value = otherwise;
	*word = (uint64_t)(int64_t)value;
}

static int describe(hr_cuda *cu, uint64_t *w, char *bytes)
{
	CUdevice device;
	size_t memory = 0;
	TRY(cu->cuDeviceGet(&device, (int)w[0]));
	TRY(cu->cuDeviceGetName(bytes, 256, device));
	TRY(cu->cuDeviceGetPCIBusId(bytes + 256, 64, device));
	TRY(cu->cuDeviceGetUuid((CUuuid *)(bytes + 320), device));
	TRY(cu->cuDeviceTotalMem(&memory, device));
	attribute(cu, ATTR_MAJOR, device, 0, &w[0]);
	attribute(cu, ATTR_MINOR, device, 0, &w[1]);
	attribute(cu, ATTR_SMS, device, 0, &w[2]);
	w[3] = memory;
	attribute(cu, ATTR_HOST_NUMA, device, -1, &w[4]);
	attribute(cu, ATTR_READ_ONLY_REGISTER, device, 0, &w[5]);
	attribute(cu, ATTR_HOST_POINTERS, device, 0, &w[6]);
	attribute(cu, ATTR_SHARED_OPTIN, device, 0, &w[7]);
	attribute(cu, ATTR_COPY_ENGINES, device, 0, &w[8]);
	return SUCCESS;
}

static int error_name(hr_cuda *cu, int code, char *bytes)
{
	const char *name = NULL;
	if (cu->cuGetErrorName(code, &name) != SUCCESS || !name)
		name = "unknown error";
	snprintf(bytes, 128, "%s", name);
	return SUCCESS;
}

static int stream_new(hr_cuda *cu, uint64_t *w)
{
	int least = 0, greatest = 0; // greatest is the smaller number
	TRY(cu->cuCtxGetStreamPriorityRange(&least, &greatest));
	int64_t priority = (int64_t)w[0];
	if (priority > least)
		priority = least;
	if (priority < greatest)
		priority = greatest;
	CUstream stream;
	TRY(cu->cuStreamCreateWithPriority(&stream, STREAM_NON_BLOCKING, (int)priority));
	w[0] = (uint64_t)(uintptr_t)stream;
	return SUCCESS;
}

static int event_new(hr_cuda *cu, uint64_t *w)
{
	unsigned flags = EVENT_BLOCKING_SYNC | (w[0] ? EVENT_INTERPROCESS : 0) | (w[1] ? 0 : EVENT_DISABLE_TIMING);
	CUevent event;
	TRY(cu->cuEventCreate(&event, flags));
	w[0] = (uint64_t)(uintptr_t)event;
	return SUCCESS;
}

static int event_elapsed(hr_cuda *cu, uint64_t *w)
{
	float ms = 0;
	TRY(cu->cuEventElapsedTime(&ms, pointer(w[0]), pointer(w[1])));
	w[0] = (uint64_t)(int64_t)((double)ms * 1e6);
	return SUCCESS;
}

// module_load takes the image at the start of bytes and leaves the log behind it.
static int module_load(hr_cuda *cu, uint64_t *w, char *bytes)
{
	char *log = bytes + w[0] + 1;
	int names[] = {JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, pointer(w[1])};
	CUmodule module;
	TRY(cu->cuModuleLoadDataEx(&module, bytes, 2, names, values));
	w[0] = (uint64_t)(uintptr_t)module;
	return SUCCESS;
}

static int function_info(hr_cuda *cu, uint64_t *w)
{
	static const int which[] = {FUNC_REGISTERS, FUNC_MAX_THREADS, FUNC_SHARED, FUNC_LOCAL};
	CUfunction function = pointer(w[0]);
	for (int i = 0; i < 4; i++) {
		int value = 0;
		TRY(cu->cuFuncGetAttribute(&value, which[i], function));
		w[i] = (uint64_t)value;
	}
	return SUCCESS;
}

static int memory_op(hr_cuda *cu, int op, uint64_t *w, void *bytes)
{
	size_t free_bytes = 0, total = 0;
	CUdeviceptr address = 0;
	void *host = NULL;
	CUipcMemHandle handle;
	switch (op) {
	case HR_MEM_INFO:
		TRY(cu->cuMemGetInfo(&free_bytes, &total));
		w[0] = free_bytes;
		w[1] = total;
		return SUCCESS;
	case HR_ALLOC:
		TRY(cu->cuMemAlloc(&address, w[0]));
		w[0] = address;
		return SUCCESS;
	case HR_FREE:
		return cu->cuMemFree(w[0]);
	case HR_ALLOC_HOST:
		TRY(cu->cuMemHostAlloc(&host, w[0], MEMHOST_PORTABLE | MEMHOST_DEVICEMAP));
		w[0] = (uint64_t)(uintptr_t)host;
		return SUCCESS;
	case HR_FREE_HOST:
		return cu->cuMemFreeHost(pointer(w[0]));
	case HR_REGISTER:
		return cu->cuMemHostRegister(pointer(w[0]), w[1], MEMHOST_PORTABLE | MEMHOST_DEVICEMAP | (w[2] ? MEMHOST_READ_ONLY : 0));
	case HR_UNREGISTER:
		return cu->cuMemHostUnregister(pointer(w[0]));
	case HR_EXPORT_MEMORY:
		return cu->cuIpcGetMemHandle(bytes, w[0]);
	case HR_IMPORT_MEMORY:
		memcpy(&handle, bytes, sizeof handle);
		TRY(cu->cuIpcOpenMemHandle(&address, handle, IPC_LAZY_PEER_ACCESS));
		w[0] = address;
		return SUCCESS;
	case HR_CLOSE_MEMORY:
		return cu->cuIpcCloseMemHandle(w[0]);
	}
	return HR_BAD_CALL;
}

static int order_op(hr_cuda *cu, int op, uint64_t *w, void *bytes)
{
	CUipcEventHandle handle;
	CUevent event;
	switch (op) {
	case HR_STREAM_NEW:
		return stream_new(cu, w);
	case HR_STREAM_DRAIN:
		return cu->cuStreamSynchronize(pointer(w[0]));
	case HR_STREAM_DESTROY:
		return cu->cuStreamDestroy(pointer(w[0]));
	case HR_EVENT_NEW:
		return event_new(cu, w);
	case HR_EVENT_WAIT:
		return cu->cuEventSynchronize(pointer(w[0]));
	case HR_EVENT_QUERY:
		return cu->cuEventQuery(pointer(w[0]));
	case HR_EVENT_ELAPSED:
		return event_elapsed(cu, w);
	case HR_EVENT_DESTROY:
		return cu->cuEventDestroy(pointer(w[0]));
	case HR_SYNCHRONIZE:
		return cu->cuCtxSynchronize();
	case HR_EXPORT_EVENT:
		return cu->cuIpcGetEventHandle(bytes, pointer(w[0]));
	case HR_IMPORT_EVENT:
		memcpy(&handle, bytes, sizeof handle);
		TRY(cu->cuIpcOpenEventHandle(&event, handle));
		w[0] = (uint64_t)(uintptr_t)event;
		return SUCCESS;
	}
	return memory_op(cu, op, w, bytes);
}

static int module_op(hr_cuda *cu, int op, uint64_t *w, void *bytes)
{
	CUfunction function;
	int blocks = 0;
	switch (op) {
	case HR_MODULE_LOAD:
		return module_load(cu, w, bytes);
	case HR_MODULE_UNLOAD:
		return cu->cuModuleUnload(pointer(w[0]));
	case HR_FUNCTION:
		TRY(cu->cuModuleGetFunction(&function, pointer(w[0]), bytes));
		w[0] = (uint64_t)(uintptr_t)function;
		return SUCCESS;
	case HR_FUNCTION_INFO:
		return function_info(cu, w);
	case HR_FUNCTION_SHARED:
		return cu->cuFuncSetAttribute(pointer(w[0]), FUNC_MAX_DYNAMIC_SHARED, (int)w[1]);
	case HR_BLOCKS_PER_SM:
		TRY(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, pointer(w[0]), (int)w[1], w[2]));
		w[0] = (uint64_t)blocks;
		return SUCCESS;
	}
	return order_op(cu, op, w, bytes);
}

static int device_op(hr_cuda *cu, int op, uint64_t *w, void *bytes)
{
	CUdevice device;
	CUcontext context;
	int count = 0;
	switch (op) {
	case HR_ERROR_NAME:
		return error_name(cu, (int)w[0], bytes);
	case HR_DEVICE_COUNT:
		TRY(cu->cuDeviceGetCount(&count));
		w[0] = (uint64_t)count;
		return SUCCESS;
	case HR_DESCRIBE:
		return describe(cu, w, bytes);
	case HR_RETAIN:
		TRY(cu->cuDeviceGet(&device, (int)w[0]));
		TRY(cu->cuDevicePrimaryCtxRetain(&context, device));
		w[0] = (uint64_t)(uintptr_t)context;
		return SUCCESS;
	case HR_RELEASE:
		TRY(cu->cuDeviceGet(&device, (int)w[0]));
		return cu->cuDevicePrimaryCtxRelease(device);
	}
	return HR_BAD_CALL;
}

int hr_cuda_call(hr_cuda *cu, uint64_t context, int op, uint64_t *words, void *bytes)
{
	if (!context)
		return device_op(cu, op, words, bytes);
	TRY(cu->cuCtxPushCurrent(pointer(context)));
	int rc = module_op(cu, op, words, bytes);
	CUcontext ours;
	int popped = cu->cuCtxPopCurrent(&ours);
	return rc != SUCCESS ? rc : popped;
}

// copy_each is the batched copy of drivers and streams that have none.
static int copy_each(hr_cuda *cu, const uint64_t *dst, const uint64_t *src, const uint64_t *n, uint64_t count, CUstream stream, uint64_t *piece)
{
	for (uint64_t i = 0; i < count; i++) {
		*piece = i;
		TRY(cu->cuMemcpyAsync(dst[i], src[i], n[i], stream));
	}
	return SUCCESS;
}

// copy_batch copies the pieces, in no order among themselves. The legacy default
// stream (0 or 1) is refused by the batched call.
static int copy_batch(hr_cuda *cu, uint64_t stream, uint64_t count, const uint64_t *pieces, uint64_t *piece)
{
	const uint64_t *dst = pieces, *src = pieces + count, *n = pieces + 2 * count;
	CUstream s = pointer(stream);
	if (stream <= 1 || !hr_cuda_can_batch(cu))
		return copy_each(cu, dst, src, n, count, s, piece);
	CUmemcpyAttributes how = {.srcAccessOrder = SRC_ACCESS_ORDER_STREAM};
	size_t first = 0; // `how` holds from piece 0 on
	for (uint64_t i = 0; i < count; i += BATCH) {
		size_t some = count - i < BATCH ? count - i : BATCH, failed = SIZE_MAX;
		int rc;
		if (cu->batch13)
			rc = cu->batch13(dst + i, src + i, n + i, some, &how, &first, 1, s);
		else
			rc = cu->batch12((CUdeviceptr *)dst + i, (CUdeviceptr *)src + i, (size_t *)n + i, some, &how, &first, 1, &failed, s);
		if (rc != SUCCESS) {
			*piece = failed < some ? i + failed : UINT64_MAX;
			return rc;
		}
	}
	return SUCCESS;
}

static int launch(hr_cuda *cu, const uint64_t *w)
{
	size_t size = w[5];
	void *extra[] = {(void *)1, (void *)(w + 6), (void *)2, &size, (void *)0}; // buffer, its size, end
	return cu->cuLaunchKernel(pointer(w[1]), (unsigned)w[2], 1, 1, (unsigned)w[3], 1, 1, (unsigned)w[4], pointer(w[0]), NULL, size ? extra : NULL);
}

static int command(hr_cuda *cu, int which, const uint64_t *w, uint64_t *piece)
{
	switch (which) {
	case HR_COPY:
		return cu->cuMemcpyAsync(w[1], w[2], w[3], pointer(w[0]));
	case HR_COPY_BATCH:
		return copy_batch(cu, w[0], w[1], w + 2, piece);
	case HR_SET:
		return cu->cuMemsetD8Async(w[1], (unsigned char)w[2], w[3], pointer(w[0]));
	case HR_LAUNCH:
		return launch(cu, w);
	case HR_RECORD:
		return cu->cuEventRecord(pointer(w[1]), pointer(w[0]));
	case HR_AWAIT:
		return cu->cuStreamWaitEvent(pointer(w[0]), pointer(w[1]), 0);
	}
	return HR_BAD_CALL;
}

int hr_cuda_run(hr_cuda *cu, uint64_t context, const uint64_t *words, uint64_t count, uint64_t *at)
{
	at[0] = at[1] = UINT64_MAX;
	TRY(cu->cuCtxPushCurrent(pointer(context)));
	int rc = SUCCESS;
	uint64_t index = 0;
	for (uint64_t i = 0; i < count && rc == SUCCESS; index++) {
		rc = command(cu, (int)(words[i] & UINT32_MAX), words + i + 1, &at[1]);
		if (rc != SUCCESS)
			at[0] = index;
		i += words[i] >> 32;
	}
	CUcontext ours;
	int popped = cu->cuCtxPopCurrent(&ours);
	return rc != SUCCESS ? rc : popped;
}
