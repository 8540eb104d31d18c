/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Super-packets (GSO): which of them enter a ring whole, and the packets and bytes that a ring will hold of the others:
 * the unit of the doorbell, of the arrivals before the ring, and of what the NIC reads. One rule for all three.
 *
 * A read from a ring has the whole frame: skb->len, and 4 bytes for a VLAN tag that the kernel keeps outside the frame
 * (tap_put_user, drivers/net/tap.c). A super-packet that the kernel cuts before the ring is one packet for each segment.
 * Each has all headers up to and including that of the innermost transport (skb_segment, net/core/skbuff.c). In a tunnel
 * only the kernel has its place: skb->inner_transport_header.
 */
#ifndef WEFT_GSO_H
#define WEFT_GSO_H

#include "doorbell.h"
#include "flow_key.h"
#include "guard.h"

extern const volatile struct weft_config config;

#define VLAN_TAG 4

/* skb_shinfo(skb)->gso_type: SKB_GSO_* of include/linux/skbuff.h. */
#define GSO_TCP (1u << 0 | 1u << 4) /* _TCPV4, _TCPV6 */
#define GSO_DODGY (1u << 1) /* of a guest or a packet socket: its headers are checked on the way */
#define GSO_TCP_ECN (1u << 2)
#define GSO_TUNNEL (0x3fu << 6) /* _GRE, _GRE_CSUM, _IPXIP4, _IPXIP6, _UDP_TUNNEL, _UDP_TUNNEL_CSUM */
#define GSO_SCTP (1u << 14)
#define GSO_FRAGMENTS (1u << 16) /* _UDP: IP fragments of one datagram */
#define GSO_UDP_L4 (1u << 17)

/* The types that the offloads of a ring cover (TUN_F_* in product/weft-host/src/tap_queue.rs). */
#define WHOLE_IN_RING (GSO_TCP | GSO_TCP_ECN | GSO_DODGY)
#define WHOLE_IN_TAP (WHOLE_IN_RING | GSO_UDP_L4)

/* Reads `size` bytes of the kernel's own structure behind a packet. */
static __always_inline void read_skb(struct __sk_buff *skb, __u32 place, void *to, __u32 size)
{
	__u64 address = 0;

	/* The verifier admits no arithmetic on the pointer itself. */
	bpf_probe_read_kernel(&address, sizeof(address), &skb);
	bpf_probe_read_kernel(to, size, (void *)(address + place));
}

/* The kinds of cuts that a super-packet needs; 0: unknown. */
static __always_inline __u32 gso_type(struct __sk_buff *skb)
{
	__u64 head = 0;
	__u32 end = 0, type = 0;

	if (!config.skb_head)
		return 0;
	read_skb(skb, config.skb_head, &head, sizeof(head));
	read_skb(skb, config.skb_end, &end, sizeof(end));
	bpf_probe_read_kernel(&type, sizeof(type), (void *)(head + end + config.gso_type));
	return type;
}

/* The offset of the innermost transport header of a packet in a tunnel. */
static __always_inline __u32 inner_transport(struct __sk_buff *skb)
{
	__u16 frame = 0, inner = 0;

	read_skb(skb, config.skb_frame, &frame, sizeof(frame));
	read_skb(skb, config.skb_inner, &inner, sizeof(inner));
	return inner > frame ? inner - frame : 0;
}

/*
 * Whether a ring takes a super-packet whole. The kernel cuts others before it: UDP in a macvtap, tunnels, and TCP of the
 * types that no ring takes, such as forwarded packets with one identification (SKB_GSO_TCP_FIXEDID) or accurate ECN.
 */
static __always_inline int stays_whole(__u32 type, __u32 protocol, __u32 flags)
{
	if (!type)
		return protocol == IPPROTO_TCP || (protocol == IPPROTO_UDP && flags & WEFT_GUARD_TAP);
	return !(type & ~(flags & WEFT_GUARD_TAP ? WHOLE_IN_TAP : WHOLE_IN_RING));
}

/* The packets and the bytes that a ring will hold, in one word: the verifier's stack has no room for a second result. */
#define IN_RING(packets, bytes) ((__u64)(packets) << 32 | (bytes))
#define PACKETS_IN_RING(counts) ((__u32)((counts) >> 32))
#define BYTES_IN_RING(counts) ((__u32)(counts))

/*
 * What the ring will hold for this packet. `transport`: the offset of the outermost transport header; only super-packets
 * need it. A separate function, so that its stack is not added to that of the classification.
 */
static __noinline __u64 in_ring(struct __sk_buff *skb, __u32 flags, const struct weft_flow_key *key, __u32 transport)
{
	__u32 tag = skb->vlan_present ? VLAN_TAG : 0, length = skb->len, size = skb->gso_size, headers = 8, type, segments;
	__u8 words;

	if (!key || !size)
		return IN_RING(1, length + tag);
	type = gso_type(skb);
	if (stays_whole(type, key->protocol, flags))
		return IN_RING(1, length + tag);
	if (type & GSO_TUNNEL)
		transport = inner_transport(skb);
	if (type & GSO_TCP && bpf_skb_load_bytes(skb, transport + 12, &words, sizeof(words)) == 0)
		headers = (words >> 4) * 4;
	else if (type & GSO_SCTP)
		headers = 12;
	else if (type & GSO_FRAGMENTS)
		headers = 0;
	headers += transport;
	if (length <= headers + size)
		return IN_RING(1, length + tag);
	segments = (length - headers + size - 1) / size;
	return IN_RING(segments, length + tag + (segments - 1) * (headers + tag));
}

/*
 * The kind of doorbell of a packet that is posted as `packets` (guard.h). A separate function, so that its stack is not
 * added to that of the classification.
 */
static __noinline __u32 kind_of_doorbell(struct __sk_buff *skb, const struct weft_flow_key *key, __u32 transport,
					 __u32 packets, __u32 lane)
{
	__be32 sequence;

	if (!key || !skb->gso_size || packets != 1 || key->protocol != IPPROTO_TCP ||
	    bpf_skb_load_bytes(skb, transport + 4, &sequence, sizeof(sequence)) < 0)
		return WEFT_EXACT;
	return WEFT_ONE_FOR_ALL(lane & (WEFT_LANES - 1), bpf_ntohl(sequence));
}
#endif
