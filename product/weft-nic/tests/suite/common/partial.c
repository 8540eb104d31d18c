/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writes messages to a socket that takes only a part of them at once, as servers do that wait for room, and prints how often
 * the deadline of a message was set. To be run with sdk/preload.c in LD_PRELOAD, and linked with -rdynamic, so that the setsockopt
 * below is the one that is called.
 */
#define _GNU_SOURCE
#include "weft.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int told;

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	(void)fd, (void)name, (void)value, (void)size;
	told += level == WEFT_LEVEL;
	return 0;
}

/* Writes `size` bytes, `piece` at a time, and reads them at the other end when there is no room. Returns the tries. */
static int deliver(int to, int from, size_t size, size_t piece)
{
	static char data[1 << 20];
	int tries = 0;

	while (size) {
		ssize_t wrote = send(to, data, size < piece ? size : piece, MSG_DONTWAIT);

		tries++;
		if (wrote > 0)
			size -= (size_t)wrote;
		else if (errno != EAGAIN || read(from, data, 10000) <= 0)
			return -1;
	}
	return tries;
}

int main(void)
{
	int pair[2], other[2], whole, pieces, last;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, other))
		return 1;
	whole = deliver(pair[0], pair[1], 1 << 20, 1 << 20);
	printf("%d for one message in %d tries\n", told, whole);
	told = 0;
	pieces = deliver(pair[0], pair[1], 3 * 1000, 1000);
	printf("%d for 3 messages in %d tries\n", told, pieces);
	/* The rest of a message of a closed socket is not the one of another with its number. */
	while (send(other[0], "", 1, MSG_DONTWAIT) == 1)
		;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || dup2(pair[0], other[0]) < 0)
		return 1;
	told = 0;
	last = deliver(other[0], pair[1], 1, 1);
	printf("%d for a message of another socket in %d tries\n", told, last);
	return 0;
}
