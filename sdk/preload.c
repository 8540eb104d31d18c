/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tells deadlines for an application that cannot be changed: whatever it writes to a TCP socket is a message that is due
 * WEFT_BUDGET_MS milliseconds later. A message that the socket does not take at once is told once: a socket has the last four.
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

#define MESSAGES 4096

/*
 * Messages of which a part is not written, by descriptor. Descriptors that share a place, or threads that write to one
 * socket at once, tell of a message again at worst.
 */
static struct {
	uint64_t socket; /* its cookie, which no other socket has */
	size_t left;
} begun[MESSAGES];

static uint64_t cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) ? 0 : cookie;
}

/*
 * Tells of `bytes` to be written, unless they are the rest of a message that was told. Returns what is left of the message. A
 * descriptor that is no socket, and a host without weftline, refuse the option; the application shall not see that.
 */
static size_t tell(int fd, size_t bytes)
{
	size_t left = begun[(unsigned)fd % MESSAGES].left;
	int before = errno;

	if (!budget || !bytes)
		return bytes;
	if (left < bytes || begun[(unsigned)fd % MESSAGES].socket != cookie(fd)) {
		weft_tell(fd, weft_now() + budget, bytes);
		left = bytes;
	}
	errno = before;
	return left;
}

/* Keeps what is left of a message after a write that returned `written`. Returns that. */
static ssize_t keep(int fd, size_t left, ssize_t written)
{
	int before = errno;

	if (!budget)
		return written;
	if (written >= 0)
		left -= (size_t)written;
	else if (before != EAGAIN && before != EINTR && before != ENOBUFS)
		left = 0;
	begun[(unsigned)fd % MESSAGES].left = left;
	if (left)
		begun[(unsigned)fd % MESSAGES].socket = cookie(fd);
	errno = before;
	return written;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
	static __typeof__(&write) real;
	size_t left;

	if (!real)
		real = REAL(write);
	left = tell(fd, size);
	return keep(fd, left, real(fd, data, size));
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	static __typeof__(&send) real;
	size_t left;

	if (!real)
		real = REAL(send);
	left = tell(fd, size);
	return keep(fd, left, real(fd, data, size, flags));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static __typeof__(&sendmsg) real;
	size_t size = 0, left, i;

	if (!real)
		real = REAL(sendmsg);
	for (i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	left = tell(fd, size);
	return keep(fd, left, real(fd, message, flags));
}
