#define _POSIX_C_SOURCE 200809L

#include "headrace_client.h"
#include "memory.h"
#include "send.h"
#include "slot.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct hr_slot {
	_Atomic int32_t refs;
	pid_t owner; /* the process that was given the batch */
	int32_t release_fd;
	uint64_t token; /* 0: no batch */
	hr_memory *memory; /* of another process, or NULL */
	hr_uses *uses;     /* of memory on a GPU */
};

int32_t hr_client_abi_version(void) { return HR_CLIENT_ABI_VERSION; }

hr_slot *hr_slot_new(int32_t release_fd)
{
	hr_slot *slot = malloc(sizeof *slot);
	if (slot == NULL)
		return NULL;
	atomic_init(&slot->refs, 1);
	slot->owner = getpid();
	slot->release_fd = release_fd;
	slot->token = 0;
	slot->memory = NULL;
	slot->uses = NULL;
	return slot;
}

uint64_t *hr_slot_token(hr_slot *slot) { return &slot->token; }

int32_t hr_slot_attach(hr_slot *slot, hr_memory *memory)
{
	hr_gpu *gpu = hr_memory_gpu(memory);
	if (gpu != NULL && (slot->uses = hr_uses_new(gpu)) == NULL)
		return -1;
	hr_memory_retain(memory);
	slot->memory = memory;
	return 0;
}

void hr_slot_use(hr_slot *slot, int64_t stream)
{
	if (slot->uses != NULL)
		hr_uses_add(slot->uses, stream);
}

void hr_slot_after(hr_slot *slot, int64_t stream)
{
	if (slot->uses != NULL)
		hr_uses_mark(slot->uses, stream);
}

int32_t hr_slot_fetch(hr_slot *slot, void *to, uint64_t from, int64_t bytes)
{
	return hr_gpu_fetch(hr_memory_gpu(slot->memory), to, from, bytes);
}

void hr_slot_retain(hr_slot *slot)
{
	/* Whoever adds a reference holds one: nothing has to be ordered. */
	atomic_fetch_add_explicit(&slot->refs, 1, memory_order_relaxed);
}

int32_t hr_slot_refs(hr_slot *slot) { return atomic_load(&slot->refs); }

void hr_slot_end(hr_slot *slot)
{
	if (slot->token != 0 && slot->owner == getpid())
		hr_send_number(slot->release_fd, slot->token);
	if (slot->memory != NULL)
		hr_memory_release(slot->memory);
	free(slot);
}

void hr_slot_release(hr_slot *slot)
{
	/* Every use of the memory by any holder comes before its reuse. */
	if (atomic_fetch_sub_explicit(&slot->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (slot->uses == NULL)
		hr_slot_end(slot);
	else if (slot->owner == getpid())
		hr_uses_end(slot->uses, slot);
	/* A forked child has no driver to ask, and leaves the rest to the end. */
}
