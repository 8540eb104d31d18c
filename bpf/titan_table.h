/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flow table: owners of entries, new flows, and flows with missed departures. */
#ifndef WEFT_TITAN_TABLE_H
#define WEFT_TITAN_TABLE_H

#include "titan_assign.h"

/* The owner of an entry. Read after its state: see take_entry. */
static __always_inline struct sock *socket_of(struct weft_titan_flow *f)
{
	return (void *)*(volatile __u64 *)&f->socket;
}

/* Counts out the flow with the word `old`: all its packets have left, and departures were missed. */
static __noinline int repair(struct weft_titan_flow *f, __u64 old)
{
	struct weft_titan_totals *t;
	struct weft_queues *page;
	__u32 zero = 0;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!f || !t || !page)
		return 0;
	*(volatile __u32 *)&f->idle_since = bpf_jiffies64();
	if (__sync_val_compare_and_swap(&f->state, old, ended(old)) == old)
		ended_unseen(page, t, f, old);
	return 0;
}

/*
 * Subtracts segments from a flow's word, and counts the flow out with the last. Returns the word before; 0 when it
 * had fewer segments, because the flow was repaired before.
 */
static __always_inline __u64 take_out(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				      __u32 segments)
{
	__u64 old, now;
	int i;

	for (i = 0; i < TRIES; i++) {
		old = fetch_state(f);
		if (old & WEFT_FLOW_FLAGS || OUT(old) < segments)
			return 0;
		now = old - segments;
		if (!OUT(now)) {
			/* Before the word changes: a core that takes the entry reads the word first. */
			*(volatile __u32 *)&f->idle_since = bpf_jiffies64();
			now = ended(now);
		}
		if (__sync_val_compare_and_swap(&f->state, old, now) == old) {
			if (OUT(old) == segments)
				count_out(page, old);
			return old;
		}
	}
	__sync_fetch_and_add(&t->given_up, 1);
	return 0;
}

/*
 * Counts a packet in an active flow. If the flow has just ended, it starts again in its queue, which preserves the
 * order. Returns its word; 0 when the packet does not count, because the flow must not be assigned or the entry has
 * another owner.
 */
static __noinline __u64 add(struct weft_titan_flow *f, __u64 sk, __u32 segments)
{
	struct weft_titan_totals *t;
	struct weft_queues *page;
	__u32 zero = 0;
	__u64 old;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!f || !t || !page)
		return 0;
	old = __sync_fetch_and_add(&f->state, segments);
	if (old & WEFT_FLOW_FLAGS) {
		__sync_fetch_and_add(&f->state, WEFT_FLOW_ENDED - segments);
		__sync_fetch_and_add(&t->passed, 1);
		return 0;
	}
	if (!OUT(old)) {
		count_in(page, old);
		__sync_fetch_and_add(&queue_of(page, QUEUE(old))->activations, 1);
		say_changed(page, QUEUE(old));
	}
	if ((__u64)socket_of(f) == sk)
		return old + segments;
	take_out(page, t, f, segments);
	return 0;
}

/*
 * The idle time after which an entry may be reassigned: by then no packet of the old flow can be in a NIC. At least
 * a second, whatever the kernel's CONFIG_HZ (at most 1000).
 */
#define IDLE_JIFFIES 1000

/*
 * Takes an entry for a new flow. Its word is then flagged as taken, so the previous owner cannot count in it:
 * making a flow active swaps a word read before the owner was checked, and adding to the word returns the flag.
 */
static __always_inline int take_entry(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				      struct sock *sk, __u32 now, __u32 tag)
{
	__u64 old = fetch_state(f), taken, bytes;

	/* Another core may have written a later time than `now`: a negative difference. */
	if (OUT(old) || old & WEFT_FLOW_TAKEN ||
	    (socket_of(f) && (__s32)(now - *(volatile __u32 *)&f->idle_since) < IDLE_JIFFIES))
		return 0;
	taken = PLACE(by_hash(0, tag), 0) | (ended(old) & WEFT_FLOW_ENDINGS) | WEFT_FLOW_TAKEN | WEFT_FLOW_NEW;
	if (__sync_val_compare_and_swap(&f->state, old, taken) != old)
		return 0;
	bytes = __sync_lock_test_and_set(&f->bytes_out, BYTES_WORD(QUEUE(taken), 0));
	if (BYTES(bytes))
		__sync_fetch_and_add(&queue_of(page, BYTES_QUEUE(bytes))->left_bytes, (__u64)BYTES(bytes));
	f->bytes = 0;
	f->weighed = 0;
	f->idle_since = now;
	f->local_port = sk->__sk_common.skc_num;
	f->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	f->hash = hash_base(tag);
	__sync_lock_test_and_set(&f->socket, (__u64)sk);
	return 1;
}

