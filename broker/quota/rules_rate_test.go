package quota

import (
	"errors"
	"math"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// streams lets a stream of connections come to each of upstream's listeners at
// the same time.
func streams(t *testing.T, q *Connections, n int, interval time.Duration) map[string]time.Duration {
	t.Helper()
	var mu sync.Mutex
	took := map[string]time.Duration{}
	var all sync.WaitGroup
	for _, name := range []string{external, admin, internal} {
		all.Go(func() {
			_, d := stream(t, q, name, own(name), n, interval)
			mu.Lock()
			defer mu.Unlock()
			took[name] = d
		})
	}
	all.Wait()
	for _, name := range []string{external, admin, internal} {
		if got := q.IP(own(name)).Connections; got != n {
			t.Errorf("%s has %d connections, want %d", name, got, n)
		}
	}
	return took
}

// near says whether n connections in d are the rate that is wanted.
func near(n int, d time.Duration, want, epsilon float64) bool {
	return math.Abs(float64(n)/d.Seconds()-want) <= epsilon
}

func TestRule11BelowTheBrokersRateNothingIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.CreationRate = 125 }))
		streams(t, q, 200, 25*time.Millisecond)
		mustNotHaveBlocked(t, q)
		for _, l := range q.State().Listeners {
			if !math.IsNaN(l.ThrottleTime) {
				t.Errorf("throttle time of %s = %v, want NaN", l.Name, l.ThrottleTime)
			}
		}
	})
}

func TestRule12AboveTheBrokersRateClientsAreThrottledAndBrokersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.CreationRate = 90 }))
		took := streams(t, q, 400, 10*time.Millisecond)
		if took[internal] != 4*time.Second || listenerState(t, q, internal).Blocked.Count != 0 {
			t.Errorf("the inter-broker listener took %v, want 4 s unblocked", took[internal])
		}
		if !near(800, max(took[external], took[admin]), 90, 15) {
			t.Errorf("800 connections took %v and %v, want about 90 a second", took[external], took[admin])
		}
		for _, name := range []string{external, admin} {
			l := listenerState(t, q, name)
			if l.Blocked.Count == 0 || !(l.ThrottleTime > 0) {
				t.Errorf("%s: blocked %d ns, throttle time %v, want both", name, l.Blocked.Count, l.ThrottleTime)
			}
		}
	})
}

func TestRule13AListenersRateHoldsEachListenerTheInterBrokerOneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := func(perSecond int) Config {
			return limited(func(c *Config) {
				c.CreationRate = 125
				for _, name := range []string{external, admin, internal} {
					c.Listeners[name] = ListenerConfig{MaxConnections: Unlimited, CreationRate: perSecond}
				}
			})
		}
		below := withListeners(rates(50))
		streams(t, below, 200, 25*time.Millisecond)
		mustNotHaveBlocked(t, below)

		above := withListeners(rates(30))
		for name, d := range streams(t, above, 600, 25*time.Millisecond) {
			l := listenerState(t, above, name)
			if !near(600, d, 30, 7) || l.Blocked.Count == 0 || !(l.ThrottleTime > 0) {
				t.Errorf("%s: 600 connections in %v, blocked %d ns, throttle time %v; want about 30 a second", name, d, l.Blocked.Count, l.ThrottleTime)
			}
		}
	})
}

func TestRule14AnAddressesRateHoldsItAndBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 30})
		if held, took := stream(t, q, external, own(external), 200, 40*time.Millisecond); held != 0 || took != 8*time.Second {
			t.Errorf("below its rate: %d held, in %v", held, took)
		}
		if held, took := stream(t, q, admin, own(admin), 200, 20*time.Millisecond); held != 0 || took != 4*time.Second {
			t.Errorf("without a rate: %d held, in %v", held, took)
		}
		for _, l := range q.State().Listeners {
			if !math.IsNaN(l.IPThrottleTime) {
				t.Errorf("IP throttle time of %s = %v, want NaN", l.Name, l.IPThrottleTime)
			}
		}

		q = withListeners(Default())
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 20})
		held, took := stream(t, q, external, own(external), 80, 25*time.Millisecond)
		if !near(80-held, took, 20, 1) {
			t.Errorf("%d of 80 went in within %v, want 20 a second", 80-held, took)
		}
		q.SetIPRates(20, map[netip.Addr]int{own(external): 20})
		held, took = stream(t, q, admin, own(admin), 80, 25*time.Millisecond)
		if !near(80-held, took, 20, 1) {
			t.Errorf("%d of 80 went in within %v, want the default to hold them at 20 a second", 80-held, took)
		}
		for name, throttled := range map[string]bool{external: true, admin: true, internal: false} {
			l := listenerState(t, q, name)
			if (l.IPThrottleTime > 0) != throttled || !math.IsNaN(l.ThrottleTime) {
				t.Errorf("%s: IP throttle time %v, throttle time %v", name, l.IPThrottleTime, l.ThrottleTime)
			}
		}
		mustNotHaveBlocked(t, q)
	})
}

func TestRule15TheListenersRateBlocksBeforeBothAddressesAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) {
			c.Listeners[external] = ListenerConfig{MaxConnections: Unlimited, CreationRate: 35}
		}))
		q.SetIPRates(25, nil)
		var held [2]int
		var both sync.WaitGroup
		for i := range held {
			both.Go(func() {
				held[i], _ = stream(t, q, external, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 35, 0)
			})
		}
		both.Wait()
		if held[0] > 0 && held[1] > 0 {
			t.Errorf("held = %v, want those of one address at most", held)
		}
		if l := listenerState(t, q, external); l.Blocked.Count == 0 {
			t.Error("the listener's rate did not block")
		}
	})
}

