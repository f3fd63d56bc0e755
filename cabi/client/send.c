#define _POSIX_C_SOURCE 200809L

#include "send.h"

#include "headrace_client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

void hr_send_number(int fd, uint64_t number)
{
	/* A deleter may run between a consumer's failing call and its look at errno. */
	int saved = errno;
	ssize_t n;
	do
		n = write(fd, &number, sizeof number);
	while (n < 0 && errno == EINTR);
	errno = saved;
}

int32_t hr_send(int32_t socket, const void *message, int64_t bytes)
{
	const char *at = message;
	while (bytes > 0) {
		ssize_t n = send(socket, at, (size_t)bytes, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		at += n;
		bytes -= n;
	}
	return 0;
}
