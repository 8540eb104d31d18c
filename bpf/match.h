/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The match table: the lane of a packet is that of the first row that it matches. */
#ifndef WEFT_MATCH_H
#define WEFT_MATCH_H

#include "flow_key.h"

#define WEFT_RULES 512
#define WEFT_CGROUPS 64

/* One row of the match table; see weft_packet::Match. Addresses in network order, IPv4 as ::ffff:a.b.c.d. */
struct weft_rule {
	__u8 tests; /* WEFT_TEST_* */
	__u8 protocol;
	__u8 cgroup;
	__u8 pad0;
	__u16 lane;
	__u16 pad1;
	__u32 src[4], src_mask[4];
	__u32 dst[4], dst_mask[4];
	__u16 sport_first, sport_last, dport_first, dport_last; /* host order */
	__u32 mark, mark_mask;
	__u32 priority;
	__u32 pad2;
};

#define WEFT_TEST_PROTOCOL 1
#define WEFT_TEST_ADDRESS 2 /* any of src and dst; also: must be IP */
#define WEFT_TEST_PORTS 4
#define WEFT_TEST_MARK 8
#define WEFT_TEST_PRIORITY 16
#define WEFT_TEST_CGROUP 32
#define WEFT_TEST_IPV6 64 /* an IPv6 prefix may contain ::ffff:0:0/96, which represents IPv4 here */

struct weft_cgroup {
	__u64 id;
	__u32 level; /* WEFT_LEVEL_ANY: unknown, where the root of the hierarchy is not visible */
	__u32 pad;
};

#define WEFT_LEVEL_ANY 0xffffffff
#define WEFT_LEVELS 32 /* levels searched for cgroups of an unknown level */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEFT_RULES);
	__type(key, __u32);
	__type(value, struct weft_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEFT_CGROUPS);
	__type(key, __u32);
	__type(value, struct weft_cgroup);
} cgroups SEC(".maps");

static __always_inline int prefix_differs(const __u32 a[4], const __u32 net[4], const __u32 mask[4])
{
	return ((a[0] & mask[0]) ^ net[0]) | ((a[1] & mask[1]) ^ net[1]) | ((a[2] & mask[2]) ^ net[2]) |
	       ((a[3] & mask[3]) ^ net[3]);
}

struct search {
	struct __sk_buff *skb;
	struct weft_flow_key *key;
	__u64 members; /* bit i: the sender is in or below cgroup i of the policy */
	__u32 lane;
};

static long try_rule(__u32 index, struct search *s)
{
	struct weft_rule *r = bpf_map_lookup_elem(&rules, &index);
	struct weft_flow_key *k = s->key;

	if (!r)
		return 1;
	if ((r->tests & (WEFT_TEST_PROTOCOL | WEFT_TEST_ADDRESS | WEFT_TEST_PORTS)) && !k->is_ip)
		return 0;
	if ((r->tests & WEFT_TEST_IPV6) && k->is_ip != WEFT_IS_IPV6)
		return 0;
	if ((r->tests & WEFT_TEST_PROTOCOL) && r->protocol != k->protocol)
		return 0;
	if ((r->tests & WEFT_TEST_ADDRESS) &&
	    (prefix_differs(k->src, r->src, r->src_mask) || prefix_differs(k->dst, r->dst, r->dst_mask)))
		return 0;
	if ((r->tests & WEFT_TEST_PORTS) && (k->sport < r->sport_first || k->sport > r->sport_last ||
					     k->dport < r->dport_first || k->dport > r->dport_last))
		return 0;
	if ((r->tests & WEFT_TEST_MARK) && (s->skb->mark & r->mark_mask) != r->mark)
		return 0;
	if ((r->tests & WEFT_TEST_PRIORITY) && s->skb->priority != r->priority)
		return 0;
	if ((r->tests & WEFT_TEST_CGROUP) && !((s->members >> (r->cgroup & 63)) & 1))
		return 0;
	s->lane = r->lane;
	return 1;
}

static long try_cgroup(__u32 index, struct search *s)
{
	struct weft_cgroup *c = bpf_map_lookup_elem(&cgroups, &index);
	__u32 level;

	if (!c)
		return 1;
	if (!c->id)
		return 0;
	if (c->level != WEFT_LEVEL_ANY) {
		if (bpf_skb_ancestor_cgroup_id(s->skb, c->level) == c->id)
			s->members |= 1ull << (index & 63);
		return 0;
	}
	for (level = 0; level < WEFT_LEVELS; level++) {
		if (bpf_skb_ancestor_cgroup_id(s->skb, level) == c->id) {
			s->members |= 1ull << (index & 63);
			break;
		}
	}
	return 0;
}

static __noinline __u32 classify(struct __sk_buff *skb, struct weft_flow_key *key, __u32 known_cgroups,
				 __u32 known_rules)
{
	struct search s = { .skb = skb, .key = key };

	if (!key)
		return 0;
	bpf_loop(known_cgroups, try_cgroup, &s, 0);
	bpf_loop(known_rules, try_rule, &s, 0);
	return s.lane;
}

_Static_assert(sizeof(struct weft_rule) == 96, "rule");
#endif
