/* What the files of the client library share about slots. */
#ifndef HEADRACE_SLOT_H
#define HEADRACE_SLOT_H

#include "cuda.h"
#include "headrace_client.h"

/* hr_slot_end sends the token of a slot without references, lets its memory go and
 * frees it. */
void hr_slot_end(hr_slot *slot);

/* What consumers have to do with a slot on a GPU. */
typedef struct hr_uses hr_uses;

hr_uses *hr_uses_new(hr_gpu *gpu); /* NULL when memory is short */
void hr_uses_add(hr_uses *uses, int64_t stream);
void hr_uses_mark(hr_uses *uses, int64_t stream);

/* hr_uses_end calls hr_slot_end once the work is done that the uses stand for: on this
 * thread if there is none, else on one that waits for it and for no other slot. */
void hr_uses_end(hr_uses *uses, hr_slot *slot);

#endif