func TestRule16AConnectionHeldForItsAddressIsInNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(*Config) {}))
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 0, own(internal): 0})
		for _, name := range []string{external, internal} {
			a := connect(t, q, name, own(name))
			var held *ThrottledError
			if !errors.As(a.err, &held) || *held != (ThrottledError{Addr: own(name), Listener: name, Delay: time.Second, Rate: 0}) {
				t.Fatalf("%s: %v, want it held for a window", name, a.err)
			}
			l := listenerState(t, q, name)
			if s := q.State(); s.CreationRate != 0 || l.CreationRate != 0 || q.IP(own(name)).CreationRate != 0 || s.Connections != 0 || s.IPs != 0 {
				t.Errorf("%s: rates of broker %v, listener %v, address %v, connections %d: want none", name,
					s.CreationRate, l.CreationRate, q.IP(own(name)).CreationRate, s.Connections)
			}
			if l.IPThrottleTime != 1000 {
				t.Errorf("%s: IP throttle time = %v, want 1000", name, l.IPThrottleTime)
			}
			a.slot.Release() // there is none
		}
	})
}

func TestRule18AListenersRateCanBeLiftedAndSetWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func(perSecond int) Config {
			return limited(func(c *Config) {
				c.Listeners[external] = ListenerConfig{MaxConnections: Unlimited, CreationRate: perSecond}
			})
		}
		q := withListeners(rate(20))
		q.Configure(rate(Unlimited))
		if _, took := stream(t, q, external, own(external), 1000, 0); took != 0 {
			t.Errorf("1000 connections took %v", took)
		}
		mustNotHaveBlocked(t, q)
		pass(2 * time.Second) // a new limit sees a burst that was before it
		q.Configure(rate(10))
		if _, took := stream(t, q, external, own(external), 200, 5*time.Millisecond); !near(200, took, 10, 3) {
			t.Errorf("200 connections took %v, want about 10 a second", took)
		}
	})
}

// Connections are recorded while a rate is unlimited.
func TestRule18ANewRateSeesTheBurstBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		open(t, q, external, 100)
		q.Configure(limited(func(c *Config) { c.CreationRate = 10 }))
		a := connect(t, q, external, own(external))
		a.mustWait(t, "after a burst")
		if w := listenerState(t, q, external).Waiting; w.Limit != ConnectionRate || w.Delay != time.Second {
			t.Errorf("waiting = %+v, want one second for the broker's rate", w)
		}
		pass(time.Second)
		if want := (Waited{Rate: time.Second, Limit: ConnectionRate}); a.waits() || a.waited != want {
			t.Errorf("waited = %+v, want %+v", a.waited, want)
		}
	})
}

func TestRule19TheBrokersRateCanBeChangedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		q.Configure(limited(func(c *Config) { c.CreationRate = 50 }))
		if got := q.State().Config.CreationRate; got != 50 {
			t.Errorf("CreationRate = %d", got)
		}
		if _, took := stream(t, q, external, own(external), 400, 5*time.Millisecond); !near(400, took, 50, 20) {
			t.Errorf("400 connections took %v, want about 50 a second", took)
		}
	})
}

func TestRule20AnAddressHasItsOverrideElseTheDefaultElseNone(t *testing.T) {
	q := withListeners(Default())
	want := func(name string, perSecond int, override bool) {
		t.Helper()
		if got := q.IP(own(name)); got.Rate != perSecond || got.RateOverride != override {
			t.Errorf("quota of %s = %d (its own: %v), want %d (%v)", name, got.Rate, got.RateOverride, perSecond, override)
		}
	}
	q.SetIPRates(50, nil)
	want(external, 50, false)
	want(admin, 50, false)
	q.SetIPRates(50, map[netip.Addr]int{own(external): 30})
	want(external, 30, true)
	want(admin, 50, false)
	q.SetIPRates(20, map[netip.Addr]int{own(external): 30})
	want(external, 30, true)
	want(admin, 20, false)
	q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 30})
	want(external, 30, true)
	want(admin, Unlimited, false)
	q.SetIPRates(Unlimited, nil)
	want(external, Unlimited, false)
}

func TestRule21AChangedAddressRateHoldsForTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		upTo := func(name string, want int) {
			t.Helper()
			for range 40 {
				if a := connect(t, q, name, own(name)); a.err != nil {
					break
				}
			}
			if got := q.IP(own(name)).Connections; got != want {
				t.Errorf("%s has %d connections, want %d", name, got, want)
			}
		}
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 20})
		upTo(external, 20)
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(external): 30})
		upTo(external, 30)
		q.SetIPRates(Unlimited, nil)
		upTo(external, 70)
		upTo(admin, 40)
		q.SetIPRates(20, nil) // the first quota of that address: its sensor is new
		upTo(admin, 60)
		mustNotHaveBlocked(t, q)
	})
}

func TestRule22AMaximumAndARateTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections, c.CreationRate = 350, 25 }))
		if _, took := stream(t, q, external, own(external), 349, 10*time.Millisecond); !near(349, took, 25, 8) {
			t.Errorf("349 connections took %v, want about 25 a second", took)
		}
		last := connect(t, q, external, own(external))
		pass(time.Second)
		last.mustBeIn(t, "connection 350")
		pass(time.Minute) // nothing is left of the rate
		a := connect(t, q, external, own(external))
		a.mustWait(t, "connection 351")
		last.slot.Release()
		<-a.done
		a.mustBeIn(t, "after a close")
		if a.waited.Rate != 0 || a.waited.Limit != MaxConnections {
			t.Errorf("waited = %+v, want for max.connections only", a.waited)
		}
	})
}
