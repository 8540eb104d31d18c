// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Dynamic queue assignment (Titan, ATC 2017, section 4.1) at the egress of a multiqueue device, on an unmodified kernel.
 *
 * A flow is a socket, known by its address. It is active from its first packet that passes here to its last packet that is freed, and counts in
 * one queue with its weight. When it becomes active it goes to the least occupied queue. It may change its queue only when
 * nothing of it is outstanding: the kernel charges every packet below a socket to sk_wmem_alloc until it is freed, so the
 * charge of this packet alone means that no other is on its way (tcp_transmit_skb's ooo_okay is the same test), wherever
 * it might be: qdisc, ring, receive backlog. What a NIC of ours has read off a ring it says in the page.
 *
 * Whether events of departures are lost or not, no packet is ever overtaken: they only serve the counts. They come from the
 * destructors of packets where the kernel lets programs attach there (fentry), else from the tracepoints that see packets
 * being freed.
 *
 * The queue is written into the packet's hash: hash % queues. Our NIC takes it from there; for other devices a tc action
 * behind this classifier does (skbedit with SKBEDIT_F_TXQ_SKBHASH). Upper bits of the hash are the flow's tag, by which a
 * departing packet is known to have been counted here.
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

/* The kernel's own structures, as far as they are used; offsets are filled in when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct refcount_struct {
	struct {
		int counter;
	} refs;
} refcount_t;
typedef struct {
	__s64 counter;
} atomic64_t;
struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
	volatile unsigned char skc_state;
	atomic64_t skc_cookie;
};
struct sock {
	struct sock_common __sk_common;
	refcount_t sk_wmem_alloc;
	__u16 sk_protocol;
};
struct sk_buff {
	struct sock *sk;
	unsigned int len;
	unsigned int truesize;
	__u32 hash;
	void *destructor;
	unsigned char *head;
	unsigned int end;
};
struct skb_shared_info {
	unsigned short gso_segs;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *) __ksym;
extern void *bpf_rdonly_cast(const void *, __u32) __ksym;
extern const void sock_edemux __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_titan_flows);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_queues);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_titan_totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEFT_CPUS);
	__type(key, __u32);
	__type(value, struct weft_titan_pool);
} pools SEC(".maps");

/* Packets that one of a pair of programs has counted, by core: the other passes them over. */
#define SEEN 64
struct seen {
	__u64 packet[SEEN];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} seen SEC(".maps");

const volatile struct weft_titan_config config = { .queues = 1, .rules = 1, .cgroups = 1, .default_weight = 1 };

#define OUT(state) ((__u32)(state))
#define QUEUE(state) ((__u32)((state) >> 32) & 0xff)
#define WEIGHT(state) ((state) >> 40)
#define PLACE(queue, weight) ((__u64)(queue) << 32 | (__u64)(weight) << 40)

/* The empty asm keeps the compiler from dropping a mask that the verifier still needs. */
static __always_inline struct weft_queue *queue_of(struct weft_queues *page, __u32 queue)
{
	asm volatile("" : "+r"(queue));
	return &page->queues[queue & (WEFT_QUEUES - 1)];
}

static __always_inline __u64 *load_of(struct weft_queues *page, __u32 queue)
{
	asm volatile("" : "+r"(queue));
	return &page->load[queue & (WEFT_QUEUES - 1)];
}

/* The NIC clears changed_ns before it reads the weight; here the weight is changed before changed_ns is read. */
static __always_inline void say_changed(struct weft_queues *page, __u32 queue)
{
	__u64 *changed;

	if (!page->use_weights)
		return;
	asm volatile("" : "+r"(queue));
	changed = &page->changed_ns[queue & (WEFT_QUEUES - 1)];
	if (*(volatile __u64 *)changed == 0)
		__sync_val_compare_and_swap(changed, 0, bpf_ktime_get_ns());
}

static __always_inline void count_out(struct weft_queues *page, struct weft_titan_flow *f, __u64 state)
{
	__sync_fetch_and_sub(load_of(page, QUEUE(state)), WEFT_LOAD(WEIGHT(state)));
	f->idle_since = bpf_jiffies64();
	say_changed(page, QUEUE(state));
}

/* The entry of a number. The empty asm keeps the compiler from dropping a mask that the verifier still needs. */
static __always_inline struct weft_titan_flow *entry(struct weft_titan_flows *all, __u32 number)
{
	asm volatile("" : "+r"(number));
	return &all->flow[number & (WEFT_FLOWS - 1)];
}

/*
 * The first touch of an entry that another core may have written last. A locked operation, not a load: it gets the line to be
 * written at once, where a load gets it to be read, and the operation that follows has to ask again.
 */
static __always_inline __u64 fetch_state(struct weft_titan_flow *f)
{
	return __sync_fetch_and_add(&f->state, 0);
}

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

/*
 * The sweep: departures may be missed (see the tracing programs), and a flow that sends again is repaired then; one whose socket
 * is gone is not. A timer therefore looks at all entries by turns. A flow that stands as active, has sent nothing since the
 * turn before, and whose socket has no charge, is counted out. A socket's memory stays while packets are charged to it
 * (sk_wmem_alloc), and what is read of one that has gone meanwhile decides nothing but counts.
 */
#define SWEEP_ENTRIES 4096
#define SWEEP_NS 25000000ull

struct sweep {
	struct bpf_timer timer;
	__u32 next;
	__u32 started;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sweep);
} sweeps SEC(".maps");

