/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The packets and bytes that a ring will hold of a packet: the unit of the doorbell, of the arrivals at the port's far
 * end, and of what the NIC reads. One rule for all three.
 *
 * A read from a ring has the whole frame: skb->len, and 4 bytes for a VLAN tag that the kernel keeps outside the frame
 * (tap_put_user, drivers/net/tap.c). A super-packet that the kernel cuts before the ring is one packet for each segment.
 * Each has all headers up to and including that of the innermost transport (skb_segment, net/core/skbuff.c). In a tunnel
 * only the kernel knows where that is: skb->inner_transport_header.
 */
#ifndef WEFT_GSO_H
#define WEFT_GSO_H

#include "doorbell.h"
#include "flow_key.h"

extern const volatile struct weft_config config;

#define VLAN_TAG 4

/* skb_shinfo(skb)->gso_type: include/linux/skbuff.h. */
#define GSO_TCP (1u << 0 | 1u << 4) /* SKB_GSO_TCPV4, SKB_GSO_TCPV6 */
#define GSO_TUNNEL (0x3fu << 6) /* SKB_GSO_GRE, _GRE_CSUM, _IPXIP4, _IPXIP6, _UDP_TUNNEL, _UDP_TUNNEL_CSUM */
#define GSO_SCTP (1u << 14)
#define GSO_FRAGMENTS (1u << 16) /* SKB_GSO_UDP: IP fragments of one datagram */

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
 * The segments of a super-packet that the kernel cuts, and their bytes. `transport`: the offset of the outermost
 * transport header. `whole`: UDP stays whole outside a tunnel. A separate function, so that its stack is not added to
 * that of the classification.
 */
static __noinline __u32 segments_of(struct __sk_buff *skb, __u32 transport, __u32 whole, __u64 *bytes)
{
	__u32 size = skb->gso_size, length = skb->len, type = gso_type(skb), headers = 8, segments;
	__u8 words;

	if (!bytes || (whole && !(type & GSO_TUNNEL)))
		return 1;
	if (type & GSO_TUNNEL)
		transport = inner_transport(skb);
	if (type & GSO_TCP && bpf_skb_load_bytes(skb, transport + 12, &words, sizeof(words)) == 0)
		headers = (words >> 4) * 4;
	else if (type & GSO_SCTP)
		headers = 12;
	else if (type & GSO_FRAGMENTS)
		headers = 0;
	headers += transport;
	if (!size || length <= headers + size)
		return 1;
	segments = (length - headers + size - 1) / size;
	*bytes += (__u64)(segments - 1) * (headers + (skb->vlan_present ? VLAN_TAG : 0));
	return segments;
}

/*
 * The packets and bytes that the ring will hold for this packet. TCP stays whole; the kernel cuts all other GSO (UDP,
 * tunnels) before the ring. A TAP (`whole`) also takes UDP GSO whole.
 */
static __always_inline __u32 packets_in_ring(struct __sk_buff *skb, int whole, const struct weft_flow_key *key,
					     const struct weft_headers *headers, __u64 *bytes)
{
	*bytes = skb->len + (skb->vlan_present ? VLAN_TAG : 0);
	if (!skb->gso_size || key->protocol == IPPROTO_TCP)
		return 1;
	return segments_of(skb, headers->transport, whole && key->protocol == IPPROTO_UDP, bytes);
}
#endif
