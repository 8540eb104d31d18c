/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flow of a packet: its five-tuple, parsed from the headers, and a hash of it. */
#ifndef WEFT_FLOW_KEY_H
#define WEFT_FLOW_KEY_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct weft_flow_key {
	__u32 src[4];
	__u32 dst[4];
	__u16 sport, dport; /* host order */
	__u8 protocol;
	__u8 is_ip; /* 0 or WEFT_IS_* */
	__u16 pad;
};

#define WEFT_IS_IPV4 4
#define WEFT_IS_IPV6 6

/*
 * The parser's limits: VLAN tags in the frame, and IPv6 extension headers (RFC 8200, section 4.1;
 * product/weft-packet/src/headers.rs has the same limit). linux/in6.h conflicts with linux/in.h.
 */
#define VLAN_TAGS_MAX 4
#define IP6_EXTENSIONS_MAX 8
#define NEXT_HOP_BY_HOP 0
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_AUTHENTICATION 51
#define NEXT_DESTINATION 60
#define NEXT_MOBILITY 135
#define NEXT_HIP 139
#define NEXT_SHIM6 140

/* The header fields beyond the key. */
struct weft_headers {
	__u32 transport; /* offset of the transport header, in bytes */
	__u32 id;	 /* of a fragment: its identification, in network order */
	__u16 ether_type; /* host order, after the VLAN tags */
	__u8 part;	 /* WEFT_PART_* */
	__u8 hops;	 /* TTL or hop limit */
	__u8 fragmented; /* of a fragment: the protocol in its own header, the same in all fragments of a packet */
	__u8 traffic_class; /* DSCP and ECN */
	__u16 tci;	 /* of the outermost VLAN tag, host order */
	__u8 tagged;	 /* 1: it has one */
	__u8 pad[3];
};

#define WEFT_PART_WHOLE 0
#define WEFT_PART_FIRST 1 /* the first fragment: it has the ports */
#define WEFT_PART_LATER 2 /* another fragment: no ports, and under IPv6 possibly not the protocol */
#define WEFT_PART_OBSCURED 3 /* more headers than the parser's limits: the ports are unknown */

static __always_inline void read_ports(struct __sk_buff *skb, const struct weft_headers *headers, struct weft_flow_key *key)
{
	__be16 ports[2];

	if (key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP && key->protocol != IPPROTO_SCTP)
		return;
	if (bpf_skb_load_bytes(skb, headers->transport, ports, sizeof(ports)) < 0)
		return;
	key->sport = bpf_ntohs(ports[0]);
	key->dport = bpf_ntohs(ports[1]);
}

static __always_inline void read_ipv4(struct __sk_buff *skb, __u32 offset, struct weft_flow_key *key,
				      struct weft_headers *headers)
{
	struct {
		__u8 version_ihl, tos;
		__be16 total, id, fragment;
		__u8 ttl, protocol;
		__be16 check;
		__be32 src, dst;
	} ip;
	__u32 length;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) < 0)
		return;
	length = (ip.version_ihl & 15) * 4;
	if (ip.version_ihl >> 4 != 4 || length < sizeof(ip))
		return;
	key->is_ip = WEFT_IS_IPV4;
	key->protocol = ip.protocol;
	key->src[2] = key->dst[2] = bpf_htonl(0xffff);
	key->src[3] = ip.src;
	key->dst[3] = ip.dst;
	headers->transport = offset + length;
	headers->hops = ip.ttl;
	headers->traffic_class = ip.tos;
	headers->id = ip.id;
	headers->fragmented = ip.protocol;
	if (ip.fragment & bpf_htons(0x1fff)) {
		headers->part = WEFT_PART_LATER;
		return;
	}
	if (ip.fragment & bpf_htons(0x2000))
		/* A fragment that ends before its ports: only padding follows, which no receiver reads. */
		headers->part = bpf_ntohs(ip.total) < length + 8 ? WEFT_PART_OBSCURED : WEFT_PART_FIRST;
	read_ports(skb, headers, key);
}

static __always_inline int is_extension(__u8 next)
{
	return next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_DESTINATION ||
	       next == NEXT_AUTHENTICATION || next == NEXT_FRAGMENT || next == NEXT_MOBILITY || next == NEXT_HIP ||
	       next == NEXT_SHIM6;
}

