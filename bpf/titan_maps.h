/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs of titan.bpf.c work on: the kernel's structures, their own maps, and the words in these. */
#ifndef WEFT_TITAN_MAPS_H
#define WEFT_TITAN_MAPS_H

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
#endif
