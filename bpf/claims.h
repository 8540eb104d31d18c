/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The claims of senders about their packets, in one word of the ring's doorbell for each kind: the least since the
 * NIC's last look. Only lanes whose algorithms read a kind pay for it (`reads` of weft_lane).
 *
 * A sender may claim anything. The NIC uses it for the order of the packets below the algorithm that reads it, and
 * for nothing else.
 *
 * | kind | datagram | TCP |
 * |---|---|---|
 * | time asked for | SO_TXTIME, or the message's deadline | the message's deadline |
 * | bytes left | what is left of the message | the same, or what the socket has not sent yet |
 * | priority | SO_PRIORITY | the same |
 * | pacing rate | SO_MAX_PACING_RATE | the same, or the rate of the congestion control if that is less |
 */
#ifndef WEFT_CLAIMS_H
#define WEFT_CLAIMS_H

#include "doorbell.h"
#include "flow_key.h"
#include "message.h"
#include "moves.h"

extern const volatile struct weft_config config;

/* The claims of a packet's sender about it; 0: none. */
struct weft_claims {
	__u64 asked_ns; /* a deadline or a time of sending, as the algorithm reads it */
	__u64 left;	/* the bytes left to send of its message or flow, with this packet */
	__u64 priority; /* of its socket, and 1 */
	__u64 pace;	/* of its socket, in bytes per second */
};

/* The attempts to lower a word. One that fails means that another core lowered it, or that the NIC took it. */
#define LOWER_ATTEMPTS 16

/* Lowers a word to `value`; 0 in it means no claim. */
static __always_inline void lower(__u64 *least, __u64 value)
{
	__u64 old;
	int i;

	for (i = 0; i < LOWER_ATTEMPTS; i++) {
		old = *(volatile __u64 *)least;
		if (old && old <= value)
			return;
		if (__sync_val_compare_and_swap(least, old, value) == old)
			return;
	}
}

/*
 * The time that the sender of a datagram requests, by SO_TXTIME with CLOCK_MONOTONIC, or 0. TCP writes the times of its
 * own pacing there. Times of other clocks are far from now.
 */
static __always_inline __u64 time_of_datagram(struct __sk_buff *skb, const struct weft_flow_key *key)
{
	__u64 asked = key->protocol == IPPROTO_UDP ? skb->tstamp : 0;
	__s64 ahead;

	if (!asked)
		return 0;
	ahead = asked - bpf_ktime_get_ns();
	return ahead > -WEFT_ASKED_MAX_NS && ahead < WEFT_ASKED_MAX_NS ? asked : 0;
}

/* The bytes behind the transport header. */
static __always_inline __u32 payload_of(struct __sk_buff *skb, __u32 transport, __u8 protocol)
{
	__u32 header = 8;
	__u8 words;

	if (protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, transport + 12, &words, sizeof(words)) < 0)
			return 0;
		header = (words >> 4) * 4;
	}
	return skb->len > transport + header ? skb->len - transport - header : 0;
}

/* The claims about a datagram: of the socket's last message, until its bytes are sent. */
static __noinline int claim_datagram(struct weft_messages *all, __u32 payload, struct weft_claims *claims)
{
	struct weft_message *message;
	__u64 before;

	if (!all || !claims || !all->count)
		return 0;
	message = &all->last[(all->count - 1) & (WEFT_MESSAGES - 1)];
	before = __sync_fetch_and_add(&all->sent, (__u64)payload);
	if (message->bytes && before >= message->bytes)
		return 0;
	claims->asked_ns = message->deadline_ns;
	claims->left = message->bytes ? message->bytes - before : 0;
	return 0;
}

/*
 * The claims about a segment: of the message that its last byte belongs to. The bytes left count from its first byte on.
 * A segment that carries nothing belongs to none.
 */
static __noinline int claim_segment(struct weft_messages *all, __u32 sequence, __u32 payload, struct weft_claims *claims)
{
	__u32 last = sequence + payload - 1, i;

	if (!all || !claims || !payload)
		return 0;
	for (i = 0; i < WEFT_MESSAGES; i++) {
		__u32 number = all->count - 1 - i, had;
		struct weft_message *message = &all->last[number & (WEFT_MESSAGES - 1)];

		if (i >= all->count)
			return 0;
		if (is_before(last, message->from))
			continue;
		if (message->bytes && last - message->from >= message->bytes)
			return 0;
		had = is_before(message->from, sequence) ? sequence - message->from : 0;
		claims->asked_ns = message->deadline_ns;
		claims->left = message->bytes ? message->bytes - had : 0;
		return 0;
	}
	return 0;
}

/*
 * What a TCP socket has not sent yet: this packet, while it is new, and what the application has written behind it. It has
 * no more than fits its send buffer. A packet that is sent again counts as what is left behind it, so it comes earlier.
 */
static __always_inline __u64 left_in_socket(struct bpf_sock *sk)
{
	struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);
	__u32 left;

	if (!tcp || !config.write_sequence)
		return 0;
	left = write_sequence(sk, config.write_sequence) - tcp->snd_nxt;
	/* A packet without data, such as an acknowledgement. A FIN has a number, too. */
	return left && (__s32)left > 0 ? left : 1;
}

/* The claims of a packet's socket about it. */
static __noinline int read_socket(struct __sk_buff *skb, __u32 transport, __u32 reads, struct weft_claims *claims)
{
	struct bpf_sock *sk = skb->sk;
	struct weft_messages *all;
	__be32 sequence;
	__u32 payload;

	if (!sk || !claims)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	all = bpf_sk_storage_get(&messages, sk, 0, 0);
	if (sk->protocol == IPPROTO_UDP && all)
		return claim_datagram(all, payload_of(skb, transport, IPPROTO_UDP), claims);
	if (sk->protocol != IPPROTO_TCP)
		return 0;
	if (all && bpf_skb_load_bytes(skb, transport + 4, &sequence, sizeof(sequence)) == 0) {
		payload = payload_of(skb, transport, IPPROTO_TCP);
		claim_segment(all, bpf_ntohl(sequence), payload, claims);
	}
	if (!claims->left && reads & WEFT_READS_LEFT)
		claims->left = left_in_socket(sk);
	return 0;
}

/* The pacing rate of the packet's socket in bytes per second; 0: it is not paced. */
static __always_inline __u64 pace_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	__u64 address = 0;
	unsigned long rate = 0;

	if (!sk || !config.pacing_rate)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	/* As in write_sequence. */
	bpf_probe_read_kernel(&address, sizeof(address), &sk);
	bpf_probe_read_kernel(&rate, sizeof(rate), (void *)(address + config.pacing_rate));
	return rate == ~0ul ? 0 : rate;
}

/* Reads the claims of a packet's sender, as far as `reads` has its kinds. */
static __noinline int read_claims(struct __sk_buff *skb, const struct weft_flow_key *key, __u32 transport, __u32 reads,
				  struct weft_claims *claims)
{
	__u64 asked;

	if (!key || !claims)
		return 0;
	if (reads & (WEFT_READS_LEFT | WEFT_READS_DEADLINE))
		read_socket(skb, transport, reads, claims);
	/* The deadline of a message is no time of sending. */
	if (!(reads & WEFT_READS_DEADLINE))
		claims->asked_ns = 0;
	asked = reads & WEFT_READS_TIME ? time_of_datagram(skb, key) : 0;
	if (asked)
		claims->asked_ns = asked;
	if (reads & WEFT_READS_PRIORITY)
		claims->priority = (__u64)skb->priority + 1;
	if (reads & WEFT_READS_PACE)
		claims->pace = pace_of(skb);
	return 0;
}

/* The rings of a lane that packets may hold. */
struct weft_holds {
	struct weft_doorbells *d;
	__u64 now;
	__u32 first, rings; /* of the lane */
	__u32 from;	    /* the first one that is read, from the first of the lane */
	__u32 held;	    /* those that are held */
	__u32 free;	    /* the first one that is not held; ~0: none so far */
};

static long try_held(__u32 index, struct weft_holds *s)
{
	__u32 ring = s->first + (s->from + index) % s->rings;

	if ((__s64)(*(volatile __u64 *)&ring_flows(s->d, ring)->held_ns - s->now) > 0)
		s->held++;
	else if (s->free == ~0u)
		s->free = ring;
	return 0;
}

/* A ring of the lane for a new flow, the `n`th in turn or the first after it that no packet may hold. */
static __noinline __u32 ring_not_held(struct weft_doorbells *d, const struct weft_lane *lane, __u32 n)
{
	struct weft_holds s = { .d = d, .now = bpf_ktime_get_ns(), .free = ~0u };

	if (!d || !lane)
		return 0;
	s.first = lane->first_ring;
	s.rings = lane->rings ? lane->rings : 1;
	s.from = n % s.rings;
	bpf_loop(s.rings & (WEFT_RINGS - 1) ? s.rings & (WEFT_RINGS - 1) : WEFT_RINGS, try_held, &s, 0);
	return s.free == ~0u ? s.first + s.from : s.free;
}

/*
 * Whether a packet may hold its ring until the time `asked`, since a ring is read in order. With other flows in the ring it may
 * do so for a short time only. A flow that is alone in its ring may hold it for as long as sch_fq's horizon; new flows are
 * then placed in other rings, so no more than half of the lane's are held.
 */
static __noinline int may_hold(struct weft_doorbells *d, const struct weft_lane *lane, __u32 lane_id, __u32 ring, __u64 asked)
{
	struct weft_holds s = { .d = d, .now = bpf_ktime_get_ns(), .free = ~0u };
	struct weft_ring_flows *mine;
	__s64 ahead = asked - s.now;

	if (ahead <= WEFT_ASKED_SHARED_NS)
		return 1;
	if (!d || !lane || ahead >= WEFT_ASKED_MAX_NS)
		return 0;
	mine = ring_flows(d, ring);
	if (lane->spread != WEFT_SPREAD_ROUND_ROBIN || *(volatile __u64 *)&lane_flows(d, lane_id)->untracked_ns ||
	    *(volatile __u32 *)&mine->flows != 1)
		return 0;
	if ((__s64)(*(volatile __u64 *)&mine->held_ns - s.now) <= 0) {
		s.first = lane->first_ring;
		s.rings = lane->rings ? lane->rings : 1;
		bpf_loop(s.rings & (WEFT_RINGS - 1) ? s.rings & (WEFT_RINGS - 1) : WEFT_RINGS, try_held, &s, 0);
		if ((s.held + 1) * 2 > s.rings)
			return 0;
	}
	if (asked > *(volatile __u64 *)&mine->held_ns)
		*(volatile __u64 *)&mine->held_ns = asked;
	return 1;
}

/* Posts the claims for the NIC. After the ring's count is added and before its bit is read (doorbell/protocol.rs). */
static __noinline int post_claims(struct weft_doorbells *d, __u32 ring, const struct weft_claims *claims)
{
	struct weft_ring_doorbell *doorbell;
	struct weft_ring_socket *socket;

	if (!d || !claims)
		return 0;
	doorbell = &d->rings[ring & (WEFT_RINGS - 1)];
	socket = &d->sockets[ring & (WEFT_RINGS - 1)];
	if (claims->asked_ns)
		lower(&doorbell->asked_ns, claims->asked_ns);
	if (claims->left)
		lower(&doorbell->last_or_left, claims->left);
	if (claims->priority)
		lower(&socket->priority, claims->priority);
	if (claims->pace)
		lower(&socket->pace, claims->pace);
	return 0;
}
#endif
