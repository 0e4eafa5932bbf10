package engine

import (
	"slices"
	"sync"
	"time"
)

const (
	// linger is how long a client keeps its link after an answer: most clients ask again at once.
	linger = 100 * time.Millisecond
	// maxIdleLinks bounds the links that wait for a lessee; each has three goroutines and some 10 KB.
	maxIdleLinks = 32
)

// idleLink is a link that waits for a lessee.
type idleLink struct {
	link  link
	since time.Time
}

// leases gives links to clients for as long as they need them.
//
// A link is leased with a client's first unanswered request and stays for a short linger after the answer; then it
// waits for another client. A link whose client vanished in the middle is closed, which cancels what it waited for.
// Safe for concurrent use; it guards the lease fields of every [Client].
type leases struct {
	open    func(controller bool) (link, error)
	linger  time.Duration
	maxIdle int           // links that wait for a lessee
	life    time.Duration // how long one waits at most; 0: for ever

	mu     sync.Mutex
	idle   []idleLink // the last one in is the first out, so that the others stay cold
	oldest *Client
	newest *Client // the lingering clients, a list in the order in which they got their answers
	timer  *time.Timer
	armed  bool
	due    time.Time // when armed
	closed bool
}

// lease is the part of a Client that its leases guard.
type lease struct {
	link   link
	busy   bool // a request is in flight
	gone   bool // the client vanished
	pinned int  // share sessions, which are tied to the link
	since  time.Time
	older  *Client
	newer  *Client
}

// take gives c a link for one request.
func (p *leases) take(c *Client) (link, error) {
	p.mu.Lock()
	switch {
	case p.closed || c.lease.gone:
		p.mu.Unlock()
		return nil, ErrClosed
	case c.lease.busy:
		p.mu.Unlock()
		return nil, errBusy
	}
	c.lease.busy = true
	if l := c.lease.link; l != nil {
		p.unlinger(c)
		if l.alive() {
			p.mu.Unlock()
			return l, nil
		}
		c.lease.link = nil
	}
	for n := len(p.idle); n > 0; n = len(p.idle) {
		l := p.idle[n-1].link
		p.idle[n-1] = idleLink{}
		p.idle = p.idle[:n-1]
		if !l.alive() {
			continue
		}
		c.lease.link = l
		p.mu.Unlock()
		return l, nil
	}
	p.mu.Unlock()

	l, err := p.open(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		c.lease.busy = false
		return nil, err
	}
	if p.closed || c.lease.gone {
		c.lease.busy = false
		go l.close()
		return nil, ErrClosed
	}
	c.lease.link = l
	return l, nil
}

// answered ends a request of c. failed links are not used again; pins is how many share sessions it has open now.
func (p *leases) answered(c *Client, failed bool, pins int) {
	p.mu.Lock()
	l := c.lease.link
	c.lease.busy = false
	c.lease.pinned = pins
	var discard link
	switch {
	case l == nil: // closed meanwhile
	case failed || p.closed || c.lease.gone:
		c.lease.link, discard = nil, l
	case pins > 0:
	default:
		p.lingers(c)
	}
	p.mu.Unlock()
	if discard != nil {
		discard.close()
	}
}

// drop takes the link away from a client that is gone.
func (p *leases) drop(c *Client) {
	p.mu.Lock()
	l := c.lease.link
	c.lease.gone = true
	c.lease.link = nil
	reusable := l != nil && !c.lease.busy && c.lease.pinned == 0
	if reusable {
		p.unlinger(c)
	}
	p.mu.Unlock()
	switch {
	case reusable:
		l.whenIdle(func() { p.giveBack(l) })
	case l != nil:
		l.close()
	}
}

// giveBack makes l wait for another client, or closes it.
func (p *leases) giveBack(l link) {
	fit := l.alive() && !l.dear()
	p.mu.Lock()
	keep := fit && !p.closed && len(p.idle) < p.maxIdle
	if keep {
		p.idle = append(p.idle, idleLink{l, time.Now()})
		if p.life > 0 {
			p.arm(p.life)
		}
	}
	p.mu.Unlock()
	if !keep {
		l.close()
	}
}

// lingers puts c at the end of the list.
func (p *leases) lingers(c *Client) {
	c.lease.since = time.Now()
	c.lease.older, c.lease.newer = p.newest, nil
	if p.newest != nil {
		p.newest.lease.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	p.arm(p.linger)
}

// unlinger takes c out of the list.
func (p *leases) unlinger(c *Client) {
	if c.lease.older == nil && p.oldest != c {
		return // a pinned link does not linger
	}
	if c.lease.older != nil {
		c.lease.older.lease.newer = c.lease.newer
	} else {
		p.oldest = c.lease.newer
	}
	if c.lease.newer != nil {
		c.lease.newer.lease.older = c.lease.older
	} else {
		p.newest = c.lease.older
	}
	c.lease.older, c.lease.newer = nil, nil
}

// arm has sweep run after d, or before.
func (p *leases) arm(d time.Duration) {
	due := time.Now().Add(d)
	if p.closed || p.armed && !due.Before(p.due) {
		return
	}
	p.armed, p.due = true, due
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.sweep)
		return
	}
	p.timer.Reset(d)
}

// sweep ends the leases that have lingered long enough, and the links that nobody wanted for long.
func (p *leases) sweep() {
	p.mu.Lock()
	p.armed = false
	var free, old []link
	for c := p.oldest; c != nil && !p.closed; c = p.oldest {
		if wait := p.linger - time.Since(c.lease.since); wait > 0 {
			p.arm(wait)
			break
		}
		p.unlinger(c)
		free = append(free, c.lease.link)
		c.lease.link = nil
	}
	for p.life > 0 && len(p.idle) > 0 && !p.closed {
		if wait := p.life - time.Since(p.idle[0].since); wait > 0 {
			p.arm(wait)
			break
		}
		old = append(old, p.idle[0].link)
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	for _, l := range old {
		l.close()
	}
	for _, l := range free {
		l.whenIdle(func() { p.giveBack(l) })
	}
}

// close ends all leases; the links themselves are closed with their plane.
func (p *leases) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}

// idleLinks counts the links without a lessee.
func (p *leases) idleLinks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
