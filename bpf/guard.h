/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Nobody's packet is scheduled as another's: which packets the port's egress has announced, the ports of fragments, whose a
 * flow is, and the share of what a network cannot do without. crates/weft-nic/src/doorbell/guard.rs is the same in Rust.
 */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H

#include "doorbell.h"
#include "flow_key.h"

#define WEFT_GUARD_PORTS 1   /* the policy tests ports */
#define WEFT_GUARD_CGROUPS 2 /* the policy tests cgroups */
#define WEFT_GUARD_BEHIND 4  /* a qdisc stands on the port: the doorbell is posted at the far end */

#define WEFT_SENDERS 64

struct weft_guard {
	__u64 token; /* chosen at random for this run; no sender knows it */
	__u64 epoch; /* grows when the table of cgroups changes */
	__u32 flags; /* WEFT_GUARD_* */
	__u32 infrastructure; /* its lane; 0xffffffff: it has none */
	__u32 nanos_per_kib;  /* of the share of what the host itself sends of it */
	__u32 pad0[9];
	__u64 unannounced; /* dropped at the far end: no program at the egress has seen them */
	__u64 obscured;	   /* dropped at the egress: their class cannot be told */
	__u64 excess;	   /* beyond the share of infrastructure: they went as any other packet */
	__u64 pad1[5];
	__u64 own;     /* the share of the host: when what was sent of it is paid for, in ns of the monotonic clock */
	__u64 others;  /* the share of all programs in cgroups */
	__u64 pad2[6];
	__u64 senders[WEFT_SENDERS]; /* that of one cgroup of them */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_guard);
} guard SEC(".maps");

/*
 * The evidence that a packet was announced, for the far end of the port's veth. What a sender can set is no evidence: it
 * chooses mark, priority, time stamp and bytes, and can search for headers of which the kernel makes the hash it wants. The
 * control buffer of a packet that it makes begins as zeros, or with what the stack keeps there, and never as a number that it
 * cannot know; that number is bound to the hash, which says the ring. The last two words: a qdisc on the port keeps its own
 * notes in the first three at most (12 bytes, CAKE; FQ, CoDel and netem have less).
 */
static __always_inline void leave_evidence(struct __sk_buff *skb, const struct weft_guard *g, __u32 hash)
{
	bpf_set_hash(skb, hash);
	skb->cb[3] = (__u32)g->token ^ hash;
	skb->cb[4] = g->token >> 32;
}

static __always_inline int was_announced(struct __sk_buff *skb, const struct weft_guard *g)
{
	return (skb->cb[3] ^ skb->hash) == (__u32)g->token && skb->cb[4] == (__u32)(g->token >> 32);
}

/* Whose flow it is. A flow's entry holds until this changes, and it changes for all when the table of cgroups does: so each is
 * classified again. 0: nobody's, for packets without a socket. */
static __always_inline __u64 owner_of(struct __sk_buff *skb)
{
	struct weft_guard *g;
	__u64 id = bpf_skb_cgroup_id(skb);
	__u32 zero = 0;

	g = bpf_map_lookup_elem(&guard, &zero);
	return id && g ? id + (g->epoch << 48) : id;
}

/* The flow table's key: the same five-tuple from two cgroups is two flows. */
struct weft_owned_key {
	struct weft_flow_key key;
	__u64 cgroup; /* 0 where the policy does not ask */
};

/* A packet of which the later fragments are expected (RFC 791: source, destination, protocol and identification). */
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
	__uint(max_entries, 16384);
	__type(key, struct weft_fragment_key);
	__type(value, struct weft_fragment);
} fragments SEC(".maps");

/*
 * Gives a fragment the protocol and the ports of its packet, which the first fragment has. Returns 0 when they are not known:
 * its first fragment has not passed, or it would not travel as far as this one, so that another might take its place.
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

/* The key of a packet, and whether its class can be told from it. */
static __always_inline int read_owned_key(struct __sk_buff *skb, struct weft_guard *g, struct weft_owned_key *owned,
					  struct weft_headers *headers)
{
	struct weft_flow_key *key = &owned->key;

