#include "cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The driver's types, as its ABI has them on Linux. */
typedef struct {
	uint8_t bytes[16];
} uuid_t;
typedef struct {
	uint8_t bytes[64];
} handle_t;
typedef int (*get_proc)(const char *, void **, int, uint64_t, int *);

enum {
	ABI = 12000, /* the entries are asked for as CUDA 12.0 has them */
	LAZY_PEER_ACCESS = 1,
	NON_BLOCKING = 1,
	BLOCKING_SYNC = 1,
	DISABLE_TIMING = 2,
	MOST_GPUS = 16,
};

#define ENTRIES(E) \
	E(cuInit, (unsigned)) \
	E(cuDeviceGetCount, (int *)) \
	E(cuDeviceGet, (int *, int)) \
	E(cuDeviceGetUuid, (uuid_t *, int)) \
	E(cuDevicePrimaryCtxRetain, (void **, int)) \
	E(cuCtxPushCurrent, (void *)) \
	E(cuCtxPopCurrent, (void **)) \
	E(cuCtxSynchronize, (void)) \
	E(cuMemcpyAsync, (uint64_t, uint64_t, size_t, void *)) \
	E(cuStreamCreateWithPriority, (void **, unsigned, int)) \
	E(cuStreamSynchronize, (void *)) \
	E(cuEventCreate, (void **, unsigned)) \
	E(cuEventRecord, (void *, void *)) \
	E(cuEventSynchronize, (void *)) \
	E(cuEventDestroy, (void *)) \
	E(cuMemHostAlloc, (void **, size_t, unsigned)) \
	E(cuIpcOpenMemHandle, (uint64_t *, handle_t, unsigned)) \
	E(cuIpcCloseMemHandle, (uint64_t))

/* The driver is loaded once and for good, and so is what was made of it: a process
 * that ends need not give it back. */
static struct {
	pthread_mutex_t lock;
	int loaded;
#define MEMBER(name, arguments) int(*name) arguments;
	ENTRIES(MEMBER)
#undef MEMBER
} cu = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { BOUNCE = 1 << 20 };

struct hr_gpu {
	uint8_t uuid[16];
	int ordinal;
	void *context;
	pthread_mutex_t fetching;
	void *stream; /* of fetches, with pinned memory of BOUNCE bytes */
	void *bounce;
};

static hr_gpu gpus[MOST_GPUS];
static int gpu_count;

static int load(char *why, int32_t room)
{
	if (cu.loaded)
		return 0;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		snprintf(why, (size_t)room, "no NVIDIA driver: %s", dlerror());
		return -1;
	}
	get_proc get;
	void *found = dlsym(library, "cuGetProcAddress_v2");
	memcpy(&get, &found, sizeof get);
	if (get == NULL) {
		snprintf(why, (size_t)room, "the NVIDIA driver is too old: 12.0 or later is needed");
		return -1;
	}
