// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Queue assignment, classification and doorbell: one program at the egress of the port (clsact).
 *
 * For each packet: find its flow, and with it the lane and the ring; write the ring into the hash, by which the macvtap
 * picks its queue (tap_get_queue, drivers/net/tap.c: hash % queues); count it and set the ring's bit. That is the whole
 * bell of a flow that the NIC knows: no message, no wake-up. A flow that is new, or whose metadata has changed, is
 * classified by the match table and its metadata sent in line, once (Loom, section 4.3.2).
 *
 * The bell is rung before the packet reaches the ring, and packets of two cores may enter a ring in another order than
 * their bells. The bell therefore only says how many there are; what a ring holds is one lane's, so nothing can be
 * charged to the wrong class.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "doorbell.h"
#include "flow_key.h"
#include "match.h"
#include "queues.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_doorbells);
} doorbells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct weft_flow_key);
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

/* Of a multiqueue NIC: it is there for the NIC and for a program that assigns queues, which finds it by this program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_queues);
} queues SEC(".maps");

/*
 * Set before loading. No count is ever 0: Linux 6.18 refuses a bpf_loop of known length 0 with a verifier bug; an unused
 * cgroup entry has id 0, and the last rule matches everything.
 */
const volatile struct weft_config config = { .rules = 1, .cgroups = 1, .rings = 1, .queues = 1 };

/*
 * How many packets and bytes the ring will hold of this one: TCP stays whole, and the kernel cuts all other GSO (UDP,
 * tunnels) between the veth and the macvtap. Behind options or in a tunnel the bytes are a little short of the truth.
 */
static __always_inline __u32 packets_in_ring(struct __sk_buff *skb, const struct weft_flow_key *key, __u64 *bytes)
{
	__u32 headers = ETH_HLEN + (key->is_ip == WEFT_IS_IPV6 ? 40 : 20) + 8;
	__u32 segments = skb->gso_segs;

	*bytes = skb->len;
	if (!skb->gso_size || key->protocol == IPPROTO_TCP)
		return 1;
	if (segments == 0 && skb->len > headers) /* forwarded GSO from a TAP comes without a count */
		segments = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	if (segments <= 1)
		return 1;
	*bytes += (__u64)(segments - 1) * headers;
	return segments;
}

/* The empty asm keeps the compiler from dropping a mask that the verifier, having lost track on the stack, still needs. */
static __always_inline struct weft_lane_flows *lane_flows(struct weft_doorbells *d, __u32 lane)
{
	asm volatile("" : "+r"(lane));
	return &d->lanes[lane & (WEFT_LANES - 1)];
}

/* The hash says the hardware queue, as in skb_tx_hash (net/core/dev.c): that of the socket, of the headers, or what a
 * program before this one has chosen. */
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

/* How many rings of a queue are looked at for an empty one. */
#define RING_CANDIDATES 32
/* A ring that had nothing for so long (a second, or more) belongs to no flow that is active. */
#define RING_IDLE_JIFFIES 1000

/*
 * A ring of the hardware queue: for a new flow an empty one if one of a few is, so that flows that are active at the same
 * time have rings of their own; otherwise the next. A flow that is not tracked goes by its own hash.
 */
static __always_inline __u16 ring_in_queue(struct weft_doorbells *d, __u32 queue, __u32 lane_id,
					   const struct weft_flow_key *key, int tracked)
{
	__u32 rings = rings_per_queue();
	__u32 first = queue * rings, n, best;
	__u64 now, last, oldest = ~0ull;
	int i;

	if (rings == 1)
		return first;
	if (!tracked)
		return first + flow_hash(key) % rings;
	n = __sync_fetch_and_add(&lane_flows(d, lane_id)->next, 1);
	now = bpf_jiffies64();
	best = first + n % rings;
	for (i = 0; i < RING_CANDIDATES; i++) {
		__u32 ring = first + (n + i) % rings;
		struct weft_ring_bell *bell = &d->rings[ring & (WEFT_RINGS - 1)];

		if (*(volatile __u64 *)&bell->packets != *(volatile __u64 *)&bell->done)
			continue;
		last = *(volatile __u64 *)&bell->last;
		if (now - last > RING_IDLE_JIFFIES)
			return ring;
		/* One that is empty just now may be that of a flow between two packets: the longer ago, the less. */
		if (last < oldest) {
			oldest = last;
			best = ring;
		}
	}
	return best;
}

