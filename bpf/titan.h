/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The data shared by the programs of queue assignment and product/weft-titan/src/layout.rs. */
#ifndef WEFT_TITAN_H
#define WEFT_TITAN_H

#include "queues.h"

#define WEFT_CPUS 1024

/* The read-only data of the programs. */
struct weft_titan_config {
	__u32 queues;
	__u32 assignment;   /* WEFT_ASSIGN_* */
	__u32 pooled;	    /* 1: choose among the queues of the sending core's pool, 0: among all */
	__u32 rules;	    /* rows of the classification table (tables.h); the last matches everything */
	__u32 most_flows;   /* maximum number of active flows; further ones are left to the device's choice */
	__u32 with_action;  /* 1: a tc action after this classifier selects queue hash % queues */
	__u32 device_holds; /* 1: the device is our NIC, which writes the packets held outside its rings into the page */
	__u32 default_weight;
	__u32 net_cls;	    /* 1: the kernel has net_cls */
};

#define WEFT_ASSIGN_HASH 0  /* by the flow's hash */
#define WEFT_ASSIGN_LEAST 1 /* the least occupied: dynamic queue assignment */

/* The queues of a core. */
struct weft_titan_pool {
	__u32 queues; /* 0: all */
	__u8 queue[WEFT_QUEUES];
};

#define WEFT_FLOWS (1 << 18)
/* The number of consecutive entries in which a flow may be; its socket determines the first. */
#define WEFT_FLOW_WAYS 8

/*
 * A flow: a socket. A cache line.
 *
 * All state shared by cores is in `state`, a word that changes by atomic operations only: bits 0..27 segments
 * outstanding, 28..35 queue, 36..51 weight, 52..54 flags, 55..63 a count of its endings. Without a flag the flow
 * counts in its queue's load, with its weight, while segments are outstanding. The core that raises them from 0
 * adds the flow to the load. The core that reduces them to 0 subtracts the queue and weight in that word, which are
 * those that were added, since they change only when no segment is outstanding. Queue, weight and flags change by
 * compare and swap, from a word without segments. With a flag set, segments do not count: a core that has added
 * some finds the flag in the result of the addition, and subtracts them again.
 * product/weft-titan/tests/loom_table.rs is the same in Rust, which a checker runs in all interleavings.
 */
struct weft_titan_flow {
	__u64 socket; /* the address of its struct sock, never followed; 0: the entry is free */
	__u64 state;
	__u64 bytes;	  /* assigned */
	__u64 bytes_out;  /* bits 0..55 bytes assigned and not left, temporarily negative; 56..63 the queue of their assignment */
	__u64 weighed;	  /* bits 0..15 a weight, 16..63 a hash of the mark and cgroup that it follows from; one word, so that they agree */
	__u32 idle_since; /* when it was last counted out, in jiffies */
	__u32 swept;	  /* `bytes` at the last sweep */
	__u32 claim;	  /* WEFT_CLAIM_*: an entry is being created for the socket whose cookie leads here */
	__u32 hash;	  /* bits 12..31 the flow's tag; the hash plus a queue selects that queue */
	__u16 local_port; /* host order, for display */
	__u16 remote_port;
	__u32 pad;
};

/* The parts of a flow's state. */
#define WEFT_FLOW_OUT ((1ull << 28) - 1)
#define WEFT_FLOW_QUEUE 28  /* first bit */
#define WEFT_FLOW_WEIGHT 36
#define WEFT_FLOW_NEW (1ull << 52)     /* no packet of it has been assigned yet */
#define WEFT_FLOW_PASSING (1ull << 53) /* packets were left to the device's choice and may be outstanding */
#define WEFT_FLOW_TAKEN (1ull << 54)   /* the entry is being reassigned to another flow */
#define WEFT_FLOW_FLAGS (7ull << 52)
/* Added when a flow ends or is passed, so that a compare and swap from an older word fails. */
#define WEFT_FLOW_ENDED (1ull << 55)
#define WEFT_FLOW_ENDINGS (0x1ffull << 55)

#define WEFT_CLAIM_MAKING 1
#define WEFT_CLAIM_PASSED 2 /* and packets of another core were left to the device's choice meanwhile */

struct weft_titan_flows {
	struct weft_titan_flow flow[WEFT_FLOWS];
};

#define WEFT_TAG_SHIFT 12
/* The base of a hash's low bits: a later program that changes them by less than this leaves the tag unchanged. */
#define WEFT_HASH_BASE 1024
/*
 * A tag is the number of the flow's entry plus one, times an odd number: later steering (RPS) uses the upper bits,
 * and adjacent entries must not all select one core. The other constant is its inverse modulo 2^20.
 */
#define WEFT_TAG_SPREAD 0x9e379
#define WEFT_TAG_INVERSE 0x16c9
#define WEFT_TAG_MASK 0xfffff

struct weft_titan_totals {
	__u64 kept;	   /* flows that became active and kept their queue, since the NIC still held a packet */
	__u64 beyond;	   /* packets left to the device's choice because the maximum number of flows was known or active */
	__u64 without_socket;
	__u64 passed;	   /* packets of flows with earlier outstanding packets, left to the device's choice */
	__u64 repaired;	   /* flows counted out late: all packets had left, and departures were missed */
	__u64 swept;	   /* those counted out by the sweep, since their sockets had nothing to send */
	__u64 retries;	   /* another core took the queue between selection and claim */
	__u64 given_up;	   /* updates given up because other cores changed the word too often: a departure or its bytes were not counted */
};

_Static_assert(sizeof(struct weft_titan_config) == 36, "config");
_Static_assert(sizeof(struct weft_titan_pool) == 260, "pool");
_Static_assert(sizeof(struct weft_titan_flow) == 64, "flow");
_Static_assert(sizeof(struct weft_titan_totals) == 64, "totals");
#endif
