// SPDX-License-Identifier: MIT OR Apache-2.0
/* Counts the packets that pass the ingress of a device, by length, VLAN tag and type, and lets them pass. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct arrival {
	__u32 length; /* without the outer VLAN tag, which the kernel keeps outside the frame */
	__u32 vlan; /* 0 without a tag */
	__u32 type; /* PACKET_HOST, PACKET_BROADCAST, ... (linux/if_packet.h) */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct arrival);
	__type(value, __u64);
} arrivals SEC(".maps");

SEC("tc")
int count_arrival(struct __sk_buff *skb)
{
	struct arrival arrival = {
		.length = skb->len,
		.vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : 0,
		.type = skb->pkt_type,
	};
	__u64 one = 1, *count = bpf_map_lookup_elem(&arrivals, &arrival);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&arrivals, &arrival, &one, BPF_ANY);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
