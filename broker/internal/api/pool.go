package api

import (
	"sync"
)

// pool runs calls on a bounded number of workers, first come first served, and beside them those that wait. Its queue cannot be
// longer than there are connections: each has at most one request on its way; and where it is as long as it may be, nobody reads
// more requests until it is not. Safe for concurrent use.
type pool struct {
	mu      sync.Mutex
	work    sync.Cond
	room    sync.Cond
	most    int     // how long the queue may get by calls that are admitted; 0: any length
	queue   []*call // a ring: head is the oldest
	head    int
	length  int
	busy    int
	workers int // how many there should be
	running int
	aside   int // bytes of the requests that have a goroutine of their own
	closed  bool
	done    sync.WaitGroup
}

func newPool(workers, most int) *pool {
	p := &pool{queue: make([]*call, 64), most: most}
	p.work.L, p.room.L = &p.mu, &p.mu
	p.resize(workers)
	return p
}

// resize changes the number of workers; those that are too many end when their call does.
func (p *pool) resize(workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workers = workers
	for ; p.running < p.workers; p.running++ {
		p.done.Go(p.worker)
	}
	p.work.Broadcast()
}

// admit queues c once there is room for it: as in Kafka the network's goroutine waits meanwhile, and reads for nobody.
func (p *pool) admit(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.most > 0 && p.length >= p.most && !p.closed {
		p.room.Wait()
	}
	p.append(c)
}

// submit queues c, which was admitted before, and never waits.
func (p *pool) submit(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.append(c)
}

// append queues c. A closed pool drops it: its connection is being closed too.
func (p *pool) append(c *call) {
	if p.closed {
		return
	}
	if p.length == len(p.queue) {
		longer := make([]*call, 2*len(p.queue))
		n := copy(longer, p.queue[p.head:])
		copy(longer[n:], p.queue[:p.head])
		p.queue, p.head = longer, 0
	}
	p.queue[(p.head+p.length)%len(p.queue)] = c
	p.length++
	p.work.Signal()
}

// mostApart bounds the bytes of the requests that have a goroutine of their own. Beyond it, as before hostile clients, they
// wait on workers, which take no more of them than there are.
const mostApart = 64 << 20

// apart runs c, whose request has so many bytes, on a goroutine of its own; false: not now, there are too many. A closed pool
// drops it, as submit does.
func (p *pool) apart(c *call, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return true
	case p.aside+bytes > mostApart:
		return false
	}
	p.aside += bytes
	p.done.Go(func() {
		defer p.back(bytes)
		c.work()
	})
	return true
}

func (p *pool) back(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aside -= bytes
}

// next waits for a call; nil ends the worker.
func (p *pool) next() *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	for p.length == 0 && !p.closed && p.running <= p.workers {
		p.work.Wait()
	}
	if p.length == 0 || p.running > p.workers {
		p.running--
		p.work.Signal() // what woke this one up may have been for another
		return nil
	}
	c := p.queue[p.head]
	p.queue[p.head] = nil
	p.head = (p.head + 1) % len(p.queue)
	p.length--
	p.busy++
	p.room.Signal()
	return c
}

func (p *pool) worker() {
	p.mu.Lock()
	p.busy++ // next takes it back
	p.mu.Unlock()
	for c := p.next(); c != nil; c = p.next() {
		c.work()
	}
}

// load tells how many calls wait and how many are being worked on.
func (p *pool) load() (waiting, busy, workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.length, p.busy, p.workers
}

// close lets the workers finish what is queued and waits for them.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.work.Broadcast()
	p.room.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}
