package quota

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// waiter is a connection whose acceptor is blocked. Whoever makes room admits
// it, under the lock, so that nobody comes before it and nobody is woken in
// vain.
type waiter struct {
	listener *listener
	addr     netip.Addr
	since    time.Time
	delay    time.Duration
	rate     Limit // whose delay it is
	slot     Limit // that left no slot after the delay, as it was last
	exempt   bool  // not recorded on the broker's rate

	done  bool // what follows is final, and ready is closed
	ready chan struct{}
	got   Slot
	err   error
	spent Waited
}

// wait blocks until the waiter is done, its own delay's end included.
func (q *Connections) wait(ctx context.Context, w *waiter) (Slot, Waited, error) {
	var over <-chan time.Time
	if w.delay > 0 {
		timer := time.NewTimer(w.delay)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-w.ready:
			return w.got, w.spent, w.err
		case <-over:
			over = nil
			q.lock()
			q.grant()
			q.unlock()
		case <-ctx.Done():
			q.lock()
			if !w.done {
				q.finish(w, ctx.Err(), time.Now())
			}
			q.unlock()
			return w.got, w.spent, w.err
		}
	}
}

// note keeps the limit that leaves no slot to each who waits for one. To be
// called before any change, as it is another after it.
func (q *Connections) note() {
	if len(q.waiting) == 0 {
		return
	}
	now := time.Now()
	for _, w := range q.waiting {
		if now.Sub(w.since) < w.delay {
			continue
		}
		if limit := q.full(w.listener); limit != None {
			w.slot = limit
		}
	}
}

// grant admits who waits and may go now, first come, first served. To be called
// after any change that may have made room.
func (q *Connections) grant() {
	if len(q.waiting) == 0 {
		return
	}
	now := time.Now()
	left := q.waiting[:0]
	for _, w := range q.waiting {
		if !q.try(w, now) {
			left = append(left, w)
		}
	}
	clear(q.waiting[len(left):])
	q.waiting = left
}

// try admits a waiter if it may go. It leaves the list to the caller.
func (q *Connections) try(w *waiter, now time.Time) bool {
	if now.Sub(w.since) < w.delay || q.full(w.listener) != None {
		return false
	}
	w.listener.blocked.mark(now.Sub(w.since), now)
	slot, err := q.admit(w.listener, w.addr, w.exempt, now)
	w.end(slot, err, now)
	return true
}

// abandon ends the waits on a listener that is gone.
func (q *Connections) abandon(l *listener) {
	now := time.Now()
	for _, w := range slices.Clone(q.waiting) {
		if w.listener == l {
			q.finish(w, ErrNoListener, now)
		}
	}
}

// finish ends a wait with an error. Its time is not marked as blocked, as in
// Kafka: the acceptor is going.
func (q *Connections) finish(w *waiter, err error, now time.Time) {
	q.waiting = slices.DeleteFunc(q.waiting, func(other *waiter) bool { return other == w })
	w.end(Slot{}, err, now)
}

// end makes the outcome known.
func (w *waiter) end(slot Slot, err error, now time.Time) {
	w.got, w.err, w.done = slot, err, true
	total := now.Sub(w.since)
	w.spent = Waited{Rate: total, Limit: w.rate}
	if w.slot != None {
		w.spent = Waited{Rate: min(total, w.delay), Slot: total - min(total, w.delay), Limit: w.slot}
	}
	close(w.ready)
}
