/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Admission to the NIC: exact packet bounds per class and per ring. */
#ifndef WEFT_ADMIT_H
#define WEFT_ADMIT_H

#include "doorbell.h"

/*
 * Takes places for `packets`, all or none: `count` is the number ever admitted, `done` the number of those
 * completed. The count is added before it is compared, so two cores cannot both take the last place; the one beyond
 * the bound subtracts its own. The bound is checked before the addition, so a refused flood does not write.
 * product/weft-nic/src/doorbell/protocol.rs has the same in Rust for the model checker.
 */
static __always_inline int take_places(__u64 *count, const __u64 *done, __u64 bound, __u64 packets)
{
	__u64 let_in = *(volatile __u64 *)count + packets;

	if (bound && (__s64)(let_in - *(volatile __u64 *)done) > (__s64)bound)
		return 0;
	let_in = __sync_fetch_and_add(count, packets) + packets;
	if (bound && (__s64)(let_in - *(volatile __u64 *)done) > (__s64)bound) {
		__sync_fetch_and_add(count, -packets);
		return 0;
	}
	return 1;
}

static __always_inline void count_refused(__u64 *packets_total, __u64 *bytes_total, __u64 packets, __u64 bytes)
{
	__sync_fetch_and_add(packets_total, packets);
	__sync_fetch_and_add(bytes_total, bytes);
}

/* Admits a packet of `lane` to its class and to `ring`, or refuses it and counts the reason in its class. */
static __always_inline int admit(struct weft_doorbells *d, const struct weft_lane *lane, __u32 ring, __u64 packets,
				 __u64 bytes)
{
	struct weft_class_doorbell *total = &d->classes[lane->class & (WEFT_CLASSES - 1)];
	struct weft_ring_doorbell *doorbell = &d->rings[ring & (WEFT_RINGS - 1)];

	if (!take_places(&total->packets, &total->done, lane->packet_bound, packets)) {
		count_refused(&total->bound_packets, &total->bound_bytes, packets, bytes);
		return 0;
	}
	if (lane->ring_bound && !take_places(&doorbell->taken, &doorbell->done, lane->ring_bound, packets)) {
		__sync_fetch_and_add(&total->packets, -packets);
		count_refused(&total->full_packets, &total->full_bytes, packets, bytes);
		return 0;
	}
	__sync_fetch_and_add(&total->bytes, bytes);
	return 1;
}
#endif
