// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Queue assignment, classification and doorbell: one program at the egress of the port (clsact).
 *
 * weft_egress, for each packet:
 * 0. While the NIC has no heartbeat, and the operator lets packets pass: mark the packet for the far end, and no more.
 * 1. Parse the headers into the flow key. Drop a packet whose class cannot be determined.
 * 2. Infrastructure within its share goes to its own lane. Otherwise look up the flow; datagrams of one five-tuple with
 *    different tested fields are flows beside each other (guard.h).
 * 3. Place a new flow: classify it by the match tables, select a ring, announce it by a record, once (Loom, section
 *    4.3.2). Renew a known flow whose metadata has changed, or that was classified by earlier tables.
 * 4. Refuse the packet while its flow has packets left in another ring.
 * 5. Admit it within the bounds of its class and ring (admit.h), or refuse it.
 * 6. Write the ring into the hash, which selects the macvtap's queue (tap_get_queue, drivers/net/tap.c: hash %
 *    queues), and the evidence for the far end (guard.h).
 * 7. Post the doorbell: a count, the sender's claims if the lane's algorithms read them (claims.h), the ring's bit and
 *    the port's bit. A flow that the NIC has needs no message and no wake-up.
 *
 * weft_peer_ingress keeps group and broadcast frames out of the macvlan's own ways. weft_ring_ingress, just before the
 * rings, drops packets that bypassed weft_egress, and posts the segments of packets that were cut behind it. weft_expire removes silent flows from the table.
 *
 * The doorbell is posted before the packet reaches its ring, and packets of two cores may enter a ring in another
 * order than their doorbells. A doorbell therefore only counts packets. A ring holds packets of one lane, so no
 * packet can be charged to the wrong class.
 *
 * Each port of a NIC has an instance of this object with its own page, flows, lanes, guard and fragments. All instances
 * share the match tables, `records`, `wakes`, `summary` and `queues` (product/weft-nic/src/doorbell/maps.rs).
 *
 * Ownership: any core writes counts and bits, by atomic operations; the NIC writes `done` and `passed_ns`. A flow's
 * place changes by compare and swap, and only the core that succeeds changes the lanes' counts.
 *
 * Rare branches: refused packets count in bound_, full_ and moving_packets of their class, untracked ones in
 * `untracked`, dropped ones in `obscured` and `unannounced`, excess infrastructure in `excess`, and records without
 * room in `records_lost`. A failed map lookup drops without a counter: the maps belong to this program, so the
 * lookups only satisfy the verifier.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "admit.h"
#include "doorbell.h"
#include "flow_key.h"
#include "group.h"
#include "gso.h"
#include "guard.h"
#include "match.h"
#include "moves.h"
#include "process.h"
#include "queues.h"
#include "tap.h"
#include "claims.h"

struct bpf_map;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_doorbells);
} doorbells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_summary);
} summary SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* an idle port has no flows, and no memory for them */
	__uint(max_entries, 65536);
	__type(key, struct weft_owned_key); /* its first part is `key` below */
	__type(value, struct weft_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEFT_LANES);
	__type(key, __u32);
	__type(value, struct weft_lane);
} lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

/*
 * Wake-ups only, so that each finds room: the core that takes the flag sends one, and the NIC sets the flag again
 * only after it has read all. Therefore no more wake-ups are pending than there are cores.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} wakes SEC(".maps");

/*
 * For a multiqueue NIC: shared with the NIC and with a program that assigns queues, which finds it through this
 * program.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_queues);
} queues SEC(".maps");

/* Set before loading. What a change of the policy alters is in the tables instead (tables.h). */
const volatile struct weft_config config = { .rings = 1, .queues = 1 };

static __always_inline int has_net_cls(void)
{
	return config.net_cls;
}

/*
 * The hardware queue from the hash, as in skb_tx_hash (net/core/dev.c): the hash of the socket, of the headers, or
 * set by a program before this one.
 */
static __always_inline __u32 queue_of(struct __sk_buff *skb)
{
	__u32 hash = skb->hash;

	if (!hash)
		hash = bpf_get_hash_recalc(skb);
	return hash % config.queues;
}

static __always_inline __u32 rings_per_queue(void)
{
	__u32 rings = config.rings / config.queues;

	return rings ? rings : 1;
}

/* The maximum number of rings of a queue. */
#define RING_CANDIDATES 32
/* A ring idle for this long has no active flow. */
#define RING_IDLE_NS 1000000000ll

