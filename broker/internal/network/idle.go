package network

import (
	"sync"
	"time"
)

// idleList keeps a loop's connections in the order of their last activity, the
// least recent first. Safe for concurrent use: an answer may be written by any
// goroutine, and counts as activity.
type idleList struct {
	mu         sync.Mutex
	head, tail *Conn
}

// touch notes activity at the moment at (see clock), and enters c if it is not
// in the list yet.
func (l *idleList) touch(c *Conn, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return
	}
	c.lastActive.Store(at)
	if l.tail == c {
		return
	}
	l.unlink(c)
	c.older, c.newer = l.tail, nil
	if l.tail != nil {
		l.tail.newer = c
	} else {
		l.head = c
	}
	l.tail = c
}

// remove takes c out for good.
func (l *idleList) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.gone = true
	l.unlink(c)
}

// first is the connection that was not active for longest; nil when there is none.
func (l *idleList) first() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// due returns the connections whose last activity is not after the moment
// until, and the last activity of the first that is later (ok false: none).
func (l *idleList) due(until int64) (due []*Conn, next int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := l.head; c != nil; c = c.newer {
		if at := c.lastActive.Load(); at > until {
			return due, at, true
		}
		due = append(due, c)
	}
	return due, 0, false
}

// unlink takes c out of the chain, if it is in it.
func (l *idleList) unlink(c *Conn) {
	switch {
	case c.older != nil:
		c.older.newer = c.newer
	case l.head == c:
		l.head = c.newer
	}
	switch {
	case c.newer != nil:
		c.newer.older = c.older
	case l.tail == c:
		l.tail = c.older
	}
	c.older, c.newer = nil, nil
}

// clock counts nanoseconds since the server was made, by the monotonic clock,
// so that a step of the wall clock expires nobody.
type clock struct{ base time.Time }

func (c clock) now() int64 { return int64(time.Since(c.base)) }

func (c clock) time(at int64) time.Time { return c.base.Add(time.Duration(at)) }
