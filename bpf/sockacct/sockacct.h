// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What is counted and where it is kept: the types that the programs share with Go, and the maps.
#pragma once

#include "../include/kernel.h"

#define ADDR_LEN 16 /* every address is kept as IPv6; an IPv4 one as ::ffff:a.b.c.d */

/* What the first payload bytes of a client say, whatever the port claims. */
enum verdict {
	UNDECIDED, /* too few bytes yet */
	TLS,
	PLAINTEXT,
	UNKNOWN, /* its first bytes went by before the programs were there */
};

/* Indexes of the map lost. Each is a way in which a count became less than the truth. */
enum loss {
	LOST_CONN,    /* no memory for a connection's state: it is not counted at all */
	LOST_SOURCE,  /* sources was full: the connection is missing in its address's count */
	LOST_VERDICT, /* the first bytes were never seen: counted as unknown */
	LOST_MARK,    /* a high-water mark was not raised */
	LOST_KINDS,
};

/* Bits of conn.phase above the verdict in its low byte. Each step is one compare-and-swap and the
   counters follow whoever won it, so that verdict, first byte and close may come in any order and
   on any CPU. */
#define PHASE_VERDICT 0x0ff
#define PHASE_COUNTED 0x100 /* it is in established */
#define PHASE_SERVED  0x200 /* it is in served */
#define PHASE_OVER    0x400 /* we closed or shut down: whatever is still sent, it is not served */

/* One watched connection, at the server's end. Lives and dies with the kernel's socket. */
struct conn {
	__u64 since_ns; /* CLOCK_MONOTONIC; of a seeded one, when it was seeded */
	__u64 netns;	/* netns cookie */
	__u64 cookie;	/* SO_COOKIE */
	__u8 remote[ADDR_LEN];
	__u8 local[ADDR_LEN];
	__u16 local_port;
	__u16 remote_port;
	__u8 hello;	  /* bytes of a ClientHello matched so far */
	__u8 seeded;	  /* it was there before the programs */
	__u8 source_bank; /* where sources counts it; SOURCE_BANKS: nowhere */
	__u8 pad;
	__u32 phase;
	__u32 pad2;
};

/* Server sockets that have sent payload and that we have not begun to close. A server that takes a
   slot before its first byte and gives it back after close() has served <= limit at every instant,
   whatever its clients do; the mark is the proof. */
struct gauge {
	__s64 served;
	__s64 served_tls;
	__s64 served_plaintext;
	__s64 served_max;
	__s64 served_tls_max;
	__s64 served_plaintext_max;
	__u64 served_total;
};

struct port_key {
	__u64 netns;
	__u16 port;
	__u16 pad[3];
};

struct port_count {
	__s64 established; /* = tls + plaintext + undecided + unknown */
	__s64 tls;
	__s64 plaintext;
	__s64 undecided;
	__s64 unknown;
	__s64 closing; /* of established: we closed or shut down, and TCP has not ended yet */
	__u64 opened;
	__u64 closed;
	__u64 seeded;
	__u64 bytes_in;	 /* of closed connections; those of open ones are in their sockets */
	__u64 bytes_out; /* acknowledged by the client */
	struct gauge gauge;
	__u32 group; /* 0: none */
	__u32 pad;
};

#define SOURCE_BANKS 4
#define SOURCE_GONE  (-(1LL << 62)) /* the entry is being deleted: count elsewhere */

struct source_key {
	__u64 netns;
	__u16 port;
	__u8 bank; /* 0, unless the entry was dying: an address has the sum of its banks */
	__u8 pad[5];
	__u8 addr[ADDR_LEN];
};

struct early_key {
	__u64 netns;
	__u8 remote[ADDR_LEN];
	__u8 local[ADDR_LEN];
	__u16 remote_port;
	__u16 local_port;
	__u32 pad;
};

struct early_hello {
	__u32 seq; /* of its first byte, so that one of an earlier connection does not fit */
	__u8 hello;
	__u8 verdict;
	__u8 pad[2];
};

/* One row of the list iterator. */
struct conn_row {
	struct conn conn;
	__u64 bytes_in;
	__u64 bytes_out;
	__u32 rtt_us;
	__u8 state;
	__u8 pad[3];
};

/* Written by no map: these keep the types in the object's BTF, from where Go's are made. */
const struct conn_row *row_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum loss *loss_type __attribute__((unused));

/*
 * conns: a connection's own state.
 * Inserted: when it becomes established on a watched port, or is seeded.
 * Deleted: by the kernel with the socket.
 * Full when: the socket's option memory (net.core.optmem_max) is used up, or memory is
 * (LOST_CONN).
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

/*
 * ports: the watched set and its counts. A socket of any other port costs one lookup here and
 * nothing else.
 * Inserted: by user space alone.
 * Deleted: by user space alone, never while a connection of the port is counted.
 * Full when: more ports are watched than user space made room for; the insertion fails there.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space decides */
	__type(key, struct port_key);
	__type(value, struct port_count);
} ports SEC(".maps");

/*
 * groups: ports under one limit (the listeners of a broker), because marks of single ports do
 * not add up.
 * Inserted, deleted: by user space alone.
 * Full when: as ports.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space decides */
	__type(key, __u32);
	__type(value, struct gauge);
} groups SEC(".maps");

/*
 * sources: connections of a port now, by client address.
 * Inserted: with an address's first connection.
 * Deleted: by the program sweep_source, at zero.
 * Full when: more addresses were seen between two sweeps than there is room for (LOST_SOURCE).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* user space decides */
	__type(key, struct source_key);
	__type(value, __s64);
} sources SEC(".maps");

/*
 * early: first bytes that came with the end of the handshake, or with the SYN, before there
 * was a socket to keep them in.
 * Inserted: at a packet with payload to a watched listener.
 * Deleted: when the connection picks it up.
 * Full when: never, the least recently used goes; its connection becomes unknown (LOST_VERDICT).
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* user space decides */
	__type(key, struct early_key);
	__type(value, struct early_hello);
} early SEC(".maps");

/*
 * lost: how often each enum loss happened. Not zero: the counts are lower bounds.
 * Inserted, deleted: never.
 * Full when: never.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOST_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void lose(enum loss kind)
{
	__u32 i = kind;
	__u64 *n = bpf_map_lookup_elem(&lost, &i);
	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline struct port_count *watched(__u64 netns, __u16 port)
{
	struct port_key key = {.netns = netns, .port = port};
	return bpf_map_lookup_elem(&ports, &key);
}

static __always_inline struct gauge *group_of(const struct port_count *port)
{
	__u32 id = port->group;
	return id ? bpf_map_lookup_elem(&groups, &id) : 0;
}

static __always_inline void mapped(__u8 *dst, __u32 addr4)
{
	*(__u64 *)dst = 0;
	*(__u32 *)(dst + 8) = bpf_htonl(0xffff);
	*(__u32 *)(dst + 12) = addr4;
}

/* From the socket itself: cgroup_skb programs have bpf_get_netns_cookie only from about 6.15 on. */
static __always_inline __u64 netns_of(struct bpf_sock *sk)
{
	struct sock_common *skc = (struct sock_common *)bpf_skc_to_tcp_sock(sk);
	return skc ? skc->skc_net.net->net_cookie : 0;
}
