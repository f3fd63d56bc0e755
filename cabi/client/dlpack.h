/* The memory layout of DLPack 1.x, as its specification fixes it. Only what a
 * producer of tensors needs. */
#ifndef HEADRACE_DLPACK_H
#define HEADRACE_DLPACK_H

#include <stdint.h>

enum { HR_DLPACK_MAJOR = 1, HR_DLPACK_MINOR = 0 };

typedef struct {
	int32_t type; /* 1 CPU, 2 CUDA */
	int32_t id;
} DLDevice;

typedef struct {
	uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool */
	uint8_t bits;
	uint16_t lanes;
} DLDataType;

typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides; /* in elements; always filled, older consumers need it */
	uint64_t byte_offset;
} DLTensor;

/* The legacy form, in capsules named "dltensor". */
typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/* The form of DLPack 1.x, in capsules named "dltensor_versioned". */
typedef struct DLManagedTensorVersioned {
	uint32_t major, minor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags; /* bit 0 read-only, bit 1 copied */
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif
