/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The protection against packets scheduled in another class: evidence that the port's egress announced a packet,
 * the ports of fragments, the owner of a flow, and the share of infrastructure.
 * product/weft-nic/src/doorbell/guard.rs is the same in Rust.
 */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H

#include "doorbell.h"
#include "flow_key.h"
#include "match.h"
#include "tables.h"

#define WEFT_GUARD_BEHIND 4  /* the port has a qdisc: the doorbell is posted before the ring */
#define WEFT_GUARD_TAP 8     /* the port is a TAP: UDP GSO stays whole, and the evidence is in the hash (tap.h) */
#define WEFT_GUARD_CLOSED 16 /* the NIC is stopping, or the port has no carrier: no packet enters */

#define WEFT_SENDERS 64
#define WEFT_ARRIVAL_CORES 16

/* Packets that have passed the far end of the port's veth, on the cores with one number modulo WEFT_ARRIVAL_CORES. */
struct weft_arrivals {
	__u64 packets; /* as the rings will hold them (gso.h) */
	__u64 bytes;
	__u64 pad[6];
};

struct weft_guard {
	__u64 token; /* random per run; unknown to senders */
	__u64 cut_behind; /* segments of super-packets that were cut behind their doorbell, posted before the ring */
	__u32 flags; /* WEFT_GUARD_* */
	__u32 infrastructure; /* its lane; 0xffffffff: none */
	__u32 nanos_per_kib;  /* ns per KiB at the rate of the share of the host itself */
	__u32 pad0[9];
	__u64 unannounced; /* dropped before the rings: not seen by a program at the egress */
	__u64 obscured;	   /* dropped at the egress: the class cannot be determined, or the source address is of a group */
	__u64 excess;	   /* infrastructure beyond its share: scheduled as any other packet */
	__u64 passed;	   /* passed unscheduled, without a heartbeat of the NIC */
	__u64 passed_bytes;
	__u64 cut; /* packets announced beyond one for each super-packet that the kernel cuts before the ring */
	__u64 unknown_makers; /* packets of sockets whose maker is unknown, while rows test it */
	__u64 pad1;
	__u64 own;     /* the host's share: the time until which it is used, in ns of the monotonic clock */
	__u64 others;  /* the share of all programs in cgroups */
	__u64 forwarded; /* that of all packets that the host forwards */
	__u64 pad2[5];
	__u64 senders[WEFT_SENDERS]; /* the shares of single cgroups and of interfaces, by hash */
	struct weft_arrivals arrivals[WEFT_ARRIVAL_CORES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_guard);
} guard SEC(".maps");

/* A hash with the remainder `ring` by `rings`, which selects the ring, and the upper bits of `hash`. */
static __always_inline __u32 hash_for_ring(__u32 hash, __u32 ring, __u32 rings)
{
	__u32 base = hash - hash % rings;

	if (base + ring < base) /* an overflow would change the remainder */
		base -= rings;
	/* Zero means that no hash is set. */
	return base + ring ? base + ring : rings;
}

/*
 * The doorbell of a packet, as the evidence says. Exact: it counts what the ring will hold. One for all: it counts 1 for a
 * TCP super-packet, which the ring takes whole, unless the kernel cuts it on the way; the segments then inherit the
 * evidence. Only the first has the sequence number in it, so the guard posts the others, as packets of the lane. A
 * super-packet has less than 2^20 bytes, so no other segment has the same low bits. Passes: it has none.
 */
#define WEFT_EXACT 0u
#define WEFT_ONE_FOR_ALL(lane, sequence) (0xa0000000u | (lane) << 20 | ((sequence) & 0xfffff))
#define WEFT_IS_ONE_FOR_ALL(doorbell) ((doorbell) >> 29 == 5)
#define WEFT_IS_FIRST(doorbell, sequence) ((((doorbell) ^ (sequence)) & 0xfffff) == 0)
#define WEFT_LANE_OF(doorbell) ((doorbell) >> 20 & (WEFT_LANES - 1))
#define WEFT_PASSES ~0u

/*
 * The evidence that a packet was announced, for the guard before the rings. No field that a sender controls is
 * evidence: it sets mark, priority, time stamp and bytes, and can search for headers with the hash that it needs.
 * The control buffer of its packets contains zeros or data of the stack, never a number that it cannot read. That
 * number is bound to the hash, which selects the ring, and has the kind of doorbell in its upper half. It is in the last two words: a qdisc on the port uses at
 * most the first three (12 bytes, CAKE; FQ, CoDel and netem use fewer).
 */
static __always_inline void leave_evidence(struct __sk_buff *skb, const struct weft_guard *g, __u32 hash, __u32 doorbell)
{
	bpf_set_hash(skb, hash);
	skb->cb[3] = (__u32)g->token ^ hash;
	skb->cb[4] = (__u32)(g->token >> 32) ^ doorbell;
}

