/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a flow changes its ring without overtaking itself.
 *
 * What is known: a sender's packet is in the veth's backlog before its next packet comes here, and packets of one ring stay in
 * order from that backlog on (a port has one backlog per ring). So whatever was posted for a ring until a flow's next packet
 * comes here holds all that the flow has left in that ring: this count is the flow's barrier, and when so much of the
 * ring is done, nothing of the flow is left there.
 */
#ifndef WEFT_MOVES_H
#define WEFT_MOVES_H

#include "doorbell.h"

union weft_place {
	struct {
		__u16 lane;
		__u16 ring;
	};
	__u32 both;
};

/* Set in the lane of a flow that is just being taken off the table. */
#define WEFT_LANE_GONE 0x8000

static __always_inline union weft_place place_of(const struct weft_flow *flow)
{
	union weft_place place = { .both = *(volatile __u32 *)&flow->place };

	return place;
}

/* The empty asm keeps the compiler from dropping a mask that the verifier, having lost track on the stack, still needs. */
static __always_inline struct weft_lane_flows *lane_flows(struct weft_doorbells *d, __u32 lane)
{
	asm volatile("" : "+r"(lane));
	return &d->lanes[lane & (WEFT_LANES - 1)];
}

/* Whether all that was posted until a transit's time after the flow's last packet is done. */
static __always_inline int long_silent(const struct weft_ring_doorbell *doorbell, const struct weft_flow *flow)
{
	return *(volatile __u64 *)&doorbell->passed_ns >= *(volatile __u64 *)&flow->last_seen_ns + WEFT_TRANSIT_NS;
}

/* Whether nothing of the flow can be in its ring or on its way there. */
static __always_inline int drained(const struct weft_ring_doorbell *doorbell, const struct weft_flow *flow)
{
	__u64 packets = *(volatile __u64 *)&doorbell->packets;

	return *(volatile __u64 *)&doorbell->done >= packets || long_silent(doorbell, flow);
}

static __always_inline int passed(const struct weft_doorbells *d, __u64 barrier)
{
	return *(volatile __u64 *)&d->rings[WEFT_BARRIER_RING(barrier)].done >= WEFT_BARRIER_COUNT(barrier);
}

/* Whether the flow has left something in another ring that is still to leave. */
static __always_inline int held_back(const struct weft_doorbells *d, struct weft_flow *flow)
{
	__u64 barrier = *(volatile __u64 *)&flow->barrier;

	if (!barrier)
		return 0;
	if (!passed(d, barrier))
		return 1;
	__sync_val_compare_and_swap(&flow->barrier, barrier, 0);
	return 0;
}

/* Lets the flow's packets wait until all that was posted for `ring` until now is done. */
static __always_inline void raise_barrier(const struct weft_doorbells *d, struct weft_flow *flow, __u32 ring)
{
	__u64 count = *(volatile __u64 *)&d->rings[ring & (WEFT_RINGS - 1)].packets;
	__u64 barrier = WEFT_BARRIER(ring, count), seen = *(volatile __u64 *)&flow->barrier, found;
	int i;

	/* Another core may raise it, too: the higher one stays. */
	for (i = 0; i < 4; i++) {
		if (seen >= barrier)
			return;
		found = __sync_val_compare_and_swap(&flow->barrier, seen, barrier);
		if (found == seen)
			return;
		seen = found;
	}
}

/*
 * Moves a flow to another lane. Of cores that try at once one succeeds, and only that one changes the counts of the lanes: they
 * are those of the places, whoever comes when.
 */
static __always_inline int relocate(struct weft_doorbells *d, struct weft_flow *flow, union weft_place old,
				    union weft_place new)
{
	if (__sync_val_compare_and_swap(&flow->place, old.both, new.both) != old.both)
		return 0;
	__sync_fetch_and_add(&lane_flows(d, old.lane)->flows, -1);
	__sync_fetch_and_add(&lane_flows(d, new.lane)->flows, 1);
	return 1;
}

/*
 * Whether a flow that belongs to another lane may move now: at once when nothing of it is left, and after a while although
 * something is; then it waits at the port for its barrier. Where lanes share rings the lane is only a name for the counters:
 * it is not forced.
 */
static __always_inline int may_move(const struct weft_doorbells *d, struct weft_flow *flow, __u32 ring, __u32 spread)
{
	__u64 since = *(volatile __u64 *)&flow->changed_ns, now;

	if (drained(&d->rings[ring & (WEFT_RINGS - 1)], flow))
		return 1;
	if (spread != WEFT_SPREAD_ROUND_ROBIN)
		return 0;
	now = bpf_ktime_get_ns();
	if (!since)
		flow->changed_ns = now;
	return since && (__s64)(now - since) > (__s64)WEFT_MOVE_GRACE_NS;
}
#endif
