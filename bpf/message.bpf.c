// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A socket option for the deadline and the size of a message, which an application sets without any right. The program is
 * attached to a cgroup and sees every setsockopt(2) below it; the kernel's own handlers never see the option.
 *
 * A value of another length, or a socket that is neither TCP nor UDP, is left to the kernel, which has no such option:
 * ENOPROTOOPT, as without the program.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include "message.h"

/* Set before loading. */
const volatile struct {
	__u32 write_sequence; /* its offset in the kernel's struct tcp_sock */
} config;

/* AF_INET and AF_INET6; sys/socket.h is no header of the kernel. */
#define FAMILY_IPV4 2
#define FAMILY_IPV6 10

/* The kernel passes at most a page of a value, and refuses a longer one unless the program says 0: take it as it was. */
#define VALUE_MAX 4096

SEC("cgroup/setsockopt")
int weft_setsockopt(struct bpf_sockopt *ctx)
{
	struct weft_option_message *given = ctx->optval;
	struct bpf_sock *sk = ctx->sk;
	struct weft_messages *all;
	struct weft_message *message;

	if (ctx->level != WEFT_LEVEL) {
		if (ctx->optlen > VALUE_MAX)
			ctx->optlen = 0;
		return 1;
	}
	/* -1: the program of another weftline NIC, which keeps messages for its own ports, came first. */
	if (!sk || ctx->optname != WEFT_OPTION_MESSAGE || (ctx->optlen != sizeof(*given) && ctx->optlen != -1) ||
	    (void *)(given + 1) > ctx->optval_end)
		return 1;
	/* Of other families the protocol is another number: that of a netlink socket may be 6. */
	if (sk->family != FAMILY_IPV4 && sk->family != FAMILY_IPV6)
		return 1;
	if (sk->protocol != IPPROTO_TCP && sk->protocol != IPPROTO_UDP)
		return 1;
	all = bpf_sk_storage_get(&messages, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!all)
		return 1;
	message = &all->last[all->count & (WEFT_MESSAGES - 1)];
	message->deadline_ns = given->deadline_ns;
	message->bytes = given->bytes;
	message->from = sk->protocol == IPPROTO_TCP ? write_sequence(sk, config.write_sequence) : 0;
	all->sent = 0;
	/* Last, since a datagram of another thread may be on its way. */
	*(volatile __u32 *)&all->count += 1;
	ctx->optlen = -1; /* done: no handler of the kernel's follows */
	return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
