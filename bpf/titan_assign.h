/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The queue of a flow that becomes active: the least occupied one, unless a packet of the flow may be outstanding. */
#ifndef WEFT_TITAN_ASSIGN_H
#define WEFT_TITAN_ASSIGN_H

#include "titan_maps.h"

/* A search over the queues for the least occupied. */
struct look {
	struct weft_queues *page;
	struct weft_titan_pool *pool; /* or null: all queues */
	__u64 best_load;
	__u32 best;
	__u32 at;
	__u32 count;
};

static long look_at(__u32 index, struct look *l)
{
	__u32 number;
	__u64 load;

	if (l->pool)
		number = l->pool->queue[l->at & (WEFT_QUEUES - 1)];
	else
		number = l->at;
	load = *(volatile __u64 *)load_of(l->page, number);
	if (WEFT_LOAD_WEIGHT(load) < WEFT_LOAD_WEIGHT(l->best_load)) {
		l->best_load = load;
		l->best = number;
	}
	l->at = l->at + 1 >= l->count ? 0 : l->at + 1;
	return l->best_load == 0;
}

/*
 * The queue for a flow that becomes active. Among equally occupied queues the flow's own is preferred, then the
 * next in circular order. A new flow's own queue is that of its hash, so that flows of different cores start their
 * searches at different queues.
 */
static __noinline __u32 least_occupied(struct weft_queues *page, struct weft_titan_pool *pool, __u32 own, __u64 *load)
{
	struct look l = { .page = page, .pool = pool, .best_load = ~0ull, .best = own, .at = own };
	__u32 i;

	if (!page || !load)
		return own;
	l.count = config.queues;
	if (pool) {
		l.count = pool->queues;
		l.at = 0;
		for (i = 0; i < WEFT_QUEUES && i < l.count; i++)
			if (pool->queue[i] == own) {
				l.at = i;
				break;
			}
	}
	bpf_loop(l.count, look_at, &l, 0);
	*load = l.best_load;
	return l.best;
}

static __always_inline __u32 by_hash(struct weft_titan_pool *pool, __u32 hash)
{
	if (pool && pool->queues)
		return pool->queue[hash % pool->queues & (WEFT_QUEUES - 1)];
	return hash % config.queues;
}

static __always_inline struct weft_titan_pool *pool_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct weft_titan_pool *pool;

	if (!config.pooled)
		return 0;
	pool = bpf_map_lookup_elem(&pools, &cpu);
	return pool && pool->queues ? pool : 0;
}

/* The weight of a packet's flow, by the match table: a row's lane is the weight. */
static __noinline __u32 weigh(struct __sk_buff *skb)
{
	struct weft_headers headers = {};
	struct weft_flow_key key = {};
	struct weft_tables *t;
	__u32 zero = 0;

	t = bpf_map_lookup_elem(&tables, &zero);
	if (!t)
		return 0;
	read_common_key(skb, &key, &headers);
	return classify(skb, &key, current_tables(t), 0, frame_of(&headers));
}

/* Whether the NIC may hold a packet of the flow outside its rings; `from`: the queue in which it would be. */
#define FROM_ANY (~0u)
static __always_inline int nic_holds(struct weft_queues *page, struct __sk_buff *skb, __u32 from)
{
	struct weft_flow_key key = {};
	__u64 fetching;

	if (!config.device_holds)
		return 0;
	/* A locked operation, which orders it after the read of the charge on any machine. */
	fetching = __sync_fetch_and_add(&page->fetching, 0);
	if (fetching && (from == FROM_ANY || fetching == from + 1))
		return 1;
	if (!*(volatile __u64 *)&page->holding)
		return 0;
	read_flow_key(skb, &key);
	return *(volatile __u32 *)&page->held[flow_hash(&key) & (WEFT_HELD - 1)] != 0;
}

/* The base of the hashes of an entry's packets, from its tag: the base plus a queue is that queue modulo queues. */
static __always_inline __u32 hash_base(__u32 tag)
{
	__u32 base = (tag << WEFT_TAG_SHIFT) + WEFT_HASH_BASE;

	return base + config.queues - base % config.queues;
}

/*
 * Counts a flow of that weight in the least occupied queue, and returns the queue. If the flow does not become
 * active, the caller counts it out again.
 */
static __always_inline __u32 claim(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				   __u32 own, __u32 weight, int may_move)
{
	struct weft_titan_pool *pool = pool_here();
	__u32 chosen = own;
	__u64 seen, *load;
	int i;

	if (config.assignment == WEFT_ASSIGN_HASH) {
		if (may_move)
			chosen = by_hash(pool, f->hash >> WEFT_TAG_SHIFT);
		__sync_fetch_and_add(load_of(page, chosen), WEFT_LOAD(weight));
	} else if (!may_move) {
		__sync_fetch_and_add(load_of(page, own), WEFT_LOAD(weight));
	} else {
		/*
		 * Another core may take the same queue between selection and claim: then search again. Two retries
		 * suffice; after that the queue is taken as it is.
		 */
		for (i = 0; i < 3; i++) {
			chosen = least_occupied(page, pool, own, &seen);
			load = load_of(page, chosen);
			if (__sync_val_compare_and_swap(load, seen, seen + WEFT_LOAD(weight)) == seen)
				break;
			__sync_fetch_and_add(&t->retries, 1);
		}
		if (i == 3)
			__sync_fetch_and_add(load_of(page, chosen), WEFT_LOAD(weight));
	}
	return chosen & (WEFT_QUEUES - 1);
}

