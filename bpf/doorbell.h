/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data shared by the eBPF program at a port's egress and the NIC's transmit worker: a page for each port, and one
 * summary for all ports.
 * product/weft-nic/src/layout.rs is the same in Rust; both sides assert the sizes.
 */
#ifndef WEFT_DOORBELL_H
#define WEFT_DOORBELL_H

#include "flow_key.h"

#define WEFT_RINGS 256	  /* maximum number of queues of one macvtap: TAP_MAX_QUEUES, drivers/net/tap.c */
#define WEFT_LANES 512
#define WEFT_CLASSES 256
#define WEFT_PORTS 4096 /* of one NIC */

/* The doorbell of one descriptor ring, in its own cache line since any core may post it. */
struct weft_ring_doorbell {
	__u64 packets; /* posted, counted as the ring holds them: the segments of a UDP GSO packet count each */
	__u64 taken;   /* places taken in the ring: packets posted, and those about to be posted or refused */
	__u64 done;    /* written by the NIC: packets completed */
	__u64 last_or_left; /* a multiqueue NIC: the time of the last packet. Otherwise: the fewest bytes that packets posted
			       since the NIC's last look leave to send; 0: no claim */
	__u64 passed_ns; /* written by the NIC: all packets posted before this time are done */
	__u64 drained; /* packets that the pass-through worker has sent from the ring, unscheduled */
	__u64 drained_done; /* written by the NIC: those of them that are in `done` */
	__u64 asked_ns; /* the least time that packets posted since the NIC's last look request; 0: none does */
};

/* The packets posted for a class, whatever the ring, and in a separate cache line those refused. */
struct weft_class_doorbell {
	__u64 packets; /* posted; briefly includes packets about to be refused */
	__u64 bytes;
	__u64 done; /* written by the NIC: completed packets of the class's own rings */
	__u64 done_bytes; /* written by the NIC: their bytes */
	__u64 pad0[4];
	__u64 untracked; /* IP packets of flows beyond the lane's flow bound */
	__u64 bound_packets; /* refused: the class has reached its packet bound */
	__u64 bound_bytes;
	__u64 full_packets; /* refused: the ring is full */
	__u64 full_bytes;
	__u64 moving_packets; /* refused: their flow has packets left in another ring */
	__u64 moving_bytes;
	__u64 late_claims; /* packets that requested a time too late for a ring that flows share, and are sent as if they requested none */
};

struct weft_lane_flows {
	__u32 flows; /* tracked now; idle ones are removed */
	__u32 next;  /* ring of the next new flow: round robin over the lane's rings */
	__u64 untracked_ns; /* time of the last packet of a flow beyond the bound; 0: none can be waiting */
};

/* The doorbells that wake a sleeping NIC. */
#define WEFT_SLEEPS_FOR_ANY 1
#define WEFT_SLEEPS_FOR_URGENT 2 /* the link is busy: only rings in `urgent` */

/* The page of all ports of a NIC: an mmapable array map of one element. */
struct weft_summary {
	__u64 ready_ports[WEFT_PORTS / 64]; /* bit p: a ring of port p was posted since the NIC last took the bits */
	__u32 sleeping; /* WEFT_SLEEPS_*: the NIC requests one wake-up */
	__u32 pad1[15];
	__u64 wakeups;
	__u64 heartbeat_ns; /* written by the NIC: a time at which it ran, never older than WEFT_HEARTBEAT_NS while it does */
	__u64 pass_to; /* the device to which packets pass unscheduled while there is no heartbeat; 0: they wait */
	__u64 pad2[5];
};

/* The distance from now within which a sender may request a time: that of sch_fq's horizon. Others are of another clock. */
#define WEFT_ASKED_MAX_NS 10000000000ll
/* The same for a packet that shares its ring with other flows, which it may hold (claims.h). */
#define WEFT_ASKED_SHARED_NS 100000000ll

/* The age from which on a heartbeat is over. The NIC sleeps for at most a quarter of it, and packets pass within a tenth of a second. */
#define WEFT_HEARTBEAT_NS 80000000ull

/* The page of one port: an mmapable array map of one element. */
/* What the sockets of a ring's packets have set, apart from the doorbell: few algorithms read it. */
struct weft_ring_socket {
	__u64 priority; /* the least priority (SO_PRIORITY) of packets posted since the NIC's last look, and 1; 0: none was posted */
	__u64 pace; /* the least pacing rate of their sockets in bytes per second; 0: none is paced */
};

/* The tracked flows of a ring. */
struct weft_ring_flows {
	__u64 held_ns; /* the latest time until which a packet in it may hold it (claims.h) */
	__u32 flows;
	__u32 pad;
};

struct weft_doorbells {
	__u64 ready[WEFT_RINGS / 64]; /* bit q: ring q was posted since the NIC last took the bits */
	__u64 urgent[WEFT_RINGS / 64]; /* written by the NIC, bit q: ring q wakes it although the link is busy */
	__u64 records; /* of flows that are new or have changed */
	__u64 records_lost;
	__u64 pad[6];
	struct weft_ring_doorbell rings[WEFT_RINGS];
	struct weft_class_doorbell classes[WEFT_CLASSES];
	struct weft_lane_flows lanes[WEFT_LANES];
	__u64 awaited[WEFT_RINGS]; /* by ring, not 0: a flow that belongs to this lane waits until this count is done (WEFT_AWAITED) */
	struct weft_ring_socket sockets[WEFT_RINGS];
	struct weft_ring_flows ring_flows[WEFT_RINGS];
};