/*
 * A ring of the hardware queue. A new flow takes the empty ring with the longest idle time, so that flows active at
 * the same time have separate rings: a ring that has just become empty may belong to a flow between two packets. If
 * no ring is empty, the flow takes the next in order. An untracked flow is placed by its own hash.
 */
static __noinline __u32 ring_in_queue(struct weft_doorbells *d, __u32 queue, __u32 lane_id,
				      const struct weft_flow_key *key, int tracked)
{
	__u32 rings = rings_per_queue();
	__u32 first = queue * rings, n, best;
	__u64 now, last, oldest = ~0ull;
	__u32 i;

	if (rings == 1)
		return first;
	if (!tracked)
		return first + flow_hash(key) % rings;
	n = __sync_fetch_and_add(&lane_flows(d, lane_id)->next, 1);
	now = bpf_ktime_get_ns();
	best = first + n % rings;
	for (i = 0; i < RING_CANDIDATES && i < rings; i++) {
		__u32 ring = first + (n + i) % rings;
		struct weft_ring_doorbell *doorbell = &d->rings[ring & (WEFT_RINGS - 1)];

		if (*(volatile __u64 *)&doorbell->packets != *(volatile __u64 *)&doorbell->done)
			continue;
		last = *(volatile __u64 *)&doorbell->last_or_left;
		/* Another core may have written a later time than `now`. */
		if ((__s64)(now - last) > RING_IDLE_NS)
			return ring;
		if (last < oldest) {
			oldest = last;
			best = ring;
		}
	}
	return best;
}

/*
 * A known flow stays in its ring while its queue is the same. Two cores that see its queue change at the same time
 * agree on one of their rings.
 */
static __always_inline __u32 follow_queue(struct __sk_buff *skb, struct weft_doorbells *d, struct weft_flow *flow,
					  const struct weft_flow_key *key)
{
	struct weft_flow old, new, seen;
	__u32 queue = queue_of(skb);

	old.place = *(volatile __u32 *)&flow->place;
	if (old.ring / rings_per_queue() == queue)
		return old.ring;
	new.lane = old.lane;
	new.ring = ring_in_queue(d, queue, old.lane, key, 1);
	seen.place = __sync_val_compare_and_swap(&flow->place, old.place, new.place);
	if (seen.place != old.place)
		return seen.ring;
	__sync_fetch_and_add(&ring_flows(d, old.ring)->flows, -1);
	__sync_fetch_and_add(&ring_flows(d, new.ring)->flows, 1);
	return new.ring;
}

/* The hash that selects the macvtap's ring: hash % rings. The upper bits are preserved for later programs. */
static __always_inline __u32 hash_of_ring(__u32 hash, __u32 ring)
{
	return hash_for_ring(hash, ring, config.rings);
}

/*
 * The upper bits select the core whose backlog the packets pass in the veth (get_rps_cpu, net/core/dev.c): one
 * ring, one core.
 */
static __always_inline __u32 hash_by_ring(__u32 ring)
{
	return hash_of_ring((ring + 1) * 0x9e3779b1u, ring);
}

/*
 * A flow beyond the bound is placed by hash, and must stay in its ring when it is tracked later. While packets of
 * such flows may wait in a lane, all its new flows are placed by hash. The NIC reports when none can be left.
 */
static __always_inline __u16 choose_ring(struct __sk_buff *skb, struct weft_doorbells *d, const struct weft_lane *lane,
					 __u32 lane_id, const struct weft_flow_key *key, int tracked)
{
	__u64 beyond = *(volatile __u64 *)&lane_flows(d, lane_id)->untracked_ns;
	__u32 rings = lane->rings ? lane->rings : 1, n;

	if (lane->spread == WEFT_SPREAD_QUEUES)
		return ring_in_queue(d, queue_of(skb), lane_id, key, tracked && !beyond);
	if (!tracked || beyond || lane->spread != WEFT_SPREAD_ROUND_ROBIN)
		return lane->first_ring + flow_hash(key) % rings;
	n = __sync_fetch_and_add(&lane_flows(d, lane_id)->next, 1);
	return lane->reads & WEFT_READS_HOLD ? ring_not_held(d, lane, n) : lane->first_ring + n % rings;
}

/* A separate function, so that the object's type information contains the record's structure. */
static __noinline int output(struct weft_record *record)
{
	return bpf_ringbuf_output(&records, record, sizeof(*record), BPF_RB_NO_WAKEUP) == 0;
}