struct sweeping {
	struct weft_titan_flows *all;
	struct weft_queues *page;
	struct weft_titan_totals *totals;
	__u32 first;
};

/* Whether packets of the entry's socket are outstanding still. Another socket may have its memory by now: that has another cookie. */
static __always_inline int charged(struct weft_titan_flow *f, __u32 number)
{
	struct sock *sk = (void *)f->socket;
	__u64 cookie = 0;
	__u32 charge = 0;

	bpf_core_read(&cookie, sizeof(cookie), &sk->__sk_common.skc_cookie);
	bpf_core_read(&charge, sizeof(charge), &sk->sk_wmem_alloc);
	return charge > 1 && way(first_entry(cookie), 0) / WEFT_FLOW_WAYS == (number & (WEFT_FLOWS - 1)) / WEFT_FLOW_WAYS;
}

static long sweep_entry(__u32 index, struct sweeping *s)
{
	struct weft_titan_flow *f = entry(s->all, s->first + index);
	__u64 old = *(volatile __u64 *)&f->state;
	struct weft_queue *q;

	if (!OUT(old))
		return 0;
	if (f->swept != (__u32)f->bytes) {
		f->swept = f->bytes;
		return 0;
	}
	if (charged(f, s->first + index))
		return 0;
	if (__sync_val_compare_and_swap(&f->state, old, old & ~0xffffffffull) != old)
		return 0;
	q = queue_of(s->page, QUEUE(old));
	__sync_fetch_and_add(&q->left_packets, OUT(old));
	__sync_fetch_and_add(&q->left_bytes, __sync_lock_test_and_set(&f->bytes_out, 0));
	count_out(s->page, f, old);
	__sync_fetch_and_add(&s->totals->repaired, 1);
	__sync_fetch_and_add(&s->totals->swept, 1);
	return 0;
}

static int sweep(void *map, __u32 *key, struct sweep *state)
{
	struct sweeping s = { .first = state->next };
	__u32 zero = 0;

	s.all = bpf_map_lookup_elem(&flows, &zero);
	s.page = bpf_map_lookup_elem(&queues, &zero);
	s.totals = bpf_map_lookup_elem(&totals, &zero);
	if (s.all && s.page && s.totals)
		bpf_loop(SWEEP_ENTRIES, sweep_entry, &s, 0);
	state->next += SWEEP_ENTRIES;
	bpf_timer_start(&state->timer, SWEEP_NS, 0);
	return 0;
}

