package network

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// admit registers the sockets that the acceptor has queued.
func (l *loop) admit() {
	for {
		select {
		case a := <-l.incoming:
			l.listener.queued.Add(-1)
			l.register(a)
		default:
			return
		}
	}
}

// discardQueued closes the sockets that the acceptor has queued at a loop that
// ends. Any goroutine may call it.
func (l *loop) discardQueued() {
	for {
		select {
		case a := <-l.incoming:
			l.listener.queued.Add(-1)
			l.listener.discard(&a, l.listener.endReason())
		default:
			return
		}
	}
}

// discardLate closes what was queued at a loop that was told to end: it may
// have looked at its queue for the last time.
func (l *loop) discardLate() {
	l.mu.Lock()
	stopping := l.stopping
	l.mu.Unlock()
	if stopping {
		l.discardQueued()
	}
}

// register enters a socket in the table and in epoll. From here on it is a
// connection.
func (l *loop) register(a accepted) {
	c := &Conn{
		loop:   l,
		fd:     int32(a.fd),
		remote: a.remote,
		local:  l.listener.localOf(a.fd),
		index:  l.nextIndex,
		held:   a.slot,
		stamps: a.stamps,
	}
	now := l.server.clock.now()
	c.stamps.mark(&c.stamps.registered, now)
	l.conns.Add(1)
	l.nextIndex = (l.nextIndex + 1) & math.MaxInt32
	if cookie, err := unix.GetsockoptUint64(a.fd, unix.SOL_SOCKET, unix.SO_COOKIE); err == nil {
		c.cookie = cookie
	}
	c.identity.Store(l.server.nobody)
	if l.listener.Protocol.TLS() {
		c.session = &session{conn: c}
		l.listener.handshaking.Add(1)
	} else {
		c.phase = phaseOpen
	}
	l.server.table.add(c)
	l.listener.established.Add(1)
	l.idle.touch(c, now)
	event := unix.EpollEvent{Events: interest, Fd: c.slot, Pad: int32(c.generation)}
	if err := unix.EpollCtl(l.epollFD, unix.EPOLL_CTL_ADD, a.fd, &event); err != nil {
		l.close(c, ReasonRefusedFull, err)
		return
	}
	if c.phase == phaseOpen {
		l.open(c, nil)
	}
}

// close ends a connection. The order is a contract with whoever counts sockets
// from outside: out of epoll, closed, and only then the slot given back. A
// socket that a thread waits on in epoll would outlive close(2).
func (l *loop) close(c *Conn, reason Reason, err error) {
	if c.phase == phaseClosed {
		return
	}
	if !c.ending.CompareAndSwap(uint32(ReasonNone), uint32(reason)) {
		reason = Reason(c.ending.Load())
	}
	was := c.phase
	c.phase = phaseClosed

	c.mu.Lock()
	if was == phaseOpen && !reason.clientGone() {
		c.farewell()
	}
	_ = unix.EpollCtl(l.epollFD, unix.EPOLL_CTL_DEL, int(c.fd), nil)
	if !reason.clientGone() {
		// The client shall read the end of the stream, also where close(2)
		// resets because of bytes that nobody has read.
		_ = unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
	_ = unix.Close(int(c.fd))
	c.closed = true
	if c.frame == 0 || c.lent != nil { // else the handler may still read it, as it may what is lent
		l.server.buffers.put(c.in)
	}
	c.in, c.lent, c.frame = nil, nil, 0
	if c.out != nil {
		c.out.wake()
		l.server.buffers.put(c.out.cipher)
		l.server.unsent.Add(-c.out.held)
		c.out = nil
	}
	c.mu.Unlock()

	l.repay(c)
	c.held.Release()
	l.conns.Add(-1)
	delete(l.ending, c)
	if c.session != nil {
		if was == phaseHandshake && c.session.handshake != nil {
			c.session.wake()
		} else {
			l.server.buffers.put(c.session.held)
			c.session.held = nil
		}
	}
	l.idle.remove(c)
	l.server.table.remove(c)
	l.listener.established.Add(-1)
	if was < phaseOpen {
		l.listener.handshaking.Add(-1)
	}
	l.listener.closed[reason].Add(1)
	l.listener.ended.Add(1)
	l.remember(c, reason)
	l.logClose(c, reason, err)
	if c.opened {
		l.server.options.Handler.Closed(c, reason)
	}
}

// farewell sends close_notify over TLS, when nothing else is on its way. c.mu
// is held.
func (c *Conn) farewell() {
	if c.session == nil || c.out != nil {
		return
	}
	if c.session.tls.CloseWrite() == nil {
		_, _ = c.pump()
	}
}

// open tells the handler.
func (l *loop) open(c *Conn, state *tls.ConnectionState) {
	c.opened = true
	l.server.options.Handler.Open(c, state)
}

func (l *loop) closeAll() {
	all, _, _ := l.idle.due(math.MaxInt64)
	for _, c := range all {
		l.close(c, l.listener.endReason(), nil)
	}
	// Whatever the acceptor put into the queue before it ended.
	l.discardQueued()
}

// logClose writes the one line that every connection gets: for failures at
// INFO, else at DEBUG. A storm of failures is logged in part; the counters by
// reason tell all.
func (l *loop) logClose(c *Conn, reason Reason, err error) {
	level := slog.LevelDebug
	if reason.failure() {
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !l.server.log.Enabled(ctx, level) {
		return
	}
	unsaid := uint64(0)
	if reason.failure() {
		var say bool
		if say, unsaid = l.listener.complaints[reason].Admit(l.server.clock.now()); !say {
			return
		}
	}
	attrs := []slog.Attr{
		slog.String("connection_id", c.ID()),
		slog.String("listener", l.listener.Name),
		slog.String("protocol", l.listener.Protocol.String()),
		slog.String("reason", reason.String()),
		slog.Duration("lasted", time.Since(c.Since()).Round(time.Millisecond)),
		slog.Int64("bytes_in", c.BytesIn()),
		slog.Int64("bytes_out", c.BytesOut()),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	if unsaid > 0 {
		attrs = append(attrs, slog.Uint64("not_logged", unsaid))
	}
	l.server.log.LogAttrs(ctx, level, "connection closed", attrs...)
}

// unmapped makes an address of a dual-stack socket one of its own family.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