/* A separate function, so that its stack is not added to that of the classification. */
static __noinline int announce(struct weft_doorbells *d, const struct weft_flow_key *key, struct weft_flow *flow,
			       __u16 class, __u16 kind)
{
	struct weft_record record = { .class = class, .kind = kind };

	if (!d || !key || !flow)
		return 0;
	record.key = *key;
	record.cgroup = flow->cgroup;
	record.mark = flow->mark;
	record.priority = flow->priority;
	record.lane = flow->lane;
	record.ring = flow->ring;
	flow->announced = output(&record);
	if (flow->announced)
		__sync_fetch_and_add(&d->records, 1);
	else
		__sync_fetch_and_add(&d->records_lost, 1);
	return 0;
}

/* A packet's flow while it is looked for. */
struct sought {
	struct weft_owned_key owned;
	const struct weft_tested *tested;
	__u32 frame;		/* WEFT_FRAME_* */
	union {
		union weft_place first; /* of the first flow, if this one is beside it; otherwise NOWHERE */
		union weft_place place; /* of this one, once it is found */
	};
};

#define NOWHERE 0xffffffffu

/*
 * An atomic operation whose result is used is a full barrier on every machine; one whose result is unused, only on
 * x86.
 */
static __always_inline void fully_ordered(__u64 result)
{
	asm volatile("" : : "r"(result));
}

/* Posts packets. What their sender requests follows, and then their ring's bit (raise_bits). */
static __always_inline void post_packets(struct weft_doorbells *d, __u32 ring, __u64 packets)
{
	fully_ordered(__sync_fetch_and_add(&d->rings[ring & (WEFT_RINGS - 1)].packets, packets));
}

/* Passes what the packet's sender says of it to the NIC. `place`: lane and ring of the packet. A function, for its stack. */
static __noinline int claim_packet(struct __sk_buff *skb, const struct sought *of, struct weft_doorbells *d,
				   const struct weft_lane *lane, __u32 transport)
{
	struct weft_claims claims = {};
	union weft_place place = of->place;

	if (!d || !lane)
		return 0;
	read_claims(skb, &of->owned.key, transport, lane->reads, &claims);
	if (lane->reads & WEFT_READS_HOLD && claims.asked_ns &&
	    !may_hold(d, lane, place.lane, place.ring, claims.asked_ns)) {
		claims.asked_ns = 0;
		__sync_fetch_and_add(&d->classes[lane->class & (WEFT_CLASSES - 1)].late_claims, 1);
	}
	post_claims(d, place.ring, &claims);
	return 0;
}

static __always_inline void raise_bits(struct weft_doorbells *d, __u32 ring)
{
	struct weft_ring_doorbell *doorbell = &d->rings[ring & (WEFT_RINGS - 1)];
	__u64 *word = &d->ready[(ring >> 6) & (WEFT_RINGS / 64 - 1)];
	__u64 bit = 1ull << (ring & 63), port_bit = 1ull << (config.place & 63);
	__u32 sleeping, zero = 0;
	struct weft_summary *s;
	__u64 *ports;

	/*
	 * The NIC clears the bit before it reads the count (exchange, then load); here the count is added before the
	 * bit is read (locked add, then load). Either the NIC sees this packet, or the bit is read as clear here and
	 * set again.
	 */
	if (*(volatile __u64 *)word & bit)
		return;
	fully_ordered(__sync_fetch_and_or(word, bit));
	/* The same again for ring and port: the NIC clears the port's bit before it takes the rings' bits. */
	s = bpf_map_lookup_elem(&summary, &zero);
	if (!s)
		return;
	ports = &s->ready_ports[(config.place >> 6) & (WEFT_PORTS / 64 - 1)];
	if (!(*(volatile __u64 *)ports & port_bit))
		fully_ordered(__sync_fetch_and_or(ports, port_bit));
	else
		/* Adds nothing: a barrier. The core that set the port's bit may not wake the NIC for its own ring. */
		fully_ordered(__sync_fetch_and_add(&doorbell->packets, 0));
	/*
	 * Before it sleeps, the NIC sets the flag and then checks the bits again: one of the two sides sees the
	 * other.
	 */
	sleeping = *(volatile __u32 *)&s->sleeping;
	if (sleeping == WEFT_SLEEPS_FOR_URGENT && !(*(volatile __u64 *)&d->urgent[(ring >> 6) & (WEFT_RINGS / 64 - 1)] & bit))
		return;
	if (sleeping && __sync_lock_test_and_set(&s->sleeping, 0)) {
		__u64 wake = __sync_fetch_and_add(&s->wakeups, 1);

		bpf_ringbuf_output(&wakes, &wake, sizeof(wake), BPF_RB_FORCE_WAKEUP);
	}
}

