// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The steps of a connection's life and what each adds to which counter.
#pragma once

#include "sockacct.h"

#define PHASE_TRIES 5  /* a phase changes four times in a life, so a fifth try cannot lose again */
#define MARK_TRIES  64 /* each lost try means that another CPU raised the mark */

static __always_inline void add(__s64 *n, __s64 d)
{
	__sync_fetch_and_add(n, d);
}

static __always_inline void addu(__u64 *n, __u64 d)
{
	__sync_fetch_and_add(n, d);
}

static __always_inline __s64 *by_verdict(struct port_count *port, __u8 verdict)
{
	switch (verdict) {
	case UNDECIDED:
		return &port->undecided;
	case TLS:
		return &port->tls;
	case PLAINTEXT:
		return &port->plaintext;
	}
	return &port->unknown;
}

/* One step of a phase: returns the phase before it, or 0 where the step was not ours to make. */
static __always_inline __u32 step(__u32 *phase, __u32 need, __u32 forbid, __u32 clear, __u32 set)
{
	__u32 now = *(volatile __u32 *)phase;
	for (int i = 0; i < PHASE_TRIES; i++) {
		if ((now & need) != need || (now & forbid))
			return 0;
		__u32 was = __sync_val_compare_and_swap(phase, now, (now & ~clear) | set);
		if (was == now)
			return now;
		now = was;
	}
	return 0;
}

static __always_inline void raise_mark(__s64 *mark, __s64 n)
{
	__s64 now = *(volatile __s64 *)mark;
	for (int i = 0; i < MARK_TRIES; i++) {
		if (now >= n)
			return;
		__s64 was = __sync_val_compare_and_swap(mark, now, n);
		if (was == now)
			return;
		now = was;
	}
	lose(LOST_MARK);
}

/* The mark is raised to what this very addition made of the gauge: no instant above it is missed.
 */
static __always_inline void raise_gauge(__s64 *n, __s64 *mark)
{
	raise_mark(mark, __sync_fetch_and_add(n, 1) + 1);
}

static __always_inline void gauge_verdict(struct gauge *g, __u8 verdict)
{
	if (verdict == TLS)
		raise_gauge(&g->served_tls, &g->served_tls_max);
	else if (verdict == PLAINTEXT)
		raise_gauge(&g->served_plaintext, &g->served_plaintext_max);
}

static __always_inline void gauge_up(struct gauge *g, __u8 verdict)
{
	raise_gauge(&g->served, &g->served_max);
	gauge_verdict(g, verdict);
	addu(&g->served_total, 1);
}

static __always_inline void gauge_down(struct gauge *g, __u8 verdict)
{
	if (verdict == TLS)
		add(&g->served_tls, -1);
	else if (verdict == PLAINTEXT)
		add(&g->served_plaintext, -1);
	add(&g->served, -1);
}

/* Marks start anew from what is served now. */
static __always_inline void restart_mark(__s64 *n, __s64 *mark)
{
	__sync_lock_test_and_set(mark, 0);
	raise_mark(mark, *(volatile __s64 *)n);
}

static __always_inline void restart_marks(struct gauge *g)
{
	restart_mark(&g->served, &g->served_max);
	restart_mark(&g->served_tls, &g->served_tls_max);
	restart_mark(&g->served_plaintext, &g->served_plaintext_max);
}

static __always_inline void source_key_of(struct source_key *key, const struct conn *c, __u8 bank)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->netns = c->netns;
	key->port = c->local_port;
	key->bank = bank;
	__builtin_memcpy(key->addr, c->remote, ADDR_LEN);
}

/*
 * A dying entry (SOURCE_GONE) and one whose memory already belongs to another address both show
 * themselves: the first by a negative number, the second by being found elsewhere. Then the
 * addition is taken back and made in the next bank.
 */
static __always_inline void source_add(struct conn *c)
{
	struct source_key key;
	source_key_of(&key, c, 0);
	for (__u8 bank = 0; bank < SOURCE_BANKS; bank++) {
		key.bank = bank;
		__s64 *n = bpf_map_lookup_elem(&sources, &key);
		if (!n) {
			__s64 zero = 0;
			bpf_map_update_elem(&sources, &key, &zero, BPF_NOEXIST);
			n = bpf_map_lookup_elem(&sources, &key);
		}
		if (!n)
			break;
		__s64 was = __sync_fetch_and_add(n, 1);
		if (was >= 0 && bpf_map_lookup_elem(&sources, &key) == n) {
			c->source_bank = bank;
			return;
		}
		add(n, -1);
	}
	c->source_bank = SOURCE_BANKS;
	lose(LOST_SOURCE);
}