/*
 * The first entry of a socket, by its cookie: ports and addresses are removed from a closing socket that still
 * sends. The kernel assigns cookies in order (gen_cookie_next, include/linux/cookie.h), so sockets of similar age
 * are adjacent. No two of them collide before the table has been filled once, and the flows use as few pages as
 * possible.
 */
static __always_inline __u32 first_entry(__u64 cookie)
{
	return cookie & (WEFT_FLOWS - 1);
}

static __always_inline __u32 way(__u32 first, __u32 i)
{
	return (first & ~(WEFT_FLOW_WAYS - 1)) | ((first + i) & (WEFT_FLOW_WAYS - 1));
}

/* The entry of a socket, from its `from`th way on. The state is read before the owner. */
static __noinline struct weft_titan_flow *find_from(struct weft_titan_flows *all, struct sock *sk, __u32 first, __u32 from)
{
	__u32 i;

	if (!all)
		return 0;
	for (i = from; i < WEFT_FLOW_WAYS; i++) {
		struct weft_titan_flow *f = entry(all, way(first, i));

		if (socket_of(f) == sk)
			return f;
	}
	return 0;
}

/* Creates an entry for a flow without one. The caller must hold the claim. */
static __always_inline struct weft_titan_flow *make_entry(struct weft_titan_flows *all, struct weft_titan_totals *t,
							   struct sock *sk, __u32 first)
{
	__u32 zero = 0, i, number, now = bpf_jiffies64();
	struct weft_queues *page = bpf_map_lookup_elem(&queues, &zero);

	if (!page)
		return 0;
	for (i = 0; i < WEFT_FLOW_WAYS; i++) {
		struct weft_titan_flow *f;

		number = way(first, i) & (WEFT_FLOWS - 1);
		f = entry(all, number);
		if (take_entry(page, t, f, sk, now, ((number + 1) * WEFT_TAG_SPREAD) & WEFT_TAG_MASK))
			return f;
	}
	return 0;
}

/*
 * Creates the entry of a new flow. A socket has one entry, even if two of its packets arrive at the same time. The
 * claim is in the entry that the socket's cookie leads to, and its holder creates the entry. The other core leaves
 * its packet to the device's choice and notes this in the claim, so that the packet is not overtaken. Returns the
 * entry; null when the packet is left to the device.
 */
static __noinline struct weft_titan_flow *new_flow(struct weft_titan_flows *all, struct weft_titan_totals *t, struct sock *sk,
						   __u32 first)
{
	struct weft_titan_flow *home, *f;
	__u32 seen;

	if (!all || !t)
		return 0;
	home = entry(all, first);
	if (__sync_val_compare_and_swap(&home->claim, 0, WEFT_CLAIM_MAKING)) {
		seen = __sync_val_compare_and_swap(&home->claim, WEFT_CLAIM_MAKING, WEFT_CLAIM_MAKING | WEFT_CLAIM_PASSED);
		f = seen ? 0 : find_from(all, sk, first, 0);
		if (!f)
			__sync_fetch_and_add(seen ? &t->passed : &t->beyond, 1);
		return f;
	}
	/* It may have been created since the search. */
	f = find_from(all, sk, first, 0);
	if (f) {
		__sync_lock_test_and_set(&home->claim, 0);
		return f;
	}
	f = make_entry(all, t, sk, first);
	seen = __sync_lock_test_and_set(&home->claim, 0);
	if (!f) {
		__sync_fetch_and_add(&t->beyond, 1);
		return 0;
	}
	if (seen & WEFT_CLAIM_PASSED)
		__sync_fetch_and_or(&f->state, WEFT_FLOW_PASSING);
	__sync_fetch_and_and(&f->state, ~WEFT_FLOW_TAKEN);
	return f;
}
#endif