/*
 * A flow that is known stays in its ring while its queue is the same. Two cores that see its queue change at once agree on
 * one of their rings.
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
	return seen.place == old.place ? new.ring : seen.ring;
}

/* The hash by which the macvtap finds the ring: hash % rings. The bits above are kept for who reads the hash behind. */
static __always_inline __u32 hash_of_ring(struct __sk_buff *skb, __u32 ring)
{
	__u32 base = skb->hash - skb->hash % config.rings;

	if (base + ring < base) /* beyond 32 bits the remainder would be another */
		base -= config.rings;
	/* Zero would mean "no hash". */
	return base + ring ? base + ring : config.rings;
}

/*
 * A flow beyond the bound goes by hash, and must stay in its ring when it is tracked later: so once a class has had such
 * flows, all its new ones go by hash.
 */
static __always_inline __u16 choose_ring(struct __sk_buff *skb, struct weft_doorbells *d, const struct weft_lane *lane,
					 __u32 lane_id, const struct weft_flow_key *key, int tracked)
{
	__u64 beyond = *(volatile __u64 *)&d->classes[lane->class & (WEFT_CLASSES - 1)].untracked;
	__u32 rings = lane->rings ? lane->rings : 1;
	__u32 n;

	if (lane->spread == WEFT_SPREAD_QUEUES)
		return ring_in_queue(d, queue_of(skb), lane_id, key, tracked && !beyond);
	if (tracked && !beyond && lane->spread == WEFT_SPREAD_ROUND_ROBIN)
		n = __sync_fetch_and_add(&lane_flows(d, lane_id)->next, 1);
	else
		n = flow_hash(key);
	return lane->first_ring + n % rings;
}

static __always_inline void announce(struct weft_doorbells *d, const struct weft_flow_key *key, struct weft_flow *flow,
				     __u16 class, __u16 kind)
{
	struct weft_record record = {
		.key = *key,
		.cgroup = flow->cgroup,
		.mark = flow->mark,
		.priority = flow->priority,
		.lane = flow->lane,
		.ring = flow->ring,
		.class = class,
		.kind = kind,
	};

	flow->announced = bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP) == 0;
	if (flow->announced)
		__sync_fetch_and_add(&d->records, 1);
	else
		__sync_fetch_and_add(&d->records_lost, 1);
}

/* Whether nothing of the flow can still lie in its ring. At most one packet per core is between bell and ring, so a margin
 * of 64 cores makes the count safe although bells and packets may swap places. */
static __always_inline int drained(const struct weft_ring_bell *bell, const struct weft_flow *flow)
{
	__u64 done = *(volatile __u64 *)&bell->done;

	return done == *(volatile __u64 *)&bell->packets || (__s64)(done - flow->last_bell) >= 64;
}

/* An atomic operation whose result is used is a full barrier on every machine; one whose result is not, only on x86. */
static __always_inline void fully_ordered(__u64 result)
{
	asm volatile("" : : "r"(result));
}

static __always_inline void count_class(struct weft_doorbells *d, __u32 class, __u64 packets, __u64 bytes)
{
	struct weft_class_bell *total = &d->classes[class & (WEFT_CLASSES - 1)];

	__sync_fetch_and_add(&total->packets, packets);
	__sync_fetch_and_add(&total->bytes, bytes);
}

