/* The types of libheadrace.so's exported functions; the functions themselves are
 * described in abi.go. python/headrace/_library.py repeats both by hand.
 *
 * Handles are numbers, 0 is none; a stale one is an error, never a crash. Strings
 * and JSON that come out are the caller's and freed by hr_free. */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <stdint.h>

/* Goes up with every change of this header or of an exported function. */
enum { HR_ABI_VERSION = 2 };

/* What a function returns. */
enum {
	HR_OK = 0,
	HR_AGAIN = 1, /* the timeout passed, or there is no room: call again */
	HR_END = 2,   /* the end of an epoch, or of what was pushed */
	HR_ERROR = -1 /* see the hr_error */
};

/* Extents of a tensor: 32 axes of an array and the batch axis. */
enum { HR_MAX_NDIM = 33 };

typedef struct {
	int32_t code;  /* number of the kind, never 0 */
	char *kind;    /* "not_found"; hr_free */
	char *message; /* hr_free */
} hr_error;

/* What a call gave. */
typedef struct {
	uint64_t handle; /* of the object that was opened, or 0 */
	char *json;      /* a JSON value or NULL; hr_free */
} hr_result;

typedef struct {
	uint64_t data; /* address on the device; 0 if there are no elements */
	int32_t dtype; /* number in package nd */
	int32_t device_type; /* as DLPack: 1 CPU, 2 CUDA */
	int32_t device_id;
	int32_t ndim;
	int64_t shape[HR_MAX_NDIM];
} hr_tensor;

/* A batch. The caller brings room for the token, the tensors and the ids. */
typedef struct {
	uint64_t *token; /* in a slot of the client library; set if there is a batch */
	hr_tensor *tensors;
	int32_t tensor_room, tensors_out;
	int64_t *ids;
	int64_t id_room, samples;
	int64_t epoch, step, view, turn;
	double weight; /* see Batch.weight in Python */
	char *errors;  /* JSON of the samples that were skipped or filled, or NULL; hr_free */
} hr_batch;

#endif
