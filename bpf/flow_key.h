/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flow of a packet: its five-tuple, read from the headers, and a hash of it. */
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

#define IP6_EXTENSIONS_MAX 4
/* IPv6 extension headers that are walked (RFC 8200, section 4.1); linux/in6.h clashes with linux/in.h. */
#define NEXT_HOP_BY_HOP 0
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_AUTHENTICATION 51
#define NEXT_DESTINATION 60

static __always_inline void read_ports(struct __sk_buff *skb, __u32 offset, struct weft_flow_key *key)
{
	__be16 ports[2];

	if (key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP && key->protocol != IPPROTO_SCTP)
		return;
	if (bpf_skb_load_bytes(skb, offset, ports, sizeof(ports)) < 0)
		return;
	key->sport = bpf_ntohs(ports[0]);
	key->dport = bpf_ntohs(ports[1]);
}

static __always_inline void read_ipv4(struct __sk_buff *skb, struct weft_flow_key *key)
{
	struct {
		__u8 version_ihl, tos;
		__be16 total, id, fragment;
		__u8 ttl, protocol;
		__be16 check;
		__be32 src, dst;
	} ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return;
	key->is_ip = WEFT_IS_IPV4;
	key->protocol = ip.protocol;
	key->src[2] = key->dst[2] = bpf_htonl(0xffff);
	key->src[3] = ip.src;
	key->dst[3] = ip.dst;
	/* All fragments of a packet share a ring, and only the first has ports: so none is asked for them. */
	if (ip.fragment & bpf_htons(0x3fff))
		return;
	read_ports(skb, ETH_HLEN + (ip.version_ihl & 15) * 4, key);
}

static __always_inline void read_ipv6(struct __sk_buff *skb, struct weft_flow_key *key)
{
	struct {
		__be32 flow;
		__be16 length;
		__u8 next, hops;
		__u32 src[4], dst[4];
	} ip;
	__u32 offset = ETH_HLEN + sizeof(ip);
	__u8 next;
	int i;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return;
	key->is_ip = WEFT_IS_IPV6;
	__builtin_memcpy(key->src, ip.src, sizeof(key->src));
	__builtin_memcpy(key->dst, ip.dst, sizeof(key->dst));
	next = ip.next;
#pragma unroll
	for (i = 0; i < IP6_EXTENSIONS_MAX; i++) {
		__u8 header[2];

		if (next != NEXT_HOP_BY_HOP && next != NEXT_ROUTING && next != NEXT_DESTINATION &&
		    next != NEXT_AUTHENTICATION && next != NEXT_FRAGMENT)
			break;
		if (bpf_skb_load_bytes(skb, offset, header, sizeof(header)) < 0)
			break;
		if (next == NEXT_FRAGMENT) { /* as with IPv4: no ports */
			key->protocol = header[0];
			return;
		}
		offset += next == NEXT_AUTHENTICATION ? (header[1] + 2) * 4 : (header[1] + 1) * 8;
		next = header[0];
	}
	key->protocol = next;
	read_ports(skb, offset, key);
}

/* crates/weft-titan/src/page.rs has the same in Rust. */
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

static __always_inline void read_flow_key(struct __sk_buff *skb, struct weft_flow_key *key)
{
	if (skb->protocol == bpf_htons(ETH_P_IP))
		read_ipv4(skb, key);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		read_ipv6(skb, key);
}

_Static_assert(sizeof(struct weft_flow_key) == 40, "flow key");
#endif
