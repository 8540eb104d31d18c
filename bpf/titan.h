/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the queue-assigning programs share with crates/weft-titan/src/layout.rs. */
#ifndef WEFT_TITAN_H
#define WEFT_TITAN_H

#include "queues.h"

#define WEFT_CPUS 1024

/* The read-only data of the programs. Counts of rules and cgroups are never 0: see bpf/doorbell.bpf.c. */
struct weft_titan_config {
	__u32 queues;
	__u32 assignment;   /* WEFT_ASSIGN_* */
	__u32 pooled;	    /* 1: choose among the queues of the sending core's pool, 0: among all */
	__u32 rules;	    /* rows of the match table; the last matches everything */
	__u32 cgroups;
	__u32 most_flows;   /* active at once; those beyond are left to the device's own choice */
	__u32 with_action;  /* 1: a tc action behind this classifier puts the packet into queue hash % queues */
	__u32 device_holds; /* 1: the device is our NIC, and says in the page what it holds outside its rings */
	__u32 default_weight;
};

#define WEFT_ASSIGN_HASH 0  /* by the flow's hash */
#define WEFT_ASSIGN_LEAST 1 /* the least occupied: dynamic queue assignment */

/* The queues of a core. */
struct weft_titan_pool {
	__u32 queues; /* 0: all */
	__u8 queue[WEFT_QUEUES];
};

/* A flow: a socket. Lives and dies with it. */
struct weft_titan_flow {
	/*
	 * In one word, so that whoever takes the last packet away learns in the same instant where and with which weight the
	 * flow was counted: bits 0..31 segments outstanding, 32..39 queue, 40..63 weight.
	 */
	__u64 state;
	__u64 bytes;	 /* assigned */
	__s64 bytes_out; /* assigned and not left */
	__u64 cgroup;	 /* what the weight follows from */
	__u32 mark;
	__u32 hash;	 /* bits 12..31: the flow's tag; all: puts a packet into the flow's queue */
	__u32 port;	 /* remote, network order: for people */
	__u32 passing;	 /* 1: earlier packets were left to the device's choice, and may be outstanding */
};

#define WEFT_TAG_SHIFT 12
/* The low bits of a hash begin here, so that a program behind that changes them by less than this touches no tag. */
#define WEFT_HASH_BASE 1024

struct weft_titan_totals {
	__u64 active;	   /* flows counted in now */
	__u64 activations; /* flows that became active */
	__u64 moves;	   /* of them, to another queue than before */
	__u64 kept;	   /* of them, kept where they were although another was emptier: something was outstanding */
	__u64 beyond;	   /* packets of flows beyond the bound, left to the device's choice */
	__u64 without_socket; /* packets that are charged to no socket of TCP or UDP, left to the device's choice */
	__u64 passed;	   /* packets of flows that were under way when Titan came, left to the device's choice */
	__u64 repaired;	   /* flows whose packets had all left although not all departures were seen */
	__u64 retries;	   /* a queue was taken by another core between look and claim */
	__u64 unstored;	   /* no memory for a flow */
	__u64 pad[6];
};

/* What the iterator says of a flow. */
struct weft_titan_record {
	__u64 cookie;
	__u64 state;
	__u64 bytes;
	__u64 bytes_out;
	__u32 outstanding; /* bytes charged to the socket below it, its own reference taken off */
	__u32 hash;
	__u16 family, protocol;
	__u16 local_port, remote_port; /* host order */
	__u8 local[16], remote[16];
};

_Static_assert(sizeof(struct weft_titan_config) == 36, "config");
_Static_assert(sizeof(struct weft_titan_pool) == 260, "pool");
_Static_assert(sizeof(struct weft_titan_flow) == 48, "flow");
_Static_assert(sizeof(struct weft_titan_totals) == 128, "totals");
_Static_assert(sizeof(struct weft_titan_record) == 80, "record");
#endif
