/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data shared by the order check and the process that reads it; lab/weft-experiments/src/titan/order/page.rs is the
 * same in Rust. All counts are of MTU-sized segments, unless noted otherwise.
 */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H

#include "flow_key.h"

#define WEFT_ORDER_FLOWS 131072
#define WEFT_ORDER_EXAMPLES 64

/* A flow's numbers. */
struct weft_order_flow {
	struct bpf_spin_lock lock;
	__u16 next;    /* expected number of the next packet: one after the highest seen */
	__u8 numbered; /* next is known */
	__u8 closed;   /* it has sent a FIN or a reset */
	__u32 cpu;     /* core that saw the highest */
	__u32 pad;
	__u64 seen_ns; /* when the highest was recorded */
	__u64 last_ns; /* when any was recorded */
};

struct weft_order_example {
	struct weft_flow_key key;
	__u64 time_ns;
	__u64 seen_ns; /* time at which the overtaking packet was recorded */
	__u32 hash;
	__u32 cpu;
	__u32 seen_cpu; /* core that recorded it */
	__u16 expected;
	__u16 id;
	__u32 segments;
	__u32 complete; /* written last: 1 */
};

struct weft_order_page {
	__u64 packets;    /* checked: numbered packets of a local sender */
	__u64 bytes;      /* frame bytes of these, before segmentation */
	__u64 late;       /* overtaken by a packet of the same flow */
	__u64 at_once;    /* undecided: another core recorded the overtaking packet while this one was in the program */
	__u64 gaps;       /* skipped numbers; each is a late or a lost packet */
	__u64 unnumbered; /* without a socket's number: answers in SYN-RECV and TIME-WAIT, fragments */
	__u64 beyond;     /* of flows beyond the table's size */
	__u64 flows;      /* five-tuples, counted once per connection */
	__u64 examples_taken;
	__u64 pad[7];
	struct weft_order_example examples[WEFT_ORDER_EXAMPLES];
};

_Static_assert(sizeof(struct weft_order_flow) == 32, "order flow");
_Static_assert(sizeof(struct weft_order_example) == 80, "order example");
_Static_assert(sizeof(struct weft_order_page) == 128 + WEFT_ORDER_EXAMPLES * 80, "order page");
#endif
