/* libheadrace_client: what the Python package needs in plain C, with the engine
 * in this process or in another one. It knows nothing of the engine and links
 * neither Go nor Python. What it keeps for the process are the three addresses given
 * to hr_client_python and, once memory on a GPU was opened, the driver and the threads
 * that wait for it.
 *
 * A slot stands for one batch that the engine has handed out. It is shared by
 * the Python objects of the batch and by every tensor that a consumer still
 * holds; the last to drop it sends the batch's token, eight bytes in host order,
 * to the engine's release pipe. That may happen on any thread, without the GIL,
 * and after the interpreter has ended.
 *
 * A pipe and not an eventfd: an eventfd adds up what is written, so two tokens
 * written between two reads would come out as one number. The engine keeps both
 * ends open until each token it gave out has come back, so a write never meets a
 * closed pipe; and the tokens out at one time (the slots of a pipeline) are far
 * fewer than a pipe holds, so it never meets a full one. */
#ifndef HEADRACE_CLIENT_H
#define HEADRACE_CLIENT_H

#include <stdint.h>

#define HR_CLIENT_API __attribute__((visibility("default")))

/* Goes up with every change of this header. */
enum { HR_CLIENT_ABI_VERSION = 6 };

typedef struct hr_slot hr_slot;
typedef struct hr_memory hr_memory;

/* One tensor within a slot. */
typedef struct {
	void *data;           /* NULL if the tensor has no elements */
	const int64_t *shape; /* ndim extents, copied */
	int32_t ndim;
	int32_t device_type; /* DLDeviceType */
	int32_t device_id;
	uint8_t code; /* DLDataTypeCode */
	uint8_t bits;
	uint16_t flags; /* of DLPack, told only by versioned tensors: 1 read-only, 2 a copy */
} hr_view;

HR_CLIENT_API int32_t hr_client_abi_version(void);

/* hr_client_load loads the engine for good, -1 if it cannot be. Threads inherit
 * the floating-point mode of the one that starts them, and the engine starts its
 * own while it is loaded: so the caller's mode, which may flush subnormal numbers
 * to zero, is set aside until then. */
HR_CLIENT_API int32_t hr_client_load(const char *path);

/* hr_slot_new makes a slot with one reference and no token yet: dropped as it is,
 * it sends nothing. NULL when memory is short. */
HR_CLIENT_API hr_slot *hr_slot_new(int32_t release_fd);

/* hr_slot_capsule makes a slot whose first reference belongs to a Python capsule and
 * goes with it: no Python code runs then, in which a signal handler could raise and
 * the reference be lost. hr_slot_of is the slot of such a capsule. The caller holds
 * the GIL. NULL as for hr_capsule. */
HR_CLIENT_API void *hr_slot_capsule(int32_t release_fd);
HR_CLIENT_API hr_slot *hr_slot_of(void *capsule);

/* hr_slot_token is where the engine writes the token of the batch that it puts
 * into the slot. The slot exists before the batch does, so that no signal between
 * the two can lose a batch. */
HR_CLIENT_API uint64_t *hr_slot_token(hr_slot *slot);

/* hr_slot_attach makes the slot hold memory of another process, once: the mapping
 * stays at least until the slot's last reference is gone. -1 when memory is short. */
HR_CLIENT_API int32_t hr_slot_attach(hr_slot *slot, hr_memory *memory);

/* hr_slot_use notes a stream on which memory of a GPU is used, numbered as in DLPack; -1
 * is one that is not known. The token is sent once the work is done that the stream
 * has at the last release, which does not wait. The stream must not be destroyed.
 * hr_slot_after is the same for what the stream has now; it may go afterwards. */
HR_CLIENT_API void hr_slot_use(hr_slot *slot, int64_t stream);
HR_CLIENT_API void hr_slot_after(hr_slot *slot, int64_t stream);

/* hr_slot_fetch copies memory of the slot's GPU to the host and waits for it: 0, or the
 * driver's status. */
HR_CLIENT_API int32_t hr_slot_fetch(hr_slot *slot, void *to, uint64_t from, int64_t bytes);

HR_CLIENT_API void hr_slot_retain(hr_slot *slot);

/* hr_slot_release drops a reference; with the last one it sends the token and
 * frees the slot. In a forked child the count goes down, but nothing is sent: the
 * batch is the parent's. */
HR_CLIENT_API void hr_slot_release(hr_slot *slot);

/* hr_slot_refs is the number of references, for tests. */
HR_CLIENT_API int32_t hr_slot_refs(hr_slot *slot);

/* hr_memory_map maps bytes of a file that the engine shares, whose descriptor stays
 * the caller's, or new memory where the descriptor is -1: with one reference, NULL
 * and errno if it cannot. The last reference unmaps it, whether the engine still
 * lives or not. */
HR_CLIENT_API hr_memory *hr_memory_map(int32_t fd, int64_t bytes);
HR_CLIENT_API void *hr_memory_address(hr_memory *memory);

/* hr_memory_import opens an allocation of the engine on the GPU of a UUID (16 bytes),
 * from the 64 bytes of its handle; libcuda is loaded on the first call. The last
 * reference closes it. NULL with the reason in why, in one line. Either way the
 * engine, which may not free what is open here, is told: once the allocation is closed,
 * or could not be opened, its word is written to the release pipe.
 * hr_memory_ordinal is this process's number of the GPU, -1 for host memory. */
HR_CLIENT_API hr_memory *hr_memory_import(const uint8_t *uuid, const uint8_t *handle, int32_t release_fd, uint64_t word, char *why, int32_t room);
HR_CLIENT_API int32_t hr_memory_ordinal(hr_memory *memory);
HR_CLIENT_API void hr_memory_release(hr_memory *memory);

/* hr_send writes all of a message to a socket, so that no signal handler can come
 * between its parts: 0, or an errno. A peer that is gone is EPIPE and no signal. */
HR_CLIENT_API int32_t hr_send(int32_t socket, const void *message, int64_t bytes);

/* hr_client_python takes the addresses of PyCapsule_New, PyCapsule_GetPointer
 * and PyCapsule_IsValid. */
HR_CLIENT_API void hr_client_python(void *capsule_new, void *capsule_get_pointer, void *capsule_is_valid);

/* hr_capsule makes a DLPack capsule that holds one more reference of the slot:
 * "dltensor_versioned", or "dltensor" where versioned is 0. Its reference goes
 * with the tensor's deleter, or with the capsule if no consumer took it. The
 * caller holds the GIL. NULL with a Python exception set, or NULL without one
 * when memory is short. */
HR_CLIENT_API void *hr_capsule(hr_slot *slot, const hr_view *view, int32_t versioned);

#endif
