package network

import (
	"net/netip"
	"slices"
)

// ListenerCounts are one listener's gauges and counters at one moment.
type ListenerCounts struct {
	Listener *Listener
	Bound    netip.AddrPort
	// Threads is how many loops take new connections.
	Threads int
	// Loops are those, and those that still have connections.
	Loops []LoopCounts
	// Established counts registered connections, those in handshake included.
	Established int64
	// Handshaking counts those that are not through their TLS handshake.
	Handshaking int64
	// Accepted counts sockets taken from the kernel. Of each but the one that is
	// Held it is known what became of it: it is among the Admitted or the
	// Refused, and among RefusedFor by why.
	Accepted, Admitted, Refused uint64
	// RefusedFor is indexed with a [Reason].
	RefusedFor []uint64
	// Ended counts those of the Admitted that have ended, for whatever reason.
	Ended uint64
	// Queued counts accepted sockets that no loop has registered yet.
	Queued int64
	// Held is 1 while the acceptor has a socket in its hand.
	Held int64
	// Throttled counts refused sockets that are kept open for a while, because
	// their address connects faster than it may.
	Throttled int64
	// FilePauses counts the times that accepting paused for want of file
	// descriptors.
	FilePauses uint64
	// Handshakes counts TLS handshakes that succeeded, HandshakeFailures those
	// that failed (not those that a client left).
	Handshakes, HandshakeFailures uint64
	// Closed counts by reason; index it with a [Reason].
	Closed []uint64
	// BytesIn and BytesOut are of all connections, open and closed.
	BytesIn, BytesOut uint64
}

// LoopCounts are the figures of one loop, Kafka's network processor.
type LoopCounts struct {
	Processor   int32
	Connections int64
	// Idle is the share of the last half minute to minute that it had nothing to
	// do in, 0 to 1.
	Idle float64
}

// Counts has the counters of each listener, in the order of the calls to
// Listen. Each figure is exact; they are not of the very same moment.
func (s *Server) Counts() []ListenerCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make([]ListenerCounts, 0, len(s.listeners))
	for _, l := range s.listeners {
		counts = append(counts, l.counts())
	}
	return counts
}

func (l *listener) counts() ListenerCounts {
	n := ListenerCounts{
		Listener:          &l.Listener,
		Bound:             l.bound,
		Established:       l.established.Load(),
		Handshaking:       l.handshaking.Load(),
		Accepted:          l.accepted.Load(),
		Admitted:          l.admitted.Load(),
		Ended:             l.ended.Load(),
		Queued:            l.queued.Load(),
		Held:              l.held.Load(),
		FilePauses:        l.filePauses.Load(),
		Handshakes:        l.handshakes.Load(),
		HandshakeFailures: l.handshakeFailures.Load(),
		Throttled:         int64(l.throttled.count()),
		Closed:            make([]uint64, reasonCount),
		RefusedFor:        make([]uint64, reasonCount),
	}
	for i := range l.closed {
		n.Closed[i] = l.closed[i].Load()
		n.RefusedFor[i] = l.refused[i].Load()
		n.Refused += n.RefusedFor[i]
	}
	n.Threads = len(*l.loops.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	n.BytesIn, n.BytesOut = l.pastBytes[0], l.pastBytes[1]
	now := l.server.clock.now()
	for _, lp := range slices.Concat(*l.loops.Load(), l.leaving) {
		n.Loops = append(n.Loops, LoopCounts{Processor: lp.processor, Connections: lp.conns.Load(), Idle: lp.idleShare(now)})
		n.BytesIn += uint64(lp.bytesIn.Load())
		n.BytesOut += uint64(lp.bytesOut.Load())
	}
	return n
}
