// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Order check: packets that were overtaken by a later packet of their flow before they arrived here.
 *
 * A connected Linux socket numbers its packets in the IP header: ip_select_ident_segs (include/net/ip.h) takes the
 * socket's next number, and reserves numbers for the segments of a super-packet, which segmentation numbers one by
 * one. TCP numbers under the socket's lock. A retransmission has a new number. Along any path the numbers of a
 * five-tuple therefore only grow (modulo 2^16), and a packet with a smaller number has been overtaken.
 *
 * Number 0 with "don't fragment" may also mean that there is no number: SYN-ACKs (ip_build_and_send_pkt), and the
 * resets and acknowledgements sent without a socket (ip_send_unicast_reply). Such packets are not checked, unless
 * they carry TCP payload or 0 is the expected number. A SYN starts a new series, as does a SYN-ACK with the packet
 * after it.
 *
 * The program changes nothing, and other programs of the hook run after it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "order.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_order_page);
} order SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEFT_ORDER_FLOWS);
	__type(key, struct weft_flow_key);
	__type(value, struct weft_order_flow);
} order_flows SEC(".maps");

/* Set before loading: the maximum number of tracked flows, at most WEFT_ORDER_FLOWS. */
const volatile __u64 flow_bound = WEFT_ORDER_FLOWS;
/* Flows in the table; the process that removes closed flows subtracts them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} order_held SEC(".maps");

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

/* The relevant fields of a packet. */
struct packet {
	__u16 id;
	__u8 flags;    /* of TCP */
	__u8 payload;  /* whether TCP carries any */
	__u8 dont_fragment;
	__u32 segments;
	__u64 entered_ns;
};

/* Parses a packet. 0: not checked. 1: checked. -1: a fragment. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	struct {
		__u8 version_ihl, tos;
		__be16 total, id, fragment;
		__u8 ttl, protocol;
	} ip;
	__u32 header, total;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return 0;
	if (ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP)
		return 0;
	if (ip.fragment & bpf_htons(0x3fff))
		return -1;
	packet->id = bpf_ntohs(ip.id);
	packet->dont_fragment = (ip.fragment & bpf_htons(0x4000)) != 0;
	header = (ip.version_ihl & 15) * 4;
	/* Beyond 64 KiB (BIG TCP) the header's length is 0. */
	total = skb->gso_size ? skb->len - ETH_HLEN : bpf_ntohs(ip.total);
	if (ip.protocol == IPPROTO_TCP) {
		__u8 tcp[2];

		if (bpf_skb_load_bytes(skb, ETH_HLEN + header + 12, tcp, sizeof(tcp)) < 0)
			return 0;
		packet->flags = tcp[1];
		header += (tcp[0] >> 4) * 4;
	} else {
		header += 8;
	}
	packet->payload = ip.protocol == IPPROTO_TCP && total > header;
	packet->segments = 1;
	/* A super-packet from a TAP has no count. */
	if (skb->gso_size)
		packet->segments = skb->gso_segs ? skb->gso_segs
						 : (total - header + skb->gso_size - 1) / skb->gso_size;
	if (packet->segments == 0)
		packet->segments = 1;
	return 1;
}

/* Finds the entry of a flow, or creates one. */
static __always_inline struct weft_order_flow *find_flow(struct weft_flow_key *key, struct weft_order_page *page)
{
	struct weft_order_flow *flow = bpf_map_lookup_elem(&order_flows, key);
	struct weft_order_flow empty = {};
	__u32 zero = 0;
	__u64 *held;

	if (flow)
		return flow;
	held = bpf_map_lookup_elem(&order_held, &zero);
	if (!held)
		return 0;
	if (__sync_fetch_and_add(held, 1) >= flow_bound || bpf_map_update_elem(&order_flows, key, &empty, BPF_NOEXIST) < 0)
		/* The table is full, or another core was first. */
		__sync_fetch_and_add(held, -1);
	else
		__sync_fetch_and_add(&page->flows, 1);
	return bpf_map_lookup_elem(&order_flows, key);
}