static __always_inline void source_sub(const struct conn *c)
{
	if (c->source_bank >= SOURCE_BANKS)
		return;
	struct source_key key;
	source_key_of(&key, c, c->source_bank);
	__s64 *n = bpf_map_lookup_elem(&sources, &key);
	if (n)
		add(n, -1);
}

static __always_inline void describe(struct conn *c, const struct sock_common *skc)
{
	c->netns = skc->skc_net.net->net_cookie;
	c->local_port = skc->skc_num;
	c->remote_port = bpf_ntohs(skc->skc_dport);
	if (skc->skc_family == AF_INET) {
		mapped(c->remote, skc->skc_daddr);
		mapped(c->local, skc->skc_rcv_saddr);
	} else {
		__builtin_memcpy(c->remote, skc->skc_v6_daddr.in6_u.u6_addr8, ADDR_LEN);
		__builtin_memcpy(c->local, skc->skc_v6_rcv_saddr.in6_u.u6_addr8, ADDR_LEN);
	}
	c->since_ns = bpf_ktime_get_ns();
}

static __always_inline void count_opened(struct conn *c, struct port_count *port, __u8 verdict)
{
	add(&port->established, 1);
	add(by_verdict(port, verdict), 1);
	addu(c->seeded ? &port->seeded : &port->opened, 1);
	source_add(c);
	__sync_lock_test_and_set(&c->phase, PHASE_COUNTED | verdict);
}

static __always_inline void count_verdict(struct conn *c, __u8 verdict)
{
	__u32 was = step(&c->phase, PHASE_COUNTED, PHASE_VERDICT, 0, verdict);
	struct port_count *port = was ? watched(c->netns, c->local_port) : 0;
	if (!port)
		return;
	add(&port->undecided, -1);
	add(by_verdict(port, verdict), 1);
	if (!(was & PHASE_SERVED))
		return;
	gauge_verdict(&port->gauge, verdict); /* the server spoke first */
	struct gauge *group = group_of(port);
	if (group)
		gauge_verdict(group, verdict);
}

static __always_inline void count_served(struct conn *c, struct port_count *port)
{
	__u32 was = step(&c->phase, PHASE_COUNTED, PHASE_SERVED | PHASE_OVER, 0, PHASE_SERVED);
	if (!was)
		return;
	gauge_up(&port->gauge, was & PHASE_VERDICT);
	struct gauge *group = group_of(port);
	if (group)
		gauge_up(group, was & PHASE_VERDICT);
}

static __always_inline void count_unserved(struct port_count *port, __u32 phase)
{
	if (!(phase & PHASE_SERVED))
		return;
	gauge_down(&port->gauge, phase & PHASE_VERDICT);
	struct gauge *group = group_of(port);
	if (group)
		gauge_down(group, phase & PHASE_VERDICT);
}

/* Our close() or shutdown(), before it returns. */
static __always_inline void count_over(struct conn *c)
{
	__u32 was = step(&c->phase, PHASE_COUNTED, PHASE_OVER, PHASE_SERVED, PHASE_OVER);
	struct port_count *port = was ? watched(c->netns, c->local_port) : 0;
	if (!port)
		return;
	add(&port->closing, 1);
	count_unserved(port, was);
}

/* The end: exactly what was added is taken away. The port comes from our own state: the socket has
 * lost it by now. */
static __always_inline void count_closed(struct conn *c, const struct tcp_sock *tp)
{
	__u32 was = __sync_lock_test_and_set(&c->phase, 0);
	if (!(was & PHASE_COUNTED))
		return;
	source_sub(c);
	struct port_count *port = watched(c->netns, c->local_port);
	if (!port)
		return;
	count_unserved(port, was);
	if (was & PHASE_OVER)
		add(&port->closing, -1);
	if (tp) {
		addu(&port->bytes_in, tp->bytes_received);
		addu(&port->bytes_out, tp->bytes_acked);
	}
	addu(&port->closed, 1);
	add(by_verdict(port, was & PHASE_VERDICT), -1);
	add(&port->established, -1);
}
