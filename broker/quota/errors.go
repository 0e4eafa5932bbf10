package quota

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// ErrNoListener is what [Connections.Acquire] returns on a listener that was
// not added, or that was removed while the connection waited.
var ErrNoListener = errors.New("listener has no connection quota")

// TooManyError says that an address has its maximum of connections already.
// The connection is counted nevertheless, as Kafka counts it, until the slot
// that came with the error is released: after the socket is closed.
type TooManyError struct {
	Addr     netip.Addr
	Listener string
	Max      int
}

// Error has Kafka's words.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("%v already has the configured maximum of %d connections", e.Addr, e.Max)
}

// ThrottledError says that an address connects faster than its quota allows.
// The connection is not counted. Its socket is to be kept open for Delay, with
// nothing read or written, and closed then.
type ThrottledError struct {
	Addr     netip.Addr
	Listener string
	Delay    time.Duration // at most one window
	Rate     int           // the quota, connections a second
}

// Error tells the quota and the delay.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("%v connects faster than its quota of %d a second: held for %v", e.Addr, e.Rate, e.Delay)
}
