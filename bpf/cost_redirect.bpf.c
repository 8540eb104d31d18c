// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A plain redirect between devices: the peer of `weft bench cost`, which shows what a packet's way through a host costs
 * at the least. It counts nothing and reads no header.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* The target of packets that arrive at a device. */
struct weft_cost_target {
	__u32 ifindex;
	__u32 flags; /* of bpf_redirect */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, __u32); /* the device's number */
	__type(value, struct weft_cost_target);
} targets SEC(".maps");

SEC("tc")
int weft_cost_way(struct __sk_buff *skb)
{
	__u32 from = skb->ifindex;
	struct weft_cost_target *to = bpf_map_lookup_elem(&targets, &from);

	if (!to)
		return TC_ACT_UNSPEC;
	return bpf_redirect(to->ifindex, to->flags);
}

char _license[] SEC("license") = "Dual MIT/GPL";