	if (g->flags & WEFT_GUARD_CGROUPS)
		owned->cgroup = bpf_skb_cgroup_id(skb);
	read_headers(skb, key, headers);
	if (headers->part == WEFT_PART_WHOLE)
		return 1;
	if (!(g->flags & WEFT_GUARD_PORTS)) {
		key->protocol = headers->part == WEFT_PART_OBSCURED ? key->protocol : headers->fragmented;
		key->sport = key->dport = 0;
		return 1;
	}
	return headers->part != WEFT_PART_OBSCURED && join_fragments(key, headers);
}

#define PROTOCOL_ICMPV6 58 /* IPPROTO_ICMPV6 is in linux/in6.h */
#define ICMPV6_MLD_FIRST 130 /* multicast listener discovery, and from 133 to 137 neighbour discovery */
#define ICMPV6_ND_LAST 137
#define ICMPV6_MLD2 143
#define IS_DHCP(port) ((port) == 67 || (port) == 68)
#define IS_DHCPV6(port) ((port) == 546 || (port) == 547)

/* What a network cannot do without, whatever its policy: ARP, neighbour discovery, DHCP, group membership, and what bridges
 * keep to one link (802.1Q, table 8-1: spanning tree, LACP, 802.1X, LLDP). */
static __always_inline int is_infrastructure(struct __sk_buff *skb, const struct weft_flow_key *key,
					     const struct weft_headers *headers)
{
	__u8 type, mac[ETH_ALEN];

	if (headers->part != WEFT_PART_WHOLE)
		return 0;
	switch (key->protocol) {
	case IPPROTO_UDP:
		return key->is_ip == WEFT_IS_IPV4 ? IS_DHCP(key->sport) && IS_DHCP(key->dport) :
						    IS_DHCPV6(key->sport) && IS_DHCPV6(key->dport);
	case IPPROTO_IGMP:
		return key->is_ip == WEFT_IS_IPV4;
	case PROTOCOL_ICMPV6:
		if (key->is_ip != WEFT_IS_IPV6 || bpf_skb_load_bytes(skb, headers->transport, &type, sizeof(type)) < 0)
			return 0;
		return (type >= ICMPV6_MLD_FIRST && type <= ICMPV6_ND_LAST) || type == ICMPV6_MLD2;
	}
	if (key->is_ip)
		return 0;
	if (headers->ether_type == ETH_P_ARP)
		return 1;
	return bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)) == 0 && mac[0] == 0x01 && mac[1] == 0x80 && mac[2] == 0xc2 &&
	       mac[3] == 0 && mac[4] == 0 && mac[5] < 0x10;
}

/* Takes `cost` out of a share that may be `ahead` of its rate: the generic cell rate algorithm. Returns whether it had it. */
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

/* The first of the cgroups is their root: what runs there is the host itself, as are packets without a socket. */
#define ROOT_CGROUP 1

/*
 * The lane of infrastructure, for a packet that belongs to it and finds a share left; otherwise 0xffffffff. The host has one,
 * the programs in cgroups together have half as much, and one cgroup an eighth: so nobody's flood stands in another's way.
 */
static __noinline __u32 infrastructure_lane(struct __sk_buff *skb, struct weft_guard *g)
{
	__u64 id = bpf_skb_cgroup_id(skb), now, cost;
	int has;

	if (!g)
		return ~0u;
	now = bpf_ktime_get_ns();
	cost = (__u64)skb->len * g->nanos_per_kib >> 10;
	/* As far ahead as 16 KiB; half of that for programs, and a quarter for one. */
	if (id <= ROOT_CGROUP) {
		has = take_share(&g->own, now, cost, (__u64)g->nanos_per_kib * 16);
	} else {
		__u32 slot = ((__u32)id * 0x9e3779b1u) >> 26;

		has = take_share(&g->senders[slot & (WEFT_SENDERS - 1)], now, cost * 8, (__u64)g->nanos_per_kib * 32) &&
		      take_share(&g->others, now, cost * 2, (__u64)g->nanos_per_kib * 16);
	}
	if (has)
		return g->infrastructure;
	__sync_fetch_and_add(&g->excess, 1);
	return ~0u;
}

_Static_assert(sizeof(struct weft_guard) == 64 * 3 + 8 * WEFT_SENDERS, "guard");
_Static_assert(sizeof(struct weft_owned_key) == 48, "owned key");
_Static_assert(sizeof(struct weft_fragment_key) == 40, "fragment key");
#endif