static __always_inline void ring_bell(struct weft_doorbells *d, __u32 ring, __u64 packets, __u64 bytes)
{
	struct weft_ring_bell *bell = &d->rings[ring & (WEFT_RINGS - 1)];
	__u64 *word = &d->ready[(ring >> 6) & (WEFT_RINGS / 64 - 1)];
	__u64 bit = 1ull << (ring & 63);

	__sync_fetch_and_add(&bell->bytes, bytes);
	fully_ordered(__sync_fetch_and_add(&bell->packets, packets));
	/*
	 * The NIC clears the bit before it reads the count (exchange, then load); here the count is added before the bit is
	 * read (locked add, then load). So either the NIC sees this packet, or the bit is seen clear here and is set again.
	 */
	if (*(volatile __u64 *)word & bit)
		return;
	fully_ordered(__sync_fetch_and_or(word, bit));
	/* A NIC that goes to sleep sets the flag and then looks at the bits once more: one of the two sees the other. */
	if (*(volatile __u32 *)&d->sleeping && __sync_lock_test_and_set(&d->sleeping, 0)) {
		struct weft_record wake = { .kind = WEFT_RECORD_WAKE };

		__sync_fetch_and_add(&d->wakeups, 1);
		bpf_ringbuf_output(&records, &wake, sizeof(wake), BPF_RB_FORCE_WAKEUP);
	}
}

/* A flow that is new: classify, place, and remember it unless its lane has as many as it may. */
static __noinline __u64 place_new(struct __sk_buff *skb, struct weft_flow_key *key, struct weft_doorbells *d)
{
	struct weft_flow flow = { .cgroup = bpf_skb_cgroup_id(skb), .mark = skb->mark, .priority = skb->priority };
	struct weft_lane_flows *count;
	struct weft_lane *lane;
	__u32 lane_id;
	int tracked = 0;

	if (!key || !d)
		return 0;
	lane_id = classify(skb, key, config.cgroups, config.rules) & (WEFT_LANES - 1);
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return 0;
	count = lane_flows(d, lane_id);
	if (key->is_ip && *(volatile __u32 *)&count->flows < lane->flow_bound) {
		__sync_fetch_and_add(&count->flows, 1);
		tracked = 1;
	}
	flow.lane = lane_id;
	flow.ring = choose_ring(skb, d, lane, lane_id, key, tracked);
	flow.last_seen_ns = bpf_ktime_get_ns();
	if (tracked) {
		announce(d, key, &flow, lane->class, WEFT_RECORD_NEW);
		/* A full table, or another core was first: then this packet goes as an untracked one, by hash. */
		if (bpf_map_update_elem(&flows, key, &flow, BPF_NOEXIST) < 0) {
			__sync_fetch_and_add(&count->flows, -1);
			tracked = 0;
		}
	}
	if (!tracked) {
		struct weft_flow *other = bpf_map_lookup_elem(&flows, key);

		if (other)
			return (__u64)other->lane << 16 | other->ring;
		flow.ring = choose_ring(skb, d, lane, lane_id, key, 0);
		if (key->is_ip)
			__sync_fetch_and_add(&d->classes[lane->class & (WEFT_CLASSES - 1)].untracked, 1);
	}
	return (__u64)lane_id << 16 | flow.ring;
}

/* Whether a packet says something new of its flow. One without a socket (a reset, a late ACK) says nothing of a flow that
 * has an owner. */
static __always_inline int changed(struct __sk_buff *skb, const struct weft_flow *flow, __u64 cgroup)
{
	if (!cgroup && flow->cgroup)
		return 0;
	return flow->mark != skb->mark || flow->priority != skb->priority || flow->cgroup != cgroup;
}

