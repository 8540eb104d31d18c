// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A mark for a container's packets: one program at the ingress of the host's end of its veth (clsact).
 *
 * weft_mark sets the mark's bits `value` and keeps the bits `keep`. Routing and bridging keep the mark, so a policy at a
 * port in the same namespace finds it (`mark` in docs/policy-language.md). The veth has cleared the container's own marks
 * (skb_scrub_packet, net/core/skbuff.c), so the container cannot choose its class.
 *
 * The filter continues with later ones. It has no map and no rare branch; it vanishes with the device.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* Set before loading, in this order, by product/weft-cni/src/chain.rs. */
const volatile struct {
	__u32 value;
	__u32 keep;
} mark = {};

SEC("tc")
int weft_mark(struct __sk_buff *skb)
{
	skb->mark = (skb->mark & mark.keep) | mark.value;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
