package quota

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// Three listeners, as upstream's tests have them; INTERNAL is the inter-broker
// one in configs that say so.
const (
	external = "EXTERNAL"
	admin    = "ADMIN"
	internal = "INTERNAL"
	secure   = "SSL"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// own is the address that clients of a listener have unless a test says more.
func own(listener string) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, 0, listener[0]})
}

// limited is the default with a change, and with an inter-broker listener.
func limited(change func(c *Config)) Config {
	c := Default()
	c.InterBroker = internal
	c.Listeners = map[string]ListenerConfig{}
	change(&c)
	return c
}

// withListeners has EXTERNAL, ADMIN and INTERNAL, and the two samples that
// upstream's tests have.
func withListeners(c Config) *Connections {
	q := New(Window{Samples: 2, Size: time.Second}, c)
	for _, name := range []string{external, admin, internal} {
		q.AddListener(name, false)
	}
	return q
}

// attempt is a connection that came.
type attempt struct {
	slot   Slot
	waited Waited
	err    error
	done   chan struct{}
	cancel func()
}

// connect lets a connection come and returns when it is admitted, refused or
// waits. For use in a bubble of synctest.
func connect(t *testing.T, q *Connections, listener string, from netip.Addr) *attempt {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		a.slot, a.waited, a.err = q.Acquire(ctx, listener, from)
	}()
	synctest.Wait()
	return a
}

func (a *attempt) waits() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// open lets n connections come, each of which must be admitted at once.
func open(t *testing.T, q *Connections, listener string, n int) []*attempt {
	t.Helper()
	all := make([]*attempt, n)
	for i := range all {
		all[i] = connect(t, q, listener, own(listener))
		if all[i].waits() || all[i].err != nil || all[i].waited != (Waited{}) {
			t.Fatalf("connection %d on %s: waits %v, error %v, waited %v; want it open at once",
				i+1, listener, all[i].waits(), all[i].err, all[i].waited)
		}
	}
	return all
}

func (a *attempt) mustWait(t *testing.T, why string) {
	t.Helper()
	if !a.waits() {
		t.Fatalf("%s: %v after %v, want it to wait", why, a.err, a.waited)
	}
}

func (a *attempt) mustBeIn(t *testing.T, why string) {
	t.Helper()
	if a.waits() || a.err != nil {
		t.Fatalf("%s: waits %v, error %v, want it open", why, a.waits(), a.err)
	}
}

// listenerState is the state of one listener.
func listenerState(t *testing.T, q *Connections, name string) ListenerState {
	t.Helper()
	for _, l := range q.State().Listeners {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no listener %s", name)
	return ListenerState{}
}

func mustNotHaveBlocked(t *testing.T, q *Connections) {
	t.Helper()
	for _, l := range q.State().Listeners {
		if l.Blocked.Count != 0 {
			t.Errorf("blocked time of %s = %d ns, want none", l.Name, l.Blocked.Count)
		}
	}
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

// stream is upstream's acceptConnections: n connections, one each interval, or
// as fast as the limits allow when that is slower. It returns how many were
// held for the rate of their address, and how long it took.
func stream(t *testing.T, q *Connections, listener string, from netip.Addr, n int, interval time.Duration) (held int, took time.Duration) {
	t.Helper()
	start := time.Now()
	next := start.Add(interval)
	for range n {
		_, _, err := q.Acquire(t.Context(), listener, from)
		var throttled *ThrottledError
		switch {
		case errors.As(err, &throttled):
			held++
		case err != nil:
			t.Error(err)
		}
		if d := time.Until(next); d > 0 {
			<-time.After(d)
		}
		next = next.Add(interval)
	}
	return held, time.Since(start)
}
