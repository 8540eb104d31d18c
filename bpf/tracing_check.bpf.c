// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts the packets that a device receives, by a tracepoint (netif_receive_skb). The device counts them too, so the difference is what
 * the kernel has not shown to tracing programs.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "tracing_check.h"

/* The kernel's own structures, as far as they are used; offsets are filled in when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct sk_buff {
	struct net_device *dev;
};
#pragma clang attribute pop

const volatile struct weft_tracing_check_config config;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_tracing_check);
} check SEC(".maps");

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(weft_received, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct weft_tracing_check *c;
	__u32 zero = 0;

	if (dev->ifindex != (int)config.device || dev->nd_net.net->ns.inum != config.netns)
		return 0;
	c = bpf_map_lookup_elem(&check, &zero);
	if (c)
		__sync_fetch_and_add(&c->packets, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
