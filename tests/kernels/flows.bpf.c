// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts the bytes that each TCP flow over IPv4 hands to each transmit queue, where the destination's port is 5201: at
 * the tracepoint before the driver, thus by the queue that the packet really took. scripts/test-kernels compiles it,
 * bpftool in the guest loads it.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define LOAD_PORT 5201

/* The fields that are read; libbpf finds where the kernel has them. */
struct sk_buff {
	unsigned int len;
	__u16 queue_mapping;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
} __attribute__((preserve_access_index));

struct flow_at_queue {
	__u16 port;
	__u16 queue;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow_at_queue);
	__type(value, __u64);
} weft_flows SEC(".maps");

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(weft_count, const struct sk_buff *skb)
{
	struct iphdr ip;
	struct tcphdr tcp;

	if (bpf_probe_read_kernel(&ip, sizeof(ip), skb->head + skb->network_header) || ip.version != 4 ||
	    ip.protocol != IPPROTO_TCP)
		return 0;
	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->head + skb->transport_header) ||
	    tcp.dest != bpf_htons(LOAD_PORT))
		return 0;

	struct flow_at_queue key = { .port = bpf_ntohs(tcp.source), .queue = skb->queue_mapping };
	__u64 len = skb->len, *bytes = bpf_map_lookup_elem(&weft_flows, &key);

	if (bytes)
		__sync_fetch_and_add(bytes, len);
	else
		/* Two at once: the second is not counted, one packet of very many. */
		bpf_map_update_elem(&weft_flows, &key, &len, BPF_NOEXIST);
	return 0;
}

char _license[] SEC("license") = "GPL";