static __noinline int start_sweep(void)
{
	struct sweep *state;
	__u32 zero = 0;

	state = bpf_map_lookup_elem(&sweeps, &zero);
	if (!state || state->started || __sync_val_compare_and_swap(&state->started, 0, 1))
		return 0;
	bpf_timer_init(&state->timer, &sweeps, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&state->timer, sweep);
	bpf_timer_start(&state->timer, SWEEP_NS, 0);
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

/* A full socket (sk_fullsock, include/net/sock.h) of TCP or UDP. */
static __always_inline int is_flow(struct sock *sk)
{
	__u32 partial = 1 << BPF_TCP_TIME_WAIT | 1 << BPF_TCP_NEW_SYN_RECV;

	if (1 << (sk->__sk_common.skc_state & 31) & partial)
		return 0;
	return sk->sk_protocol == IPPROTO_TCP || sk->sk_protocol == IPPROTO_UDP;
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
	__u32 zero = 0, segments, charge, alone, number, first;
	__u64 old, cookie;

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
	charge = sk->sk_wmem_alloc.refs.counter;
	/*
	 * One is the socket's own reference (sk_alloc). Resets and acknowledgements that the kernel sends for a socket that is
	 * gone or not there yet bear its name and are not charged (ip_send_unicast_reply, since Linux 6.13).
	 */
	alone = charge <= (k->destructor == &sock_edemux ? 0 : k->truesize) + 1;
	cookie = sk->__sk_common.skc_cookie.counter;
	if (!cookie)
		cookie = bpf_get_socket_cookie(skb);
	first = first_entry(cookie);
	f = entry(all, first);
	old = fetch_state(f);
	if ((void *)f->socket != sk) {
		f = find_further(all, sk, first);
		if (!f) {
			number = new_flow(all, t, sk, first);
			if (number >= WEFT_FLOWS)
				return pass;
			f = entry(all, number);
			f->passing = !alone;
		}
		old = fetch_state(f);
	}
	segments = skb->gso_segs ? skb->gso_segs : 1;
	if (alone && OUT(old))
		repair(f, OUT(old));
	old = __sync_fetch_and_add(&f->state, segments);
	if ((void *)*(volatile __u64 *)&f->socket != sk) {
		/* Another flow has just taken the entry: this packet is not counted, and goes where those before it went. */
		__sync_fetch_and_sub(&f->state, segments);
		return pass;
	}
	if (!OUT(old) && !activate(skb, f, alone)) {
		__sync_fetch_and_sub(&f->state, segments);
		return pass;
	}
	q = queue_of(page, QUEUE(*(volatile __u64 *)&f->state));
	__sync_fetch_and_add(&q->packets, segments);
	__sync_fetch_and_add(&q->bytes, skb->len);
	f->bytes += skb->len;
	__sync_fetch_and_add(&f->bytes_out, skb->len);
	bpf_set_hash(skb, f->hash);
	return assigned;
}

/* Whether the other program of a pair has counted the packet; else it is said to that one. */
static __always_inline int seen_already(struct sk_buff *skb, __u32 number)
{
	__u32 zero = 0;
	struct seen *all = bpf_map_lookup_elem(&seen, &zero);
	__u64 *packet;

	if (!all)
		return 0;
	asm volatile("" : "+r"(number));
	packet = &all->packet[number & (SEEN - 1)];
	if ((void *)*packet == skb) {
		*packet = 0;
		return 1;
	}
	*packet = (__u64)skb;
	return 0;
}

/* A packet leaves: it is being freed, and its socket's charge with it. */
static __always_inline void left(struct sk_buff *skb, int in_pair)
{
	struct weft_titan_flows *all;
	struct weft_titan_flow *f;
	struct weft_queues *page;
	struct weft_queue *q;
	struct sock *sk = skb->sk;
	__u32 zero = 0, segments, length, number;
	__u64 old;
	__s64 rest;
	struct skb_shared_info *shared;

	if (!sk)
		return;
	number = (((skb->hash >> WEFT_TAG_SHIFT) * WEFT_TAG_INVERSE) & WEFT_TAG_MASK) - 1;
	if (number >= WEFT_FLOWS)
		return;
	all = bpf_map_lookup_elem(&flows, &zero);
	if (!all)
		return;
	f = entry(all, number);
	old = fetch_state(f);
	if ((void *)f->socket != sk || (in_pair && seen_already(skb, number)))
		return;
	page = bpf_map_lookup_elem(&queues, &zero);
	if (!page)
		return;
	/* Counted in segments, so that a packet may be cut in between: the whole (whose socket the kernel then takes away) does
	 * not count, each piece does. */
	shared = bpf_rdonly_cast(skb->head + skb->end, bpf_core_type_id_kernel(struct skb_shared_info));
	segments = shared->gso_segs ? shared->gso_segs : 1;
	length = skb->len;
	if (OUT(old) < segments)
		return; /* repaired before */
	__sync_fetch_and_sub(&f->bytes_out, (__s64)length);
	old = __sync_fetch_and_sub(&f->state, segments);
	q = queue_of(page, QUEUE(old));
	__sync_fetch_and_add(&q->left_packets, segments);
	if (OUT(old) == segments) {
		/* Pieces have headers of their own; with the last packet the difference is settled. */
		rest = __sync_lock_test_and_set(&f->bytes_out, 0);
		length += rest;
		count_out(page, f, old);
		/* Not by the classifier: the timer would keep it when the device is gone. */
		start_sweep();
	}
	__sync_fetch_and_add(&q->left_bytes, (__u64)(__s64)(int)length);
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

/* What is not charged: see weft_titan. */
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
 * Departures by the tracepoints of freed packets. The kernel does not run a tracing program on a core where the same one is
 * running (prog->active), and such a one may be interrupted, or have lost the core to another thread for milliseconds: then
 * departures would be missed. So there are two of each, of which one runs.
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
