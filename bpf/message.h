/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages of applications: the values of weftline's socket option, kept with the socket. weft_setsockopt (message.bpf.c)
 * writes them, the program at a port's egress reads them (claims.h).
 *
 * TCP: a message begins with the next byte that the application writes, and its packets are found by their sequence
 * numbers, also when they are sent again. The last WEFT_MESSAGES of a socket are kept, so that an application may write on
 * while earlier messages wait in the socket. A datagram belongs to the last message.
 */
#ifndef WEFT_MESSAGE_H
#define WEFT_MESSAGE_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

/* The option: its level, which no protocol has ("weft"), its name, and its value. sdk/weft.h has the same. */
#define WEFT_LEVEL 0x77656674
#define WEFT_OPTION_MESSAGE 1

struct weft_option_message {
	__u64 deadline_ns; /* of the monotonic clock; 0: none */
	__u64 bytes;	   /* 0: up to the next message */
};

struct weft_message {
	__u64 deadline_ns;
	__u64 bytes;
	__u32 from; /* TCP: the sequence number of its first byte */
	__u32 pad;
};

#define WEFT_MESSAGES 4 /* a power of two */

/* The messages of a socket. TCP holds the socket's lock where it is written and where it is read. */
struct weft_messages {
	__u64 sent;  /* of datagrams: the bytes since the last message began */
	__u32 count; /* messages so far; the last is at (count - 1) % WEFT_MESSAGES */
	__u32 pad;
	struct weft_message last[WEFT_MESSAGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct weft_messages);
} messages SEC(".maps");

/*
 * The sequence number behind the last byte that the application has written. The socket's type hides that field, so it is
 * read by its offset in the running kernel (`place`, from its type information).
 */
static __always_inline __u32 write_sequence(struct bpf_sock *sk, __u32 place)
{
	__u64 address = 0;
	__u32 sequence = 0;

	/* The verifier admits no arithmetic on the pointer itself. */
	bpf_probe_read_kernel(&address, sizeof(address), &sk);
	bpf_probe_read_kernel(&sequence, sizeof(sequence), (void *)(address + place));
	return sequence;
}

/* Whether sequence number `a` is before `b`, modulo 2^32. */
static __always_inline int is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

_Static_assert(sizeof(struct weft_option_message) == 16, "option");
_Static_assert(sizeof(struct weft_messages) == 16 + 24 * WEFT_MESSAGES, "messages");
#endif
