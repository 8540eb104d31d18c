// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts the packets that a device receives, by a tracepoint (netif_receive_skb). The device counts them too; the
 * difference is the number of events that the kernel did not report to tracing programs.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The kernel's own structures, reduced to the fields used; offsets are relocated when the program is loaded. */
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

/* Set before loading (product/weft-titan/src/tracing_check.rs). */
const volatile struct {
	__u32 device; /* ifindex */
	__u32 netns;  /* the inode number of its network namespace */
} config;

/* Packets reported to the program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(weft_received, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	__u32 zero = 0;
	__u64 *packets;

	if (dev->ifindex != (int)config.device || dev->nd_net.net->ns.inum != config.netns)
		return 0;
	packets = bpf_map_lookup_elem(&seen, &zero);
	if (packets)
		__sync_fetch_and_add(packets, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
