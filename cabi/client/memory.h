/* What the files of the client library share about mapped memory. */
#ifndef HEADRACE_MEMORY_H
#define HEADRACE_MEMORY_H

#include "headrace_client.h"

void hr_memory_retain(hr_memory *memory);

#endif
