package quota

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 0 }))
		a := connect(t, q, external, own(external))
		pass(5 * time.Second)
		a.cancel()
		<-a.done
		if want := (Waited{Slot: 5 * time.Second, Limit: MaxConnections}); !errors.Is(a.err, context.Canceled) || a.waited != want {
			t.Errorf("Acquire() = %+v, %v, want %+v, %v", a.waited, a.err, want, context.Canceled)
		}
		if s := q.State(); s.Connections != 0 || listenerState(t, q, external).Waiting != nil {
			t.Errorf("state = %+v, want nothing of it left", s)
		}
		mustNotHaveBlocked(t, q) // as upstream: the acceptor is going
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := q.Acquire(ctx, external, own(external)); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire() after the end = %v", err)
		}
	})
}

func TestAWaitEndsWithItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 1 }))
		in := open(t, q, external, 1)[0]
		a, b := connect(t, q, external, own(external)), connect(t, q, admin, own(admin))
		q.RemoveListener(external)
		<-a.done
		if !errors.Is(a.err, ErrNoListener) {
			t.Errorf("error = %v, want %v", a.err, ErrNoListener)
		}
		synctest.Wait()
		b.mustWait(t, "the connection of a listener that is gone still counts")
		if q.State().Connections != 1 {
			t.Errorf("connections = %d, want 1", q.State().Connections)
		}
		in.slot.Release()
		<-b.done
		b.mustBeIn(t, "it was released")
	})
}

func TestAReplacedListenerEndsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 0 }))
		a := connect(t, q, external, own(external))
		q.AddListener(external, true)
		<-a.done
		if !errors.Is(a.err, ErrNoListener) {
			t.Errorf("error = %v, want %v", a.err, ErrNoListener)
		}
	})
}

// A delay that was imposed stays, whatever becomes of the rate.
func TestARateChangeDoesNotShortenADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.CreationRate = 0 }))
		a := connect(t, q, external, own(external))
		pass(400 * time.Millisecond)
		q.Configure(limited(func(*Config) {}))
		synctest.Wait()
		a.mustWait(t, "the rate was lifted")
		open(t, q, admin, 1)
		pass(599 * time.Millisecond)
		a.mustWait(t, "a millisecond before its end")
		pass(time.Millisecond)
		a.mustBeIn(t, "the delay is over")
		if want := (Waited{Rate: time.Second, Limit: ConnectionRate}); a.waited != want {
			t.Errorf("waited = %+v, want %+v", a.waited, want)
		}
	})
}

func TestAfterADelayThereMustStillBeASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limited(func(c *Config) {
			c.Listeners[external] = ListenerConfig{MaxConnections: 1, CreationRate: Unlimited}
		})
		q := withListeners(c)
		in := open(t, q, external, 1)[0]
		c.Listeners[external] = ListenerConfig{MaxConnections: 1, CreationRate: 0}
		q.Configure(c)
		a := connect(t, q, external, own(external))
		if w := listenerState(t, q, external).Waiting; w.Limit != ListenerConnectionRate || w.Delay != time.Second {
			t.Errorf("waiting = %+v, want for the listener's rate", w)
		}
		pass(3 * time.Second)
		a.mustWait(t, "no slot after the delay")
		if w := listenerState(t, q, external).Waiting; w.Limit != ListenerMaxConnections {
			t.Errorf("waiting = %+v, want for the listener's maximum", w)
		}
		in.slot.Release()
		<-a.done
		want := Waited{Rate: time.Second, Slot: 2 * time.Second, Limit: ListenerMaxConnections}
		if a.err != nil || a.waited != want {
			t.Errorf("Acquire() = %+v, %v, want %+v", a.waited, a.err, want)
		}
		if got := listenerState(t, q, external).Blocked.Count; got != uint64(3*time.Second) {
			t.Errorf("blocked = %d ns, want three seconds", got)
		}
	})
}