/*
 * The ring of a new flow. Flows of one five-tuple share the ring in a lane, so that its packets leave in their order wherever
 * their classes allow it: the ring of the first flow, or one by hash.
 */
static __always_inline __u16 ring_of_new(struct __sk_buff *skb, struct weft_doorbells *d, const struct weft_lane *lane,
					 __u32 lane_id, const struct sought *of, int tracked)
{
	if (of->first.both == NOWHERE)
		return choose_ring(skb, d, lane, lane_id, &of->owned.key, tracked);
	if ((__u16)(of->first.ring - lane->first_ring) < lane->rings)
		return of->first.ring;
	return choose_ring(skb, d, lane, lane_id, &of->owned.key, 0);
}

/* Places a new flow of a lane: selects its ring, and tracks it unless its lane has reached its flow bound. */
static __noinline __u64 place_new(struct __sk_buff *skb, struct sought *of, struct weft_doorbells *d, __u64 current,
				  __u32 lane_id)
{
	struct weft_flow flow = {
		.cgroup = bpf_skb_cgroup_id(skb),
		.mark = skb->mark,
		.priority = skb->priority,
		.generation = WEFT_GENERATION(current),
		.frame = of->frame,
		.beside = of->first.both != NOWHERE,
	};
	struct weft_flow_key *key = &of->owned.key;
	struct weft_lane_flows *count;
	struct weft_flow *known;
	struct weft_lane *lane;
	int tracked = 0;

	if (!d)
		return 0;
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return 0;
	count = lane_flows(d, lane_id);
	if (key->is_ip && *(volatile __u32 *)&count->flows < lane->flow_bound) {
		tracked = __sync_fetch_and_add(&count->flows, 1) < lane->flow_bound;
		if (!tracked)
			__sync_fetch_and_add(&count->flows, -1);
	}
	flow.lane = lane_id;
	flow.ring = ring_of_new(skb, d, lane, lane_id, of, tracked);
	flow.last_seen_ns = bpf_ktime_get_ns();
	if (tracked) {
		/* The table is full, or another core was first: this packet is placed as untracked, by hash. */
		tracked = bpf_map_update_elem(&flows, key, &flow, BPF_NOEXIST) == 0;
		if (!tracked)
			__sync_fetch_and_add(&count->flows, -1);
		else
			__sync_fetch_and_add(&ring_flows(d, flow.ring)->flows, 1);
	}
	known = bpf_map_lookup_elem(&flows, key);
	if (known && tracked)
		announce(d, key, known, lane->class, WEFT_RECORD_NEW);
	else if (known && !(is_divided(key, of->tested) && differs(skb, known, of->tested, of->frame)))
		return (__u64)(known->lane & (WEFT_LANES - 1)) << 16 | known->ring;
	if (!tracked) {
		if (key->is_ip) {
			/* Before the ring is selected: every flow placed after this packet sees it. */
			fully_ordered(__sync_lock_test_and_set(&count->untracked_ns, flow.last_seen_ns));
			__sync_fetch_and_add(&d->classes[lane->class & (WEFT_CLASSES - 1)].untracked, 1);
		}
		flow.ring = ring_of_new(skb, d, lane, lane_id, of, 0);
	}
	return (__u64)lane_id << 16 | flow.ring;
}

/*
 * Whether a packet has new metadata of its flow. A packet without a socket (a reset, a late ACK) has none for a
 * flow with an owner.
 */
static __always_inline int changed(struct __sk_buff *skb, const struct weft_flow *flow, __u64 cgroup,
				   const struct weft_tested *tested, __u32 frame)
{
	if (!cgroup && flow->cgroup)
		return 0;
	return flow->cgroup != cgroup || differs(skb, flow, tested, frame);
}

/* Whether a packet renews its flow that was classified by earlier tables. As above, it must have the flow's owner. */
static __always_inline int outdated(const struct weft_flow *flow, __u64 cgroup, __u64 current)
{
	return flow->generation != WEFT_GENERATION(current) && (cgroup || !flow->cgroup);
}

/*
 * Moves a flow to the lane that it belongs to, if it may move now. Returns whether it is there.
 */
static __noinline int change_lane(struct __sk_buff *skb, const struct sought *of, struct weft_doorbells *d,
				  struct weft_flow *flow, __u32 lane_id)
{
	struct weft_lane *lane = bpf_map_lookup_elem(&lanes, &lane_id);
	union weft_place old = place_of(flow), new = { .lane = lane_id, .ring = old.ring };

