package quota

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The rules are Kafka's own unit tests (core/…/ConnectionQuotasTest.scala), in
// their order. Rule 17, that a rate of 0 cannot be set while the broker runs, is
// the validator's.

func TestRule01AListenerThatWasNeverAddedFailsAndDoesNotHang(t *testing.T) {
	q := New(Window{}, Default())
	if _, _, err := q.Acquire(t.Context(), external, own(external)); !errors.Is(err, ErrNoListener) {
		t.Errorf("Acquire() = %v, want %v", err, ErrNoListener)
	}
	if s := q.State(); s.Connections != 0 || s.CreationRate != 0 {
		t.Errorf("state = %+v, want nothing counted or recorded", s)
	}
}

// Kafka refuses to count an address down that has no connections. Here there is
// nothing to count down with.
func TestRule02WhatWasNotAdmittedCannotBeReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		var none Slot
		none.Release()
		if _, ok := none.Evict(); ok {
			t.Error("the zero slot was claimed for eviction")
		}
		a := open(t, q, external, 2)
		a[0].slot.Release()
		a[0].slot.Release()
		if s := q.State(); s.Connections != 1 || s.IPs != 1 || q.IP(own(external)).Connections != 1 {
			t.Errorf("state = %+v, want one connection left", s)
		}
	})
}

func TestRule03WithoutLimitsThousandsGoInAndNothingBlocks(t *testing.T) {
	q := withListeners(Default())
	for _, name := range []string{external, admin, internal} {
		for range 10_000 {
			if _, w, err := q.Acquire(t.Context(), name, own(name)); err != nil || w != (Waited{}) {
				t.Fatalf("Acquire() = %v, %v", w, err)
			}
		}
		l := listenerState(t, q, name)
		if got := q.IP(own(name)).Connections; got != 10_000 || l.Connections != 10_000 || l.CreationRate <= 0 {
			t.Errorf("%s: %d of the address, state %+v", name, got, l)
		}
	}
	if s := q.State(); s.Connections != 30_000 || s.CreationRate <= 0 {
		t.Errorf("%d connections at %v a second, want 30000 at more than none", s.Connections, s.CreationRate)
	}
	mustNotHaveBlocked(t, q)
}

func TestRule04TheConnectionOverAnAddressesMaximumIsCountedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxPerIP = 17 }))
		in := open(t, q, external, 17)
		var surplus []*attempt
		for range 2 {
			a := connect(t, q, external, own(external))
			var many *TooManyError
			if !errors.As(a.err, &many) || *many != (TooManyError{Addr: own(external), Listener: external, Max: 17}) {
				t.Fatalf("connection over the maximum: %v", a.err)
			}
			surplus = append(surplus, a)
		}
		if got := q.IP(own(external)).Connections; got != 19 {
			t.Errorf("connections = %d, want the refused ones counted: 19", got)
		}
		for range 17 {
			connect(t, q, external, addr("192.0.2.1")).mustBeIn(t, "another address")
		}
		for _, a := range append(surplus, in[:2]...) {
			a.slot.Release()
		}
		open(t, q, external, 2)
		if got := q.IP(own(external)).Connections; got != 17 {
			t.Errorf("connections = %d, want 17", got)
		}
		mustNotHaveBlocked(t, q)
	})
}

func TestRule04ThePerAddressMaximumCountsOverAllListenersWithoutExemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxPerIP = 3 }))
		for _, name := range []string{external, admin, internal} {
			connect(t, q, name, own(external)).mustBeIn(t, name)
		}
		var many *TooManyError
		if a := connect(t, q, internal, own(external)); !errors.As(a.err, &many) || many.Listener != internal {
			t.Errorf("fourth, on the inter-broker listener: %v, want too many", a.err)
		}
	})
}

func TestRule05OneListenerMayTakeAllOfTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 800 }))
		open(t, q, external, 800)
		mustNotHaveBlocked(t, q)
	})
}

func TestRule06ExactlyTheMaximumIsNotExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 800 }))
		a := open(t, q, external, 800)
		if q.Exceeded(external) {
			t.Error("Exceeded() at exactly the maximum")
		}
		if limit, ok := a[0].slot.Evict(); ok {
			t.Errorf("a connection was claimed for %v at exactly the maximum", limit)
		}
	})
}

func TestRule07AConnectionOverTheBrokersMaximumWaitsForAnyClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 800 }))
		open(t, q, external, 799)
		other := open(t, q, admin, 1)[0]
		a := connect(t, q, external, own(external))
		a.mustWait(t, "connection 801")
		pass(7 * time.Second)
		a.mustWait(t, "seven seconds later")
		if w := listenerState(t, q, external).Waiting; w == nil || w.Limit != MaxConnections || w.Addr != own(external) || time.Since(w.Since) != 7*time.Second {
			t.Errorf("waiting = %+v, want it for max.connections since seven seconds", w)
		}
		mustNotHaveBlocked(t, q) // not yet: only when the wait is over
		other.slot.Release()
		<-a.done
		a.mustBeIn(t, "after a close on another listener")
		if want := (Waited{Slot: 7 * time.Second, Limit: MaxConnections}); a.waited != want {
			t.Errorf("waited = %v, want %v", a.waited, want)
		}
		if l := listenerState(t, q, external); l.Connections != 800 || l.Blocked.Count != uint64(7*time.Second) || l.Waiting != nil {
			t.Errorf("state = %+v, want 800 connections and 7 s blocked", l)
		}
		if l := listenerState(t, q, admin); l.Blocked.Count != 0 {
			t.Errorf("blocked time of another listener = %d", l.Blocked.Count)
		}
	})
}

func TestRule08AnInterBrokerConnectionGoesInAtTheBrokersMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 800 }))
		open(t, q, external, 800)
		open(t, q, internal, 1)
		if !q.Exceeded(external) || !q.Exceeded(admin) || q.Exceeded(internal) {
			t.Errorf("Exceeded() = %v, %v, %v, want it of EXTERNAL and ADMIN, not of INTERNAL",
				q.Exceeded(external), q.Exceeded(admin), q.Exceeded(internal))
		}
	})
}

func TestRule09AfterAnOvershootEnoughHaveToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 800 }))
		in := open(t, q, external, 800)
		open(t, q, internal, 1)
		a := connect(t, q, admin, own(admin))
		a.mustWait(t, "a client")
		open(t, q, internal, 1) // although another waits
		for i := range 2 {
			in[i].slot.Release()
			synctest.Wait()
			a.mustWait(t, "too few have closed")
		}
		in[2].slot.Release()
		<-a.done
		a.mustBeIn(t, "the third close")
	})
}

func TestRule10EachListenerBlocksAtItsOwnMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{external, admin, internal}
		q := withListeners(limited(func(c *Config) {
			c.MaxConnections = 800
			for _, name := range names {
				c.Listeners[name] = ListenerConfig{MaxConnections: 200, CreationRate: Unlimited}
			}
		}))
		in, waiting := map[string]*attempt{}, map[string]*attempt{}
		for _, name := range names {
			in[name] = open(t, q, name, 200)[0]
			if q.Exceeded(name) {
				t.Errorf("%s is exceeded", name)
			}
		}
		for _, name := range names {
			waiting[name] = connect(t, q, name, own(name))
			waiting[name].mustWait(t, name)
			if w := listenerState(t, q, name).Waiting; w.Limit != ListenerMaxConnections {
				t.Errorf("%s waits for %v", name, w.Limit)
			}
		}
		for _, name := range names {
			waiting[name].mustWait(t, name+", which nothing of its own was closed of")
			in[name].slot.Release()
			synctest.Wait()
			waiting[name].mustBeIn(t, name)
		}
		if got := q.State().Connections; got != 600 {
			t.Errorf("connections = %d, want 600", got)
		}
	})
}
