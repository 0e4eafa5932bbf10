package network

import "time"

// idleWindow is how often the past is forgotten: a share is of the last one to
// two windows, as Kafka's rates are of two samples of 30 seconds.
const idleWindow = int64(30 * time.Second)

// idleShare measures for how much of the time something waited. Moments are of
// the server's clock, and do not go back. Guarded by its owner's lock.
type idleShare struct {
	total   int64 // nanoseconds waited, the present wait left out
	since   int64 // when the present wait began
	waiting bool
	// Two moments of the past, at most a window apart once there have been two,
	// and the total at each.
	at, totals [2]int64
}

func newIdleShare(now int64) idleShare { return idleShare{at: [2]int64{now, now}} }

func (s *idleShare) begin(now int64) { s.since, s.waiting = now, true }

func (s *idleShare) end(now int64) {
	if s.waiting {
		s.total += now - s.since
		s.waiting = false
	}
	s.forget(now)
}

// forget moves on to the next window when the last one is over.
func (s *idleShare) forget(now int64) {
	if now-s.at[1] >= idleWindow {
		s.at[0], s.totals[0] = s.at[1], s.totals[1]
		s.at[1], s.totals[1] = now, s.until(now)
	}
}

func (s *idleShare) until(now int64) int64 {
	if s.waiting {
		return s.total + now - s.since
	}
	return s.total
}

// share is 0 to 1.
func (s *idleShare) share(now int64) float64 {
	s.forget(now)
	if now <= s.at[0] {
		return 1
	}
	return float64(s.until(now)-s.totals[0]) / float64(now-s.at[0])
}

// idleShare is for how much of the last minute the loop had nothing to do.
func (l *loop) idleShare(now int64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idling.share(now)
}
