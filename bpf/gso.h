/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Super-packets (GSO): which of them enter a ring whole, and what others are cut into. */
#ifndef WEFT_GSO_H
#define WEFT_GSO_H

#include "doorbell.h"
#include "flow_key.h"
#include "guard.h"

extern const volatile struct weft_config config;

/* SKB_GSO_* of include/linux/skbuff.h. */
#define GSO_TCPV4 (1 << 0)
#define GSO_DODGY (1 << 1) /* of a guest or a packet socket: its headers are checked on the way */
#define GSO_TCP_ECN (1 << 2)
#define GSO_TCPV6 (1 << 4)
#define GSO_UDP_L4 (1 << 17)

/* The types that the offloads of a ring cover (TUN_F_* in crates/weft-host/src/tap_queue.rs). */
#define WHOLE_IN_RING (GSO_TCPV4 | GSO_TCPV6 | GSO_TCP_ECN | GSO_DODGY)
#define WHOLE_IN_TAP (WHOLE_IN_RING | GSO_UDP_L4)

/*
 * Whether a ring takes a super-packet whole. The kernel cuts others before it: UDP in a macvtap, tunnels, and TCP of the
 * types that no ring knows, such as forwarded packets with one identification (SKB_GSO_TCP_FIXEDID) or accurate ECN.
 */
static __always_inline int stays_whole(struct __sk_buff *skb, __u32 protocol, __u32 flags)
{
	__u32 types = flags & WEFT_GUARD_TAP ? WHOLE_IN_TAP : WHOLE_IN_RING, type = 0, end = 0;
	__u64 address = 0, head = 0;

	if (!config.gso_type)
		return protocol == IPPROTO_TCP || (protocol == IPPROTO_UDP && flags & WEFT_GUARD_TAP);
	/* The context hides the field; the verifier admits no arithmetic on the pointer itself. */
	bpf_probe_read_kernel(&address, sizeof(address), &skb);
	bpf_probe_read_kernel(&end, sizeof(end), (void *)(address + config.skb_end));
	bpf_probe_read_kernel(&head, sizeof(head), (void *)(address + config.skb_head));
	bpf_probe_read_kernel(&type, sizeof(type), (void *)(head + end + config.gso_type));
	return !(type & ~types);
}

/* The packets and the bytes that a ring will hold, in one word: the verifier's stack has no room for a second result. */
#define IN_RING(packets, bytes) ((__u64)(packets) << 32 | (bytes))
#define PACKETS_IN_RING(counts) ((__u32)((counts) >> 32))
#define BYTES_IN_RING(counts) ((__u32)(counts))

/*
 * What the ring will hold for this packet. After options or in a tunnel the bytes are slightly underestimated. A separate
 * function, so that its stack is not added to that of the classification.
 */
static __noinline __u64 in_ring(struct __sk_buff *skb, __u32 flags, const struct weft_flow_key *key)
{
	__u32 headers, segments = skb->gso_segs;

	if (!key || !skb->gso_size || stays_whole(skb, key->protocol, flags))
		return IN_RING(1, skb->len);
	headers = ETH_HLEN + (key->is_ip == WEFT_IS_IPV6 ? 40 : 20) + 8;
	if (segments == 0 && skb->len > headers) /* forwarded GSO from a TAP has no count */
		segments = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	if (segments <= 1)
		return IN_RING(1, skb->len);
	return IN_RING(segments, skb->len + (segments - 1) * headers);
}

/*
 * The kind of doorbell of a packet for which `packets` are posted (guard.h). A separate function, so that its stack is not
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
