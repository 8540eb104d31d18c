/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The match tables: the classification table and the destination table, in two banks.
 *
 * Rows with the same tests and the same masks form a group. A group's rows are entries of one hash map: the key is the
 * packet's fields under the masks of the group, and the value is the first such row. The groups of destinations follow
 * those of the classification table, longest prefix first. Where limits of a class differ between ports, the class has
 * rows for each of these ports, in groups before the others; the last one is for all of the port's packets.
 *
 * One bank is in use. A change writes the other bank, and then `current`, in one store. A program reads `current` once
 * for a packet and uses that bank alone, so no packet sees parts of two tables. `entries` has a separate map for each
 * bank. The writer waits for an RCU grace period before it writes a bank that was in use.
 * product/weft-titan/src/match_table is the same in Rust.
 */
#ifndef WEFT_TABLES_H
#define WEFT_TABLES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define WEFT_CGROUPS 64
#define WEFT_GROUPS 1024
#define WEFT_FIELD_WORDS 18

struct weft_cgroup {
	__u64 id; /* 0: matches nothing */
	__u32 level; /* WEFT_LEVEL_ANY: unknown, where the root of the hierarchy is not visible */
	__u32 pad;
};

#define WEFT_LEVEL_ANY 0xffffffff
#define WEFT_LEVELS 32 /* levels searched for cgroups of an unknown level */

/* The tested fields of a packet; under a group's masks, a key of `entries`. IPv4 as ::ffff:a.b.c.d. */
struct weft_fields {
	__u32 src[4], dst[4]; /* network order */
	__u16 sport, dport; /* host order */
	__u8 protocol;
	__u8 family; /* 0 or WEFT_IS_*: the two have the bit 4 in common */
	__u16 port; /* the number of the port; in the destination table the class */
	__u32 mark;
	__u32 priority;
	__u32 frame;   /* WEFT_FRAME_*, of the headers */
	__u32 user;    /* of the sender's socket, or WEFT_NO_USER */
	__u32 classid; /* of the sender's net_cls group (cgroup v1); 0: none */
	__u32 cookie[2]; /* of the sender's socket, the lower half first; 0: none */
	__u32 process; /* the number of the process that made the sender's socket (WEFT_NAMES); 0: none that rows test */
	__u16 group; /* these two are not masked */
	__u16 member; /* of a group by cgroup its number, of one by port the number of the port, else 0 */
};

/* The fields of a frame besides its key. Those of another network than IP have no traffic class, and a key that says so. */
#define WEFT_FRAME_CLASS(traffic_class) ((__u32)(traffic_class)) /* DSCP and ECN */
#define WEFT_FRAME_TAG(tci) ((__u32)(__u16)(tci) << 8 | WEFT_FRAME_TAGGED)
#define WEFT_FRAME_VLAN (0xfffu << 8 | WEFT_FRAME_TAGGED) /* the outermost tag's VLAN */
#define WEFT_FRAME_TAGGED (1u << 24)

#define WEFT_NO_USER (~0u) /* no process can have it */

struct weft_group {
	__u32 mask[WEFT_FIELD_WORDS]; /* of the first words of struct weft_fields */
	__u32 first; /* its smallest row */
	__u32 by; /* WEFT_BY_* */
};

#define WEFT_BY_CGROUP 1 /* the rows test a cgroup */
#define WEFT_BY_PORT 2   /* destinations at one port */

struct weft_entry {
	__u32 row; /* the first match decides, hence the smallest */
	__u16 given; /* a lane, or a weight */
	__u16 class; /* WEFT_ANY_DESTINATION, or the class whose destinations decide the lane; `given` if none matches */
};

#define WEFT_ANY_DESTINATION 0xffff

/* The group of entries that have, for the name of a process in `src`, its number in `row`. No rows have this group. */
#define WEFT_NAMES 0xffff

#define WEFT_TABLES_PORTS 1   /* rows test the ports of packets */
#define WEFT_TABLES_CGROUPS 2 /* rows test cgroups */
#define WEFT_TABLES_USERS 4   /* rows test users */
#define WEFT_TABLES_CLASSIDS 8 /* rows test classes of net_cls */
#define WEFT_TABLES_COOKIES 16 /* rows test cookies of sockets */
#define WEFT_TABLES_PROCESSES 32 /* rows test processes */

/* What rows test of a packet's sender, and the bits that they test of the packet besides its key. */
struct weft_tested {
	__u32 flags; /* WEFT_TABLES_* */
	__u32 frame; /* of WEFT_FRAME_* */
	__u32 mark;
	__u32 priority;
};

struct weft_bank {
	__u32 groups; /* of the classification table */
	__u32 destinations; /* groups of the destination table, after the others */
	__u32 cgroups;
	__u32 pad0;
	__u64 rekeyed_ns; /* the last change of what distinguishes flows, which changes their keys; 0: none */
	struct weft_tested tested;
	struct weft_tested keyed; /* that before this change */
	__u64 pad1;
	struct weft_cgroup cgroup[WEFT_CGROUPS];
	struct weft_group group[WEFT_GROUPS];
};

struct weft_tables {
	__u64 current; /* a generation; the lowest bit is the bank in use */
	__u64 pad[7];
	struct weft_bank bank[2];
};

/* The part of the generation that flows carry: 32,768 changes while a flow is silent for less than ten seconds. */
#define WEFT_GENERATION(current) ((__u16)(current))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_tables);
} tables SEC(".maps");

struct weft_entries {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct weft_fields);
	__type(value, struct weft_entry);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct weft_entries);
} entries SEC(".maps");

/* The generation of the tables, read once for a packet. */
static __always_inline __u64 current_tables(const struct weft_tables *t)
{
	return *(volatile __u64 *)&t->current;
}

/* The empty asm keeps masks that the compiler would drop and the verifier still needs. */
static __always_inline struct weft_bank *bank_of(struct weft_tables *t, __u64 current)
{
	asm volatile("" : "+r"(current));
	return &t->bank[current & 1];
}

static __always_inline struct weft_group *group_of(struct weft_bank *bank, __u32 number)
{
	asm volatile("" : "+r"(number));
	return &bank->group[number & (WEFT_GROUPS - 1)];
}

_Static_assert(sizeof(struct weft_fields) == 76, "fields");
_Static_assert(sizeof(struct weft_group) == 80, "group");
_Static_assert(sizeof(struct weft_entry) == 8, "entry");
_Static_assert(sizeof(struct weft_bank) == 64 + 16 * WEFT_CGROUPS + 80 * WEFT_GROUPS, "bank");
#endif
