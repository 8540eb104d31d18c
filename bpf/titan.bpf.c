// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Dynamic queue assignment (Titan, ATC 2017, section 3.1) at the egress of a multiqueue device, on an unmodified
 * kernel.
 *
 * weft_titan, for each packet:
 * 1. Find the entry of the packet's socket in the flow table, or create one (titan_table.h).
 * 2. If the flow is not active, make it active in the least occupied queue, if it may move (titan_assign.h).
 * 3. Add the packet's segments to the flow, and its bytes to the flow and the queue.
 * 4. Write queue and tag into the hash: hash % queues is the queue. Our NIC reads it. For other devices a tc action
 *    after this classifier selects the queue (skbedit with SKBEDIT_F_TXQ_SKBHASH).
 *
 * The departure programs, for each freed packet:
 * 1. Find the flow by the tag in the hash; check that the entry still belongs to the packet's socket.
 * 2. Subtract the segments. With the last, the flow leaves its queue's load (count_out).
 *
 * A timer counts out flows whose departures were missed (titan_sweep.h).
 *
 * A flow is a socket, identified by its address. It is active from its first packet here until its last packet is
 * freed, and counts in one queue with its weight. It may change its queue only when no packet of it is outstanding.
 * The kernel charges every packet below a socket to sk_wmem_alloc until it is freed. If the charge is that of this
 * packet alone, no other is in a qdisc, ring or receive backlog (tcp_transmit_skb's ooo_okay is the same test).
 * Packets that a weftline NIC has fetched from a ring are listed in the page.
 *
 * Rule: no packet is ever overtaken, whether departure events are lost or not, since they only serve the counts.
 * They come from the packets' destructors where the kernel lets programs attach (fentry), else from the tracepoints
 * of freed packets.
 *
 * Every rare branch counts in struct weft_titan_totals: packets without a socket, passed, beyond the bound, flows
 * kept, repaired and swept, retries and given-up updates. A departure of an untagged packet is not ours and needs
 * no counter.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "flow_key.h"
#include "match.h"
#include "titan.h"
#include "titan_sweep.h"

/* A full socket (sk_fullsock, include/net/sock.h) of TCP or UDP. */
static __always_inline int is_flow(struct sock *sk)
{
	__u32 partial = 1 << BPF_TCP_TIME_WAIT | 1 << BPF_TCP_NEW_SYN_RECV;

	if (1 << (sk->__sk_common.skc_state & 31) & partial)
		return 0;
	return sk->sk_protocol == IPPROTO_TCP || sk->sk_protocol == IPPROTO_UDP;
}

/*
 * Whether no packet of the socket is outstanding except this one, by the socket's charge. Read after the flow's
 * word.
 */
static __always_inline __u32 is_alone(struct sk_buff *k, struct sock *sk)
{
	__u32 charge = *(volatile int *)&sk->sk_wmem_alloc.refs.counter;

	/*
	 * One is the socket's own reference (sk_alloc). Resets and acknowledgements that the kernel sends for a
	 * socket that no longer or not yet exists carry its name without being charged (ip_send_unicast_reply, since
	 * Linux 6.13).
	 */
	return charge <= (k->destructor == &sock_edemux ? 0 : k->truesize) + 1;
}

/* The maximum number of reads of a flow's word that keeps changing. Then the packet joins the flow's queue. */
#define LOOKS 4

/*
 * Counts a packet of the socket in its flow. Returns the flow's word; 0 when the packet is left to the device's
 * choice.
 */
static __always_inline __u64 assign(struct __sk_buff *skb, struct weft_titan_flow *f, struct sk_buff *k, struct sock *sk,
				    __u32 segments)
{
	__u64 old, now;
	__u32 alone;
	int i;

	for (i = 0; i < LOOKS; i++) {
		old = fetch_state(f);
		/*
		 * Another flow has just taken the entry: no packet of this one is outstanding that could be
		 * overtaken.
		 */
		if (socket_of(f) != sk)
			return 0;
		alone = is_alone(k, sk);
		if (!IS_ACTIVE(old)) {
			if (config.rules > 1)
				weigh_flow(skb, f);
			now = activate(skb, f, old, segments, alone);
			if (now != LOOK_AGAIN)
				return now;
		} else if (alone) {
			repair(f, old);
		} else {
			break;
		}
	}
	return add(f, (__u64)sk, segments);
}

SEC("tc")
int weft_titan(struct __sk_buff *skb)
{
	int pass = config.with_action ? 0 : TC_ACT_UNSPEC, assigned = config.with_action ? 1 : TC_ACT_UNSPEC;
	struct weft_titan_totals *t;
	struct weft_titan_flow *f;
	struct weft_queues *page;
	struct weft_queue *q;
	struct weft_titan_flows *all;
	struct sk_buff *k;
	struct sock *sk;
	__u32 zero = 0, segments, first;
	__u64 state, cookie;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	all = bpf_map_lookup_elem(&flows, &zero);
	if (!t || !page || !all)
		return pass;
	k = bpf_cast_to_kern_ctx(skb);
	sk = k->sk;
	if (!sk || !is_flow(sk)) {
		__sync_fetch_and_add(&t->without_socket, 1);
		return pass;
	}
	cookie = sk->__sk_common.skc_cookie.counter;
	if (!cookie)
		cookie = bpf_get_socket_cookie(skb);
	first = first_entry(cookie);
	f = entry(all, first);
	if (socket_of(f) != sk) {
		f = find_from(all, sk, first, 1);
		if (!f)
			f = new_flow(all, t, sk, first);
		if (!f)
			return pass;
	}
	segments = skb->gso_segs ? skb->gso_segs : 1;
	state = assign(skb, f, k, sk, segments);
	if (!OUT(state))
		return pass;
	q = queue_of(page, QUEUE(state));
	__sync_fetch_and_add(&q->packets, segments);
	__sync_fetch_and_add(&q->bytes, skb->len);
	__sync_fetch_and_add(&f->bytes, skb->len);
	bytes_in(page, t, f, QUEUE(state), skb->len);
	bpf_set_hash(skb, f->hash + QUEUE(state));
	return assigned;
}

/*
 * Whether the other program of a pair has counted the packet; otherwise records it for that one. The record is the
 * packet's address alone, shared by all cores. Between the two programs an interrupt may free other packets of the
 * flow, and the thread may move to another core; neither may replace the packet's record. If the other program was
 * not run, the record stays until the address is reused; the second program then counts that packet.
 */
static __always_inline int seen_already(struct sk_buff *skb)
{
	__u64 address = (__u64)skb, at = address >> 8;
	__u32 zero = 0, i, bucket = (at ^ at >> 8 ^ at >> 16) & (SEEN_BUCKETS - 1);
	struct seen *all = bpf_map_lookup_elem(&seen, &zero);
	__u64 *packet;

	if (!all)
		return 0;
	asm volatile("" : "+r"(bucket));
	packet = all->packet[bucket & (SEEN_BUCKETS - 1)];
#pragma unroll
	for (i = 0; i < SEEN_WAYS; i++)
		if (*(volatile __u64 *)&packet[i] == address &&
		    __sync_val_compare_and_swap(&packet[i], address, 0) == address)
			return 1;
#pragma unroll
	for (i = 0; i < SEEN_WAYS; i++)
		if (!*(volatile __u64 *)&packet[i] && __sync_val_compare_and_swap(&packet[i], 0, address) == 0)
			return 0;
	__sync_lock_test_and_set(&packet[0], address);
	return 0;
}

/* Counts the departure of a packet, which is being freed with its socket's charge. */
static __always_inline void left(struct sk_buff *skb, int in_pair)
{
	struct weft_titan_totals *t;
	struct weft_titan_flows *all;
	struct weft_titan_flow *f;
	struct weft_queues *page;
	struct weft_queue *q;
	struct sock *sk = skb->sk;
	__u32 zero = 0, segments, number;
	__u64 old;
	__s64 rest;
	struct skb_shared_info *shared;

	if (!sk)
		return;
	number = (((skb->hash >> WEFT_TAG_SHIFT) * WEFT_TAG_INVERSE) & WEFT_TAG_MASK) - 1;
	if (number >= WEFT_FLOWS)
		return;
	all = bpf_map_lookup_elem(&flows, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	t = bpf_map_lookup_elem(&totals, &zero);
	if (!all || !page || !t)
		return;
	f = entry(all, number);
	old = fetch_state(f);
	if (socket_of(f) != sk || (in_pair && seen_already(skb)))
		return;
	/*
	 * Counted in segments, so that a packet may be cut in between: the whole packet, which then loses its
	 * socket, does not count, and each piece does.
	 */
	shared = bpf_rdonly_cast(skb->head + skb->end, bpf_core_type_id_kernel(struct skb_shared_info));
	segments = shared->gso_segs ? shared->gso_segs : 1;
	if (old & WEFT_FLOW_FLAGS || OUT(old) < segments)
		return; /* repaired before */
	/* Before the word: when the word has no segments, all bytes have been counted, except those settled then. */
	bytes_left(page, t, f, skb->len);
	old = take_out(page, t, f, segments);
	if (!OUT(old))
		return;
	q = queue_of(page, QUEUE(old));
	__sync_fetch_and_add(&q->left_packets, segments);
	if (OUT(old) == segments) {
		rest = bytes_settled(t, f, QUEUE(old));
		if (rest)
			__sync_fetch_and_add(&q->left_bytes, (__u64)rest);
		/* Not started by the classifier: the timer would keep it loaded after the device is deleted. */
		start_sweep();
	}
}

/* Departures by the packets' destructors (net/ipv4/tcp_output.c, net/core/sock.c): exact whatever frees or orphans them. */
SEC("fentry/tcp_wfree")
int BPF_PROG(weft_tcp_wfree, struct sk_buff *skb)
{
	left(skb, 0);
	return 0;
}

SEC("fentry/sock_wfree")
int BPF_PROG(weft_sock_wfree, struct sk_buff *skb)
{
	left(skb, 0);
	return 0;
}

/* Packets that are not charged: see weft_titan. */
SEC("fentry/sock_edemux")
int BPF_PROG(weft_edemux, struct sk_buff *skb)
{
	left(skb, 0);
	return 0;
}

/* Pure acknowledgements. */
SEC("fentry/__sock_wfree")
int BPF_PROG(weft_ack_wfree, struct sk_buff *skb)
{
	left(skb, 0);
	return 0;
}

/*
 * Departures by the tracepoints of freed packets. The kernel does not run a tracing program on a core where the
 * same program is running (prog->active). That program may have been interrupted, or its thread may have lost the
 * core for milliseconds, and departures would be missed. Therefore two programs are attached, so that at least one runs.
 */
SEC("tp_btf/consume_skb")
int BPF_PROG(weft_consumed, struct sk_buff *skb)
{
	left(skb, 0);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(weft_dropped, struct sk_buff *skb)
{
	left(skb, 1);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(weft_dropped_2, struct sk_buff *skb)
{
	left(skb, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