/* Whether the egress has seen a packet, and its doorbell. */
static __always_inline int has_evidence(struct __sk_buff *skb, const struct weft_guard *g, __u32 *doorbell)
{
	*doorbell = skb->cb[4] ^ (__u32)(g->token >> 32);
	return (skb->cb[3] ^ skb->hash) == (__u32)g->token &&
	       (*doorbell == WEFT_EXACT || WEFT_IS_ONE_FOR_ALL(*doorbell) || *doorbell == WEFT_PASSES);
}

/* Counts a packet at the far end. The cores that share an element are few, and each has its own backlog. */
static __always_inline void count_arrival(struct weft_guard *g, __u64 packets, __u64 bytes)
{
	struct weft_arrivals *here = &g->arrivals[bpf_get_smp_processor_id() & (WEFT_ARRIVAL_CORES - 1)];

	__sync_fetch_and_add(&here->packets, packets);
	__sync_fetch_and_add(&here->bytes, bytes);
}

/*
 * The evidence of a packet that the egress lets pass unscheduled: the guard sends it to the uplink's device in place
 * of a ring.
 */
static __always_inline void let_pass(struct __sk_buff *skb, struct weft_guard *g)
{
	__u32 hash = bpf_get_hash_recalc(skb);

	leave_evidence(skb, g, hash ? hash : 1, WEFT_PASSES);
	__sync_fetch_and_add(&g->passed, 1);
	__sync_fetch_and_add(&g->passed_bytes, skb->len);
}

/* One number of two; the upper bits of the product depend on all bits of the factors. */
static __always_inline __u64 joined(__u64 number, __u64 with)
{
	number = (number ^ with) * 0x9e3779b97f4a7c15ull;
	return number ^ number >> 29;
}

/* One number of a number and the name of the process that made the packet's socket. */
static __always_inline __u64 joined_with_process(__u64 number, struct __sk_buff *skb)
{
	const __u32 *name = process_of(skb);
	struct weft_guard *g;
	__u32 zero = 0;

	if (!name) {
		g = skb->sk ? bpf_map_lookup_elem(&guard, &zero) : 0;
		if (g)
			__sync_fetch_and_add(&g->unknown_makers, 1);
		return joined(number, 0);
	}
	return joined(joined(number, (__u64)name[0] << 32 | name[1]), (__u64)name[2] << 32 | name[3]);
}

/*
 * The owner of a packet, as far as rows test it: the same five-tuple of two owners is two flows, as that of two cgroups
 * that ping one host, or of two VLANs with the same addresses. The number of the cgroup, if rows test nothing else of it.
 */
static __noinline __u64 owner_of(struct __sk_buff *skb, __u32 flags, __u32 frame)
{
	__u64 owner = flags & WEFT_TABLES_CGROUPS ? bpf_skb_cgroup_id(skb) : 0;

	if (flags & WEFT_TABLES_USERS)
		owner = joined(owner, user_of(skb));
	if (flags & WEFT_TABLES_CLASSIDS)
		owner = joined(owner, classid_of(skb));
	if (flags & WEFT_TABLES_COOKIES)
		owner = joined(owner, bpf_get_socket_cookie(skb));
	if (flags & WEFT_TABLES_PROCESSES)
		owner = joined_with_process(owner, skb);
	if (frame & WEFT_FRAME_VLAN)
		owner = joined(owner, frame & WEFT_FRAME_VLAN);
	return owner;
}

/* Whether a packet has other tested fields than the packets of `flow`. */
static __always_inline int differs(struct __sk_buff *skb, const struct weft_flow *flow, const struct weft_tested *tested,
				   __u32 frame)
{
	return ((flow->mark ^ skb->mark) & tested->mark) || ((flow->priority ^ skb->priority) & tested->priority) ||
	       ((flow->frame ^ frame) & tested->frame);
}

/*
 * Whether packets of one five-tuple and owner with different fields are different flows: datagrams of one socket, or of a
 * tunnel, may have a DSCP, mark and priority each, and would wait in the ring of whichever came first. A TCP connection
 * stays one flow, since its receiver takes a packet that was overtaken for lost; it moves as a whole (moves.h).
 */
static __always_inline int is_divided(const struct weft_flow_key *key, const struct weft_tested *tested)
{
	return key->is_ip && key->protocol != IPPROTO_TCP && (tested->frame | tested->mark | tested->priority);
}

/*
 * In the place of the owner in the key of a flow beside the first one of its five-tuple: the owner and the tested fields. With
 * a number that senders cannot read, so that no choice of fields makes it the key of another owner's flow.
 */
static __always_inline __u64 owner_beside(struct __sk_buff *skb, __u64 owner, const struct weft_tested *tested, __u32 frame,
					  __u64 token)
{
	__u32 mark = skb->mark & tested->mark, priority = skb->priority & tested->priority;

	return joined(joined(joined(token, owner), frame & tested->frame), (__u64)mark << 32 | priority);
}

