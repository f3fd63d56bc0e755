#define _GNU_SOURCE /* MAP_POPULATE */

#include "memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

struct hr_memory {
	_Atomic int32_t refs;
	void *address;
	size_t bytes;
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
	return memory;
}

void *hr_memory_address(hr_memory *memory) { return memory->address; }

void hr_memory_retain(hr_memory *memory) { atomic_fetch_add_explicit(&memory->refs, 1, memory_order_relaxed); }

void hr_memory_release(hr_memory *memory)
{
	if (atomic_fetch_sub_explicit(&memory->refs, 1, memory_order_acq_rel) != 1)
		return;
	munmap(memory->address, memory->bytes);
	free(memory);
}
