/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends to ADDRESS PORT without any right: 60 datagrams without a claim, 40 that request a time in seven seconds, and 40 whose
 * socket claims a deadline in three.
 */
#define _GNU_SOURCE
#include "weft.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOBODY 65534
#define PAYLOAD 1000

static int connected(const char *address, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		perror("connect");
		exit(1);
	}
	return fd;
}

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const uint64_t second = 1000000000;
	char payload[PAYLOAD];
	int calm, late, soon, i;

	check(argc == 3, "arguments: ADDRESS PORT");
	check(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY), "setresuid");
	calm = connected(argv[1], argv[2]);
	late = connected(argv[1], argv[2]);
	soon = connected(argv[1], argv[2]);
	check(!weft_use_times(late), "weft_use_times");
	check(!weft_tell(soon, weft_now() + 3 * second, 0), "weft_tell");
	memset(payload, 'c', sizeof(payload));
	for (i = 0; i < 60; i++)
		check(send(calm, payload, sizeof(payload), 0) == PAYLOAD, "send");
	memset(payload, 'l', sizeof(payload));
	for (i = 0; i < 40; i++)
		check(weft_send_at(late, payload, sizeof(payload), weft_now() + 7 * second) == PAYLOAD, "weft_send_at");
	memset(payload, 's', sizeof(payload));
	for (i = 0; i < 40; i++)
		check(send(soon, payload, sizeof(payload), 0) == PAYLOAD, "send");
	return 0;
}
