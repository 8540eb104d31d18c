/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that made a socket, kept with the socket: the name that it had then. The programs of process.bpf.c write it, the
 * program at a port's egress reads it (match.h). A socket that is accepted has what its listener has, and a subflow of MPTCP,
 * which the kernel makes, what the connection's socket has.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "doorbell.h"

#define WEFT_NAME_WORDS 4 /* TASK_COMM_LEN, include/linux/sched.h */

/* The name, and zeros behind it. */
struct weft_maker {
	__u32 name[WEFT_NAME_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct weft_maker);
} makers SEC(".maps");

extern const volatile struct weft_config config;

/*
 * The maker of the connection that a socket is a subflow of; 0: it is no subflow, or its maker is unknown. The subflow has it from
 * here on: a listener of MPTCP is one, too, and what it accepts is cloned after its answer has passed here, also for a client
 * of plain TCP.
 */
static __always_inline struct weft_maker *maker_of_connection(struct bpf_sock *subflow)
{
	struct mptcp_sock *connection = bpf_skc_to_mptcp_sock(subflow);
	struct weft_maker *maker = connection ? bpf_sk_storage_get(&makers, connection, 0, 0) : 0;

	return maker ? bpf_sk_storage_get(&makers, subflow, maker, BPF_SK_STORAGE_GET_F_CREATE) : 0;
}

/* The name of the process that made the packet's socket; 0: unknown. */
static __always_inline const __u32 *process_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk, *full;
	struct weft_maker *maker;

	if (!sk)
		return 0;
	full = bpf_sk_fullsock(sk);
	/* A connection that is being accepted has no socket yet. */
	if (!full)
		full = bpf_get_listener_sock(sk);
	maker = full ? bpf_sk_storage_get(&makers, full, 0, 0) : 0;
	if (full && !maker && config.mptcp)
		maker = maker_of_connection(full);
	return maker ? maker->name : 0;
}

_Static_assert(sizeof(struct weft_maker) == 16, "maker");
#endif