	if (!lane || old.lane & WEFT_LANE_GONE)
		return 0;
	/* The ring has passed to the new lane with all its packets. */
	if (lane->spread == WEFT_SPREAD_ROUND_ROBIN && (__u16)(old.ring - lane->first_ring) < lane->rings)
		return relocate(d, flow, old, new);
	if (!may_move(d, flow, old.ring, lane->spread))
		return 0;
	new.ring = choose_ring(skb, d, lane, lane_id, &of->owned.key, !flow->beside);
	if (!relocate(d, flow, old, new))
		return 0;
	/* Includes packets posted by another core since: it checks the place again after its doorbell. */
	if (lane->spread == WEFT_SPREAD_ROUND_ROBIN && !long_silent(&d->rings[old.ring & (WEFT_RINGS - 1)], flow))
		raise_barrier(d, flow, old.ring);
	return 1;
}

/*
 * Updates a known flow whose mark, priority, cgroup or tested header fields have changed, that was classified by earlier
 * tables, or whose record was lost. A flow that stays in its lane keeps its ring, and the NIC needs no message of new tables.
 */
static __noinline int renew(struct __sk_buff *skb, const struct sought *of, struct weft_doorbells *d, __u64 current)
{
	__u64 cgroup = bpf_skb_cgroup_id(skb);
	struct weft_flow_key *key = (void *)&of->owned.key;
	struct weft_flow *flow;
	struct weft_lane *lane;
	union weft_place old;
	__u32 lane_id;
	__u16 kind;
	int moves;

	if (!d)
		return 0;
	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow)
		return 0;
	old = place_of(flow);
	if (old.lane & WEFT_LANE_GONE)
		return 0;
	lane_id = old.lane;
	kind = WEFT_RECORD_NEW;
	if (changed(skb, flow, cgroup, of->tested, of->frame) || outdated(flow, cgroup, current)) {
		lane_id = classify(skb, key, current, config.port, of->frame) & (WEFT_LANES - 1);
		kind = WEFT_RECORD_CHANGED;
	}
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return 0;
	/* A lane's number may have been given to another lane while the flow was silent. */
	moves = lane_id != old.lane || (__u16)(old.ring - lane->first_ring) >= lane->rings;
	if (moves && !change_lane(skb, of, d, flow, lane_id))
		return 0;
	if (kind == WEFT_RECORD_CHANGED) {
		/* Records have no header fields besides the key. */
		int known = flow->announced && !moves && !changed(skb, flow, cgroup, of->tested, flow->frame);

		flow->changed_ns = 0;
		flow->cgroup = cgroup;
		flow->mark = skb->mark;
		flow->priority = skb->priority;
		flow->generation = WEFT_GENERATION(current);
		flow->frame = of->frame;
		if (known)
			return 0;
	}
	announce(d, key, flow, lane->class, kind);
	return 0;
}

/*
 * Takes over a flow from its former key: with new tables, flows may be distinguished by other properties of their
 * owners (guard.h). Otherwise its next packet would be that of a new flow, in another ring, and could overtake.
 */
static __noinline int adopt(struct __sk_buff *skb, struct weft_owned_key *owned, struct weft_doorbells *d,
			    struct weft_bank *bank, __u32 frame)
{
	struct weft_owned_key other;
	union weft_place gone;
	struct weft_flow *old;
	struct weft_flow flow;

	if (!owned || !d || !bank)
		return 0;
	other = *owned;
	other.owner = owner_of(skb, bank->keyed.flags, frame & bank->keyed.frame);
	if (other.owner == owned->owner)
		return 0;
	old = bpf_map_lookup_elem(&flows, &other);
	/* What was seen later is a flow by the new keys. A program may have read the old tables a moment before. */
	if (!old || *(volatile __u64 *)&old->last_seen_ns > bank->rekeyed_ns + WEFT_TRANSIT_NS)
		return 0;
	flow = *old;
	if (flow.lane & WEFT_LANE_GONE || bpf_map_update_elem(&flows, owned, &flow, BPF_NOEXIST))
		return 0;
	/* The lane's count passes to the new entry with the place, unless a program with the old tables moves the flow now. */
	gone = place_of(&flow);
	gone.lane |= WEFT_LANE_GONE;
	if (__sync_val_compare_and_swap(&old->place, flow.place, gone.both) == flow.place) {
		if (bpf_map_delete_elem(&flows, &other) == 0)
			return 0;
		/* It stays, and is removed when it has been silent for long. */
		__sync_val_compare_and_swap(&old->place, gone.both, flow.place);
	}
	count_flows(d, place_of(&flow), 1);
	return 0;
}

