// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The receive direction in the kernel: one program at the ingress of the uplink's device (clsact).
 *
 * weft_receive, for each packet that arrives for the port:
 * 1. Drop the port's own packet: its broadcast leaves through the NIC's device, so the kernel returns it to the port's.
 * 2. Leave a datagram that the interface's macvlan has reassembled to the thread, which cuts it (below).
 * 3. Count it.
 * 4. Send it out of the port's far end, so that the port receives it (veth_xmit, drivers/net/veth.c).
 *
 * The device is a macvtap. Its parent's rx handler has already selected the packets of the port's hardware address,
 * broadcast and multicast (macvlan_handle_frame, drivers/net/macvlan.c). The program runs before the macvtap's own rx
 * handler (__netif_receive_skb_core, net/core/dev.c), which would put the packet into the queue that the receive
 * thread reads. A packet that the kernel does not show to programs (tc_skip_classify) goes there still.
 *
 * The veth ends treat the packet as one from a wire: they set its type by the port's hardware address, and drop a
 * packet above the port's MTU unless it is a GSO packet, which stays whole (is_skb_forwardable, net/core/dev.c).
 *
 * A macvlan reassembles the fragments of frames to groups and to all before they arrive here (ip_check_defrag, IPv4 only).
 * The veth would drop the datagram; the thread cuts it to the MTU again (product/weft-packet/src/fragment.rs).
 *
 * At the NIC's own device (no `far_end`), which has no port, it drops everything: broadcast and multicast.
 *
 * Balance: the far end counts what it delivers and what it drops. The NIC compares these counters with `received`.
 *
 * Ownership: each core writes its own element of `received`, in its softirq, so no atomic operation is needed. The
 * NIC reads the sum.
 *
 * Rare branch: a failed map lookup leaves the packet to the thread. The map belongs to this program, so the lookup
 * only satisfies the verifier.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TO_HOST 0 /* PACKET_HOST; linux/if_packet.h needs headers of user space */

/* Read by product/weft-nic/src/redirect.rs. */
struct weft_received {
	__u64 packets;
	__u64 bytes; /* Ethernet header included; a VLAN tag that the kernel keeps outside the frame is not */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_received);
} received SEC(".maps");

/* Set before loading. */
struct weft_receiver {
	__u32 far_end; /* the interface number of the port's far end, in the namespace of the uplink's device; 0: none */
	__u8 mac[6];   /* the port's hardware address */
	__u8 pad[2];
};

const volatile struct weft_receiver receiver = {};

/* Whether the port itself sent the packet. */
static __always_inline int is_own(struct __sk_buff *skb)
{
	__u8 source[6];

	return bpf_skb_load_bytes(skb, 6, source, sizeof(source)) == 0 && source[0] == receiver.mac[0] &&
	       source[1] == receiver.mac[1] && source[2] == receiver.mac[2] && source[3] == receiver.mac[3] &&
	       source[4] == receiver.mac[4] && source[5] == receiver.mac[5];
}

/*
 * Whether the macvlan may have made a datagram of fragments: it is longer than the device's MTU, which is that of the port,
 * to a group or to all, and no super-packet.
 */
static __always_inline int is_reassembled(struct __sk_buff *skb)
{
	__u32 mtu = 0;

	return skb->pkt_type != TO_HOST && skb->protocol == bpf_htons(ETH_P_IP) && !skb->gso_size &&
	       bpf_check_mtu(skb, 0, &mtu, 0, 0) != 0;
}

SEC("tc")
int weft_receive(struct __sk_buff *skb)
{
	struct weft_received *count;
	__u32 zero = 0;

	if (!receiver.far_end || is_own(skb))
		return TC_ACT_SHOT;
	if (is_reassembled(skb))
		return TC_ACT_UNSPEC;
	count = bpf_map_lookup_elem(&received, &zero);
	if (!count)
		return TC_ACT_UNSPEC;
	count->packets++;
	count->bytes += skb->len;
	return bpf_redirect(receiver.far_end, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