/* The flow table's key: the same five-tuple of two owners is two flows. */
struct weft_owned_key {
	struct weft_flow_key key;
	__u64 owner; /* owner_of, 0 if the policy tests nothing of it; or owner_beside */
};

/* A packet whose later fragments are expected (RFC 791: source, destination, protocol and identification). */
struct weft_fragment_key {
	__u32 src[4];
	__u32 dst[4];
	__u32 id;
	__u8 protocol;
	__u8 is_ip;
	__u16 pad;
};

struct weft_fragment {
	__u16 sport, dport;
	__u8 protocol;
	__u8 hops;
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct weft_fragment_key);
	__type(value, struct weft_fragment);
} fragments SEC(".maps");

/*
 * Sets the protocol and the ports of a fragment from its packet's first fragment. Returns 0 when they are unknown:
 * the first fragment has not passed, or its TTL differs, so that it might be dropped on the way and replaced by
 * another.
 */
static __noinline int join_fragments(struct weft_flow_key *key, const struct weft_headers *headers)
{
	struct weft_fragment_key of = {};
	struct weft_fragment first = {};
	struct weft_fragment *found;

	if (!key || !headers)
		return 0;
	__builtin_memcpy(of.src, key->src, sizeof(of.src));
	__builtin_memcpy(of.dst, key->dst, sizeof(of.dst));
	of.id = headers->id;
	of.is_ip = key->is_ip;
	/* IPv6 reassembles without regard to the protocol (RFC 8200, section 4.5). */
	if (key->is_ip == WEFT_IS_IPV4)
		of.protocol = key->protocol;
	if (headers->part == WEFT_PART_FIRST) {
		first.sport = key->sport;
		first.dport = key->dport;
		first.protocol = key->protocol;
		first.hops = headers->hops;
		bpf_map_update_elem(&fragments, &of, &first, BPF_ANY);
		return 1;
	}
	found = bpf_map_lookup_elem(&fragments, &of);
	if (!found || found->hops != headers->hops)
		return 0;
	key->protocol = found->protocol;
	key->sport = found->sport;
	key->dport = found->dport;
	return 1;
}

/*
 * Reads the key of a packet. `flags`, `frame`: what the tables test (struct weft_tested). Returns whether the class can be
 * determined from the key.
 */
static __always_inline int read_owned_key(struct __sk_buff *skb, __u32 flags, __u32 frame, struct weft_owned_key *owned,
					  struct weft_headers *headers)
{
	struct weft_flow_key *key = &owned->key;

	read_headers(skb, key, headers);
	if (flags & ~WEFT_TABLES_PORTS || frame & WEFT_FRAME_VLAN)
		owned->owner = owner_of(skb, flags, frame_of(headers) & frame);
	if (headers->part == WEFT_PART_WHOLE)
		return 1;
	if (!(flags & WEFT_TABLES_PORTS)) {
		key->protocol = headers->part == WEFT_PART_OBSCURED ? key->protocol : headers->fragmented;
		key->sport = key->dport = 0;
		return 1;
	}
	return headers->part != WEFT_PART_OBSCURED && join_fragments(key, headers);
}

#define PROTOCOL_ICMPV6 58 /* IPPROTO_ICMPV6 is in linux/in6.h */
#define ICMPV6_MLD_FIRST 130 /* multicast listener query, report, done */
#define ICMPV6_MLD_LAST 132
#define ICMPV6_ND_FIRST 133 /* router solicitation and advertisement, neighbour solicitation and advertisement */
#define ICMPV6_ND_LAST 136
#define ICMPV6_MLD2 143
#define ND_HOPS 255 /* RFC 4861, section 6.1 and 7.1: no router has forwarded the packet */
#define IS_MULTICAST4(address) (((address)&bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000))
#define IS_MULTICAST6(address) (((address)&bpf_htonl(0xff000000)) == bpf_htonl(0xff000000))
#define IS_LINK_LOCAL6(address) (((address)&bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000))

/* Whether the ports are those of a client and a server or relay, or of two of the latter (RFC 2131, section 4.1; RFC 8415, section 7.2). */
static __always_inline int is_dhcp(const struct weft_flow_key *key, __u16 client, __u16 server)
{
	return (key->sport == server && (key->dport == client || key->dport == server)) ||
	       (key->sport == client && key->dport == server);
}

/*
 * Neighbour and router discovery, which no router forwards, and multicast listener discovery, which stays on the link (RFC 3810,
 * section 5; RFC 3590 for a host without an address). Redirects are not among them: a network works without them.
 */