/*
 * The flow of a packet whose fields differ from those of the first flow of its five-tuple, or that has no first flow; 0: it is
 * new. Makes its key that of a flow beside the first one, unless the packet's is the first.
 */
static __noinline struct weft_flow *look_beside(struct __sk_buff *skb, struct sought *of, struct weft_flow *first,
						     __u64 token)
{
	__u64 owner = of->owned.owner;
	struct weft_flow *beside;

	of->owned.owner = owner_beside(skb, owner, of->tested, of->frame, token);
	beside = bpf_map_lookup_elem(&flows, &of->owned);
	if (first) {
		/* It is in the table for as long as those beside it, which find its ring. */
		*(volatile __u64 *)&first->last_seen_ns = bpf_ktime_get_ns();
		of->first = place_of(first);
	} else if (!beside) {
		of->owned.owner = owner;
	}
	return beside;
}

/* The device to which packets pass unscheduled now; 0: none, since the NIC runs or they are to wait for it. */
static __noinline __u32 pass_to(void)
{
	__u32 zero = 0;
	struct weft_summary *s = bpf_map_lookup_elem(&summary, &zero);
	__u64 beat;

	if (!s || !s->pass_to)
		return 0;
	/* In this order: a heartbeat after the time was read is not over. */
	beat = *(volatile __u64 *)&s->heartbeat_ns;
	return (__s64)(bpf_ktime_get_ns() - beat) > (__s64)WEFT_HEARTBEAT_NS ? s->pass_to : 0;
}

SEC("tc")
int weft_egress(struct __sk_buff *skb)
{
	struct weft_headers headers = {};
	struct sought of = { .first.both = NOWHERE };
	struct weft_flow_key *key = &of.owned.key;
	struct weft_doorbells *d;
	struct weft_tables *t;
	struct weft_bank *bank;
	struct weft_flow *flow;
	struct weft_guard *g;
	struct weft_lane *lane;
	union weft_place place = {};
	__u32 zero = 0, lane_id = ~0u, ring;
	__u64 bytes, packets, placed, current, counts;
	int waits = 0;

	d = bpf_map_lookup_elem(&doorbells, &zero);
	g = bpf_map_lookup_elem(&guard, &zero);
	t = bpf_map_lookup_elem(&tables, &zero);
	if (!d || !g || !t || (g->flags & WEFT_GUARD_CLOSED))
		return TC_ACT_SHOT;
	if (is_from_group(skb)) {
		__sync_fetch_and_add(&g->obscured, 1);
		return TC_ACT_SHOT;
	}
	if (!(g->flags & WEFT_GUARD_TAP) && pass_to()) {
		let_pass(skb, g);
		return TC_ACT_OK;
	}
	current = current_tables(t);
	bank = bank_of(t, current);
	of.tested = &bank->tested;
	if (!read_owned_key(skb, bank->tested.flags, bank->tested.frame, &of.owned, &headers)) {
		__sync_fetch_and_add(&g->obscured, 1);
		return TC_ACT_SHOT;
	}
	of.frame = frame_of(&headers);
	counts = in_ring(skb, g->flags, key, headers.transport);
	packets = PACKETS_IN_RING(counts);
	bytes = BYTES_IN_RING(counts);

	if (g->infrastructure != ~0u && is_infrastructure(skb, key, &headers))
		lane_id = infrastructure_lane(skb, g);
	flow = lane_id == ~0u ? bpf_map_lookup_elem(&flows, key) : 0;
	if (lane_id == ~0u && !flow && bank->rekeyed_ns) {
		adopt(skb, &of.owned, d, bank, of.frame);
		flow = bpf_map_lookup_elem(&flows, key);
	}
	if (lane_id == ~0u && is_divided(key, of.tested) && (!flow || differs(skb, flow, of.tested, of.frame)))
		flow = look_beside(skb, &of, flow, g->token);
	if (lane_id != ~0u) {
		lane = bpf_map_lookup_elem(&lanes, &lane_id);
		ring = lane ? lane->first_ring : 0;
	} else if (flow) {
		__u64 cgroup = bpf_skb_cgroup_id(skb);

		if (!flow->announced || changed(skb, flow, cgroup, of.tested, of.frame) || outdated(flow, cgroup, current))
			renew(skb, &of, d, current);
		else if (flow->changed_ns)
			flow->changed_ns = 0;
		*(volatile __u64 *)&flow->last_seen_ns = bpf_ktime_get_ns();
		place = place_of(flow);
		lane_id = place.lane & (WEFT_LANES - 1);
		ring = place.ring;
		waits = (place.lane & WEFT_LANE_GONE) || held_back(d, flow);
	} else {
		/* From here, since the two stacks together would be too deep. */
		lane_id = classify(skb, key, current, config.port, of.frame) & (WEFT_LANES - 1);
		placed = place_new(skb, &of, d, current, lane_id);
		lane_id = placed >> 16;
		ring = placed & 0xffff;
	}
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return TC_ACT_SHOT;
	if (waits) {
		struct weft_class_doorbell *total = &d->classes[lane->class & (WEFT_CLASSES - 1)];

		count_refused(&total->moving_packets, &total->moving_bytes, packets, bytes);
		if (flow)
			await_ring(d, flow, lane_id);
		return TC_ACT_SHOT;
	}
	if (!admit(d, lane, ring, packets, bytes))
		return TC_ACT_SHOT;
	if (packets > 1)
		__sync_fetch_and_add(&g->cut, packets - 1);
	if (lane->spread == WEFT_SPREAD_QUEUES) {
		/* A program must use a map to own it. */
		if (!bpf_map_lookup_elem(&queues, &zero))
			return TC_ACT_SHOT;
		if (flow)
			ring = follow_queue(skb, d, flow, key);
		leave_evidence(skb, g, hash_of_ring(skb->hash, ring), WEFT_EXACT);
		if (config.rings > config.queues)
			d->rings[ring & (WEFT_RINGS - 1)].last_or_left =
				flow ? *(volatile __u64 *)&flow->last_seen_ns : bpf_ktime_get_ns();
	} else {
		leave_evidence(skb, g, g->flags & WEFT_GUARD_TAP ? tap_hash(g, ring) : hash_by_ring(ring),
			       kind_of_doorbell(skb, key, headers.transport, packets, lane_id));
	}
	if (lane->qdisc_class) {
		/* A qdisc between here and the ring may hold the packet: weft_ring_ingress posts the doorbell. */
		skb->priority = lane->qdisc_class;
		return TC_ACT_OK;
	}
	post_packets(d, ring, packets);
	if (lane->reads) {
		of.place.lane = lane_id;
		of.place.ring = ring;
		claim_packet(skb, &of, d, lane, headers.transport);
	}
	raise_bits(d, ring);
	/* Another core has moved the flow since: its next packets wait for this one. */
	if (flow && lane->spread == WEFT_SPREAD_ROUND_ROBIN && place_of(flow).both != place.both)
		raise_barrier(d, flow, ring);
	return TC_ACT_OK;
}

