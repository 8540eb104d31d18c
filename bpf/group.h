/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frames to groups and to all, on their way through the macvlan to the rings.
 *
 * A macvlan treats them apart, by the group bit of the destination address (macvlan_handle_frame, drivers/net/macvlan.c): it
 * reassembles fragments (ip_check_defrag), which clears the hash, and passes clones through a queue of 1,000 packets and a
 * separate worker. So several announced packets became one, in any ring, or none, and overtook each other. In passthru mode
 * all other frames reach the rings as they are. The bit therefore travels in the source address, where no sender has it,
 * from the far end to the reader of the ring (product/weft-packet/src/ethernet.rs), which puts it back.
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define GROUP_BIT 1

/* The Ethernet header for reading; it is always in the linear part. Programs that only read need no copy of shared packets. */
static __always_inline const __u8 *ethernet(struct __sk_buff *skb)
{
	const __u8 *data = (void *)(long)skb->data;

	return data + ETH_HLEN <= (const __u8 *)(long)skb->data_end ? data : 0;
}

static __always_inline int is_from_group(struct __sk_buff *skb)
{
	const __u8 *header = ethernet(skb);

	return header && header[ETH_ALEN] & GROUP_BIT;
}

/* Flips the group bits of both addresses. Returns 0 if the kernel has no memory for a copy of the header. */
static __always_inline int flip_group(struct __sk_buff *skb, const __u8 *header)
{
	__u8 to = header[0] ^ GROUP_BIT, from = header[ETH_ALEN] ^ GROUP_BIT;

	return bpf_skb_store_bytes(skb, 0, &to, 1, 0) == 0 && bpf_skb_store_bytes(skb, ETH_ALEN, &from, 1, 0) == 0;
}

/* Moves the bit of a frame to a group to its source address. */
static __always_inline int hide_group(struct __sk_buff *skb)
{
	const __u8 *header = ethernet(skb);

	return !header || !(header[0] & GROUP_BIT) || flip_group(skb, header);
}

/* Puts it back. */
static __always_inline int show_group(struct __sk_buff *skb)
{
	const __u8 *header = ethernet(skb);

	return !header || !(header[ETH_ALEN] & GROUP_BIT) || flip_group(skb, header);
}
#endif
