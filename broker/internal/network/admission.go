package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// accepted is a socket on its way from the acceptor to a loop, or to its end.
type accepted struct {
	fd     int
	remote netip.AddrPort
	slot   quota.Slot // the zero value: it has none
	stamps stamps
}

// admit takes the slot of a socket and queues it at a loop. It may block for
// either.
func (l *listener) admit(ctx context.Context, fd int, remote netip.AddrPort) {
	a := accepted{fd: fd, remote: remote}
	a.stamps.accept(l.server.clock.now())
	a.stamps.established(fd)
	l.accepted.Add(1)
	if fenced := l.server.options.Fenced; fenced != nil && fenced(l.Name) {
		l.refuse(ctx, a, errFenced)
		return
	}
	if limits := l.server.options.Limits; limits != nil {
		slot, waited, err := limits.Acquire(ctx, l.Name, remote.Addr())
		a.slot = slot
		a.stamps.setWaited(waited)
		if err != nil {
			l.refuse(ctx, a, err)
			return
		}
	}
	a.stamps.admit(l.server.clock.now())
	l.admitted.Add(1)
	l.handOver(ctx, a)
}

// handOver queues a socket at the next loop that has room.
func (l *listener) handOver(ctx context.Context, a accepted) {
	l.queued.Add(1)
	loops := *l.loops.Load()
	var lp *loop
	for range loops {
		lp = loops[l.next%len(loops)]
		l.next++
		select {
		case lp.incoming <- a:
			lp.took()
			return
		default:
		}
	}
	// All are full: wait for the last one tried, as Kafka does.
	began := time.Now()
	select {
	case lp.incoming <- a:
		lp.took()
	case <-ctx.Done():
		l.queued.Add(-1)
		l.discard(&a, l.endReason())
	}
	if limits := l.server.options.Limits; limits != nil {
		limits.Blocked(l.Name, time.Since(began))
	}
}

// took is told that something was put into the loop's queue.
func (l *loop) took() {
	l.wake()
	l.discardLate()
}

// errFenced is why a socket is not admitted while the broker is fenced.
var errFenced = errors.New("the broker is fenced from its cluster")

// refuse ends a socket that is not admitted, without a byte: at once, or after
// the time for which its address is throttled.
func (l *listener) refuse(ctx context.Context, a accepted, cause error) {
	var tooMany *quota.TooManyError
	var tooFast *quota.ThrottledError
	reason := l.endReason() // the wait for a slot was given up
	switch {
	case errors.Is(cause, errFenced):
		reason = ReasonFenced
	case errors.As(cause, &tooFast):
		reason = ReasonPerIPRate
	case errors.As(cause, &tooMany):
		reason = ReasonPerIPLimit
	}
	l.refused[reason].Add(1)
	attrs := []slog.Attr{
		slog.String("listener", l.Name), slog.String("remote", a.remote.String()), slog.String("reason", reason.String()),
	}
	if tooFast != nil {
		l.throttled.hold(a, tooFast.Delay)
		l.server.log.LogAttrs(ctx, slog.LevelDebug, "delaying the closing of a connection", append(attrs, slog.Duration("delay", tooFast.Delay))...)
		return
	}
	l.dismiss(&a, reason)
	say, unsaid := l.complaints[reason].Admit(l.server.clock.now())
	if unsaid > 0 {
		attrs = append(attrs, slog.Uint64("not_logged", unsaid))
	}
	switch {
	case !say:
	case tooMany != nil:
		text := fmt.Sprintf("Rejected connection from /%s, address already has the configured maximum of %d connections.", JavaAddr(tooMany.Addr), tooMany.Max)
		l.server.log.LogAttrs(ctx, slog.LevelInfo, text, attrs...) //nolint:sloglint // Kafka's text
	default:
		l.server.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", append(attrs, slog.String("error", cause.Error()))...)
	}
}

// dismiss closes a socket that was refused, and remembers it.
func (l *listener) dismiss(a *accepted, reason Reason) {
	l.drop(a, reason)
	l.server.ended.add(&Closed{
		Remote: a.remote, Listener: &l.Listener, Since: a.stamps.since(), Reason: reason, Refused: true, stamps: a.stamps,
	})
}

// discard closes a socket that was admitted and never was in epoll.
func (l *listener) discard(a *accepted, reason Reason) {
	l.drop(a, reason)
	l.ended.Add(1)
}

// drop closes a socket that never was in epoll, then gives its slot back.
func (l *listener) drop(a *accepted, reason Reason) {
	_ = unix.Close(a.fd)
	a.slot.Release()
	l.closed[reason].Add(1)
}
