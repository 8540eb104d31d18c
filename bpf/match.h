/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The search of the match tables (tables.h): the first matching row gives the class, and the longest matching
 * destination of the class gives the lane.
 *
 * It is a tuple space search (Srinivasan, Suri, Varghese, SIGCOMM 1999): one look-up for each group of rows with equal
 * masks. Groups are ordered by their smallest row, so the search ends at the first group that cannot have a smaller
 * row than the one found. Its cost grows with the number of groups, not of rows. Rows that hold at one port cost a group
 * for each length of their prefixes, whatever the number of ports.
 */
#ifndef WEFT_MATCH_H
#define WEFT_MATCH_H

#include "flow_key.h"
#include "tables.h"

union weft_key {
	struct weft_fields fields;
	__u32 word[sizeof(struct weft_fields) / 4];
};

/* The first words of struct weft_fields are those of the flow key, whose padding has the place of `port`. */
union weft_flow_words {
	struct weft_flow_key key;
	__u32 word[sizeof(struct weft_flow_key) / 4];
};

#define WEFT_FLOW_WORDS (sizeof(struct weft_flow_key) / 4)

/* The words behind mark and priority. */
struct weft_origin {
	__u32 frame, user, classid, cookie[2], process;
};

#define WEFT_ORIGIN_WORDS (sizeof(struct weft_origin) / 4)

/* Whether the kernel has net_cls; set before loading, since one without it has no such helper. */
static __always_inline int has_net_cls(void);

/* The name of the process that made the sender's socket, in four words; 0: unknown. */
static __always_inline const __u32 *process_of(struct __sk_buff *skb);

/*
 * The user of the sender's socket, as the socket's network namespace numbers users. Of a connection that has ended or not yet
 * begun (a reset, a last ACK), the helper says 65534, the number of a real user.
 */
static __always_inline __u32 user_of(struct __sk_buff *skb)
{
	return skb->sk && bpf_sk_fullsock(skb->sk) ? bpf_get_socket_uid(skb) : WEFT_NO_USER;
}

static __always_inline __u32 classid_of(struct __sk_buff *skb)
{
	return has_net_cls() ? (__u32)bpf_skb_cgroup_classid(skb) : 0;
}

