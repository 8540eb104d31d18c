/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The queues of a multiqueue device, for queue assignment: counts of active flows, and their weights, whose sums
 * are the weights of the queues. One page, written by the programs of bpf/titan.bpf.c. A weftline NIC creates the
 * page, reads the weights from it and writes the packets that it holds. product/weft-titan/src/page.rs is the same
 * in Rust.
 */
#ifndef WEFT_QUEUES_H
#define WEFT_QUEUES_H

#define WEFT_QUEUES 256 /* maximum number of assigned queues of a device */
#define WEFT_HELD 1024	/* slots of packets that a NIC holds outside its rings, by flow */

/* A queue: two cache lines, since senders and completions run on different cores. */
struct weft_queue {
	/* Written when a packet is assigned. */
	__u64 packets;	  /* assigned, in segments */
	__u64 bytes;	  /* assigned, frame bytes */
	__u64 moves;	  /* flows that moved here from another queue */
	__u64 activations; /* flows that became active here */
	__u64 pad0[4];
	/* Written when a packet has left. */
	__u64 left_packets; /* segments whose departures were seen */
	__u64 left_bytes;
	__u64 unseen_packets; /* segments whose departures were missed, and which were later found to have left */
	__u64 unseen_bytes;
	__u64 pad1[4];
};

struct weft_queues {
	/* The requests to the NIC, written when Titan is attached and detached. */
	__u32 use_weights;	 /* 1: serve the queues by their weights; 0: equally */
	__u32 segment_bytes;	 /* not 0: a queue with more than one flow sends chunks of at most this many bytes (DSOS) */
	__u64 update_interval_ns; /* minimum interval at which the NIC takes changed weights */
	__u64 nic_queues;	 /* written by a weftline NIC: the number of its queues; 0: the page of another device */
	__u32 segment_all;	 /* 1: all queues send chunks while any has more than one flow */
	__u32 sweep_off;	 /* 1: flows with missed departures stay counted, for tests that check each one */
	__u64 pad0[4];
	/* Written by the NIC: packets fetched from a ring and not sent yet. */
	__u64 fetching; /* q + 1: a packet of an unknown flow is being fetched from a ring of queue q; 0: none */
	__u64 holding;	/* the sum of held */
	__u64 pad2[6];
	__u32 held[WEFT_HELD]; /* unfinished packets, by the hash of their flow */
	/*
	 * By queue: bits 0..19 active flows (those with a packet below their socket), 20..63 the sum of their
	 * weights. The words are adjacent, so the search for the least occupied queue takes one cache line from
	 * other cores per eight queues.
	 */
	__u64 load[WEFT_QUEUES];
	/* The monotonic time of a queue's first weight change that the NIC has not taken yet; 0: it has taken all. */
	__u64 changed_ns[WEFT_QUEUES];
	struct weft_queue queues[WEFT_QUEUES];
};

#define WEFT_LOAD(weight) ((__u64)(weight) << 20 | 1) /* of one flow */
#define WEFT_LOAD_WEIGHT(load) ((load) >> 20)
#define WEFT_LOAD_FLOWS(load) ((load) & 0xfffff)

_Static_assert(sizeof(struct weft_queue) == 128, "queue");
_Static_assert(sizeof(struct weft_queues) == 64 + 64 + 4 * WEFT_HELD + 144 * WEFT_QUEUES, "queues");
#endif
