package network

import "sync"

// turnstile bounds the handshakes that use the CPU at the same time. A
// handshake gives its token back while it waits for its peer, so that any
// number of silent peers delay nobody. One that has been through its first
// flight goes before one that has not begun: it is nearer to its end, and its
// goroutine exists already. Safe for concurrent use.
type turnstile struct {
	mu      sync.Mutex
	free    int
	resumed []chan struct{}
	fresh   []func()
}

// start runs handshake on a goroutine of its own, holding a token: at once, or
// when one comes free.
func (t *turnstile) start(handshake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		t.fresh = append(t.fresh, handshake)
		return
	}
	t.free--
	go handshake()
}

// acquire waits for a token.
func (t *turnstile) acquire() {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	t.resumed = append(t.resumed, turn)
	t.mu.Unlock()
	<-turn
}

// release passes a token on.
func (t *turnstile) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.resumed) > 0:
		close(t.resumed[0])
		t.resumed[0] = nil
		t.resumed = t.resumed[1:]
	case len(t.fresh) > 0:
		go t.fresh[0]()
		t.fresh[0] = nil
		t.fresh = t.fresh[1:]
	default:
		t.free++
	}
}