static long add_flows(__u32 number, struct look *l)
{
	l->best_load += WEFT_LOAD_FLOWS(*(volatile __u64 *)load_of(l->page, number));
	return 0;
}

/* The number of active flows, needed only with a bound below the table's size. */
static __noinline __u64 active(struct weft_queues *page)
{
	struct look sum = { .page = page };

	if (page)
		bpf_loop(config.queues, add_flows, &sum, 0);
	return sum.best_load;
}

/*
 * Keeps the weight of a flow that may become active: the stored one, unless the packet's mark or cgroup has changed. Not
 * called from `activate`, to whose stack that of the classification would be added.
 */
static __noinline int weigh_flow(struct __sk_buff *skb, struct weft_titan_flow *f)
{
	__u64 weighed, key;
	__u32 weight;

	if (!f)
		return 0;
	/* Odd numbers; the upper bits of the products depend on all bits of the factors. */
	key = bpf_skb_cgroup_id(skb) * 0x9e3779b97f4a7c15ull;
	key = (key ^ key >> 32 ^ skb->mark) * 0xd6e8feb86659fd93ull;
	weighed = *(volatile __u64 *)&f->weighed;
	if (weighed & 0xffff && weighed >> 16 == key >> 16)
		return 0;
	weight = weigh(skb) & 0xffff;
	if (!weight)
		weight = 1;
	*(volatile __u64 *)&f->weighed = (key & ~0xffffull) | weight;
	return 0;
}

/* The weight of a flow, after `weigh_flow`. */
static __always_inline __u32 weight_of(const struct weft_titan_flow *f)
{
	__u32 weight = *(volatile __u64 *)&f->weighed & 0xffff;

	if (config.rules <= 1)
		weight = config.default_weight;
	return weight ? weight : 1;
}

/* The result for a packet whose flow is not active; otherwise the flow's word, which has segments. */
#define LEFT_ALONE 0ull /* left to the device's choice */
#define LOOK_AGAIN WEFT_FLOW_TAKEN /* the word has changed */

/*
 * Leaves the packet to the device's choice; the flow is not assigned until all such packets have left. `old`: its
 * word, without segments or with a flag. The word changes with each such packet: another core may have found no
 * outstanding packet before this one was charged, and must not make the flow active now.
 */
static __always_inline __u64 leave_alone(struct weft_titan_flow *f, __u64 old, __u64 *counted)
{
	*(volatile __u32 *)&f->idle_since = bpf_jiffies64();
	if (__sync_val_compare_and_swap(&f->state, old, (old | WEFT_FLOW_PASSING) + WEFT_FLOW_ENDED) != old)
		return LOOK_AGAIN;
	__sync_fetch_and_add(counted, 1);
	return LEFT_ALONE;
}

/*
 * Makes the flow with the word `old` active, with the current packet. `segments`: those of the packet; `alone`: no
 * other packet of the socket is outstanding, determined after the word was read.
 */
static __noinline __u64 activate(struct __sk_buff *skb, struct weft_titan_flow *f, __u64 old, __u32 segments, __u32 alone)
{
	struct weft_titan_totals *t;
	struct weft_queues *page;
	struct weft_queue *q;
	__u32 zero = 0, weight, chosen, kept = 0;
	__u64 now;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!f || !t || !page)
		return LEFT_ALONE;
	/* Segments in such a word were added by cores that will find the flag and subtract them. */
	if (old & WEFT_FLOW_TAKEN || OUT(old))
		return leave_alone(f, old, &t->passed);
	if (old & (WEFT_FLOW_PASSING | WEFT_FLOW_NEW)) {
		/* The device's choice for its earlier packets is unknown. */
		if (!alone || (old & WEFT_FLOW_PASSING && nic_holds(page, skb, FROM_ANY)))
			return leave_alone(f, old, &t->passed);
	}
	if (config.most_flows < WEFT_FLOWS && active(page) >= config.most_flows)
		return leave_alone(f, old, &t->beyond);
	weight = weight_of(f);
	if (alone && f->bytes && nic_holds(page, skb, QUEUE(old))) {
		alone = 0;
		kept = 1;
	}
	chosen = claim(page, t, f, QUEUE(old), weight, alone);
	now = PLACE(chosen, weight) | (old & WEFT_FLOW_ENDINGS) | segments;
	/* Other cores may have found the same last place: then none takes it. */
	if (config.most_flows < WEFT_FLOWS && active(page) > config.most_flows) {
		count_out(page, now);
		return leave_alone(f, old, &t->beyond);
	}
	if (__sync_val_compare_and_swap(&f->state, old, now) != old) {
		count_out(page, now);
		return LOOK_AGAIN;
	}
	if (kept)
		__sync_fetch_and_add(&t->kept, 1);
	q = queue_of(page, chosen);
	__sync_fetch_and_add(&q->activations, 1);
	if (chosen != QUEUE(old) && f->bytes)
		__sync_fetch_and_add(&q->moves, 1);
	say_changed(page, chosen);
	return now;
}
#endif
