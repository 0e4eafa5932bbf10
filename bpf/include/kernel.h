// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The few kernel types that the programs read, each with the fields that are used and no others.
// Offsets are relocated at load from the running kernel's BTF (preserve_access_index), so no
// vmlinux.h of some kernel has to be carried along.
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define AF_INET	    2
#define AF_INET6    10
#define SOL_TCP	    6
#define IPPROTO_TCP 6

// Newer than the 6.1 headers of Debian 12.
#ifndef TCP_BPF_SOCK_OPS_CB_FLAGS
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	union {
		struct {
			__be32 skc_daddr;
			__be32 skc_rcv_saddr;
		};
	};
	union {
		struct {
			__be16 skc_dport;
			__u16 skc_num;
		};
	};
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct tcp_sock {
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 bytes_sent;
	__u32 srtt_us;
	__u8 bpf_sock_ops_cb_flags;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop
