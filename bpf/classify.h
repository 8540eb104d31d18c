/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The maps of the programs that assign packets to the classes of a device's qdiscs (classify.bpf.c), besides the match
 * tables. product/weft-run/src/kernel/layout.rs is the same in Rust.
 */
#ifndef WEFT_CLASSIFY_H
#define WEFT_CLASSIFY_H

#include "guard.h"

#define WEFT_LEAVES 8192 /* lanes and classes of a policy; a power of two. The last one is that of infrastructure. */
#define WEFT_LANE_CLOCKS 4 /* limits by destination and port that one lane passes */
#define WEFT_LEAF_CLOCKS 8192

/* A lane in the tree of qdiscs. Those of bank b of the match tables begin at b * WEFT_LEAVES. */
struct weft_leaf {
	__u32 priority; /* the handle of the class in the qdisc that holds it */
	__u16 class;	/* of the policy */
	__u16 clocks;	/* how many of the next field are used */
	__u16 clock[WEFT_LANE_CLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * WEFT_LEAVES);
	__type(key, __u32);
	__type(value, struct weft_leaf);
} leaves SEC(".maps");

/* The packets of a class, each of a super-packet's segments for one, as qdiscs count them. */
struct weft_class_count {
	__u64 packets;
	__u64 bytes;
	__u64 late; /* dropped: their time would be beyond the horizon of a limit by destination or port */
	__u64 late_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEFT_LEAVES);
	__type(key, __u32);
	__type(value, struct weft_class_count);
} counts SEC(".maps");

/* A limit by destination or port: packets of its lanes have times that keep it. */
struct weft_clock {
	__u64 next_ns; /* of the monotonic clock: the time until which the rate is used */
	__u64 nanos_per_kib;
	__u64 burst_ns; /* the time of the bytes that may leave at once */
	__u64 horizon_ns; /* the most that a packet waits */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEFT_LEAF_CLOCKS);
	__type(key, __u32);
	__type(value, struct weft_clock);
} clocks SEC(".maps");

/* The numbers that rows have for devices: where a forwarded packet came in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32); /* ifindex */
	__type(value, __u32);
} interfaces SEC(".maps");

/* A flow whose lane was found by the tables of a generation, and the tested fields with which it was. */
struct weft_known {
	__u64 generation;
	__u32 frame, mark, priority;
	__u16 lane;
	__u16 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct weft_owned_key);
	__type(value, struct weft_known);
} known SEC(".maps");

/* The class in a qdisc for packets whose leaf is below it. */
struct weft_way {
	__u32 qdisc;	/* its handle */
	__u32 priority; /* of the leaf; 0: all others */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct weft_way);
	__type(value, __u32); /* the minor number */
} ways SEC(".maps");

_Static_assert(sizeof(struct weft_leaf) == 16, "leaf");
_Static_assert(sizeof(struct weft_class_count) == 32, "class count");
_Static_assert(sizeof(struct weft_clock) == 32, "clock");
_Static_assert(sizeof(struct weft_way) == 8, "way");
#endif
