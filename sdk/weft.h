/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an application may tell the software NIC of weftline about what it sends: the deadline and the size of a message, and
 * the time of a datagram. No library and no right is needed. Where weftline does not run, or no algorithm of its policy
 * reads it, weft_tell fails with ENOPROTOOPT and everything else is as without it.
 *
 * All times are of CLOCK_MONOTONIC, in nanoseconds (weft_now). docs/applications.md is the guide.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

/* The socket option: setsockopt(fd, WEFT_LEVEL, WEFT_OPTION_MESSAGE, &message, sizeof(message)). */
#define WEFT_LEVEL 0x77656674
#define WEFT_OPTION_MESSAGE 1

struct weft_message {
	uint64_t deadline_ns; /* 0: none */
	uint64_t bytes;	      /* 0: up to the next message */
};

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif
#ifndef SCM_TXTIME
#define SCM_TXTIME SO_TXTIME
#endif

/* The time now. */
static inline uint64_t weft_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Tells that the next `bytes` bytes written to a TCP or UDP socket are a message that is due at `deadline_ns`. Call it before
 * the message is written. Returns 0, or -1 with errno: ENOPROTOOPT if no policy in force reads it.
 */
static inline int weft_tell(int socket, uint64_t deadline_ns, uint64_t bytes)
{
	struct weft_message message = { .deadline_ns = deadline_ns, .bytes = bytes };

	return setsockopt(socket, WEFT_LEVEL, WEFT_OPTION_MESSAGE, &message, sizeof(message));
}

/* Lets the datagrams of a socket have times (SO_TXTIME). Returns 0, or -1 with errno. */
static inline int weft_use_times(int socket)
{
	/* struct sock_txtime of linux/net_tstamp.h; 1: the times are deadlines. */
	struct {
		int32_t clock;
		uint32_t flags;
	} times = { .clock = CLOCK_MONOTONIC, .flags = 1 };

	return setsockopt(socket, SOL_SOCKET, SO_TXTIME, &times, sizeof(times));
}

/*
 * Sends a datagram of a connected socket that is to leave by `time_ns`, or not before it, as the policy's algorithm reads
 * it. The socket must have weft_use_times. Returns as send(2).
 */
static inline ssize_t weft_send_at(int socket, const void *data, size_t size, uint64_t time_ns)
{
	struct iovec part = { .iov_base = (void *)data, .iov_len = size };
	union {
		char bytes[CMSG_SPACE(sizeof(uint64_t))];
		struct cmsghdr align;
	} control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *time;

	memset(&control, 0, sizeof(control));
	time = CMSG_FIRSTHDR(&message);
	time->cmsg_level = SOL_SOCKET;
	time->cmsg_type = SCM_TXTIME;
	time->cmsg_len = CMSG_LEN(sizeof(time_ns));
	memcpy(CMSG_DATA(time), &time_ns, sizeof(time_ns));
	return sendmsg(socket, &message, 0);
}
#endif
