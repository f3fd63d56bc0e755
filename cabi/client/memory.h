/* What the files of the client library share about memory. */
#ifndef HEADRACE_MEMORY_H
#define HEADRACE_MEMORY_H

#include "cuda.h"
#include "headrace_client.h"

void hr_memory_retain(hr_memory *memory);

/* hr_memory_gpu is the GPU that the memory is on, NULL for the host's. */
hr_gpu *hr_memory_gpu(const hr_memory *memory);

#endif