#define FETCH(name, arguments) \
	if (get(#name, &found, ABI, 0, NULL) != 0 || found == NULL) { \
		snprintf(why, (size_t)room, "the NVIDIA driver has no %s", #name); \
		return -1; \
	} \
	memcpy(&cu.name, &found, sizeof found);
	ENTRIES(FETCH)
#undef FETCH
	int rc = cu.cuInit(0);
	if (rc != 0) {
		snprintf(why, (size_t)room, "the NVIDIA driver does not start: CUDA error %d", rc);
		return -1;
	}
	cu.loaded = 1;
	return 0;
}

/* open_gpu finds the GPU among those that this process sees, whose numbers need not be
 * the engine's. */
static hr_gpu *open_gpu(const uint8_t uuid[16], char *why, int32_t room)
{
	int count = 0, device = 0;
	if (cu.cuDeviceGetCount(&count) != 0 || gpu_count == MOST_GPUS)
		count = 0;
	for (int i = 0; i < count; i++) {
		uuid_t own;
		if (cu.cuDeviceGet(&device, i) != 0 || cu.cuDeviceGetUuid(&own, device) != 0 || memcmp(own.bytes, uuid, 16) != 0)
			continue;
		hr_gpu *gpu = &gpus[gpu_count];
		int rc = cu.cuDevicePrimaryCtxRetain(&gpu->context, device);
		if (rc != 0) {
			snprintf(why, (size_t)room, "GPU %d: making the context: CUDA error %d", i, rc);
			return NULL;
		}
		memcpy(gpu->uuid, uuid, 16);
		gpu->ordinal = i;
		pthread_mutex_init(&gpu->fetching, NULL);
		gpu_count++;
		return gpu;
	}
	snprintf(why, (size_t)room, "the engine's GPU is none of the %d that this process sees (CUDA_VISIBLE_DEVICES may hide it)", count);
	return NULL;
}

hr_gpu *hr_gpu_find(const uint8_t uuid[16], char *why, int32_t room)
{
	hr_gpu *gpu = NULL;
	pthread_mutex_lock(&cu.lock);
	if (load(why, room) == 0) {
		for (int i = 0; i < gpu_count && gpu == NULL; i++)
			if (memcmp(gpus[i].uuid, uuid, 16) == 0)
				gpu = &gpus[i];
		if (gpu == NULL)
			gpu = open_gpu(uuid, why, room);
	}
	pthread_mutex_unlock(&cu.lock);
	return gpu;
}

int32_t hr_gpu_ordinal(const hr_gpu *gpu) { return gpu->ordinal; }

/* WITHIN gives a function the status of a call that is made in the context. */
#define WITHIN(gpu, call) \
	do { \
		int rc_ = cu.cuCtxPushCurrent((gpu)->context); \
		if (rc_ != 0) \
			return rc_; \
		rc_ = (call); \
		void *ours_; \
		cu.cuCtxPopCurrent(&ours_); \
		return rc_; \
	} while (0)

int hr_gpu_import(hr_gpu *gpu, const uint8_t bytes[64], uint64_t *address)
{
	handle_t handle;
	memcpy(handle.bytes, bytes, sizeof handle.bytes);
	WITHIN(gpu, cu.cuIpcOpenMemHandle(address, handle, LAZY_PEER_ACCESS));
}

int hr_gpu_close(hr_gpu *gpu, uint64_t address) { WITHIN(gpu, cu.cuIpcCloseMemHandle(address)); }

/* fetch copies through pinned memory, on a stream that waits for no other. */
static int fetch(hr_gpu *gpu, uint8_t *to, uint64_t from, int64_t bytes)
{
	int rc = 0;
	if (gpu->stream == NULL)
		rc = cu.cuStreamCreateWithPriority(&gpu->stream, NON_BLOCKING, 0);
	if (rc == 0 && gpu->bounce == NULL)
		rc = cu.cuMemHostAlloc(&gpu->bounce, BOUNCE, 0);
	for (; rc == 0 && bytes > 0;) {
		size_t part = bytes < BOUNCE ? (size_t)bytes : BOUNCE;
		rc = cu.cuMemcpyAsync((uint64_t)(uintptr_t)gpu->bounce, from, part, gpu->stream);
		if (rc == 0)
			rc = cu.cuStreamSynchronize(gpu->stream);
		if (rc == 0)
			memcpy(to, gpu->bounce, part);
		to += part;
		from += part;
		bytes -= (int64_t)part;
	}
	return rc;
}

int hr_gpu_fetch(hr_gpu *gpu, void *to, uint64_t from, int64_t bytes)
{
	pthread_mutex_lock(&gpu->fetching);
	int rc = cu.cuCtxPushCurrent(gpu->context);
	if (rc == 0) {
		void *ours;
		rc = fetch(gpu, to, from, bytes);
		cu.cuCtxPopCurrent(&ours);
	}
	pthread_mutex_unlock(&gpu->fetching);
	return rc;
}

static int mark(void *stream, void **event)
{
	int rc = cu.cuEventCreate(event, BLOCKING_SYNC | DISABLE_TIMING);
	if (rc != 0)
		return rc;
	rc = cu.cuEventRecord(*event, stream);
	if (rc != 0)
		cu.cuEventDestroy(*event);
	return rc;
}

int hr_gpu_mark(hr_gpu *gpu, int64_t stream, void **event) { WITHIN(gpu, mark((void *)(intptr_t)stream, event)); }

static int wait_for(void *event)
{
	int rc = cu.cuEventSynchronize(event);
	cu.cuEventDestroy(event);
	return rc;
}

int hr_gpu_wait(hr_gpu *gpu, void *event) { WITHIN(gpu, wait_for(event)); }

int hr_gpu_synchronize(hr_gpu *gpu) { WITHIN(gpu, cu.cuCtxSynchronize()); }
