/* What the files of the client library share about what is sent to the engine. */
#ifndef HEADRACE_SEND_H
#define HEADRACE_SEND_H

#include <stdint.h>

/* hr_send_number writes to the release pipe. */
void hr_send_number(int fd, uint64_t number);

#endif