static __always_inline int is_discovery(struct __sk_buff *skb, const struct weft_flow_key *key, const struct weft_headers *headers)
{
	__u8 type;

	if (bpf_skb_load_bytes(skb, headers->transport, &type, sizeof(type)) < 0)
		return 0;
	if (type >= ICMPV6_ND_FIRST && type <= ICMPV6_ND_LAST)
		return headers->hops == ND_HOPS;
	if ((type < ICMPV6_MLD_FIRST || type > ICMPV6_MLD_LAST) && type != ICMPV6_MLD2)
		return 0;
	return headers->hops == 1 && IS_MULTICAST6(key->dst[0]) &&
	       (IS_LINK_LOCAL6(key->src[0]) || !(key->src[0] | key->src[1] | key->src[2] | key->src[3]));
}

/*
 * The protocols that a network requires under any policy: ARP, neighbour discovery, DHCP, group membership (RFC 3376,
 * section 4: to a group, with a TTL of 1), and the link-local protocols of bridges (802.1Q, table 8-1: spanning tree, LACP,
 * 802.1X, LLDP).
 */
static __always_inline int is_infrastructure(struct __sk_buff *skb, const struct weft_flow_key *key,
					     const struct weft_headers *headers)
{
	__u8 mac[ETH_ALEN];

	if (headers->part != WEFT_PART_WHOLE)
		return 0;
	switch (key->protocol) {
	case IPPROTO_UDP:
		return key->is_ip == WEFT_IS_IPV4 ? is_dhcp(key, 68, 67) : is_dhcp(key, 546, 547);
	case IPPROTO_IGMP:
		return key->is_ip == WEFT_IS_IPV4 && headers->hops == 1 && IS_MULTICAST4(key->dst[3]);
	case PROTOCOL_ICMPV6:
		return key->is_ip == WEFT_IS_IPV6 && is_discovery(skb, key, headers);
	}
	if (key->is_ip)
		return 0;
	if (headers->ether_type == ETH_P_ARP)
		return 1;
	return bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)) == 0 && mac[0] == 0x01 && mac[1] == 0x80 && mac[2] == 0xc2 &&
	       mac[3] == 0 && mac[4] == 0 && mac[5] < 0x10;
}

/*
 * Takes `cost` from a share that may be `ahead` of its rate: the generic cell rate algorithm. Returns whether the
 * share sufficed.
 */
static __always_inline int take_share(__u64 *paid, __u64 now, __u64 cost, __u64 ahead)
{
	int i;

	for (i = 0; i < 4; i++) {
		__u64 old = *(volatile __u64 *)paid;
		__u64 from = old > now ? old : now;

		if (from + cost > now + ahead)
			return 0;
		if (__sync_val_compare_and_swap(paid, old, from + cost) == old)
			return 1;
	}
	return 0;
}

/* The first cgroup is the root: the host's own programs run in it. */
#define ROOT_CGROUP 1

/*
 * The lane of infrastructure for a packet of it within the share; otherwise 0xffffffff. The host has a full share, all
 * programs in cgroups together a half, what the host forwards a half, and one cgroup, or the interface at which a forwarded
 * packet came in, an eighth, so no sender's flood blocks another. A packet without a socket is the kernel's own if no
 * interface received it: a container's or a virtual machine's came in at one.
 */
static __noinline __u32 infrastructure_lane(struct __sk_buff *skb, struct weft_guard *g)
{
	__u64 id = bpf_skb_cgroup_id(skb), now, cost;
	int has;

	if (!g)
		return ~0u;
	now = bpf_ktime_get_ns();
	cost = (__u64)skb->len * g->nanos_per_kib >> 10;
	/* Up to 16 KiB ahead; half of that for programs and for what is forwarded, and a quarter for one of them. */
	if (id <= ROOT_CGROUP && !skb->ingress_ifindex) {
		has = take_share(&g->own, now, cost, (__u64)g->nanos_per_kib * 16);
	} else {
		int forwarded = id <= ROOT_CGROUP;
		__u32 sender = forwarded ? skb->ingress_ifindex : (__u32)id, slot = (sender * 0x9e3779b1u) >> 26;

		has = take_share(&g->senders[slot & (WEFT_SENDERS - 1)], now, cost * 8, (__u64)g->nanos_per_kib * 32) &&
		      take_share(forwarded ? &g->forwarded : &g->others, now, cost * 2, (__u64)g->nanos_per_kib * 16);
	}
	if (has)
		return g->infrastructure;
	__sync_fetch_and_add(&g->excess, 1);
	return ~0u;
}

_Static_assert(sizeof(struct weft_guard) == 64 * 3 + 8 * WEFT_SENDERS + 64 * WEFT_ARRIVAL_CORES, "guard");
_Static_assert(sizeof(struct weft_owned_key) == 48, "owned key");
_Static_assert(sizeof(struct weft_fragment_key) == 40, "fragment key");
#endif
