// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// TLS or not, by the first payload bytes: 16 03 0x, a length of at most 0x40ff, 01 (a handshake
// record with a ClientHello). A Kafka request begins with its length, and 0x1603.... would be 369
// MB. Bytes are matched one by one, so a hello may be cut anywhere; retransmitted and reordered
// segments are placed by their offset in the stream. Six bytes that are both cut and reordered go by
// unseen, and the connection becomes unknown.
//
// Packets are seen before TCP has checked them: a client that sends segments which TCP will drop
// (a wrong checksum, say) can deceive about its own connection, and about no other.
#pragma once

#include "count.h"

#define HELLO_LEN 6

#define RECORD_HANDSHAKE    0x16
#define RECORD_MAJOR	    3
#define RECORD_MINOR_MAX    4
#define RECORD_LEN_HIGH_MAX 0x40
#define CLIENT_HELLO	    1

#define IPV6_HEADER_LEN 40
#define TCP_HEADER_SEEN 14 /* up to and with the flags */
#define TCP_FLAG_SYN	0x02

/* Where the payload of a TCP packet is. */
struct payload {
	__u32 off;
	__u32 len;
	__u32 seq; /* of its first byte */
	__u16 source_port;
	__u16 dest_port;
	__u8 ipv6;
};

static __always_inline int hello_byte_fits(__u8 at, __u8 b)
{
	switch (at) {
	case 0:
		return b == RECORD_HANDSHAKE;
	case 1:
		return b == RECORD_MAJOR;
	case 2:
		return b <= RECORD_MINOR_MAX;
	case 3:
		return b <= RECORD_LEN_HIGH_MAX;
	case 5:
		return b == CLIENT_HELLO;
	}
	return 1;
}

/* Matches the len bytes at off, where *hello were matched before, and returns the verdict. */
static __always_inline __u8 match_hello(struct __sk_buff *skb, __u32 off, __u32 len, __u8 *hello)
{
	for (int i = 0; i < HELLO_LEN; i++) {
		__u8 b;
		if (i >= len)
			return UNDECIDED;
		if (bpf_skb_load_bytes(skb, off + i, &b, 1))
			return UNDECIDED;
		if (!hello_byte_fits(*hello, b))
			return PLAINTEXT;
		*hello += 1;
		if (*hello >= HELLO_LEN)
			return TLS;
	}
	return UNDECIDED;
}

/* Finds a packet's payload. IPv6 extension headers are not followed: such a connection stays
 * undecided. */
static __always_inline int find_payload(struct __sk_buff *skb, struct payload *p)
{
	struct {
		__be16 source;
		__be16 dest;
		__be32 seq;
		__be32 ack;
		__u8 offset;
		__u8 flags;
	} tcp;
	__u8 version_ihl, next;
	__u32 tcp_off;

	if (bpf_skb_load_bytes(skb, 0, &version_ihl, 1))
		return 0;
	p->ipv6 = (version_ihl >> 4) != 4;
	if (p->ipv6) {
		if (bpf_skb_load_bytes(skb, 6, &next, 1) || next != IPPROTO_TCP)
			return 0;
		tcp_off = IPV6_HEADER_LEN;
	} else {
		tcp_off = (version_ihl & 0x0f) * 4;
	}
	if (bpf_skb_load_bytes(skb, tcp_off, &tcp, TCP_HEADER_SEEN))
		return 0;
	p->off = tcp_off + (tcp.offset >> 4) * 4;
	if (skb->len <= p->off)
		return 0;
	p->len = skb->len - p->off;
	p->seq = bpf_ntohl(tcp.seq) + (tcp.flags & TCP_FLAG_SYN ? 1 : 0);
	p->source_port = bpf_ntohs(tcp.source);
	p->dest_port = bpf_ntohs(tcp.dest);
	return 1;
}

/* First bytes in the handshake's last packet or in a SYN: the connection has no socket yet, so they
 * are kept by address. */
static __always_inline void keep_early_hello(struct __sk_buff *skb, __u64 netns)
{
	struct payload p;
	if (!find_payload(skb, &p))
		return;
	struct early_key key = {
		.netns = netns, .remote_port = p.source_port, .local_port = p.dest_port};
	if (p.ipv6) {
		bpf_skb_load_bytes(skb, 8, key.remote, ADDR_LEN);
		bpf_skb_load_bytes(skb, 24, key.local, ADDR_LEN);
	} else {
		__u32 addr[2];
		if (bpf_skb_load_bytes(skb, 12, addr, sizeof(addr)))
			return;
		mapped(key.remote, addr[0]);
		mapped(key.local, addr[1]);
	}
	struct early_hello kept = {.seq = p.seq};
	kept.verdict = match_hello(skb, p.off, p.len, &kept.hello);
	bpf_map_update_elem(&early, &key, &kept, BPF_ANY);
}

/* Picks up what keep_early_hello kept of this connection; returns its verdict. */
static __always_inline __u8 take_early_hello(struct conn *c, const struct bpf_sock_ops *ctx)
{
	struct early_key key = {
		.netns = c->netns, .remote_port = c->remote_port, .local_port = c->local_port};
	__builtin_memcpy(key.remote, c->remote, ADDR_LEN);
	__builtin_memcpy(key.local, c->local, ADDR_LEN);
	struct early_hello *kept = bpf_map_lookup_elem(&early, &key);
	if (!kept)
		return UNDECIDED;
	__u8 verdict = UNDECIDED;
	if (kept->seq == ctx->rcv_nxt) {
		c->hello = kept->hello;
		verdict = kept->verdict;
	}
	bpf_map_delete_elem(&early, &key);
	return verdict;
}

/* The next bytes of a connection that is undecided. */
static __always_inline void read_hello(struct __sk_buff *skb, struct bpf_sock *sk, struct conn *c)
{
	struct payload p;
	if (!find_payload(skb, &p))
		return;
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	if (!tp)
		return;
	__u8 hello = c->hello;
	__s64 at = (__s64)tp->bytes_received + (__s32)(p.seq - tp->rcv_nxt);
	if (at > hello) {
		if (tp->bytes_received <= hello)
			return; /* reordered: what comes before it is still on its way */
		lose(LOST_VERDICT);
		count_verdict(c, UNKNOWN);
		return;
	}
	__u64 known = hello - at;
	if (known >= p.len)
		return;
	__u8 verdict = match_hello(skb, p.off + known, p.len - known, &hello);
	c->hello = hello;
	if (verdict)
		count_verdict(c, verdict);
}
