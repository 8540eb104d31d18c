/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A multiqueue device's queues as queue assignment sees them: counts of active flows, and their weights, which are the
 * weights of the queues. One page, written by the programs of bpf/titan.bpf.c; a NIC that is our own makes the page, reads
 * the weights from it and says in it what it holds. crates/weft-titan/src/page.rs is the same in Rust.
 */
#ifndef WEFT_QUEUES_H
#define WEFT_QUEUES_H

#define WEFT_QUEUES 256 /* most queues of a device that are assigned */
#define WEFT_HELD 1024	/* slots of packets that a NIC holds outside its rings, by flow */

/* A queue: two cache lines, since those who send and those who complete are different cores. */
struct weft_queue {
	/* Written when a packet is assigned. */
	__u64 packets;	  /* assigned, in segments */
	__u64 bytes;	  /* assigned, frame bytes */
	__u64 moves;	  /* flows that came from another queue */
	__u64 activations; /* flows that became active here */
	__u64 pad0[4];
	/* Written when a packet has left. */
	__u64 left_packets; /* whose departures were seen */
	__u64 left_bytes;
	__u64 unseen_packets; /* that left without being seen, and were found to have left */
	__u64 unseen_bytes;
	__u64 pad1[4];
};

struct weft_queues {
	/* What the NIC is asked for. Written when Titan is attached and detached. */
	__u32 use_weights;	 /* 1: serve the queues by their weights; 0: all alike */
	__u32 segment_bytes;	 /* not 0: a queue with more than one flow sends pieces of at most so much (DSOS) */
	__u64 update_interval_ns; /* the NIC takes changed weights in batches, this far apart at least */
	__u64 nic_queues;	 /* written by a NIC of ours: how many queues it has; 0: this is no such NIC's page */
	__u32 segment_all;	 /* 1: all queues send pieces while any has more than one flow */
	__u32 sweep_off;	 /* 1: flows whose departures were missed stay counted: for tests, which then see each one */
	__u64 pad0[4];
	/* Written by the NIC: what of a ring is not in the ring any more and has not been sent yet. */
	__u64 fetching; /* q + 1: a packet is just being taken off a ring of queue q, and it is not known whose; 0: none is */
	__u64 holding;	/* the sum of held */
	__u64 pad2[6];
	__u32 held[WEFT_HELD]; /* unfinished packets, by the hash of their flow */
	/*
	 * Of each queue, side by side, so that who looks for the least occupied takes one line from the other cores for eight queues:
	 * bits 0..19 active flows (those with a packet below their socket), 20..63 the sum of their weights.
	 */
	__u64 load[WEFT_QUEUES];
	/* The monotonic time of the first change of a queue's weight that the NIC has not taken yet; 0: it knows all. */
	__u64 changed_ns[WEFT_QUEUES];
	struct weft_queue queues[WEFT_QUEUES];
};

#define WEFT_LOAD(weight) ((__u64)(weight) << 20 | 1) /* of one flow */
#define WEFT_LOAD_WEIGHT(load) ((load) >> 20)
#define WEFT_LOAD_FLOWS(load) ((load) & 0xfffff)

_Static_assert(sizeof(struct weft_queue) == 128, "queue");
_Static_assert(sizeof(struct weft_queues) == 64 + 64 + 4 * WEFT_HELD + 144 * WEFT_QUEUES, "queues");
#endif