static __always_inline void take_example(struct __sk_buff *skb, struct weft_order_page *page,
					 const struct weft_flow_key *key, const struct packet *packet,
					 const struct weft_order_flow *flow)
{
	__u64 index = __sync_fetch_and_add(&page->examples_taken, 1);
	struct weft_order_example *example;

	if (index >= WEFT_ORDER_EXAMPLES)
		return;
	example = &page->examples[index];
	example->key = *key;
	example->time_ns = packet->entered_ns;
	example->seen_ns = flow->seen_ns;
	example->hash = skb->hash;
	example->cpu = bpf_get_smp_processor_id();
	example->seen_cpu = flow->cpu;
	example->expected = flow->next;
	example->id = packet->id;
	example->segments = packet->segments;
	__sync_fetch_and_add(&example->complete, 1);
}

enum verdict { IN_ORDER, LATE, AT_ONCE, UNNUMBERED };

/*
 * Compares a packet's number with its flow's; the caller holds the flow's lock. `skipped`: the count of skipped
 * numbers. `begun`: the five-tuple of a closed connection has a new one.
 */
static __always_inline enum verdict judge(struct weft_order_flow *flow, const struct packet *packet, __u64 now,
					  __u32 cpu, __u16 *skipped, int *begun)
{
	int syn = packet->flags & TCP_SYN;
	__s16 ahead;

	*begun = syn && flow->closed;
	flow->last_ns = now;
	if (syn) {
		flow->numbered = 0;
		flow->closed = 0;
	}
	if (packet->flags & (TCP_FIN | TCP_RST))
		flow->closed = 1;
	if (packet->id == 0 && packet->dont_fragment && !packet->payload && (!flow->numbered || flow->next != 0))
		return UNNUMBERED;
	ahead = flow->numbered ? (__s16)(packet->id - flow->next) : 0;
	if (ahead < 0) {
		/*
		 * This packet was in the program when the other was recorded: the lock determined their order, not
		 * the path.
		 */
		if (flow->cpu != cpu && packet->entered_ns <= flow->seen_ns)
			return AT_ONCE;
		return LATE;
	}
	*skipped = ahead;
	flow->numbered = 1;
	flow->next = packet->id + packet->segments;
	flow->seen_ns = now;
	flow->cpu = cpu;
	return IN_ORDER;
}

SEC("tc")
int weft_order(struct __sk_buff *skb)
{
	struct packet packet = { .entered_ns = bpf_ktime_get_ns() };
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct weft_order_flow *flow, before;
	struct weft_order_page *page;
	struct weft_flow_key key = {};
	enum verdict verdict;
	__u16 skipped = 0;
	int kind, begun = 0;
	__u64 now;

	page = bpf_map_lookup_elem(&order, &zero);
	if (!page || skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_UNSPEC;
	kind = read_packet(skb, &packet);
	if (kind == 0)
		return TC_ACT_UNSPEC;
	if (kind < 0) {
		__sync_fetch_and_add(&page->unnumbered, 1);
		return TC_ACT_UNSPEC;
	}
	read_flow_key(skb, &key);
	flow = find_flow(&key, page);
	if (!flow) {
		__sync_fetch_and_add(&page->beyond, packet.segments);
		return TC_ACT_UNSPEC;
	}
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&flow->lock);
	before.next = flow->next;
	before.seen_ns = flow->seen_ns;
	before.cpu = flow->cpu;
	verdict = judge(flow, &packet, now, cpu, &skipped, &begun);
	bpf_spin_unlock(&flow->lock);

	if (begun)
		__sync_fetch_and_add(&page->flows, 1);
	if (verdict == UNNUMBERED) {
		__sync_fetch_and_add(&page->unnumbered, 1);
		return TC_ACT_UNSPEC;
	}
	__sync_fetch_and_add(&page->packets, packet.segments);
	__sync_fetch_and_add(&page->bytes, skb->len);
	if (verdict == IN_ORDER) {
		if (skipped)
			__sync_fetch_and_add(&page->gaps, skipped);
		return TC_ACT_UNSPEC;
	}
	if (verdict == AT_ONCE) {
		__sync_fetch_and_add(&page->at_once, packet.segments);
		return TC_ACT_UNSPEC;
	}
	__sync_fetch_and_add(&page->late, packet.segments);
	take_example(skb, page, &key, &packet, &before);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
