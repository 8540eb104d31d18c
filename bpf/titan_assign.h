/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The queue of a flow that becomes active: the least occupied, unless something of the flow may still be on its way. */
#ifndef WEFT_TITAN_ASSIGN_H
#define WEFT_TITAN_ASSIGN_H

#include "titan_maps.h"

/* A look over the queues for the least occupied. */
struct look {
	struct weft_queues *page;
	struct weft_titan_pool *pool; /* or none: all queues */
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
 * The queue for a flow that becomes active. Of equally occupied queues the flow's own wins, then the next in circular order;
 * a new flow's own is that of its hash, so that flows of different cores begin to look in different places.
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

/* The weight of a packet's flow, by the match table; a row's lane is the weight. */
static __noinline __u32 weigh(struct __sk_buff *skb)
{
	struct weft_flow_key key = {};

	read_flow_key(skb, &key);
	return classify(skb, &key, config.cgroups, config.rules);
}

/* Whether the NIC may hold a packet of the flow outside its rings; `from`: the queue that it can have come from. */
#define FROM_ANY (~0u)
static __always_inline int nic_holds(struct weft_queues *page, struct __sk_buff *skb, __u32 from)
{
	struct weft_flow_key key = {};
	__u64 fetching;

	if (!config.device_holds)
		return 0;
	/* A locked operation: after the charge was read, whatever the machine. */
	fetching = __sync_fetch_and_add(&page->fetching, 0);
	if (fetching && (from == FROM_ANY || fetching == from + 1))
		return 1;
	if (!*(volatile __u64 *)&page->holding)
		return 0;
	read_flow_key(skb, &key);
	return *(volatile __u32 *)&page->held[flow_hash(&key) & (WEFT_HELD - 1)] != 0;
}

static __always_inline void set_queue(struct weft_titan_flow *f, __u32 tag, __u32 queue)
{
	__u32 base = (tag << WEFT_TAG_SHIFT) + WEFT_HASH_BASE;

	f->hash = base + (queue + config.queues - base % config.queues) % config.queues;
}

/* Counts the flow into the least occupied queue; returns what to add to its state. */
static __always_inline __u64 claim(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				   __u32 own, __u32 weight, int may_move)
{
	struct weft_titan_pool *pool = pool_here();
	struct weft_queue *q;
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
		/* Another core may take the same queue between look and claim: then look again. Twice is enough; what
		 * comes thereafter is taken as it is. */
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
	q = queue_of(page, chosen);
	__sync_fetch_and_add(&q->activations, 1);
	say_changed(page, chosen);
	if (chosen != own && f->bytes)
		__sync_fetch_and_add(&q->moves, 1);
	if (chosen != own || !f->bytes)
		set_queue(f, f->hash >> WEFT_TAG_SHIFT, chosen);
	return PLACE(chosen, weight);
}

static long add_flows(__u32 number, struct look *l)
{
	l->best_load += WEFT_LOAD_FLOWS(*(volatile __u64 *)load_of(l->page, number));
	return 0;
}

/* Flows that are active now: only asked for where there is a bound below what the table holds. */
static __noinline __u64 active(struct weft_queues *page)
{
	struct look sum = { .page = page };

	if (page)
		bpf_loop(config.queues, add_flows, &sum, 0);
	return sum.best_load;
}

/* The flow has become active. Returns 0 when it is not to be assigned. */
static __noinline int activate(struct __sk_buff *skb, struct weft_titan_flow *f, __u32 alone)
{
	struct weft_titan_totals *t;
	struct weft_queues *page;
	__u32 zero = 0, weight;
	__u64 state, cgroup;

	t = bpf_map_lookup_elem(&totals, &zero);
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!f || !t || !page)
		return 0;
	if (f->passing) {
		/* What the device chose for its packets before is not known. */
		if (!alone || nic_holds(page, skb, FROM_ANY)) {
			__sync_fetch_and_add(&t->passed, 1);
			return 0;
		}
		f->passing = 0;
	}
	if (config.most_flows < WEFT_FLOWS && active(page) >= config.most_flows) {
		__sync_fetch_and_add(&t->beyond, 1);
		f->passing = 1;
		return 0;
	}
	state = *(volatile __u64 *)&f->state;
	weight = WEIGHT(state);
	if (config.rules > 1) {
		cgroup = bpf_skb_cgroup_id(skb);
		if (!weight || cgroup != f->cgroup || skb->mark != f->mark) {
			f->cgroup = cgroup;
			f->mark = skb->mark;
			weight = weigh(skb);
		}
	} else {
		weight = config.default_weight;
	}
	if (!weight)
		weight = 1;
	if (alone && f->bytes && nic_holds(page, skb, QUEUE(state))) {
		alone = 0;
		__sync_fetch_and_add(&t->kept, 1);
	}
	/* Nothing is outstanding, so nobody else changes queue and weight. */
	state = claim(page, t, f, QUEUE(state), weight, alone) - (state & ~0xffffffffull);
	__sync_fetch_and_add(&f->state, state);
	return 1;
}
#endif
