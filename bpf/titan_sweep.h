/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sweep: a timer that counts out idle flows with missed departures. */
#ifndef WEFT_TITAN_SWEEP_H
#define WEFT_TITAN_SWEEP_H

#include "titan_table.h"

/*
 * Departures may be missed (see the tracing programs). A flow that sends again is then repaired, but one whose
 * socket is closed is not. A timer therefore checks all entries in turns. It counts out a flow that is active, has
 * sent nothing since the previous turn, and whose socket has no charge. A socket's memory is kept while packets are
 * charged to it (sk_wmem_alloc); values read from a socket freed in the meantime affect only counts.
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

/*
 * Whether packets of the entry's socket are outstanding. Its memory may belong to another socket, which has another
 * cookie.
 */
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

	if (!IS_ACTIVE(old))
		return 0;
	if (f->swept != (__u32)f->bytes) {
		f->swept = f->bytes;
		return 0;
	}
	if (charged(f, s->first + index))
		return 0;
	*(volatile __u32 *)&f->idle_since = bpf_jiffies64();
	if (__sync_val_compare_and_swap(&f->state, old, ended(old)) != old)
		return 0;
	ended_unseen(s->page, s->totals, f, old);
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
	if (s.all && s.page && s.totals && !*(volatile __u32 *)&s.page->sweep_off)
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
#endif
