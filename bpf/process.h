/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that made a socket, kept with the socket: the name that it had then. The programs of process.bpf.c write it, the
 * program at a port's egress reads it (match.h). A socket that is accepted has what its listener has.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

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

/* The name of the process that made the packet's socket; 0: unknown. */
static __always_inline const __u32 *process_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk, *full;
	struct weft_maker *maker;

	if (!sk)
		return 0;
	full = bpf_sk_fullsock(sk);
	/* A connection that is being accepted has no socket of its own yet. */
	if (!full)
		full = bpf_get_listener_sock(sk);
	maker = full ? bpf_sk_storage_get(&makers, full, 0, 0) : 0;
	return maker ? maker->name : 0;
}

_Static_assert(sizeof(struct weft_maker) == 16, "maker");
#endif
