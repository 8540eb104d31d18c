// SPDX-License-Identifier: MIT OR Apache-2.0
/* What is before and behind the doorbell in a test: one chooses a queue by the hash, the other writes down the hash that
 * comes out. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 wanted = 1;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("tc")
int before(struct __sk_buff *skb)
{
	bpf_set_hash(skb, wanted);
	return TC_ACT_UNSPEC; /* the next program's turn */
}

SEC("tc")
int behind(struct __sk_buff *skb)
{
	__u32 hash = skb->hash;
	__u64 one = 1, *count = bpf_map_lookup_elem(&seen, &hash);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&seen, &hash, &one, BPF_ANY);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
