/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of flows: whose an entry is, new flows, and flows whose departures were not all seen. */
#ifndef WEFT_TITAN_TABLE_H
#define WEFT_TITAN_TABLE_H

#include "titan_assign.h"

/* All packets have left although not all departures were seen: the flow is counted out here. */
static __noinline int repair(struct weft_titan_flow *f, __u32 outstanding)
{
	struct weft_titan_totals *t;
	struct weft_queues *page;
	struct weft_queue *q;
	__u32 zero = 0;
	__u64 old;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!f || !t || !page)
		return 0;
	old = __sync_fetch_and_sub(&f->state, outstanding);
	q = queue_of(page, QUEUE(old));
	__sync_fetch_and_add(&q->left_packets, outstanding);
	if (OUT(old) == outstanding) {
		__sync_fetch_and_add(&q->left_bytes, __sync_lock_test_and_set(&f->bytes_out, 0));
		count_out(page, f, old);
		__sync_fetch_and_add(&t->repaired, 1);
	}
	return 0;
}

/*
 * An entry that nobody has used for so long may go to another flow: by then nothing of the old one can be in a NIC. At least
 * a second, whatever the kernel's CONFIG_HZ (at most 1000).
 */
#define IDLE_JIFFIES 1000

/*
 * Takes an entry for a new flow. Whoever had it may just become active: it counts itself in before it looks whose the entry
 * is, and here the entry is taken before its count is read. One of the two sees the other and steps back.
 */
static __always_inline int take_entry(struct weft_titan_flow *f, struct sock *sk, __u32 now)
{
	__u64 before = *(volatile __u64 *)&f->socket;

	if (OUT(*(volatile __u64 *)&f->state) || (before && now - f->idle_since < IDLE_JIFFIES))
		return 0;
	if (__sync_val_compare_and_swap(&f->socket, before, (__u64)sk) != before)
		return 0;
	if (!OUT(__sync_fetch_and_add(&f->state, 0)))
		return 1;
	__sync_lock_test_and_set(&f->socket, before);
	return 0;
}

/*
 * By the socket's cookie: ports and addresses are taken from a socket that is being closed while it still sends. The kernel
 * gives cookies in order (gen_cookie_next, include/linux/cookie.h), so sockets of an age are neighbours: no two of them meet
 * before the table has been gone round once, and as many flows as there are take as few pages as can be.
 */
static __always_inline __u32 first_entry(__u64 cookie)
{
	return cookie & (WEFT_FLOWS - 1);
}

static __always_inline __u32 way(__u32 first, __u32 i)
{
	return (first & ~(WEFT_FLOW_WAYS - 1)) | ((first + i) & (WEFT_FLOW_WAYS - 1));
}

static __noinline struct weft_titan_flow *find_further(struct weft_titan_flows *all, struct sock *sk, __u32 first)
{
	__u32 i;

	if (!all)
		return 0;
	for (i = 1; i < WEFT_FLOW_WAYS; i++) {
		struct weft_titan_flow *f = entry(all, way(first, i));

		if ((void *)f->socket == sk)
			return f;
	}
	return 0;
}

/* A flow that is seen for the first time. Returns the number of its entry. */
static __noinline __u32 new_flow(struct weft_titan_flows *all, struct weft_titan_totals *t, struct sock *sk, __u32 first)
{
	__u32 i, number, tag, now = bpf_jiffies64();

	if (!all || !t)
		return WEFT_FLOWS;
	for (i = 0; i < WEFT_FLOW_WAYS; i++) {
		struct weft_titan_flow *f;

		number = way(first, i) & (WEFT_FLOWS - 1);
		f = entry(all, number);
		if (!take_entry(f, sk, now))
			continue;
		tag = ((number + 1) * WEFT_TAG_SPREAD) & WEFT_TAG_MASK;
		f->state = PLACE(by_hash(0, tag), 0);
		f->bytes = 0;
		f->bytes_out = 0;
		f->cgroup = 0;
		f->mark = 0;
		f->passing = 0;
		f->idle_since = now;
		f->local_port = sk->__sk_common.skc_num;
		f->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
		f->hash = tag << WEFT_TAG_SHIFT;
		return number;
	}
	__sync_fetch_and_add(&t->beyond, 1);
	return WEFT_FLOWS;
}
#endif
