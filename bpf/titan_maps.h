/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data of the programs of titan.bpf.c: the kernel's structures, their maps, and the operations on the maps'
 * words.
 */
#ifndef WEFT_TITAN_MAPS_H
#define WEFT_TITAN_MAPS_H

/* The kernel's own structures, reduced to the fields used; offsets are relocated when the program is loaded. */
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

/* Packets that one of a pair of programs has counted and the other skips. 0: a free place. */
#define SEEN_BUCKETS 256
#define SEEN_WAYS 4
struct seen {
	__u64 packet[SEEN_BUCKETS][SEEN_WAYS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} seen SEC(".maps");

const volatile struct weft_titan_config config = { .queues = 1, .rules = 1, .default_weight = 1 };

static __always_inline int has_net_cls(void)
{
	return config.net_cls;
}

/* Nothing notes the makers of sockets here, and no row tests them. */
static __always_inline const __u32 *process_of(struct __sk_buff *skb)
{
	return 0;
}

/* See struct weft_titan_flow. */
#define OUT(state) ((__u32)((state) & WEFT_FLOW_OUT))
#define QUEUE(state) ((__u32)((state) >> WEFT_FLOW_QUEUE) & 0xff)
#define WEIGHT(state) ((__u64)(state) >> WEFT_FLOW_WEIGHT & 0xffff)
#define PLACE(queue, weight) ((__u64)(queue) << WEFT_FLOW_QUEUE | ((__u64)(weight) & 0xffff) << WEFT_FLOW_WEIGHT)
#define IS_ACTIVE(state) (OUT(state) && !((state) & WEFT_FLOW_FLAGS))

/*
 * The maximum number of attempts to change a word: each failure means that another core has completed its change,
 * and follows a locked operation that has fetched the cache line.
 */
#define TRIES 24

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

/* Adds the flow with the word `state` to its queue's load. */
static __always_inline void count_in(struct weft_queues *page, __u64 state)
{
	__sync_fetch_and_add(load_of(page, QUEUE(state)), WEFT_LOAD(WEIGHT(state)));
}

/* Subtracts it again; only for the core that has removed the segments from that word. */
static __always_inline void count_out(struct weft_queues *page, __u64 state)
{
	__sync_fetch_and_sub(load_of(page, QUEUE(state)), WEFT_LOAD(WEIGHT(state)));
	say_changed(page, QUEUE(state));
}

/* The successor of `state` when no segment is outstanding. */
static __always_inline __u64 ended(__u64 state)
{
	return (state & ~WEFT_FLOW_OUT) + WEFT_FLOW_ENDED;
}

#define BYTES_QUEUE(word) ((__u32)((word) >> 56))
#define BYTES(word) ((__s64)((word) << 8) >> 8)
#define BYTES_WORD(queue, bytes) ((__u64)(queue) << 56 | ((__u64)(bytes) & ~0ull >> 8))

/*
 * Counts bytes of a flow assigned in a queue. Bytes left from its previous queue are settled there first: the core
 * that removed its last packet may not have done so yet.
 */
static __always_inline void bytes_in(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				     __u32 queue, __s64 length)
{
	__u64 old = *(volatile __u64 *)&f->bytes_out, now, seen;
	__s64 rest;
	int i;

	for (i = 0; i < TRIES; i++) {
		rest = BYTES_QUEUE(old) == queue ? 0 : BYTES(old);
		now = BYTES_WORD(queue, BYTES(old) - rest + length);
		seen = __sync_val_compare_and_swap(&f->bytes_out, old, now);
		if (seen == old) {
			if (rest)
				__sync_fetch_and_add(&queue_of(page, BYTES_QUEUE(old))->left_bytes, (__u64)rest);
			return;
		}
		old = seen;
	}
	__sync_fetch_and_add(&t->given_up, 1);
}

/* Counts bytes of a flow that leave, in the queue of their assignment. */
static __always_inline void bytes_left(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
				       __s64 length)
{
	__u64 old = *(volatile __u64 *)&f->bytes_out, seen;
	int i;

	for (i = 0; i < TRIES; i++) {
		seen = __sync_val_compare_and_swap(&f->bytes_out, old, BYTES_WORD(BYTES_QUEUE(old), BYTES(old) - length));
		if (seen == old) {
			__sync_fetch_and_add(&queue_of(page, BYTES_QUEUE(old))->left_bytes, (__u64)length);
			return;
		}
		old = seen;
	}
	__sync_fetch_and_add(&t->given_up, 1);
}

/*
 * Settles a flow that has left `queue`. A difference may remain, since pieces have their own headers and departures
 * may be missed. If the flow has moved since, it was settled then. Returns the difference.
 */
static __always_inline __s64 bytes_settled(struct weft_titan_totals *t, struct weft_titan_flow *f, __u32 queue)
{
	__u64 old = *(volatile __u64 *)&f->bytes_out, seen;
	int i;

	for (i = 0; i < TRIES; i++) {
		if (BYTES_QUEUE(old) != queue || !BYTES(old))
			return 0;
		seen = __sync_val_compare_and_swap(&f->bytes_out, old, BYTES_WORD(queue, 0));
		if (seen == old)
			return BYTES(old);
		old = seen;
	}
	__sync_fetch_and_add(&t->given_up, 1);
	return 0;
}

/* Counts out the flow of the word `state`, which has ended with missed departures. */
static __always_inline void ended_unseen(struct weft_queues *page, struct weft_titan_totals *t, struct weft_titan_flow *f,
					 __u64 state)
{
	struct weft_queue *q = queue_of(page, QUEUE(state));

	__sync_fetch_and_add(&q->unseen_packets, OUT(state));
	__sync_fetch_and_add(&q->unseen_bytes, (__u64)bytes_settled(t, f, QUEUE(state)));
	count_out(page, state);
	__sync_fetch_and_add(&t->repaired, 1);
}

/* The entry with a number. The empty asm keeps a mask that the compiler would drop and the verifier still needs. */
static __always_inline struct weft_titan_flow *entry(struct weft_titan_flows *all, __u32 number)
{
	asm volatile("" : "+r"(number));
	return &all->flow[number & (WEFT_FLOWS - 1)];
}

/*
 * The first access to an entry that another core may have written last. A locked operation fetches the cache line
 * for writing at once; a load would fetch it for reading, and the following operation would fetch it again.
 */
static __always_inline __u64 fetch_state(struct weft_titan_flow *f)
{
	return __sync_fetch_and_add(&f->state, 0);
}
#endif
