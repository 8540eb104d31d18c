/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the order check shares with the process that reads it: crates/weft-lab/src/titan/order/page.rs has the same in
 * Rust. All counts are of MTU-sized segments, unless said otherwise.
 */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H

#include "flow_key.h"

#define WEFT_ORDER_FLOWS 131072
#define WEFT_ORDER_EXAMPLES 64

/* A flow's numbers. */
struct weft_order_flow {
	struct bpf_spin_lock lock;
	__u16 next;    /* the number expected of the next packet: one behind the highest that was seen */
	__u8 numbered; /* next is known */
	__u8 closed;   /* it has sent a FIN or a reset */
	__u32 cpu;     /* where the highest was seen */
	__u32 pad;
	__u64 seen_ns; /* when the highest was recorded */
	__u64 last_ns; /* when any was recorded */
};

struct weft_order_example {
	struct weft_flow_key key;
	__u64 time_ns;
	__u64 seen_ns; /* when the overtaking packet was recorded */
	__u32 hash;
	__u32 cpu;
	__u32 seen_cpu; /* where it was recorded */
	__u16 expected;
	__u16 id;
	__u32 segments;
	__u32 complete; /* written last: 1 */
};

struct weft_order_page {
	__u64 packets;    /* judged: those of a local sender, numbered */
	__u64 bytes;      /* frame bytes of these, before segmentation */
	__u64 late;       /* overtaken by a packet of the same flow */
	__u64 at_once;    /* not to be told: another core recorded the overtaking packet while this was in the program too */
	__u64 gaps;       /* numbers that were skipped; each is a late packet, or one that never came */
	__u64 unnumbered; /* without a number of a socket: answers in SYN-RECV and TIME-WAIT, fragments */
	__u64 beyond;     /* of flows for which there was no room */
	__u64 flows;      /* five-tuples, each connection counted */
	__u64 examples_taken;
	__u64 pad[7];
	struct weft_order_example examples[WEFT_ORDER_EXAMPLES];
};

_Static_assert(sizeof(struct weft_order_flow) == 32, "order flow");
_Static_assert(sizeof(struct weft_order_example) == 80, "order example");
_Static_assert(sizeof(struct weft_order_page) == 128 + WEFT_ORDER_EXAMPLES * 80, "order page");
#endif