// A slot that comes free while a delay runs is not kept for it, and a slot that
// is there when the delay is over was not waited for.
func TestASlotThatComesFreeDuringADelayIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections, c.CreationRate = 1, 0 }))
		first := connect(t, q, external, own(external))
		second := connect(t, q, admin, own(admin))
		pass(time.Second)
		first.mustBeIn(t, "first come")
		second.mustWait(t, "the slot is taken")
		third := connect(t, q, external, own(external))
		pass(100 * time.Millisecond)
		first.slot.Release()
		<-second.done
		second.mustBeIn(t, "it waited for the slot")
		second.slot.Release()
		pass(time.Second)
		third.mustBeIn(t, "its delay is over")
		if want := (Waited{Rate: time.Second, Limit: ConnectionRate}); third.waited != want {
			t.Errorf("waited = %+v, want %+v", third.waited, want)
		}
	})
}

// Who makes room admits who waits, in the order in which they came; nobody who
// comes later goes first.
func TestWaitersGoInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 1 }))
		in := open(t, q, external, 1)[0]
		a, b := connect(t, q, external, own(external)), connect(t, q, admin, own(admin))
		in.slot.Release()
		late := connect(t, q, admin, own(admin))
		a.mustBeIn(t, "first come")
		b.mustWait(t, "second come")
		late.mustWait(t, "late")
		a.slot.Release()
		synctest.Wait()
		b.mustBeIn(t, "second come")
		late.mustWait(t, "late")
		b.slot.Release()
		synctest.Wait()
		late.mustBeIn(t, "last")
	})
}

// A waiter that turns out to be too fast for its address leaves the slot to the
// next one.
func TestAWaiterThatIsHeldForItsAddressLeavesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 1 }))
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 0})
		in := open(t, q, admin, 1)[0]
		a, b := connect(t, q, external, own(external)), connect(t, q, admin, own(admin))
		pass(time.Minute)
		in.slot.Release()
		synctest.Wait()
		if _, ok := errors.AsType[*ThrottledError](a.err); !ok {
			t.Fatalf("error = %v, want it held", a.err)
		}
		b.mustBeIn(t, "the slot was left")
		if s := q.State(); s.Connections != 1 || s.CreationRate > 0.1 {
			t.Errorf("state = %+v, want one connection and the other in no rate", s)
		}
		if got := listenerState(t, q, external); got.Blocked.Count == 0 {
			t.Error("the wait for the slot was not marked as blocked")
		}
	})
}

// A connection refused for its address's maximum has waited for a slot before,
// and has one until its socket is closed.
func TestARefusedConnectionHasWaitedAndHoldsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections, c.MaxPerIP = 2, 1 }))
		in := open(t, q, external, 1)
		other := open(t, q, admin, 1)[0]
		a := connect(t, q, external, own(external))
		a.mustWait(t, "no slot")
		other.slot.Release()
		<-a.done
		var many *TooManyError
		if !errors.As(a.err, &many) || a.waited.Limit != MaxConnections {
			t.Fatalf("Acquire() = %+v, %v, want too many after a wait", a.waited, a.err)
		}
		b := connect(t, q, admin, own(admin))
		b.mustWait(t, "the refused one is not closed yet")
		a.slot.Release()
		<-b.done
		b.mustBeIn(t, "it is closed now")
		in[0].slot.Release()
	})
}

func TestRaisingAnyLimitLetsItsWaitersIn(t *testing.T) {
	for name, change := range map[string]func(c *Config, maximum int){
		"broker":   func(c *Config, n int) { c.MaxConnections = n },
		"TLS":      func(c *Config, n int) { c.MaxSSLConnections = n },
		"listener": func(c *Config, n int) { c.Listeners[secure] = ListenerConfig{n, Unlimited} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := withTLS(limited(func(c *Config) { change(c, 1) }), false)
				open(t, q, secure, 1)
				a := connect(t, q, secure, own(secure))
				a.mustWait(t, "at the limit")
				q.Configure(limited(func(c *Config) { change(c, 2) }))
				<-a.done
				a.mustBeIn(t, "the limit was raised")
			})
		})
	}
}

func TestTimeInFrontOfFullQueuesIsBlockedTimeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		q.Blocked(external, 40*time.Millisecond)
		q.Blocked("NOWHERE", time.Second)
		if got := listenerState(t, q, external).Blocked.Count; got != uint64(40*time.Millisecond) {
			t.Errorf("blocked = %d ns, want 40 ms", got)
		}
	})
}
