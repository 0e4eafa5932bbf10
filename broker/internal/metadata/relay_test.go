package metadata

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// relay is a way over loopback TCP that can be cut: silently, so that bytes stay where they are until it is healed, or with
// a reset of every connection.
type relay struct {
	mu     sync.Mutex
	open   chan struct{} // closed while bytes pass
	refuse bool          // connections are closed instead
	ways   map[string]net.Listener
	conns  map[net.Conn]struct{}
	ended  chan struct{}
	work   sync.WaitGroup
}

func newRelay(tb testing.TB) *relay {
	tb.Helper()
	r := &relay{open: make(chan struct{}), ways: map[string]net.Listener{}, conns: map[net.Conn]struct{}{}, ended: make(chan struct{})}
	close(r.open)
	tb.Cleanup(func() {
		close(r.ended)
		r.mu.Lock()
		for _, l := range r.ways {
			_ = l.Close()
		}
		for c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

// through makes a store reach its log by this way.
func (r *relay) through(o Options) Options {
	o.Remote.Client = append(o.Remote.Client, kgo.Dialer(r.dial))
	return o
}

// dial connects to addr through the relay.
func (r *relay) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	r.mu.Lock()
	l := r.ways[addr]
	if l == nil {
		var err error
		if l, err = new(net.ListenConfig).Listen(ctx, network, "127.0.0.1:0"); err != nil {
			r.mu.Unlock()
			return nil, err
		}
		r.ways[addr] = l
		r.work.Go(func() { r.accept(l, addr) })
	}
	r.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
}

func (r *relay) accept(l net.Listener, addr string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() {
			defer near.Close()
			if !r.keep(near) {
				return
			}
			defer r.drop(near)
			far, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer far.Close()
			if !r.keep(far) {
				return
			}
			defer r.drop(far)
			var both sync.WaitGroup
			both.Go(func() { r.pump(far, near) })
			both.Go(func() { r.pump(near, far) })
			both.Wait()
		})
	}
}

// keep notes a connection, unless none may be.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *relay) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// pump passes bytes on while the way is open.
func (r *relay) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		open := r.open
		r.mu.Unlock()
		select {
		case <-open:
		case <-r.ended:
			return
		}
		if n > 0 {
			if _, err = to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut stops all bytes; with a reset it ends the connections, too.
func (r *relay) cut(reset bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reset {
		r.open = make(chan struct{})
		return
	}
	r.refuse = true
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = false
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}