/* A known flow whose mark, priority or cgroup has changed, or whose record was lost. */
static __noinline int renew(struct __sk_buff *skb, struct weft_flow_key *key, struct weft_doorbells *d)
{
	struct weft_flow *flow;
	struct weft_lane *lane;
	__u64 cgroup = bpf_skb_cgroup_id(skb);
	__u32 lane_id;

	if (!key || !d)
		return 0;
	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow)
		return 0;
	if (!changed(skb, flow, cgroup)) {
		lane_id = flow->lane;
		lane = bpf_map_lookup_elem(&lanes, &lane_id);
		if (lane)
			announce(d, key, flow, lane->class, WEFT_RECORD_NEW);
		return 0;
	}
	/* Until its old ring is drained it stays where it is: a move now could overtake. */
	if (!drained(&d->rings[flow->ring & (WEFT_RINGS - 1)], flow))
		return 0;
	lane_id = classify(skb, key, config.cgroups, config.rules) & (WEFT_LANES - 1);
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return 0;
	if (lane_id != flow->lane) {
		__sync_fetch_and_add(&lane_flows(d, flow->lane)->flows, -1);
		__sync_fetch_and_add(&lane_flows(d, lane_id)->flows, 1);
		flow->lane = lane_id;
		flow->ring = choose_ring(skb, d, lane, lane_id, key, 1);
	}
	flow->cgroup = cgroup;
	flow->mark = skb->mark;
	flow->priority = skb->priority;
	announce(d, key, flow, lane->class, WEFT_RECORD_CHANGED);
	return 0;
}

SEC("tc")
int weft_egress(struct __sk_buff *skb)
{
	struct weft_flow_key key = {};
	struct weft_doorbells *d;
	struct weft_flow *flow;
	struct weft_lane *lane;
	__u32 zero = 0, lane_id, ring;
	__u64 bytes, packets, placed;

	d = bpf_map_lookup_elem(&doorbells, &zero);
	if (!d)
		return TC_ACT_SHOT;
	read_flow_key(skb, &key);
	packets = packets_in_ring(skb, &key, &bytes);

	flow = bpf_map_lookup_elem(&flows, &key);
	if (flow) {
		__u64 cgroup = bpf_skb_cgroup_id(skb);

		if (!flow->announced || changed(skb, flow, cgroup))
			renew(skb, &key, d);
		lane_id = flow->lane;
		ring = flow->ring;
		flow->last_seen_ns = bpf_ktime_get_ns();
	} else {
		placed = place_new(skb, &key, d);
		lane_id = placed >> 16;
		ring = placed & 0xffff;
	}
	lane = bpf_map_lookup_elem(&lanes, &lane_id);
	if (!lane)
		return TC_ACT_SHOT;
	count_class(d, lane->class, packets, bytes);
	if (lane->spread == WEFT_SPREAD_QUEUES) {
		/* A map belongs to a program that uses it. */
		if (!bpf_map_lookup_elem(&queues, &zero))
			return TC_ACT_SHOT;
		if (flow)
			ring = follow_queue(skb, d, flow, &key);
		bpf_set_hash(skb, hash_of_ring(skb, ring));
		d->rings[ring & (WEFT_RINGS - 1)].last = bpf_jiffies64();
	} else {
		/* queue = hash % queues; zero would mean "no hash". */
		bpf_set_hash(skb, config.rings + ring);
	}
	if (lane->qdisc_class) {
		/* A qdisc stands between here and the ring, and may keep the packet: weft_behind rings the bell. */
		skb->priority = lane->qdisc_class;
		return TC_ACT_OK;
	}
	ring_bell(d, ring, packets, bytes);
	if (flow)
		flow->last_bell = *(volatile __u64 *)&d->rings[ring & (WEFT_RINGS - 1)].packets;
	return TC_ACT_OK;
}

/* The bell of packets that come out of a qdisc on the port: at the ingress of the veth's far end, before the ring. */
SEC("tc")
int weft_behind(struct __sk_buff *skb)
{
	struct weft_flow_key key = {};
	struct weft_doorbells *d;
	__u64 bytes, packets;
	__u32 zero = 0;

	d = bpf_map_lookup_elem(&doorbells, &zero);
	if (!d)
		return TC_ACT_OK;
	read_flow_key(skb, &key);
	packets = packets_in_ring(skb, &key, &bytes);
	ring_bell(d, skb->hash % config.rings, packets, bytes);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
