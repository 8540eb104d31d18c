// SPDX-License-Identifier: MIT OR Apache-2.0
/* Lets each packet pass, around all programs behind this one. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int pass_around(struct __sk_buff *skb)
{
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
