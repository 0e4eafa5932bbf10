package network

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// inspectEvery is how long a quiet listener lets throttled sockets be, as in
// Kafka, whose acceptor looks at them whenever it has waited that long.
const inspectEvery = 500 * time.Millisecond

// throttled are the sockets of addresses that connect faster than they may:
// open and in nobody's count, nothing is read from them or written to them,
// until their time is up and they are closed. They are looked at after each
// connection that is accepted, and every half second, also while the acceptor
// waits for something. Safe for concurrent use.
type throttled struct {
	listener *listener // set before use

	mu    sync.Mutex // guards what follows
	held  heldSockets
	timer *time.Timer // runs while something is held; nil before
}

// heldSocket is due at a moment of the server's clock.
type heldSocket struct {
	accepted
	due int64
}

// hold keeps a socket open for a while, then closes it.
func (t *throttled) hold(a accepted, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.held, heldSocket{accepted: a, due: t.listener.server.clock.now() + int64(delay)})
	switch {
	case len(t.held) > 1:
	case t.timer == nil:
		t.timer = time.AfterFunc(inspectEvery, t.inspect)
	default:
		t.timer.Reset(inspectEvery)
	}
}

// inspect closes what is due.
func (t *throttled) inspect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) == 0 {
		return
	}
	t.closeUntil(t.listener.server.clock.now())
	if len(t.held) > 0 {
		t.timer.Reset(inspectEvery)
	} else {
		t.timer.Stop()
	}
}

// closeAll closes everything; nothing is held any more.
func (t *throttled) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.closeUntil(math.MaxInt64)
}

func (t *throttled) closeUntil(now int64) {
	for len(t.held) > 0 && t.held[0].due <= now {
		h := heap.Pop(&t.held).(heldSocket) //nolint:forcetypeassert // nothing else is pushed
		t.listener.dismiss(&h.accepted, ReasonPerIPRate)
	}
}

// count is how many are held.
func (t *throttled) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// heldSockets is a [heap.Interface], the one that is due first on top.
type heldSockets []heldSocket

func (h *heldSockets) Len() int           { return len(*h) }
func (h *heldSockets) Less(i, j int) bool { return (*h)[i].due < (*h)[j].due }
func (h *heldSockets) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push is part of [heap.Interface].
func (h *heldSockets) Push(x any) { *h = append(*h, x.(heldSocket)) } //nolint:forcetypeassert // see hold

// Pop is part of [heap.Interface].
func (h *heldSockets) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = heldSocket{}
	*h = old[:len(old)-1]
	return last
}