struct weft_lane {
	__u16 class;
	__u16 first_ring;
	__u16 rings;
	__u8 spread;	  /* WEFT_SPREAD_* */
	__u8 reads;	  /* WEFT_READS_*: what the algorithms of its packets read */
	__u32 flow_bound; /* maximum number of tracked flows; further ones share the lane's rings by hash */
	__u32 qdisc_class; /* not 0: the class of a qdisc on the port (skb->priority), after which the doorbell is posted */
	__u64 packet_bound; /* maximum number of packets of its class in the NIC; 0: no bound */
	__u64 ring_bound; /* capacity of each ring in packets; 0: the kernel drops further ones */
};

/* The read-only data of the program. */
struct weft_config {
	__u32 rings; /* queues of the macvtap */
	__u32 queues; /* WEFT_SPREAD_QUEUES: hardware queues, each of rings / queues rings */
	__u32 port; /* the number of the port in the NIC's table of port names, from 1; 0: none */
	__u32 place; /* the port's bit in weft_summary */
	__u32 net_cls; /* 1: the kernel has net_cls */
	__u32 write_sequence; /* the offset of that field in the kernel's struct tcp_sock; 0: unknown */
	__u32 pacing_rate; /* the offset of sk_pacing_rate in the kernel's struct sock; 0: unknown */
	/* Offsets in the kernel's struct sk_buff, and in its struct skb_shared_info; 0: unknown. */
	__u32 skb_head;
	__u32 skb_end;
	__u32 skb_frame; /* mac_header */
	__u32 skb_inner; /* inner_transport_header */
	__u32 gso_type;
	__u32 mptcp; /* 1: the kernel shows programs the connections of MPTCP (Linux 5.19) */
};

#define WEFT_SPREAD_ROUND_ROBIN 0 /* each new flow to the next ring */
#define WEFT_SPREAD_HASH 1	  /* by five-tuple, as RSS and skb_tx_hash do */
#define WEFT_SPREAD_QUEUES 2	  /* the packet's hash selects the hardware queue; its flows are spread over its rings */

#define WEFT_READS_TIME 1     /* the time that a sender requests by SO_TXTIME */
#define WEFT_READS_LEFT 2     /* the bytes that it still has to send */
#define WEFT_READS_DEADLINE 4 /* the deadline of its message */
#define WEFT_READS_PRIORITY 8 /* the priority of its socket */
#define WEFT_READS_PACE 16    /* the pacing rate of its socket */
#define WEFT_READS_HOLD 32    /* they hold a packet until the time that its sender requests */

struct weft_flow {
	__u64 cgroup;
	__u64 last_seen_ns;
	__u64 barrier; /* not 0: a ring and a count; the flow waits until that count of the ring is done (WEFT_BARRIER) */
	__u64 changed_ns; /* not 0: the time since which the flow belongs to another lane without having moved */
	__u32 mark;
	__u32 priority;
	union {
		struct {
			__u16 lane;
			__u16 ring;
		};
		__u32 place; /* both in one word */
	};
	__u16 announced;
	__u16 generation; /* of the tables that classified it */
	__u32 frame; /* WEFT_FRAME_* */
	__u32 beside; /* 1: other packets of its five-tuple and owner have a flow, too (guard.h) */
};

#define WEFT_BARRIER(ring, count) ((count) << 8 | (ring))
#define WEFT_BARRIER_RING(barrier) ((__u32)(barrier) & 0xff)
#define WEFT_BARRIER_COUNT(barrier) ((barrier) >> 8)

#define WEFT_AWAITED(lane, count) ((count) << 16 | (lane))
#define WEFT_AWAITED_COUNT(awaited) ((awaited) >> 16)

/*
 * The time that a flow that belongs to another lane stays in its old ring, to move in a pause between two
 * packets.
 */
#define WEFT_MOVE_GRACE_NS 100000000ull
/* The maximum time between a packet's doorbell and its ring: NEVER_CAME of product/weft-nic/src/ring_accounting.rs. */
#define WEFT_TRANSIT_NS 200000000ull

/* The arguments and results of weft_expire. */
struct weft_expiry {
	__u64 now_ns;
	__u64 idle_ns; /* flows that were silent for longer are removed */
	__u32 seen;
	__u32 expired;
};

/* In-line metadata: sent once for a flow that is new or has changed. */
struct weft_record {
	struct weft_flow_key key;
	__u64 cgroup;
	__u32 mark;
	__u32 priority;
	__u16 lane;
	__u16 ring;
	__u16 class;
	__u16 kind; /* WEFT_RECORD_* */
};

#define WEFT_RECORD_NEW 0
#define WEFT_RECORD_CHANGED 1
#define WEFT_RECORD_EXPIRED 2

_Static_assert(sizeof(struct weft_ring_doorbell) == 64, "ring doorbell");
_Static_assert(sizeof(struct weft_class_doorbell) == 128, "class doorbell");
_Static_assert(sizeof(struct weft_lane) == 32, "lane");
_Static_assert(sizeof(struct weft_flow) == 56, "flow");
_Static_assert(sizeof(struct weft_expiry) == 24, "expiry");
_Static_assert(sizeof(struct weft_record) == 64, "record");
_Static_assert(sizeof(struct weft_doorbells) == 64 + 64 + 64 * 256 + 128 * 256 + 16 * 512 + 8 * 256 + 16 * 256 + 16 * 256, "doorbells");
_Static_assert(sizeof(struct weft_summary) == WEFT_PORTS / 8 + 64 + 64, "summary");
#endif