/* At the ingress of the veth's far end: keeps frames to groups and to all from the macvlan's special ways (group.h). */
SEC("tc")
int weft_peer_ingress(struct __sk_buff *skb)
{
	struct weft_guard *g;
	__u32 zero = 0;

	if (!hide_group(skb)) {
		g = bpf_map_lookup_elem(&guard, &zero);
		if (g)
			__sync_fetch_and_add(&g->unannounced, 1);
		return TC_ACT_SHOT;
	}
	return TC_ACT_UNSPEC; /* continue with the next program, if any */
}

/*
 * A plain segment of a super-packet that was announced as one. The first has its place; another must be admitted by the lane, and
 * takes its payload out of what was announced. Returns the packets to be posted, or a negative number if there is no place.
 */
static __noinline int admit_segment(struct __sk_buff *skb, struct weft_doorbells *d, __u32 doorbell)
{
	struct weft_headers headers = {};
	struct weft_flow_key key = {};
	struct weft_lane *lane;
	__be32 sequence;
	__u32 lane_id = WEFT_LANE_OF(doorbell);
	__u64 payload;
	__u8 words;

	if (!d)
		return -1;
	read_headers(skb, &key, &headers);
	if (bpf_skb_load_bytes(skb, headers.transport + 4, &sequence, sizeof(sequence)) < 0 ||
	    bpf_skb_load_bytes(skb, headers.transport + 12, &words, sizeof(words)) < 0)
		return -1;
	if (WEFT_IS_FIRST(doorbell, bpf_ntohl(sequence)))
		return 0;
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return -1;
	payload = skb->len - headers.transport - (words >> 4) * 4;
	__sync_fetch_and_add(&d->classes[lane->class & (WEFT_CLASSES - 1)].bytes, -payload);
	return admit(d, lane, skb->hash % config.rings, 1, BYTES_IN_RING(in_ring(skb, 0, &key, 0))) ? 1 : -1;
}

