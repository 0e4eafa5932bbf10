package network

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

// ClosedKept is how many of the connections that ended last a server remembers.
const ClosedKept = 4096

// longestKept bounds what is remembered of a text that a client chose, in bytes.
const longestKept = 256

// Closed is what is remembered of a connection that has ended, or of a socket
// that was refused and never became one. It holds nothing of the connection
// itself.
type Closed struct {
	// Sequence counts up by one from 1, through all listeners.
	Sequence uint64
	// Local and Remote are the zero value where they never became known.
	Local, Remote netip.AddrPort
	Listener      *Listener
	Since, At     time.Time
	Reason        Reason
	// BytesIn and BytesOut are as those of [Conn].
	BytesIn, BytesOut int64
	Refused           bool // never registered: no id, no local end
	Opened            bool // the handler knew it: TLS, if any, was done
	processor, index  int32
	stamps            stamps
	lastActive        int64 // a moment of the server's clock

	// Type to ClientID are of the last [Identity]; a text that is longer than
	// 256 bytes is cut and ends in an ellipsis.
	Type, Name, Software, SoftwareVersion, ClientID string
}

// ID is the id that the connection had, "" for a refused socket.
func (c *Closed) ID() string {
	if c.Refused {
		return ""
	}
	return connectionID(c.Local, c.Remote, c.processor, c.index)
}

// closedRing remembers the connections that ended last. Its memory is one array
// of a fixed size, whose pages are touched as it fills. Safe for concurrent use.
type closedRing struct {
	mu       sync.Mutex
	kept     []Closed // made by the first entry; guarded by mu
	sequence uint64   // of the latest entry; guarded by mu
}

// add enters c, over the oldest entry once all places are taken.
func (r *closedRing) add(c *Closed) {
	c.At = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = make([]Closed, ClosedKept)
	}
	r.sequence++
	c.Sequence = r.sequence
	r.kept[(r.sequence-1)%ClosedKept] = *c
}

// after copies what is remembered from after a sequence number on, the oldest first.
func (r *closedRing) after(sequence uint64) (all []Closed, latest uint64, complete time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := sequence
	if r.sequence > ClosedKept {
		complete = r.kept[r.sequence%ClosedKept].At
		first = max(first, r.sequence-ClosedKept)
	}
	for s := first; s < r.sequence; s++ {
		all = append(all, r.kept[s%ClosedKept])
	}
	return all, r.sequence, complete
}

// ClosedConnections copies what is remembered of the connections that ended
// after the one of the given sequence number, the oldest first: of the last
// [ClosedKept]. latest counts all that have ended since the server was made.
// What ended later than complete is remembered completely; it is the zero time
// while nothing is forgotten.
func (s *Server) ClosedConnections(after uint64) (all []Closed, latest uint64, complete time.Time) {
	return s.ended.after(after)
}

// remember enters a connection that is closed.
func (l *loop) remember(c *Conn, reason Reason) {
	id := c.Identity()
	l.server.ended.add(&Closed{
		Local: c.local, Remote: c.remote, Listener: &l.listener.Listener, Since: c.Since(), Reason: reason,
		BytesIn: c.BytesIn(), BytesOut: c.BytesOut(), Opened: c.opened, processor: l.processor, index: c.index, stamps: c.stamps.copy(), lastActive: c.lastActive.Load(),
		Type: id.Type, Name: cut(id.Name), Software: cut(id.Software), SoftwareVersion: cut(id.SoftwareVersion), ClientID: cut(id.ClientID),
	})
}

// cut bounds a text, so that names of 32 KiB do not stay behind by the thousand.
func cut(s string) string {
	if len(s) <= longestKept {
		return s
	}
	return strings.ToValidUTF8(s[:longestKept], "") + "…"
}
