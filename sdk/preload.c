/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tells deadlines for an application that cannot be changed: whatever it writes to a TCP socket is a message that is due
 * WEFT_BUDGET_MS milliseconds later.
 *
 *     cc -shared -fPIC -O2 -o weft-preload.so preload.c
 *     WEFT_BUDGET_MS=20 LD_PRELOAD=./weft-preload.so memcached
 */
#define _GNU_SOURCE
#include "weft.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* The budget in nanoseconds; 0: none, and nothing is told. */
static uint64_t budget;

__attribute__((constructor)) static void read_budget(void)
{
	const char *text = getenv("WEFT_BUDGET_MS");

	budget = text ? strtoull(text, 0, 10) * 1000000u : 0;
}

/* A descriptor that is no socket, and a host without weftline, refuse the option; the application shall not see that. */
static void tell(int fd, size_t bytes)
{
	int before = errno;

	if (budget && bytes)
		weft_tell(fd, weft_now() + budget, bytes);
	errno = before;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
	static __typeof__(&write) real;

	if (!real)
		real = REAL(write);
	tell(fd, size);
	return real(fd, data, size);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	static __typeof__(&send) real;

	if (!real)
		real = REAL(send);
	tell(fd, size);
	return real(fd, data, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static __typeof__(&sendmsg) real;
	size_t size = 0, i;

	if (!real)
		real = REAL(sendmsg);
	for (i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	tell(fd, size);
	return real(fd, message, flags);
}