/*
 * At the ingress of the macvtap, just before the ring: sends what passes unscheduled to the uplink's device, and drops packets
 * that no program at the egress announced, such as those of a sender that bypasses it (PACKET_QDISC_BYPASS, AF_XDP, an
 * IFB). A packet that is hidden from programs (tc_skip_classify) is so at one device only, the far end. Posts what was not
 * counted at the egress: segments that were cut on the way, and everything if the port has a qdisc. Counts what continues to
 * the ring, by the rule of gso.h.
 */
SEC("tc")
int weft_ring_ingress(struct __sk_buff *skb)
{
	struct weft_headers headers = {};
	struct weft_flow_key key = {};
	struct weft_doorbells *d;
	struct weft_guard *g;
	__u64 counts;
	__u32 zero = 0, doorbell;
	int packets = 0;

	d = bpf_map_lookup_elem(&doorbells, &zero);
	g = bpf_map_lookup_elem(&guard, &zero);
	if (!d || !g)
		return TC_ACT_SHOT;
	if (!has_evidence(skb, g, &doorbell)) {
		__sync_fetch_and_add(&g->unannounced, 1);
		return TC_ACT_SHOT;
	}
	if (doorbell == WEFT_PASSES) {
		struct weft_summary *s = bpf_map_lookup_elem(&summary, &zero);

		return s && s->pass_to && show_group(skb) ? bpf_redirect(s->pass_to, 0) : TC_ACT_SHOT;
	}
	if (doorbell != WEFT_EXACT && !skb->gso_size) {
		packets = admit_segment(skb, d, doorbell);
		if (packets < 0)
			return TC_ACT_SHOT;
		__sync_fetch_and_add(&g->cut_behind, packets);
	}
	/* The headers matter to packets that the kernel cuts. */
	if (skb->gso_size)
		read_headers(skb, &key, &headers);
	counts = in_ring(skb, g->flags, &key, headers.transport);
	count_arrival(g, PACKETS_IN_RING(counts), BYTES_IN_RING(counts));
	if (g->flags & WEFT_GUARD_BEHIND)
		packets = PACKETS_IN_RING(counts);
	if (packets) {
		post_packets(d, skb->hash % config.rings, packets);
		raise_bits(d, skb->hash % config.rings);
	}
	return TC_ACT_UNSPEC;
}

/*
 * Removes a flow from the table that was silent for long and has no packet left in a ring. The record is reserved
 * first, so that the NIC can remove the flow too. A flow that sends at the same time keeps its place, or its packet
 * is refused as waiting while the flow is removed.
 */
static long expire_flow(struct bpf_map *map, struct weft_owned_key *key, struct weft_flow *flow, struct weft_expiry *walk)
{
	union weft_place old, gone;
	struct weft_record *record;
	struct weft_doorbells *d;
	__u64 last, barrier;
	__u32 zero = 0;

	d = bpf_map_lookup_elem(&doorbells, &zero);
	if (!d || !key || !flow)
		return 1;
	walk->seen++;
	old = place_of(flow);
	last = *(volatile __u64 *)&flow->last_seen_ns;
	barrier = *(volatile __u64 *)&flow->barrier;
	if ((old.lane & WEFT_LANE_GONE) || walk->now_ns < last || walk->now_ns - last <= walk->idle_ns)
		return 0;
	if (!drained(&d->rings[old.ring & (WEFT_RINGS - 1)], flow) || (barrier && !passed(d, barrier)))
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return 0;
	__builtin_memset(record, 0, sizeof(*record));
	record->key = key->key;
	record->kind = WEFT_RECORD_EXPIRED;
	gone = old;
	gone.lane |= WEFT_LANE_GONE;
	if (__sync_val_compare_and_swap(&flow->place, old.both, gone.both) != old.both) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (*(volatile __u64 *)&flow->last_seen_ns != last) {
		__sync_val_compare_and_swap(&flow->place, gone.both, old.both);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	/* Fails when the kernel does not get the lock of the table's bucket. The flow then goes another time. */
	if (bpf_map_delete_elem(&flows, key)) {
		__sync_val_compare_and_swap(&flow->place, gone.both, old.both);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	count_flows(d, old, -1);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	walk->expired++;
	return 0;
}

/* Run periodically by the NIC, in a thread that delays no traffic. */
SEC("syscall")
int weft_expire(struct weft_expiry *expiry)
{
	struct weft_expiry walk = { .now_ns = expiry->now_ns, .idle_ns = expiry->idle_ns };

	bpf_for_each_map_elem(&flows, expire_flow, &walk, 0);
	expiry->seen = walk.seen;
	expiry->expired = walk.expired;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