static __always_inline __u32 frame_of(const struct weft_headers *headers)
{
	return WEFT_FRAME_CLASS(headers->traffic_class) | (headers->tagged ? WEFT_FRAME_TAG(headers->tci) : 0);
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define UPPER_HALF(number) ((__u32)(number) << 16)
#else
#define UPPER_HALF(number) ((__u32)(__u16)(number))
#endif

struct search {
	struct __sk_buff *skb;
	struct weft_bank *bank;
	__u64 members; /* bit i: the sender is in or below cgroup i of the policy */
	__u64 left;    /* the members of the current group not yet looked up */
	__u32 index;   /* of the bank */
	__u32 from;    /* the first group */
	struct weft_entry best;
	const union weft_flow_words *packet;
	__u16 port;    /* the field `port` of the packet, in the upper half of its word */
	__u16 number;  /* of the port */
	union {
		struct weft_origin origin;
		__u32 word[WEFT_ORIGIN_WORDS];
	};
	union weft_key key;
};

static long try_cgroup(__u32 index, struct search *s)
{
	struct weft_cgroup *c = &s->bank->cgroup[index & (WEFT_CGROUPS - 1)];
	__u64 id = *(volatile __u64 *)&c->id;
	__u32 known = *(volatile __u32 *)&c->level, level;

	if (!id)
		return 0;
	if (known != WEFT_LEVEL_ANY) {
		if (bpf_skb_ancestor_cgroup_id(s->skb, known) == id)
			s->members |= 1ull << (index & 63);
		return 0;
	}
	for (level = 0; level < WEFT_LEVELS; level++) {
		if (bpf_skb_ancestor_cgroup_id(s->skb, level) == id) {
			s->members |= 1ull << (index & 63);
			break;
		}
	}
	return 0;
}

static __always_inline void look_up(struct search *s)
{
	void *map = bpf_map_lookup_elem(&entries, &s->index);
	struct weft_entry *e;

	if (!map)
		return;
	e = bpf_map_lookup_elem(map, &s->key);
	if (e && e->row < s->best.row)
		s->best = *e;
}

/* The number of the lowest bit that is set. The machine of eBPF has no instruction for it. */
static __always_inline __u32 lowest_bit(__u64 word)
{
	__u32 number = 0, zeros;

#pragma unroll
	for (zeros = 32; zeros; zeros >>= 1) {
		__u64 none = !(word & ((1ull << zeros) - 1));

		number += none * zeros;
		word >>= none * zeros;
	}
	return number;
}

static long try_member(__u32 index, struct search *s)
{
	if (!s->left)
		return 1;
	s->key.fields.member = lowest_bit(s->left);
	s->left &= s->left - 1;
	look_up(s);
	return 0;
}

static long try_group(__u32 index, struct search *s)
{
	__u32 number = s->from + index, i;
	struct weft_group *g = group_of(s->bank, number);

	if (s->best.row <= g->first)
		return 1;
#pragma unroll
	for (i = 0; i < WEFT_FLOW_WORDS - 1; i++)
		s->key.word[i] = s->packet->word[i] & g->mask[i];
	s->key.word[i] = (s->packet->word[i] | UPPER_HALF(s->port)) & g->mask[i];
	s->key.fields.mark = s->skb->mark & g->mask[WEFT_FLOW_WORDS];
	s->key.fields.priority = s->skb->priority & g->mask[WEFT_FLOW_WORDS + 1];
#pragma unroll
	for (i = 0; i < WEFT_ORIGIN_WORDS; i++)
		s->key.word[WEFT_FLOW_WORDS + 2 + i] = s->word[i] & g->mask[WEFT_FLOW_WORDS + 2 + i];
	s->key.fields.group = number;
	s->key.fields.member = g->by == WEFT_BY_PORT ? s->number : 0;
	if (g->by != WEFT_BY_CGROUP) {
		look_up(s);
		return 0;
	}
	s->left = s->members;
	bpf_loop(WEFT_CGROUPS, try_member, s, 0);
	return 0;
}

static __always_inline void read_origin(struct __sk_buff *skb, __u32 flags, __u32 frame, struct weft_origin *origin)
{
	__u64 cookie = flags & WEFT_TABLES_COOKIES ? bpf_get_socket_cookie(skb) : 0;

	origin->frame = frame;
	origin->user = flags & WEFT_TABLES_USERS ? user_of(skb) : WEFT_NO_USER;
	origin->classid = flags & WEFT_TABLES_CLASSIDS ? classid_of(skb) : 0;
	origin->cookie[0] = (__u32)cookie;
	origin->cookie[1] = cookie >> 32;
}

/* The number that the rows have for the process that made the packet's socket. */
static __always_inline __u32 number_of_process(struct search *s)
{
	const __u32 *name = process_of(s->skb);
	void *map = name ? bpf_map_lookup_elem(&entries, &s->index) : 0;
	struct weft_entry *e;

	if (!map)
		return 0;
	__builtin_memcpy(s->key.fields.src, name, sizeof(s->key.fields.src));
	s->key.fields.group = WEFT_NAMES;
	e = bpf_map_lookup_elem(map, &s->key);
	return e ? e->row : 0;
}

/*
 * The lane (or weight) of a packet by the tables of the generation `current`, at the port with that number. `frame`:
 * WEFT_FRAME_*. A global function, which the verifier checks once and not for each path that leads to it.
 */
__noinline __u32 classify(struct __sk_buff *skb, struct weft_flow_key *key, __u64 current, __u32 port, __u32 frame)
{
	struct search s = { .skb = skb, .index = current & 1, .best = { .row = ~0u, .class = WEFT_ANY_DESTINATION } };
	struct weft_tables *t;
	__u32 zero = 0;

	t = bpf_map_lookup_elem(&tables, &zero);
	if (!key || !t)
		return 0;
	s.bank = bank_of(t, current);
	s.packet = (const union weft_flow_words *)key;
	s.port = port;
	s.number = port;
	read_origin(skb, s.bank->tested.flags, frame, &s.origin);
	if (s.bank->tested.flags & WEFT_TABLES_PROCESSES)
		s.origin.process = number_of_process(&s);
	bpf_loop(s.bank->cgroups, try_cgroup, &s, 0);
	bpf_loop(s.bank->groups, try_group, &s, 0);
	if (s.best.class == WEFT_ANY_DESTINATION)
		return s.best.given;
	s.port = s.best.class;
	s.from = s.bank->groups;
	s.best.row = ~0u;
	bpf_loop(s.bank->destinations, try_group, &s, 0);
	return s.best.given;
}

_Static_assert(__builtin_offsetof(struct weft_flow_key, pad) == __builtin_offsetof(struct weft_fields, port), "port");
_Static_assert(__builtin_offsetof(struct weft_fields, mark) == 4 * WEFT_FLOW_WORDS, "mark");
_Static_assert(__builtin_offsetof(struct weft_fields, frame) == 4 * (WEFT_FLOW_WORDS + 2), "frame");
_Static_assert(__builtin_offsetof(struct weft_fields, group) == 4 * WEFT_FIELD_WORDS, "masked words");
#endif
