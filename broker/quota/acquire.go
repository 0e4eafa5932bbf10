package quota

import (
	"context"
	"net/netip"
	"time"
)

// Waited is what a connection waited for; the zero value says that it did not.
type Waited struct {
	Rate  time.Duration // until the delay of a rate was over
	Slot  time.Duration // from then on, for a slot
	Limit Limit         // that held it last
}

// Acquire takes a slot for a connection of that address, as Kafka does:
//
//  1. The connection is recorded on the rate of the broker, unless the listener
//     is protected, and of the listener. It stays recorded if one is exceeded.
//  2. It waits until the longer of their delays is over and there is a slot.
//  3. It is recorded on the rate of its address, if that has one. If that is
//     exceeded, everything is taken back: a [*ThrottledError].
//  4. It is counted. If the address had its maximum before: a [*TooManyError],
//     and a slot to be released once the socket is closed.
//
// Other errors are [ErrNoListener] and that of ctx, which ends the wait. What
// was waited for is returned with any of them. It allocates nothing when it
// does not wait and the address is known.
func (q *Connections) Acquire(ctx context.Context, name string, addr netip.Addr) (Slot, Waited, error) {
	addr = canonical(addr)
	now := time.Now()
	q.mu.Lock()
	// Under the lock, so that whoever gave up before its listener was removed
	// gets no slot of another one that was added under the same name.
	if err := ctx.Err(); err != nil {
		q.mu.Unlock()
		return Slot{}, Waited{}, err
	}
	l := q.listeners[name]
	if l == nil {
		q.mu.Unlock()
		return Slot{}, Waited{}, ErrNoListener
	}
	delay, limit, exempt := q.record(l, now)
	if delay == 0 && q.full(l) == None {
		slot, err := q.admit(l, addr, exempt, now)
		q.unlock()
		return slot, Waited{}, err
	}
	w := &waiter{listener: l, addr: addr, since: now, delay: delay, rate: limit, exempt: exempt, ready: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.unlock()
	return q.wait(ctx, w)
}

// record adds a connection to the rates and returns the delay they ask for,
// of which limit, and whether the broker's was left out.
func (q *Connections) record(l *listener, now time.Time) (delay time.Duration, limit Limit, exempt bool) {
	ms := q.millis(now)
	exempt = q.protected(l)
	if !exempt {
		if delay = q.created.throttle(q.window, q.config.CreationRate, ms); delay > 0 {
			limit = ConnectionRate
		}
	}
	if d := l.created.throttle(q.window, l.limits.CreationRate, ms); d > delay {
		delay, limit = d, ListenerConnectionRate
	}
	if delay > 0 {
		l.throttle.record(delay, ms)
	}
	return delay, limit, exempt
}

// admit does what follows when there is a slot. exempt: the connection was not
// recorded on the broker's rate.
func (q *Connections) admit(l *listener, addr netip.Addr, exempt bool, now time.Time) (Slot, error) {
	ms := q.millis(now)
	q.ips.expire(ms, expireAtOnce)
	e := q.ips.entry(addr)
	if limit, _ := q.ips.limit(addr); limit != Unlimited {
		s := q.ips.touch(e, ms)
		if delay := s.throttle(q.window, limit, ms); delay > 0 {
			s.unrecord(q.window, ms)
			l.created.unrecord(q.window, ms)
			l.throttleByIP.record(delay, ms)
			if !exempt {
				q.created.unrecord(q.window, ms)
			}
			return Slot{}, &ThrottledError{Addr: addr, Listener: l.name, Delay: delay, Rate: limit}
		}
	}
	previous := e.count
	slot := q.count(l, e)
	if limit, _ := q.config.perIP(addr); previous >= limit {
		return slot, &TooManyError{Addr: addr, Listener: l.name, Max: limit}
	}
	return slot, nil
}
