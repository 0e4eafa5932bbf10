package network

import (
	"sync"
	"time"
)

// complaintsASecond is how many failures of one kind are logged in a second. A
// client that fails in a loop shall not fill a disk.
const complaintsASecond = 100

// Complaint bounds the log lines about one kind of failure. The zero value is
// ready; safe for concurrent use.
type Complaint struct {
	mu     sync.Mutex
	began  int64 // the second that is being counted, on the caller's clock
	said   int
	unsaid uint64
}

// Admit reports whether a failure may be logged now, and how many were not
// since the last one that was. now is in nanoseconds, of any clock that does not
// go back.
func (c *Complaint) Admit(now int64) (say bool, unsaid uint64) {
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
