// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//go:build ignore

// Counts the TCP connections of watched ports, at the server's end, in every network namespace
// under the cgroup.
//
//   established  what the kernel calls connected: from the end of the handshake, in the accept
//                queue too, until CLOSE
//   served       what the server took up: from the first payload it sends until its own close
//
// Hooks only; what each step counts is in count.h, how TLS is told is in hello.h, the maps are in
// sockacct.h.

#include "hello.h"

#define RTT_SHIFT 3 /* the kernel keeps eighths of a microsecond */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline void on_established(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					   __u16 port, __u32 callbacks)
{
	struct port_count *counts = watched(netns_of(sk), port);
	if (!counts)
		return;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!tp || !c || bpf_sock_ops_cb_flags_set(ctx, callbacks | BPF_SOCK_OPS_STATE_CB_FLAG)) {
		lose(LOST_CONN);
		return;
	}
	if (c->phase)
		return; /* seeded before this hook came to it */
	describe(c, (struct sock_common *)tp);
	c->cookie = bpf_get_socket_cookie(ctx);
	count_opened(c, counts, take_early_hello(c, ctx));
}

/*
 * tcp_set_state() calls this directly, under the socket's lock. A tracepoint tells the same story,
 * but tracing programs miss events when a softirq interrupts one on the same CPU, and each miss
 * would leave a gauge too high for ever.
 */
SEC("sockops")
int on_state(struct bpf_sock_ops *ctx)
{
	/* All loads from ctx come first and stay apart: the verifier refuses what clang makes of
	 * them across branches. */
	struct bpf_sock *sk = ctx->sk;
	__u32 op = ctx->op, callbacks = ctx->bpf_sock_ops_cb_flags, port = ctx->local_port;
	__u32 state = ctx->args[1];
	asm volatile("" : "+r"(op), "+r"(callbacks), "+r"(port), "+r"(state));

	if (!sk)
		return 1;
	if (op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		on_established(ctx, sk, port, callbacks);
		return 1;
	}
	if (op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!c)
		return 1;
	if (state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_LAST_ACK)
		count_over(c);
	else if (state == BPF_TCP_CLOSE)
		count_closed(c, bpf_skc_to_tcp_sock(sk));
	return 1;
}

/* Runs without the socket's lock; returns 1 always: every packet passes. */
SEC("cgroup_skb/ingress")
int on_ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	if (sk->state == BPF_TCP_LISTEN) {
		__u64 netns = netns_of(sk);
		if (watched(netns, sk->src_port))
			keep_early_hello(skb, netns);
		return 1;
	}
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (c && (c->phase & (PHASE_COUNTED | PHASE_VERDICT)) == PHASE_COUNTED)
		read_hello(skb, sk, c);
	return 1;
}

/*
 * Runs under the socket's lock, so it never races with our close. data_segs_out holds this packet
 * already: nothing has to be parsed. What leaves only after close() (cork, zero window) was never
 * served.
 */
SEC("cgroup_skb/egress")
int on_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!c || (c->phase & (PHASE_COUNTED | PHASE_SERVED | PHASE_OVER)) != PHASE_COUNTED)
		return 1;
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	if (!tp || !tp->data_segs_out)
		return 1;
	struct port_count *port = watched(c->netns, c->local_port);
	if (port)
		count_served(c, port);
	return 1;
}

/* A server's end of a connection of a watched port, or 0. What a tcp iterator meets otherwise:
 * listeners, clients' ends, TIME_WAIT and half-open ones that are no full sockets, and ends that
 * are closed already. */
static __always_inline struct tcp_sock *watched_sock(struct sock_common *skc)
{
	__u8 state = skc->skc_state;
	if (state != BPF_TCP_ESTABLISHED && state != BPF_TCP_CLOSE_WAIT &&
	    state != BPF_TCP_FIN_WAIT1 && state != BPF_TCP_FIN_WAIT2 && state != BPF_TCP_CLOSING &&
	    state != BPF_TCP_LAST_ACK)
		return 0;
	if (!watched(skc->skc_net.net->net_cookie, skc->skc_num))
		return 0;
	return bpf_skc_to_tcp_sock(skc);
}

/* Opened once a network namespace after the hooks are attached. Runs under lock_sock(): whoever
 * comes first, this or a hook, counts. */
SEC("iter/tcp")
int seed(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	if (!skc)
		return 0;
	struct tcp_sock *tp = watched_sock(skc);
	if (!tp)
		return 0;
	struct conn *c =
		bpf_sk_storage_get(&conns, (struct sock *)tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c) {
		lose(LOST_CONN);
		return 0;
	}
	if (c->phase)
		return 0;
	/* Without this flag on_state never hears of the socket again. Flags of other programs stay. */
	__u32 callbacks = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &callbacks, sizeof(callbacks))) {
		lose(LOST_CONN);
		return 0;
	}
	describe(c, skc);
	c->seeded = 1;
	c->cookie = bpf_get_socket_cookie((void *)tp);
	struct port_count *port = watched(c->netns, c->local_port);
	if (!port)
		return 0;
	count_opened(c, port, tp->bytes_received ? UNKNOWN : UNDECIDED);
	if (skc->skc_state != BPF_TCP_ESTABLISHED && skc->skc_state != BPF_TCP_CLOSE_WAIT)
		count_over(c);
	else if (tp->bytes_sent)
		count_served(c, port);
	return 0;
}

/* Connections of watched ports in one network namespace, with what their sockets know now; those
 * that were never counted have phase 0. (An iterator over conns would see all namespaces at once,
 * but some kernels refuse map iterators.) */
SEC("iter/tcp")
int list(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	if (!skc)
		return 0;
	struct tcp_sock *tp = watched_sock(skc);
	if (!tp)
		return 0;
	struct conn_row row = {
		.state = skc->skc_state,
		.bytes_in = tp->bytes_received,
		.bytes_out = tp->bytes_acked,
		.rtt_us = tp->srtt_us >> RTT_SHIFT,
	};
	struct conn *c = bpf_sk_storage_get(&conns, (struct sock *)tp, 0, 0);
	if (c && c->phase & PHASE_COUNTED) {
		row.conn = *c;
	} else {
		describe(&row.conn, skc);
		row.conn.cookie = bpf_get_socket_cookie((void *)tp);
	}
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/* User space cannot set one field of a live value: it runs this to start the marks of a port and of
 * its group anew. */
SEC("syscall")
int reset_marks(struct port_key *key)
{
	struct port_count *port = watched(key->netns, key->port);
	if (!port)
		return 1;
	restart_marks(&port->gauge);
	struct gauge *group = group_of(port);
	if (group)
		restart_marks(group);
	return 0;
}

/* Deletes an address's entry if it is at zero; returns 1 if it did. */
SEC("syscall")
int sweep_source(struct source_key *key)
{
	struct source_key k = *key;
	__s64 *n = bpf_map_lookup_elem(&sources, &k);
	if (!n || __sync_val_compare_and_swap(n, 0, SOURCE_GONE) != 0)
		return 0;
	bpf_map_delete_elem(&sources, &k);
	return 1;
}
