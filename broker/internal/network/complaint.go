package network

import (
	"sync"
	"time"
)

// complaintsASecond is how many failures of one kind and listener are logged in
// a second. A client that fails in a loop shall not fill a disk.
const complaintsASecond = 100

// complaint bounds the log lines about one kind of failure. The zero value is
// ready; safe for concurrent use.
type complaint struct {
	mu     sync.Mutex
	began  int64 // the second that is being counted, on the server's clock
	said   int
	unsaid uint64
}

// admit reports whether a failure may be logged now, and how many were not
// since the last one that was.
func (c *complaint) admit(now int64) (say bool, unsaid uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now-c.began >= int64(time.Second) {
		c.began, c.said = now, 0
	}
	if c.said >= complaintsASecond {
		c.unsaid++
		return false, 0
	}
	c.said++
	unsaid, c.unsaid = c.unsaid, 0
	return true, unsaid
}
