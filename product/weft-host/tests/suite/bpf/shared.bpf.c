// A program for the tests of shared maps, tracing links and iterators.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct page {
    __u64 packets;
    __u64 calls;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct page);
} weft_page SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, __u64);
} weft_sock SEC(".maps");

const volatile struct {
    __u64 step;
} settings;

static __always_inline struct page *page(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&weft_page, &zero);
}

SEC("tc")
int weft_mark(struct __sk_buff *skb)
{
    struct page *at = page();
    if (at)
        __sync_fetch_and_add(&at->packets, settings.step);
    struct bpf_sock *sk = skb->sk;
    if (!sk)
        return -1;
    sk = bpf_sk_fullsock(sk);
    if (!sk)
        return -1;
    __u64 *bytes = bpf_sk_storage_get(&weft_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (bytes)
        __sync_fetch_and_add(bytes, skb->len);
    return -1;
}

// The set of queues that packets of UDP over IPv4 are to go to.
SEC("tc")
int weft_look(struct __sk_buff *skb)
{
    struct page *at = page();
    if (at && skb->protocol == __builtin_bswap16(0x0800))
        __sync_fetch_and_or(&at->calls, 1ULL << (skb->queue_mapping & 63));
    return -1;
}

SEC("tp_btf/net_dev_queue")
int weft_queue(void *context)
{
    struct page *at = page();
    if (at)
        __sync_fetch_and_add(&at->calls, 1);
    return 0;
}

SEC("fentry/udp_sendmsg")
int weft_send(void *context)
{
    struct page *at = page();
    if (at)
        __sync_fetch_and_add(&at->calls, 1);
    return 0;
}

SEC("fentry/weft_no_such_function")
int weft_nowhere(void *context)
{
    return 0;
}

struct bpf_iter_meta {
    struct seq_file *seq;
    __u64 session_id;
    __u64 seq_num;
};

struct bpf_iter__bpf_sk_storage_map {
    struct bpf_iter_meta *meta;
    struct bpf_map *map;
    struct sock *sk;
    __u64 *value;
};

SEC("iter/bpf_sk_storage_map")
int weft_dump(struct bpf_iter__bpf_sk_storage_map *context)
{
    __u64 *value = context->value;
    if (context->sk && value)
        bpf_seq_write(context->meta->seq, value, sizeof(*value));
    return 0;
}

char _license[] SEC("license") = "GPL";
