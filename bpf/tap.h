/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A port that is a TAP: its queues are the rings, with a qdisc above each.
 *
 *     weft_egress (clsact) -> weft_tap_queue -> the queue's qdisc -> weft_tap_guard -> ring
 *
 * weft_tap_queue selects the queue by the hash that weft_egress wrote. The TAP's own selection
 * (tun_automq_select_queue, drivers/net/tun.c) ignores that hash: it computes one from the headers.
 *
 * weft_tap_guard drops packets that weft_egress did not announce, such as those of a sender that bypasses it
 * (PACKET_QDISC_BYPASS, AF_XDP). The control buffer is no evidence here, since the qdisc owns it and the kernel clears
 * it before this program. The hash is: the driver passes it on as it is. A bypassing packet has none, because only the
 * sockets of the stack set one, and nothing on its way computes it. In case something does, the upper bits are random
 * for each run.
 */
#ifndef WEFT_TAP_H
#define WEFT_TAP_H

#include "doorbell.h"
#include "guard.h"

extern const volatile struct weft_config config;

/* The hash of announced packets for `ring`. */
static __always_inline __u32 tap_hash(const struct weft_guard *g, __u32 ring)
{
	return hash_for_ring(g->token, ring, config.rings);
}

/* The kernel keeps 16 bits of the result and takes them modulo the number of queues (tun_ebpf_select_queue). */
SEC("socket")
int weft_tap_queue(struct __sk_buff *skb)
{
	return skb->hash % config.rings;
}

/* The result is the length to be kept; 0 drops the packet (tun_net_xmit). */
SEC("socket")
int weft_tap_guard(struct __sk_buff *skb)
{
	struct weft_guard *g;
	__u32 zero = 0;

	g = bpf_map_lookup_elem(&guard, &zero);
	if (!g)
		return 0;
	if (skb->hash != tap_hash(g, skb->hash % config.rings)) {
		__sync_fetch_and_add(&g->unannounced, 1);
		return 0;
	}
	return skb->len;
}
#endif
