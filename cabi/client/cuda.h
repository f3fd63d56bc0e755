/* What the files of the client library share about GPUs. */
#ifndef HEADRACE_CUDA_H
#define HEADRACE_CUDA_H

#include <stdint.h>

typedef struct hr_gpu hr_gpu;

/* hr_gpu_find is the GPU of a UUID, whose primary context is kept for good. NULL with
 * the reason in why. */
hr_gpu *hr_gpu_find(const uint8_t uuid[16], char *why, int32_t room);
int32_t hr_gpu_ordinal(const hr_gpu *gpu);

/* All of these return the driver's status, 0 for none. They leave the calling thread's
 * current context as it is. */
int hr_gpu_import(hr_gpu *gpu, const uint8_t handle[64], uint64_t *address);
int hr_gpu_close(hr_gpu *gpu, uint64_t address);
int hr_gpu_fetch(hr_gpu *gpu, void *to, uint64_t from, int64_t bytes);
int hr_gpu_mark(hr_gpu *gpu, int64_t stream, void **event); /* what the stream has now */
int hr_gpu_wait(hr_gpu *gpu, void *event);                  /* and destroys the event */
int hr_gpu_synchronize(hr_gpu *gpu);

#endif
