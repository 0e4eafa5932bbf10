package network

import (
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// evictEvery is how long a loop waits for events while there are more
// connections than there may be, as in Kafka.
const evictEvery = 300 * time.Millisecond

// evict closes one connection when there are too many: once in each of the
// loop's iterations, as Kafka does, and its least recently active one.
func (l *loop) evict() {
	limits := l.server.options.Limits
	l.evicting = limits != nil && l.conns.Load() > 0 && !l.listener.removed.Load() && limits.Exceeded(l.listener.Name)
	if !l.evicting {
		return
	}
	c := l.leastRecent()
	switch limit, ok := c.held.Evict(); {
	case !ok: // another loop was faster
	case limit == quota.MaxSSLConnections:
		l.close(c, ReasonEvictedSSLConnections, nil)
	default:
		l.close(c, ReasonEvictedConnections, nil)
	}
}

// leastRecent is the connection to close first: one that ends anyway, else the
// one that has been silent for longest. There is one.
func (l *loop) leastRecent() *Conn {
	for c := range l.ending {
		return c
	}
	return l.idle.first()
}

// lookForExcess makes the loop look whether it has to evict.
func (l *loop) lookForExcess() {
	l.mu.Lock()
	l.excess = true
	l.mu.Unlock()
	l.wake()
}

// lookForExcess makes all loops look whether they have to evict. It is called
// with locks of others held, and takes none but each loop's own.
func (s *Server) lookForExcess() {
	listeners := s.excessive.Load()
	if listeners == nil {
		return
	}
	for _, l := range *listeners {
		for _, lp := range *l.loops.Load() {
			lp.lookForExcess()
		}
	}
}
