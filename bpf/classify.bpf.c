// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The classes of packets at a device whose qdiscs are the tree of a policy (docs/kernel-path.md). No process is needed.
 *
 * weft_classify, at the egress before the qdiscs, for each packet:
 * 1. Parse the headers into the flow key.
 * 2. Infrastructure within its share has a lane. For others, look up the lane of the flow; a flow that is not known, or
 *    whose tested fields or tables have changed, is classified by the match tables.
 * 3. Limits by destination and port: give the packet the time from which it may leave, or drop it.
 * 4. Count the packet for its class, and write the handle of the class's leaf to skb->priority.
 *
 * weft_find_class, the filter of each qdisc above the one that holds the leaf: the class in that qdisc, from the handle.
 *
 * The handle is written whatever the sender had set there, and the packet passes on to later programs (TC_ACT_UNSPEC): their
 * verdicts count, and ours cannot end the chain.
 *
 * Ownership: any core reads all maps. The process that changes the policy writes the bank of `leaves` that is not in use, then
 * the match tables, which carry the bank in their generation. `ways` is only added to before that, and removed from after it.
 *
 * Rare branches: a packet without ports (a fragment whose first one has not passed) is classified without them, and counts in
 * `obscured`; infrastructure beyond its share counts in `excess`, packets beyond a horizon in their class. A failed look-up of an
 * array's element only satisfies the verifier.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "classify.h"

/* Set before loading. */
const volatile struct {
	__u32 net_cls; /* whether the kernel has net_cls */
	__u32 qdisc;   /* weft_find_class: the handle of its qdisc */
} config = {};

static __always_inline int has_net_cls(void)
{
	return config.net_cls;
}

/* Nothing notes the makers of sockets here: rows that test processes are refused. */
static __always_inline const __u32 *process_of(struct __sk_buff *skb)
{
	return 0;
}

/* The number that rows have for the device where a forwarded packet came in; 0: none, as of the host's own packets. */
static __always_inline __u32 port_of(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ingress_ifindex, *number;

	if (!ifindex)
		return 0;
	number = bpf_map_lookup_elem(&interfaces, &ifindex);
	return number ? *number : 0;
}

/* Classifies a flow, and notes its lane. A separate function, for its stack. */
static __noinline __u32 classify_flow(struct __sk_buff *skb, struct weft_owned_key *owned, struct weft_known *flow)
{
	if (!owned || !flow)
		return 0;
	flow->lane = classify(skb, &owned->key, flow->generation, flow->port, flow->frame);
	if (owned->key.is_ip)
		bpf_map_update_elem(&known, owned, flow, BPF_ANY);
	return flow->lane;
}

/* The lane of a packet by the tables of generation `current`. */
static __always_inline __u32 lane_of(struct __sk_buff *skb, const struct weft_tested *tested, __u64 current,
				     struct weft_guard *g)
{
	struct weft_owned_key owned = {};
	struct weft_headers headers = {};
	struct weft_known flow = { .generation = current, .mark = skb->mark, .priority = skb->priority, .port = port_of(skb) };
	struct weft_known *seen;
	__u32 lane;

	if (!read_owned_key(skb, tested->flags, tested->frame, &owned, &headers)) {
		owned.key.sport = owned.key.dport = 0;
		__sync_fetch_and_add(&g->obscured, 1);
	}
	if (is_infrastructure(skb, &owned.key, &headers)) {
		lane = infrastructure_lane(skb, g);
		if (lane != ~0u)
			return lane;
	}
	flow.frame = frame_of(&headers);
	seen = bpf_map_lookup_elem(&known, &owned);
	if (seen && seen->generation == current && seen->port == flow.port && !((seen->mark ^ flow.mark) & tested->mark) &&
	    !((seen->priority ^ flow.priority) & tested->priority) && !((seen->frame ^ flow.frame) & tested->frame))
		return seen->lane;
	return classify_flow(skb, &owned, &flow);
}

/* Takes the time of `bytes` from a limit. Returns the time from which they may leave; 0: beyond the horizon. */
static __always_inline __u64 take_time(struct weft_clock *clock, __u64 now, __u64 bytes)
{
	__u64 cost = bytes * clock->nanos_per_kib >> 10;
	int i;

	for (i = 0; i < 8; i++) {
		__u64 old = *(volatile __u64 *)&clock->next_ns;
		/* An unused limit has saved its burst, and no more. */
		__u64 from = old + clock->burst_ns > now ? old : now - clock->burst_ns;

		if (from > now + clock->horizon_ns)
			return 0;
		if (__sync_val_compare_and_swap(&clock->next_ns, old, from + cost) == old)
			return from > now ? from : now;
	}
	/* Other cores use the limit at this moment: the packet waits for what they have taken. */
	return __sync_fetch_and_add(&clock->next_ns, cost);
}

/* Gives a packet the time from which all limits of its lane let it leave. Returns 0 if one does not within its horizon. */
static __noinline int give_time(struct __sk_buff *skb, const struct weft_leaf *leaf)
{
	__u64 now = bpf_ktime_get_ns(), at = now, bytes;
	__u32 i;

	if (!leaf)
		return 1;
	/* As HTB: the bytes around a frame once for each packet. */
	bytes = skb->wire_len + 24;
	for (i = 0; i < WEFT_LANE_CLOCKS && i < leaf->clocks; i++) {
		__u32 number = leaf->clock[i];
		struct weft_clock *clock = bpf_map_lookup_elem(&clocks, &number);
		__u64 from = clock ? take_time(clock, now, bytes) : now;

		if (!from)
			return 0;
		if (from > at)
			at = from;
	}
	/* A later time that the sender asked for stays. One that is far away is of another clock. */
	if (at > now && (at > skb->tstamp || skb->tstamp - now > WEFT_ASKED_MAX_NS))
		bpf_skb_set_tstamp(skb, at, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return 1;
}

SEC("tc")
int weft_classify(struct __sk_buff *skb)
{
	struct weft_class_count *count;
	struct weft_tables *t;
	struct weft_leaf *leaf;
	struct weft_guard *g;
	__u32 zero = 0, lane, class, packets = skb->gso_segs ? skb->gso_segs : 1;
	__u64 current;

	t = bpf_map_lookup_elem(&tables, &zero);
	g = bpf_map_lookup_elem(&guard, &zero);
	if (!t || !g)
		return TC_ACT_UNSPEC;
	current = current_tables(t);
	lane = lane_of(skb, &bank_of(t, current)->tested, current, g);
	lane = (lane & (WEFT_LEAVES - 1)) | ((__u32)current & 1) * WEFT_LEAVES;
	leaf = bpf_map_lookup_elem(&leaves, &lane);
	if (!leaf)
		return TC_ACT_UNSPEC;
	class = leaf->class;
	count = bpf_map_lookup_elem(&counts, &class);
	if (!count)
		return TC_ACT_UNSPEC;
	if (leaf->clocks && !give_time(skb, leaf)) {
		count->late += packets;
		count->late_bytes += skb->wire_len;
		return TC_ACT_SHOT;
	}
	count->packets += packets;
	count->bytes += skb->wire_len;
	skb->priority = leaf->priority;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int weft_find_class(struct __sk_buff *skb)
{
	struct weft_way way = { .qdisc = config.qdisc, .priority = skb->priority };
	__u32 *class = bpf_map_lookup_elem(&ways, &way);

	if (!class) {
		way.priority = 0;
		class = bpf_map_lookup_elem(&ways, &way);
	}
	if (!class)
		return TC_ACT_UNSPEC;
	skb->tc_classid = *class;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
