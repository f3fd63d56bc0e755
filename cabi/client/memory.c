#define _GNU_SOURCE /* MAP_POPULATE */

#include "memory.h"
#include "send.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct hr_memory {
	_Atomic int32_t refs;
	void *address; /* on the GPU, if there is one */
	size_t bytes;  /* of a mapping */
	hr_gpu *gpu;
	pid_t owner; /* the process that opened it; with the next two, on a GPU */
	int32_t release_fd;
	uint64_t word; /* for the engine, once it is closed */
};

hr_memory *hr_memory_map(int32_t fd, int64_t bytes)
{
	hr_memory *memory = malloc(sizeof *memory);
	if (memory == NULL)
		return NULL;
	/* Its pages are there, or soon will be: mapping them all at once costs less than a
	 * fault for each. */
	int how = MAP_POPULATE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *address = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, how, fd, 0);
	if (address == MAP_FAILED) {
		free(memory);
		return NULL;
	}
	atomic_init(&memory->refs, 1);
	memory->address = address;
	memory->bytes = (size_t)bytes;
	memory->gpu = NULL;
	return memory;
}

/* import fills in the address and the GPU; -1 with the reason in why. */
static int import(hr_memory *memory, const uint8_t *uuid, const uint8_t *handle, char *why, int32_t room)
{
	memory->gpu = hr_gpu_find(uuid, why, room);
	if (memory->gpu == NULL)
		return -1;
	uint64_t address = 0;
	int rc = hr_gpu_import(memory->gpu, handle, &address);
	if (rc != 0) {
		snprintf(why, (size_t)room, "opening the engine's memory on GPU %d: CUDA error %d", hr_gpu_ordinal(memory->gpu), rc);
		return -1;
	}
	memory->address = (void *)(uintptr_t)address;
	return 0;
}

hr_memory *hr_memory_import(const uint8_t *uuid, const uint8_t *handle, int32_t release_fd, uint64_t word, char *why, int32_t room)
{
	hr_memory *memory = calloc(1, sizeof *memory);
	if (memory == NULL)
		snprintf(why, (size_t)room, "no memory to open the engine's");
	if (memory == NULL || import(memory, uuid, handle, why, room) != 0) {
		hr_send_number(release_fd, word);
		free(memory);
		return NULL;
	}
	atomic_init(&memory->refs, 1);
	memory->owner = getpid();
	memory->release_fd = release_fd;
	memory->word = word;
	return memory;
}

hr_gpu *hr_memory_gpu(const hr_memory *memory) { return memory->gpu; }

int32_t hr_memory_ordinal(hr_memory *memory) { return memory->gpu == NULL ? -1 : hr_gpu_ordinal(memory->gpu); }

void *hr_memory_address(hr_memory *memory) { return memory->address; }

void hr_memory_retain(hr_memory *memory) { atomic_fetch_add_explicit(&memory->refs, 1, memory_order_relaxed); }

void hr_memory_release(hr_memory *memory)
{
	if (atomic_fetch_sub_explicit(&memory->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (memory->gpu == NULL) {
		munmap(memory->address, memory->bytes);
	} else if (memory->owner == getpid()) { /* a forked child has no driver */
		hr_gpu_close(memory->gpu, (uint64_t)(uintptr_t)memory->address);
		hr_send_number(memory->release_fd, memory->word);
	}
	free(memory);
}