/* Walks the extension headers from the first on. Returns the transport protocol. */
static __noinline __u8 walk_extensions(struct __sk_buff *skb, struct weft_headers *headers, __u8 next)
{
	struct {
		__u8 next, length;
		__be16 fragment;
		__be32 id;
	} header;
	int i;

	if (!headers)
		return next;
	for (i = 0; i < IP6_EXTENSIONS_MAX; i++) {
		if (!is_extension(next))
			return next;
		/* Truncated: no receiver accepts it. */
		if (bpf_skb_load_bytes(skb, headers->transport, &header, sizeof(header)) < 0)
			return next;
		if (next == NEXT_FRAGMENT) {
			if (header.fragment & bpf_htons(0xfff9)) {
				/* A fragment of a fragment. */
				if (headers->part != WEFT_PART_WHOLE) {
					headers->part = WEFT_PART_OBSCURED;
					return next;
				}
				headers->id = header.id;
				headers->fragmented = header.next;
				headers->part = header.fragment & bpf_htons(0xfff8) ? WEFT_PART_LATER : WEFT_PART_FIRST;
				if (headers->part == WEFT_PART_LATER)
					return header.next;
			}
			headers->transport += 8;
		} else if (next == NEXT_AUTHENTICATION) {
			headers->transport += (header.length + 2) * 4;
		} else {
			headers->transport += (header.length + 1) * 8;
		}
		next = header.next;
	}
	if (is_extension(next))
		headers->part = WEFT_PART_OBSCURED;
	return next;
}

static __always_inline void read_ipv6(struct __sk_buff *skb, __u32 offset, struct weft_flow_key *key,
				      struct weft_headers *headers)
{
	struct {
		__u8 version_class, rest[3];
		__be16 length;
		__u8 next, hops;
		__u32 src[4], dst[4];
	} ip;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) < 0 || ip.version_class >> 4 != 6)
		return;
	key->is_ip = WEFT_IS_IPV6;
	__builtin_memcpy(key->src, ip.src, sizeof(key->src));
	__builtin_memcpy(key->dst, ip.dst, sizeof(key->dst));
	headers->transport = offset + sizeof(ip);
	headers->hops = ip.hops;
	headers->traffic_class = ip.version_class << 4 | ip.rest[0] >> 4;
	key->protocol = ip.next;
	if (is_extension(ip.next))
		key->protocol = walk_extensions(skb, headers, ip.next);
	if (headers->part != WEFT_PART_LATER)
		read_ports(skb, headers, key);
}

/*
 * Reads key and headers from the frame alone, since skb->protocol is set by the sender of raw frames
 * (sll_protocol). The relevant type is after the VLAN tags. A tag that a VLAN device has put into the skb is not in
 * the frame, and is outside those that are.
 */
static __always_inline void read_headers(struct __sk_buff *skb, struct weft_flow_key *key, struct weft_headers *headers)
{
	__u32 offset = ETH_HLEN;
	struct {
		__be16 tci, type;
	} tag;
	__be16 type = 0;
	int i;

	if (skb->vlan_present) {
		headers->tci = skb->vlan_tci;
		headers->tagged = 1;
	}
	if (bpf_skb_load_bytes(skb, ETH_HLEN - sizeof(type), &type, sizeof(type)) < 0)
		return;
	for (i = 0; i <= VLAN_TAGS_MAX; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (i == VLAN_TAGS_MAX) {
			headers->part = WEFT_PART_OBSCURED;
			return;
		}
		if (bpf_skb_load_bytes(skb, offset, &tag, sizeof(tag)) < 0)
			return;
		if (!headers->tagged) {
			headers->tci = bpf_ntohs(tag.tci);
			headers->tagged = 1;
		}
		type = tag.type;
		offset += 4;
	}
	headers->ether_type = bpf_ntohs(type);
	if (type == bpf_htons(ETH_P_IP))
		read_ipv4(skb, offset, key, headers);
	else if (type == bpf_htons(ETH_P_IPV6))
		read_ipv6(skb, offset, key, headers);
}

/* product/weft-titan/src/page.rs has the same in Rust. */
static __always_inline __u32 flow_hash(const struct weft_flow_key *key)
{
	__u32 h = key->sport ^ ((__u32)key->dport << 16) ^ key->protocol;
	int i;

#pragma unroll
	for (i = 0; i < 4; i++)
		h = (h ^ key->src[i] ^ (key->dst[i] << 7 | key->dst[i] >> 25)) * 0x9e3779b1u;
	h ^= h >> 15;
	h *= 0x85ebca77u;
	return h ^ (h >> 13);
}

/* The key common to all fragments of a packet: only the first has ports, so none are read. */
static __always_inline void read_common_key(struct __sk_buff *skb, struct weft_flow_key *key, struct weft_headers *headers)
{
	read_headers(skb, key, headers);
	if (headers->part == WEFT_PART_FIRST || headers->part == WEFT_PART_LATER) {
		key->protocol = headers->fragmented;
		key->sport = key->dport = 0;
	}
}

static __always_inline void read_flow_key(struct __sk_buff *skb, struct weft_flow_key *key)
{
	struct weft_headers headers = {};

	read_common_key(skb, key, &headers);
}

_Static_assert(sizeof(struct weft_flow_key) == 40, "flow key");
#endif
