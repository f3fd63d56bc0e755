#include "dlpack.h"
#include "headrace_client.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The three functions of CPython's stable ABI, by address: the library links no
 * libpython, so that one file serves every version. */
typedef void (*capsule_destructor)(void *capsule);
static void *(*capsule_new)(void *pointer, const char *name, capsule_destructor destructor);
static void *(*capsule_get_pointer)(void *capsule, const char *name);
static int (*capsule_is_valid)(void *capsule, const char *name);

/* CPython keeps the pointer of a capsule's name. */
static const char legacy_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";
static const char slot_name[] = "headrace_slot";

void hr_client_python(void *new_, void *get_pointer, void *is_valid)
{
	/* C has no cast from void * to a function pointer; POSIX lets the bytes pass. */
	memcpy(&capsule_new, &new_, sizeof new_);
	memcpy(&capsule_get_pointer, &get_pointer, sizeof get_pointer);
	memcpy(&capsule_is_valid, &is_valid, sizeof is_valid);
}

/* A managed tensor of either form, its extents behind it in the same block. */
typedef struct {
	union {
		DLManagedTensor legacy;
		DLManagedTensorVersioned versioned;
	} tensor;
	hr_slot *slot;
	int64_t extents[]; /* shape, then strides */
} managed;

static void drop(managed *m)
{
	hr_slot_release(m->slot);
	free(m);
}

/* The deleters are called by the consumer, on any thread, GIL or not. */
static void delete_legacy(DLManagedTensor *self) { drop(self->manager_ctx); }
static void delete_versioned(DLManagedTensorVersioned *self) { drop(self->manager_ctx); }

/* A consumer that takes the tensor renames the capsule ("used_..."); what still
 * has its first name was never taken and goes with the capsule. */
static void destroy_legacy(void *capsule)
{
	if (!capsule_is_valid(capsule, legacy_name))
		return;
	DLManagedTensor *t = capsule_get_pointer(capsule, legacy_name);
	t->deleter(t);
}

static void destroy_versioned(void *capsule)
{
	if (!capsule_is_valid(capsule, versioned_name))
		return;
	DLManagedTensorVersioned *t = capsule_get_pointer(capsule, versioned_name);
	t->deleter(t);
}

static DLTensor describe(managed *m, const hr_view *view)
{
	int64_t *shape = m->extents, *strides = m->extents + view->ndim;
	int64_t step = 1;
	for (int32_t i = view->ndim - 1; i >= 0; i--) {
		shape[i] = view->shape[i];
		strides[i] = step;
		step *= shape[i] > 0 ? shape[i] : 1;
	}
	return (DLTensor){
		.data = view->data,
		.device = {view->device_type, view->device_id},
		.ndim = view->ndim,
		.dtype = {view->code, view->bits, 1},
		.shape = shape,
		.strides = strides,
	};
}

static void *wrap(managed *m, const hr_view *view, int32_t versioned)
{
	DLTensor tensor = describe(m, view);
	if (!versioned) {
		m->tensor.legacy = (DLManagedTensor){tensor, m, delete_legacy};
		return capsule_new(&m->tensor, legacy_name, destroy_legacy);
	}
	m->tensor.versioned = (DLManagedTensorVersioned){
		.major = HR_DLPACK_MAJOR,
		.minor = HR_DLPACK_MINOR,
		.manager_ctx = m,
		.deleter = delete_versioned,
		.flags = view->flags,
		.dl_tensor = tensor,
	};
	return capsule_new(&m->tensor, versioned_name, destroy_versioned);
}

void *hr_capsule(hr_slot *slot, const hr_view *view, int32_t versioned)
{
	managed *m = malloc(sizeof *m + 2 * (size_t)view->ndim * sizeof(int64_t));
	if (m == NULL)
		return NULL;
	m->slot = slot;
	hr_slot_retain(slot);
	void *capsule = wrap(m, view, versioned);
	if (capsule == NULL)
		drop(m);
	return capsule;
}

hr_slot *hr_slot_of(void *capsule) { return capsule_get_pointer(capsule, slot_name); }

static void destroy_slot(void *capsule) { hr_slot_release(hr_slot_of(capsule)); }

void *hr_slot_capsule(int32_t release_fd)
{
	hr_slot *slot = hr_slot_new(release_fd);
	if (slot == NULL)
		return NULL;
	void *capsule = capsule_new(slot, slot_name, destroy_slot);
	if (capsule == NULL)
		hr_slot_release(slot);
	return capsule;
}
