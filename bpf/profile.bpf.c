// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Sizes of skbs at four places, and the time from the stack's entry to the copy to the application (weft profile).
 *
 * The programs sit at tracepoints, which are stabler than functions. Each counts down to its next sample and returns
 * at once otherwise, so most packets cost a map lookup and a decrement. The distance to the next sample is random, with
 * config.every as its mean: a fixed distance would meet the same packet of a repeating pattern each time.
 *
 * A sampled packet's time is kept by the address of its skb, with its TCP sequence number. The copy compares the
 * number, since the kernel reuses addresses. Of segments that TCP merged after the entry, the first decides. Packets that
 * are merged into others or freed leave an entry, which is replaced when the table is full.
 *
 * Rare branches: an unreadable header, a full table and a copy without an entry lose a sample, never a count.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

/* The kernel's own structures, reduced to the fields used; offsets are relocated when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	possible_net_t nd_net;
	int ifindex;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	struct nsproxy *nsproxy;
};
struct sk_buff {
	struct net_device *dev;
	char cb[48];
	unsigned int len;
	__u16 network_header;
	unsigned char *head;
};
#pragma clang attribute pop

/* Set before loading (lab/weft-profile/src/probes.rs). */
const volatile struct {
	__u32 sender;   /* the inode number of the sender's network namespace */
	__u32 receiver; /* and of the receiver's */
	__u32 every;    /* mean distance of samples, at least 1 */
	__u32 any;      /* not 0: all namespaces */
	__u32 device;   /* not 0: packets of this device of the namespaces only */
} config;

#define BUCKETS 65
#define BUCKET_SHIFT 10 /* buckets of 1 KiB */

/* The places, by index. */
enum { BEFORE_GRO, AFTER_GRO, TRANSMIT, COPY, PLACES };

struct sizes {
	__u64 skip; /* packets until the next sample */
	__u64 sum;
	__u64 counts[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct sizes);
} places SEC(".maps");

/* Latencies: eight buckets for each power of two of nanoseconds. */
#define LATENCY_BUCKETS 512
struct latencies {
	__u64 counts[LATENCY_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct latencies);
} latency SEC(".maps");

struct entry {
	__u64 at;
	__u32 sequence;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct entry);
} entries SEC(".maps");

/* The place's sizes if this packet is a sample. */
static __always_inline struct sizes *sampled(__u32 place)
{
	struct sizes *sizes = bpf_map_lookup_elem(&places, &place);

	if (!sizes)
		return 0;
	if (sizes->skip) {
		sizes->skip--;
		return 0;
	}
	/* The mean of 0 .. 2n-2 is n-1 packets between two samples. */
	sizes->skip = bpf_get_prandom_u32() % (2 * config.every - 1);
	return sizes;
}

static __always_inline void count(struct sizes *sizes, __u32 size)
{
	__u32 bucket = size >> BUCKET_SHIFT;

	if (bucket >= BUCKETS)
		bucket = BUCKETS - 1;
	sizes->counts[bucket]++;
	sizes->sum += size;
}

static __always_inline int is_in(const struct net_device *dev, __u32 netns)
{
	if (config.device && dev->ifindex != config.device)
		return 0;
	return config.any || dev->nd_net.net->ns.inum == netns;
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(weft_before_gro, struct sk_buff *skb)
{
	struct sizes *sizes = sampled(BEFORE_GRO);

	if (sizes && is_in(skb->dev, config.receiver))
		count(sizes, skb->len);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(weft_transmit, struct sk_buff *skb, struct net_device *dev)
{
	struct sizes *sizes = sampled(TRANSMIT);

	if (sizes && is_in(dev, config.sender))
		count(sizes, skb->len);
	return 0;
}

/* Keeps the time of an IPv4 TCP packet. */
static __always_inline void enter(struct sk_buff *skb)
{
	struct entry entry = {};
	unsigned char *ip = skb->head + skb->network_header;
	__u64 key = (__u64)skb;
	unsigned char head[10];

	if (bpf_probe_read_kernel(head, sizeof(head), ip) || head[0] >> 4 != 4 || head[9] != 6)
		return;
	/* The sequence number follows the two ports. */
	if (bpf_probe_read_kernel(&entry.sequence, 4, ip + (head[0] & 15) * 4 + 4))
		return;
	entry.sequence = bpf_ntohl(entry.sequence);
	entry.at = bpf_ktime_get_ns();
	bpf_map_update_elem(&entries, &key, &entry, BPF_ANY);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(weft_after_gro, struct sk_buff *skb)
{
	struct sizes *sizes = sampled(AFTER_GRO);

	if (!sizes || !is_in(skb->dev, config.receiver))
		return 0;
	count(sizes, skb->len);
	enter(skb);
	return 0;
}

static __always_inline __u32 latency_bucket(__u64 ns)
{
	__u32 power = 0, bucket;

	if (ns < 8)
		return ns;
#pragma unroll
	for (int step = 32; step; step >>= 1) {
		if (ns >> (power + step))
			power += step;
	}
	/* The highest bit is `power`; the three below it choose the bucket. */
	bucket = (power - 2) * 8 + (ns >> (power - 3) & 7);
	return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(weft_copy, struct sk_buff *skb, int length)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct latencies *latencies;
	struct sizes *sizes;
	struct entry *entry;
	__u32 zero = 0, bucket;
	__u64 key = (__u64)skb;

	/* A copy names no device, and the reader may be in another namespace than the device: only followed packets count then. */
	if (!config.device) {
		if (!config.any && task->nsproxy->net_ns->ns.inum != config.receiver)
			return 0;
		sizes = sampled(COPY);
		if (sizes)
			count(sizes, length);
	}
	entry = bpf_map_lookup_elem(&entries, &key);
	if (!entry)
		return 0;
	latencies = bpf_map_lookup_elem(&latency, &zero);
	/* TCP keeps the sequence number at the beginning of the control block (struct tcp_skb_cb). */
	if (latencies && *(__u32 *)skb->cb == entry->sequence) {
		bucket = latency_bucket(bpf_ktime_get_ns() - entry->at);
		if (bucket < LATENCY_BUCKETS)
			latencies->counts[bucket]++;
	}
	bpf_map_delete_elem(&entries, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
