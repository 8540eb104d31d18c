/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The move of a flow to another ring, without reordering its packets.
 *
 * A sender's packet is in the veth's backlog before its next packet arrives here, and packets of one ring stay in
 * order from that backlog on (a port has one backlog per ring). The count posted for a ring when a flow's next
 * packet arrives here therefore covers all packets of the flow in that ring. This count is the flow's barrier: once
 * the ring has completed it, no packet of the flow is left there.
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

/* Set in the lane of a flow while it is removed from the table. */
#define WEFT_LANE_GONE 0x8000

static __always_inline union weft_place place_of(const struct weft_flow *flow)
{
	union weft_place place = { .both = *(volatile __u32 *)&flow->place };

	return place;
}

/*
 * The empty asm keeps a mask that the compiler would drop and the verifier still needs, since it lost track on the
 * stack.
 */
static __always_inline struct weft_lane_flows *lane_flows(struct weft_doorbells *d, __u32 lane)
{
	asm volatile("" : "+r"(lane));
	return &d->lanes[lane & (WEFT_LANES - 1)];
}

static __always_inline struct weft_ring_flows *ring_flows(struct weft_doorbells *d, __u32 ring)
{
	asm volatile("" : "+r"(ring));
	return &d->ring_flows[ring & (WEFT_RINGS - 1)];
}

/* Adds tracked flows at a place, or removes them. */
static __always_inline void count_flows(struct weft_doorbells *d, union weft_place place, int flows)
{
	__sync_fetch_and_add(&lane_flows(d, place.lane)->flows, flows);
	__sync_fetch_and_add(&ring_flows(d, place.ring)->flows, flows);
}

/* Whether all packets posted until a transit time after the flow's last packet are done. */
static __always_inline int long_silent(const struct weft_ring_doorbell *doorbell, const struct weft_flow *flow)
{
	return *(volatile __u64 *)&doorbell->passed_ns >= *(volatile __u64 *)&flow->last_seen_ns + WEFT_TRANSIT_NS;
}

/* Whether no packet of the flow can be in its ring or on its way there. */
static __always_inline int drained(const struct weft_ring_doorbell *doorbell, const struct weft_flow *flow)
{
	__u64 packets = *(volatile __u64 *)&doorbell->packets;

	return *(volatile __u64 *)&doorbell->done >= packets || long_silent(doorbell, flow);
}

static __always_inline int passed(const struct weft_doorbells *d, __u64 barrier)
{
	return *(volatile __u64 *)&d->rings[WEFT_BARRIER_RING(barrier)].done >= WEFT_BARRIER_COUNT(barrier);
}

/* Whether the flow has packets left in another ring. */
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

/* Tells the NIC that a flow, which belongs to `lane`, waits for its packets in another ring. */
static __always_inline void await_ring(struct weft_doorbells *d, const struct weft_flow *flow, __u32 lane)
{
	__u64 barrier = *(volatile __u64 *)&flow->barrier;
	__u64 count = WEFT_BARRIER_COUNT(barrier), *awaited;

	if (!barrier)
		return;
	/* Of several flows the last to be done counts; a lost write is made again with the flow's next packet. */
	awaited = &d->awaited[WEFT_BARRIER_RING(barrier)];
	if (count >= WEFT_AWAITED_COUNT(*(volatile __u64 *)awaited))
		*(volatile __u64 *)awaited = WEFT_AWAITED((__u64)lane, count);
}

/* Delays the flow's packets until all packets posted for `ring` so far are done. */
static __always_inline void raise_barrier(const struct weft_doorbells *d, struct weft_flow *flow, __u32 ring)
{
	__u64 count = *(volatile __u64 *)&d->rings[ring & (WEFT_RINGS - 1)].packets;
	__u64 barrier = WEFT_BARRIER(ring, count), seen = *(volatile __u64 *)&flow->barrier, found;
	int i;

	/* Another core may raise it too: the higher barrier stays. */
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
 * Moves a flow to another lane. Of several cores one succeeds, and only that one changes the lanes' counts, so the
 * counts agree with the places in any order of events.
 */
static __always_inline int relocate(struct weft_doorbells *d, struct weft_flow *flow, union weft_place old,
				    union weft_place new)
{
	if (__sync_val_compare_and_swap(&flow->place, old.both, new.both) != old.both)
		return 0;
	count_flows(d, old, -1);
	count_flows(d, new, 1);
	return 1;
}

/*
 * Whether a flow that belongs to another lane may move now: at once when none of its packets is left, and after a
 * grace period in any case; its packets then wait at the port for the barrier. In lanes that share rings the lane
 * only selects the counters, so the move is not forced.
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
