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

#define WEFT_FLOWS (1 << 18)
/* A flow is in one of so many entries in a row, which one follows from its socket. */
#define WEFT_FLOW_WAYS 8

/*
 * A flow: a socket. A cache line.
 *
 * All that cores must agree on is in `state`, a word that changes by atomic operations only: bits 0..27 segments outstanding, 28..35
 * queue, 36..51 weight, 52..54 flags, 55..63 a count of its endings. Without a flag the flow counts in its queue's load, with its
 * weight, while segments are outstanding: whoever makes them more than 0 adds it to the load, whoever makes them 0 takes off
 * the queue and weight that the word had in that instant, which are those that were added, since they change only when nothing is
 * outstanding. Queue, weight and flags are changed by compare and swap, from a word without segments. With a flag no segment
 * counts: who has added some finds the flag in what the addition returns, and takes them back. crates/weft-titan/tests/loom_table.rs
 * is the same in Rust, which a checker runs in all orders.
 */
struct weft_titan_flow {
	__u64 socket; /* the address of its struct sock, never followed; 0: the entry is free */
	__u64 state;
	__u64 bytes;	  /* assigned */
	__u64 bytes_out;  /* bits 0..55 assigned and not left, below zero at times; 56..63 the queue that they were assigned in */
	__u64 weighed;	  /* bits 0..15 a weight, 16..63 what of mark and cgroup it follows from; one word, so that they fit together */
	__u32 idle_since; /* when it was last counted out, in jiffies */
	__u32 swept;	  /* of bytes, when the sweep was here last */
	__u32 claim;	  /* WEFT_CLAIM_*: an entry is being made for the socket whose cookie leads here */
	__u32 hash;	  /* bits 12..31 the flow's tag; plus a queue: puts a packet into that queue */
	__u16 local_port; /* host order: for people */
	__u16 remote_port;
	__u32 pad;
};

/* The parts of a flow's state. */
#define WEFT_FLOW_OUT ((1ull << 28) - 1)
#define WEFT_FLOW_QUEUE 28  /* begins at this bit */
#define WEFT_FLOW_WEIGHT 36
#define WEFT_FLOW_NEW (1ull << 52)     /* nothing of it has been assigned yet */
#define WEFT_FLOW_PASSING (1ull << 53) /* packets were left to the device's choice, and may be outstanding */
#define WEFT_FLOW_TAKEN (1ull << 54)   /* the entry is being made another flow's */
#define WEFT_FLOW_FLAGS (7ull << 52)
/* Added when a flow ends or is left alone: who read the word before and swaps it thereafter finds another. */
#define WEFT_FLOW_ENDED (1ull << 55)
#define WEFT_FLOW_ENDINGS (0x1ffull << 55)

#define WEFT_CLAIM_MAKING 1
#define WEFT_CLAIM_PASSED 2 /* and meanwhile packets of another core were left to the device's choice */

struct weft_titan_flows {
	struct weft_titan_flow flow[WEFT_FLOWS];
};

#define WEFT_TAG_SHIFT 12
/* The low bits of a hash begin here, so that a program behind that changes them by less than this touches no tag. */
#define WEFT_HASH_BASE 1024
/*
 * A tag is the number of the flow's entry, plus one, times an odd number: steering behind (RPS) goes by the upper bits, and
 * entries next to each other shall not all go to one core. The other is its inverse modulo 2^20.
 */
#define WEFT_TAG_SPREAD 0x9e379
#define WEFT_TAG_INVERSE 0x16c9
#define WEFT_TAG_MASK 0xfffff

struct weft_titan_totals {
	__u64 kept;	   /* flows that became active and were kept where they were, since the NIC still held a packet */
	__u64 beyond;	   /* packets that were left to the device's choice, because as many flows as may be were known */
	__u64 without_socket;
	__u64 passed;	   /* packets of flows that were under way when Titan came, left to the device's choice */
	__u64 repaired;	   /* flows whose packets had all left although not all departures were seen */
	__u64 swept;	   /* of them, those that the sweep counted out, since their sockets had nothing more to send */
	__u64 retries;	   /* a queue was taken by another core between look and claim */
	__u64 given_up;	   /* words that other cores changed so often in between that a departure or its bytes stayed uncounted */
};

_Static_assert(sizeof(struct weft_titan_config) == 36, "config");
_Static_assert(sizeof(struct weft_titan_pool) == 260, "pool");
_Static_assert(sizeof(struct weft_titan_flow) == 64, "flow");
_Static_assert(sizeof(struct weft_titan_totals) == 64, "totals");
#endif
